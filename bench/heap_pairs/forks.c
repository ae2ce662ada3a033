/* SPDX-License-Identifier: MIT */
/* forks.c N - as a server that forks for each request: N children, each with some blocks. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((noinline)) char *copy_of(const char *text, size_t n)
{
	return memcpy(malloc(n), text, n);
}

int main(int argc, char **argv)
{
	char text[4096];

	memset(text, 'x', sizeof(text));
	for (long i = argc > 1 ? atol(argv[1]) : 1; i; i--) {
		pid_t child = fork();

		if (!child) {
			for (int k = 0; k < 200; k++)
				free(copy_of(text, 32 + (size_t)k));
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	return 0;
}
