/* SPDX-License-Identifier: MIT */
/* cpu_of.c FILE COMMAND... - runs it, and writes the CPU seconds of it and its children to FILE. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	int status;

	if (argc < 3)
		return 2;
	pid_t child = fork();
	if (!child) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) != child)
		return 1;
	FILE *f = fopen(argv[1], "w");
	if (!f)
		return 1;
	fprintf(f, "%.6f\n", seconds(usage.ru_utime) + seconds(usage.ru_stime));
	fclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
