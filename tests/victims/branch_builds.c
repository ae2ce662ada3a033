/* SPDX-License-Identifier: MIT */
/*
 * branch_builds.c - one source that is built in many ways, as C and as C++: a program with branches
 * and a library with more of them, whose key the program has.
 *
 * Prints the states of all branches before, during and after: "0 15 0".
 */
#include <stdio.h>

#include <trapline/code.h>

#ifdef __cplusplus
extern "C" {
#endif
extern struct trapline_branch_key program_key;
int library_state(void);
#ifdef __cplusplus
}
#endif

#ifdef LIBRARY

/* Inlined twice, so that one branch of the source is two of the object. */
static inline int ask(int bit)
{
	return trapline_branch(&program_key) ? bit : 0;
}

int library_state(void)
{
	return ask(4) | (trapline_branch_likely(&program_key) ? ask(8) : 0);
}

#else

struct trapline_branch_key program_key = TRAPLINE_BRANCH_OFF;

static int own_state(void)
{
	int state = 0;

	if (trapline_branch(&program_key))
		state |= 1;
	if (trapline_branch_likely(&program_key))
		state |= 2;
	return state | library_state();
}

int main(void)
{
	int before = own_state();

	if (trapline_branch_enable(&program_key))
		return 1;
	int during = own_state();

	if (trapline_branch_disable(&program_key))
		return 1;
	printf("%d %d %d\n", before, during, own_state());
	return 0;
}

#endif
