/* SPDX-License-Identifier: MIT */
/* branch_plugin.c - a library with branches of a key that the program has, and of its own. */
#include <trapline/code.h>

extern struct trapline_branch_key shared_key;

/* From this library: whether its branches are on, in bits. */
int plugin_state(void);
struct trapline_branch_key *plugin_key(void);

struct trapline_branch_key of_the_plugin = TRAPLINE_BRANCH_OFF;

int plugin_state(void)
{
	int state = 0;

	if (trapline_branch(&shared_key))
		state |= 1;
	if (trapline_branch_likely(&shared_key))
		state |= 2;
	if (trapline_branch(&of_the_plugin))
		state |= 4;
	return state;
}

struct trapline_branch_key *plugin_key(void)
{
	return &of_the_plugin;
}
