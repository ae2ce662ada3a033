/* SPDX-License-Identifier: MIT */
/* share.h - the memory that trapline shares with this process, checked before it is used. */
#ifndef GUEST_SHARE_H
#define GUEST_SHARE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Maps what an option of the environment names: "PID,HEAD,DATA,NONCE". NULL: there is none, or it
 * is not of a command of this user. Such an option may outlive its command, and another process may
 * have that PID by now.
 */
void *share_map(const char *text, uint64_t magic, size_t bytes);

/*
 * In a process that was attached to: "fd:N". The head becomes private, so that a process forked
 * later, with other rights, cannot change it for this one.
 */
void *share_map_own(const char *text, uint64_t magic, size_t bytes);

/*
 * A descriptor of the data that such an option names, with a high number. It shares no lock with
 * that of trapline. -errno.
 */
int share_open(const char *text);

#endif
