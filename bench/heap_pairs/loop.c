/* SPDX-License-Identifier: MIT */
/* loop.c N - allocates and frees N times, and does nothing else: the most that a program can. */
#include <stdlib.h>

int main(int argc, char **argv)
{
	for (long i = argc > 1 ? atol(argv[1]) : 1; i; i--) {
		void *volatile p = malloc(16 + (i & 63));

		free(p);
	}
	return 0;
}
