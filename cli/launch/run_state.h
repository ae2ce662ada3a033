/* SPDX-License-Identifier: MIT */
/*
 * run_state.h - how a run in another process goes, as the two sides share it (record/share_head.h).
 *
 * All of it is data that the process can write at any moment: it is copied once, and text is
 * cleaned.
 */
#ifndef CLI_LAUNCH_RUN_STATE_H
#define CLI_LAUNCH_RUN_STATE_H

#include "record/share_head.h"

#include <stdbool.h>
#include <sys/types.h>

#define RUN_WHY sizeof(((struct run_words *)0)->why)

/*
 * Until the state is no longer this one. False: it is still, after all this time or at the end of
 * the process.
 */
bool run_state_left(const struct run_words *run, uint32_t state, pid_t pid, uint64_t most_ns);
/* Why it did not begin, or has ended by itself; empty: it is not known. */
void run_state_why(const struct run_words *run, char why[RUN_WHY]);
/* Any other text of n bytes that the process wrote, with its end. */
void run_text_copy(const char *from, char *to, size_t n);

#endif
