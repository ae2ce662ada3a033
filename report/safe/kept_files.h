/* SPDX-License-Identifier: MIT */
/*
 * kept_files.h - the files that a process has mapped as code, opened while it lives.
 *
 * When it has ended there is no /proc/PID, and its names may lead to other files or to none.
 */
#ifndef REPORT_SAFE_KEPT_FILES_H
#define REPORT_SAFE_KEPT_FILES_H

#include <stdint.h>
#include <sys/types.h>

struct kept_files;

/* *out is released by kept_files_close(), which takes NULL. pid 0: none yet. 0 or -errno. */
int kept_files_open(pid_t pid, struct kept_files **out);
void kept_files_close(struct kept_files *k);
/* Opens what was mapped since. */
void kept_files_look(struct kept_files *k);
/* One that any process has mapped. Where they are many the oldest ones are closed. */
void kept_files_add(struct kept_files *k, pid_t pid, const char *path, uint64_t inode);
/* A copy of the descriptor of such a file; -1: none. */
int kept_files_fd_of(const struct kept_files *k, const char *path, uint64_t inode);
/*
 * A copy of the descriptor of a file, by its path in the process or else by its name alone; -1:
 * none.
 */
int kept_files_fd(const struct kept_files *k, const char *path);

#endif
