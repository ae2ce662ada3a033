/* SPDX-License-Identifier: MIT */
/* race_tick.h - a sample in a thread, and what other files need of the thread and of chance. */
#ifndef RACE_TICK_H
#define RACE_TICK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <trapline/trapline.h>

#include "code/insn/insn.h"

/* A record was written: wake the thread of this process that reads it. */
void race_tell_reader(void);
uint64_t race_random(void);
void race_registers(const struct trapline_hit *hit, struct insn_regs *out);
enum trapline_action race_on_timer(const struct trapline_hit *hit);
/* What /proc has of a thread of ours, file with its slash. Returns bytes, or -errno; not terminated. */
ssize_t race_read_of_thread(pid_t tid, const char *file, char *out, size_t n);

#endif
