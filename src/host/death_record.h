/* SPDX-License-Identifier: MIT */
/*
 * death_record.h - a signal that a thread dies of, as the BPF program of death_watch.c writes it.
 *
 * Every member is 8 bytes wide, so that the program needs one kind of store. Registers are in DWARF
 * order.
 */
#ifndef HOST_DEATH_RECORD_H
#define HOST_DEATH_RECORD_H

#include "record/layout.h"

#include <stdint.h>

#if defined(__x86_64__)
#define DEATH_REG_SP 7
#define DEATH_REG_PC 16
#else
#define DEATH_REG_SP 31
#define DEATH_REG_PC 32
#endif

#define DEATH_STACK_MAX 131072u
#define DEATH_INFO_BYTES 32u
#define DEATH_CODE_BYTES 64u

struct death_record {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t pid_tid; /* pid << 32 | tid */
	uint64_t signal;
	uint8_t info[DEATH_INFO_BYTES]; /* the first bytes of siginfo_t */
	uint64_t stack_at;		/* at sp or below; above it where sp is in no memory */
	uint64_t stack_len;
	uint64_t code_len;
	uint8_t code[DEATH_CODE_BYTES]; /* from the pc on */
	char thread[16];
	uint64_t regs[RECORD_REGS];
	uint8_t stack[DEATH_STACK_MAX];
};

#endif
