/* SPDX-License-Identifier: MIT */
/* signal_bit.h - a mask of signals as the kernel has it. */
#ifndef BASE_SIGNAL_BIT_H
#define BASE_SIGNAL_BIT_H

#include <signal.h>
#include <stdint.h>

#define SIGNAL_BIT(signal) (UINT64_C(1) << ((signal)-1))
/* Those that an instruction raises: blocked, they end the program. */
#define SIGNALS_OF_INSTRUCTIONS                                                                \
	(SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | \
	 SIGNAL_BIT(SIGFPE))

#endif
