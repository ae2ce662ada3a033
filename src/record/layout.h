/* SPDX-License-Identifier: MIT */
/*
 * layout.h - a hit as the BPF program writes it, field by field, and as the reader takes it.
 *
 * Every member is 8 bytes wide so that the program needs one kind of store. Registers are in DWARF
 * order. What follows the structure. First texts, RECORD_TEXT_BYTES for each register that was
 * asked for, in the order of their numbers. By a probe, RECORD_VECTOR_BYTES of each vector register
 * that was asked for. Then memory_room bytes with memory_len of copied
 * memory, each piece behind a struct record_memory. Last the memory copied from the stack,
 * stack_len of it.
 */
#ifndef RECORD_LAYOUT_H
#define RECORD_LAYOUT_H

#include <stdint.h>

#if defined(__x86_64__)
#define RECORD_REGS 17
#define RECORD_VECTOR_FIRST 17u /* DWARF number of xmm0 */
#define RECORD_VECTORS 16u
#else
#define RECORD_REGS 33
#define RECORD_VECTOR_FIRST 64u
#define RECORD_VECTORS 0u
#endif
#define RECORD_VECTOR_BYTES 16u

#define RECORD_STACK_MAX 16384u
#define RECORD_STACK_NEAR 2048u /* of an event of the kernel, without a stack */
#define RECORD_STACK_CHUNK 1024u
#define RECORD_TEXT_BYTES 64u

/* A hit while its event was being armed: a thread not yet armed may have stored before it. */
#define RECORD_OLD_UNKNOWN 0x100u
#define RECORD_STOPPED 0x800u /* the thread gets the signal of the event */

struct record {
	uint64_t event;	  /* generation << 32 | part << 8 | table index */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t pid_tid; /* pid << 32 | tid */
	uint64_t address;
	uint64_t old_value;
	uint64_t new_value;
	uint64_t value_when; /* enum trapline_value; | RECORD_OLD_UNKNOWN | RECORD_STOPPED */
	uint64_t stack_len;
	uint64_t cpu;
	uint64_t count;	    /* of another event */
	uint64_t caller;    /* return address at a function's first instruction; 0: not read */
	uint64_t texts;	    /* bit n: register n leads to text, and it was read */
	uint64_t len;	    /* of the part that was hit; 0: no data */
	uint64_t kernel_ip; /* the kernel did it there; 0: the thread itself */
	uint64_t syscall;   /* number, with kernel_ip; -1: none, or not known */
	uint64_t memory_len;
	uint64_t stack_at; /* the first address of the stack that was copied, at sp or below */
	char thread[16];
	uint64_t regs[RECORD_REGS];
};

/* A piece of memory; room bytes follow. */
struct record_memory {
	uint64_t address;
	uint64_t room;
	int64_t len; /* copied, with the NUL of a text; not above 0: it could not be read */
};

#define RECORD_MEMORY_MAX 8192u

#endif
