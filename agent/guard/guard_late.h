/* SPDX-License-Identifier: MIT */
/*
 * guard_late.h - jumps in the functions of a process that runs: to the functions of the guard, and
 * back.
 *
 * Each function that the guard is before has a row, in a section of its own (guard.h). A jump leads
 * through a word, so that one store turns all threads.
 */
#ifndef AGENT_GUARD_LATE_H
#define AGENT_GUARD_LATE_H

#include <stdbool.h>
#include <stddef.h>

struct guard_entry {
	const char *name;
	void *function;
};

/*
 * Puts the jumps, and lets new ones lead to the original functions. 0; or -errno with the reason in
 * why, and what was put is to be taken away. refused: the names of functions that can do without a
 * jump.
 */
struct late_refused {
	unsigned int count;
	char names[200];
};
/* First, and in the borrowed thread: dlsym() of a name that is not there allocates. */
void late_jumps_find(void);
int late_jumps_place(char *why, size_t n, struct late_refused *refused);
/* The path of the object whose malloc() it is. */
void late_allocator(char *path, size_t n);
/* To the guard: those that do not allocate, before SIGSEGV is taken; then all. */
void late_jumps_lead_first(void);
void late_jumps_lead(void);
/* One of them is a trap, for there was no room. */
bool late_jumps_have_trap(void);
/* To the original ones, and their text as it was; but not free() and its like. */
void late_jumps_leave(void);
/*
 * free() and its like too: no block is Trapline's. Returns how many jumps could not be taken away.
 */
unsigned int late_jumps_end(void);
/* In a forked child: only free() and its like. Makes no system call. */
void late_jumps_forked(void);

#endif
