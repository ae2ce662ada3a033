/* SPDX-License-Identifier: MIT */
/*
 * point_store.h - the folder that keeps the points: ID.point by a client, ID.status by the
 * collector.
 *
 * IDs are never used again.
 */
#ifndef CLI_POINT_POINT_STORE_H
#define CLI_POINT_POINT_STORE_H

#include "cli/point/point.h"
#include "cli/service/folder.h"

#define POINT_STORE_FOLDER "/var/lib/trapline/points"

/* folder NULL: the default. As folder_open() and folder_serve(), with a line for each failure. */
int point_store_open(const char *folder, bool makes, struct folder *out);
int point_store_serve(struct folder *s);

/* Gives it an ID. 0 or -errno. */
int point_store_add(const struct folder *s, json_t *point, uint64_t *id);
/* The IDs in order, in memory of the caller. 0 or -errno. */
int point_store_list(const struct folder *s, uint64_t **ids, size_t *count);
/* 0; -ENOENT; or another -errno, with why. */
int point_store_read(const struct folder *s, uint64_t id, struct point *out, char *why, size_t n);
int point_store_remove(const struct folder *s, uint64_t id);

/* All is 0 where there is no status yet. */
void point_store_read_status(const struct folder *s, uint64_t id, struct point_status *out);
/* 0 or -errno. */
int point_store_write_status(const struct folder *s, uint64_t id,
			     const struct point_status *status);
/* Removes what belongs to no point. */
void point_store_clean(const struct folder *s);

#endif
