/* SPDX-License-Identifier: MIT */
/* outside_none.c - a search from outside, where the instructions of accesses are not decoded. */
#include "outside/outside.h"

#include <errno.h>
#include <stddef.h>

bool outside_is_built(void)
{
	return false;
}

int outside_open(const struct outside_settings *settings, struct outside **out, const char **why)
{
	(void)settings;
	*out = NULL;
	*why = "it is for x86-64 alone";
	return -EOPNOTSUPP;
}

int outside_start(struct outside *o, const char **why)
{
	(void)o;
	(void)why;
	return -EOPNOTSUPP;
}

struct outside_caught *outside_next(struct outside *o)
{
	(void)o;
	return NULL;
}

void outside_sum_up(struct outside *o, struct outside_sums *out)
{
	(void)o;
	*out = (struct outside_sums){ 0 };
}

void outside_stop(struct outside *o)
{
	(void)o;
}

void outside_close(struct outside *o)
{
	(void)o;
}

uint64_t outside_place(struct outside *o, uint64_t address)
{
	(void)o;
	return address;
}

void outside_first_side(struct outside *o, const struct outside_caught *c, struct race_side *out)
{
	(void)o;
	(void)c;
	(void)out;
}

int outside_second_side(struct outside *o, const struct outside_caught *c, struct race_side *out,
			uint64_t *pc)
{
	(void)o;
	(void)c;
	(void)out;
	(void)pc;
	return -EOPNOTSUPP;
}

bool outside_is_libc(struct outside *o, uint64_t address)
{
	(void)o;
	(void)address;
	return false;
}

bool outside_is_included(struct outside *o, uint64_t address)
{
	(void)o;
	(void)address;
	return false;
}
