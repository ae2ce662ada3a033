/* SPDX-License-Identifier: MIT */
/* restart.h - what is before the abort handler of a restartable sequence (rseq(2)). */
#ifndef BASE_RESTART_H
#define BASE_RESTART_H

/* RSEQ_SIG of glibc's <bits/rseq.h>, by architecture. */
#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053u
#else
#define RSEQ_SIGNATURE 0xd428bc00u
#endif

#endif
