/* SPDX-License-Identifier: MIT */
/*
 * race_secure.c - a program with the agent as one of its libraries. So the agent is loaded where the
 * loader ignores LD_PRELOAD, too. Exit status: 0, or 3 with the rights of the file's owner.
 */
#include <sys/auxv.h>

int trapline_agent_call(const char *options);

int main(int argc, char **argv)
{
	/* So that the library is needed. */
	if (argc > 1)
		return trapline_agent_call(argv[1]);
	return getauxval(AT_SECURE) ? 3 : 0;
}
