/* SPDX-License-Identifier: MIT */
/*
 * locks_all.c [LITTLE] - locks all that it has mapped and will map, without the right to lock more than its limit
 * permits. With LITTLE, one page alone. Prints 1, or 0 where that is refused; until killed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	(void)argv;
	/* The kernel takes the rights of root away with its user. */
	if (!getuid() && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		return 1;
	printf("%d\n", argc > 1 ? !mlock(&argc, 1) : !mlockall(MCL_CURRENT | MCL_FUTURE));
	fflush(stdout);
	for (;;)
		usleep(1000);
}
