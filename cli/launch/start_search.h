/* SPDX-License-Identifier: MIT */
/*
 * start_search.h - a program that a started command runs, such as one behind sh -c or make.
 *
 * The command and all that it starts is traced until a program is found, which is then stopped at
 * its entry point. The rest is stopped too, so that nothing is missed while events are armed. If
 * trapline dies before start_search_end(), the kernel kills them all.
 */
#ifndef CLI_LAUNCH_START_SEARCH_H
#define CLI_LAUNCH_START_SEARCH_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * root is as start_command() left it. is_wanted is called for a process that is stopped where its
 * program begins, with all libraries loaded. 0 with *found; -ECHILD: all have ended before; or
 * another -errno.
 */
int start_search(pid_t root, bool (*is_wanted)(pid_t pid, void *arg), void *arg, pid_t *found);

/* True: the command itself has ended in the meantime, with *status. */
bool start_search_has_ended(int *status);

/*
 * Resumes all of them but the one that was found; or kills them. It may be called without a search.
 * One that waits in vfork() for its child cannot be resumed before that: start_search_has_ended()
 * does it.
 */
void start_search_end(bool is_killed);

/* One that still waits there: if trapline ended now, the kernel would kill it. 0: none. */
pid_t start_search_holds(void);

#endif
