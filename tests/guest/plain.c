/* SPDX-License-Identifier: MIT */
/* plain.c - a program that only works: for builds that differ. See guest.h. */
#include "guest.h"

static const char *only_work(long arg)
{
	(void)arg;
	work();
	return NULL;
}

const struct behaviour behaviours[] = {
	{ "plain", only_work, 0, 0, NULL, NULL },
	{ NULL, NULL, 0, 0, NULL, NULL },
};
