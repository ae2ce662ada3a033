/* SPDX-License-Identifier: MIT */
/*
 * kept_fd.h - a descriptor that stays open in a program which does not know of it.
 *
 * The program may close descriptors that it does not know, and get the number again for a file of
 * its own. So before each use the descriptor is compared with the file that was opened.
 */
#ifndef CODE_KEPT_FD_H
#define CODE_KEPT_FD_H

#include <stdint.h>

struct kept_fd {
	int fd; /* -1: none */
	uint64_t device;
	uint64_t inode;
};

#define KEPT_FD_NONE      \
	{                 \
		.fd = -1, \
	}

/* Note which file it is; fd below 0: none. */
void kept_fd_take(struct kept_fd *kept, int fd);
/* 1: it is open, and still that file. */
int kept_fd_is_ours(const struct kept_fd *kept);
/* One that is not Trapline's any more is not closed. */
void kept_fd_close(struct kept_fd *kept);

#endif
