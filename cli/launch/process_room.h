/* SPDX-License-Identifier: MIT */
/* process_room.h - see process_room.c. */
#ifndef CLI_LAUNCH_PROCESS_ROOM_H
#define CLI_LAUNCH_PROCESS_ROOM_H

#include <sys/types.h>

/*
 * Before anything of process pid is touched. what: an option of the agent's
 * call, or growth. CLI_OK, or a status and
 * it is stated.
 */
int process_room_check(const char *command, pid_t pid, const char *what);

#endif
