/* SPDX-License-Identifier: MIT */
/*
 * sent.h - signals that were sent while the thread does what the program must not see.
 *
 * What an instruction raises cannot wait, so its signals stay unblocked there. The same signal can
 * be sent, by kill(2). That one waits here, and is sent again at the end, with all that the kernel
 * reported of it.
 */
#ifndef BASE_SENT_H
#define BASE_SENT_H

#include <signal.h>
#include <stdint.h>

/* From <asm-generic/siginfo.h>, which cannot be included beside <signal.h> (glibc 2.36). */
#define TRAP_PERF_CODE 6

#define SENT_MOST 2u /* SIGSEGV and SIGTRAP: as in the kernel, the second one of a kind is merged */

struct sent_hold {
	struct sent_hold *outer;
	uint32_t count;
	siginfo_t infos[SENT_MOST];
};

/*
 * `hold` is the caller's, until sent_let(). In between each handler of Trapline asks sent_waits()
 * first. AS-Safe.
 */
void sent_hold(struct sent_hold *hold);
/*
 * Sends them again, each to whom it was sent: another thread may wait for it. All signals are
 * blocked. AS-Safe.
 */
void sent_let(struct sent_hold *hold);
/* One is sent as it was, to this thread or to the process. AS-Safe. */
void sent_again(const siginfo_t *info);
/* 1: it is kept, and the handler returns. 0: nothing waits in this thread. AS-Safe. */
int sent_waits(const siginfo_t *info);

#endif
