/* SPDX-License-Identifier: MIT */
/*
 * folder.h - the folder of a service: its state, and the requests of clients.
 *
 * No socket is needed: a file appears and disappears as a whole. What a client that was killed
 * leaves behind has a name that no reader looks for.
 */
#ifndef CLI_SERVICE_FOLDER_H
#define CLI_SERVICE_FOLDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct folder {
	const char *command; /* of trapline, for messages */
	const char *path;
	int fd;	  /* -1: it does not exist */
	int lock; /* of the service; -1: not taken */
};

/*
 * With makes it is created. 0 or an exit status, line printed: it must be the user's own. path and
 * command stay the caller's.
 */
int folder_open(const char *command, const char *path, bool makes, struct folder *out);
void folder_close(struct folder *f);

/* A service runs. */
bool folder_is_served(const struct folder *f);
/* This process is the service, until it ends. 0; -EAGAIN: another one is; another -errno. */
int folder_serve(struct folder *f);

/* Opens a file in it; not a link, and none that a read would wait for. The descriptor or -1. */
int folder_file(const struct folder *f, const char *name, int flags);
/* A file that is there as a whole or not at all. is_new: -EEXIST if it exists. 0 or -errno. */
int folder_write(const struct folder *f, const char *name, const json_t *json, bool is_new);
/* NULL, and *err: -EBADMSG if it has most bytes or more, or something else than JSON. */
json_t *folder_read(const struct folder *f, const char *name, size_t most, int *err);

/* Waits for the lock of a file as long as step_ns * steps. 0 or -errno. */
int folder_lock_file(int fd, int64_t step_ns, int steps);

#endif
