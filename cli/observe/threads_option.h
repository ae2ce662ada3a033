/* SPDX-License-Identifier: MIT */
/* threads_option.h - --threads NAME|TID,...: the threads that are observed. */
#ifndef CLI_OBSERVE_THREADS_OPTION_H
#define CLI_OBSERVE_THREADS_OPTION_H

struct observe_settings;

/*
 * Makes set->only_threads, the condition that a thread is one of set->threads, and releases that of
 * an earlier call. A note has each name that no thread has. 0, or an exit status with the cause
 * printed.
 */
int threads_option_choose(struct observe_settings *set);

#endif
