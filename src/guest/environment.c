/* SPDX-License-Identifier: MIT */
/* environment.c - see environment.h. The command has put its own part before what was there. */
#include "guest/environment.h"

#include <stdlib.h>
#include <string.h>

/* In place: a shorter value fits, and nothing is allocated before the program's first code. */
static void cut_first(const char *name)
{
	char *value = getenv(name);
	char *rest = value ? strchr(value, ':') : NULL;

	if (rest)
		memmove(value, rest + 1, strlen(rest));
	else
		unsetenv(name);
}

void environment_forget(const char *option)
{
	const char *options = getenv("TRAPLINE_OPTIONS");

	if (!options || strncmp(options, option, strlen(option)) != 0)
		return;
	cut_first("TRAPLINE_OPTIONS");
	cut_first("LD_PRELOAD");
}

int environment_option(const char *all, const char *option, char *path, size_t n)
{
	const char *at = all ? strstr(all, option) : NULL;

	if (!at || (at != all && at[-1] != ':'))
		return 0;
	at += strlen(option);
	size_t len = strcspn(at, ":");
	if (!strncmp(at, "fd:", 3))
		len += strspn(at + len, ":0123456789");
	if (len == 0 || len >= n)
		return 0;
	memcpy(path, at, len);
	path[len] = '\0';
	return 1;
}
