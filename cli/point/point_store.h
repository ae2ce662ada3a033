/* SPDX-License-Identifier: MIT */
/*
 * point_store.h - the folder that keeps the points: ID.point by a client, ID.status by the
 * collector.
 *
 * No socket is needed: a file appears and disappears as a whole. What a client that was killed
 * leaves behind is a file that has no such name. IDs are never used again.
 */
#ifndef CLI_POINT_POINT_STORE_H
#define CLI_POINT_POINT_STORE_H

#include "cli/point/point.h"

#define POINT_STORE_FOLDER "/var/lib/trapline/points"

struct point_store {
	const char *folder;
	int fd;	  /* of the folder; -1: it does not exist */
	int lock; /* of the collector; -1: not taken */
};

/*
 * folder NULL: the default. With makes it is created. 0 or an exit status, line printed: it must be
 * the user's own.
 */
int point_store_open(const char *folder, bool makes, struct point_store *out);
void point_store_close(struct point_store *s);

/* A collector runs. */
bool point_store_is_served(const struct point_store *s);
/* This process is the collector, until it ends. 0 or an exit status, line printed. */
int point_store_serve(struct point_store *s);

/* Gives it an ID. 0 or -errno. */
int point_store_add(const struct point_store *s, json_t *point, uint64_t *id);
/* The IDs in order, in memory of the caller. 0 or -errno. */
int point_store_list(const struct point_store *s, uint64_t **ids, size_t *count);
/* 0; -ENOENT; or another -errno, with why. */
int point_store_read(const struct point_store *s, uint64_t id, struct point *out, char *why,
		     size_t n);
int point_store_remove(const struct point_store *s, uint64_t id);

/* All is 0 where there is no status yet. */
void point_store_read_status(const struct point_store *s, uint64_t id, struct point_status *out);
/* 0 or -errno. */
int point_store_write_status(const struct point_store *s, uint64_t id,
			     const struct point_status *status);
/* Removes what belongs to no point. */
void point_store_clean(const struct point_store *s);

#endif
