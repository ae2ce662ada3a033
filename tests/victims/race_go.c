/* SPDX-License-Identifier: MIT */
/* race_go.c - a program that carries the note of those written in Go: SECONDS on the command line. */
#include <stdlib.h>
#include <unistd.h>

__asm__(".pushsection .note.go.buildid, \"a\", @note\n"
	".long 4, 4, 4\n"
	".asciz \"Go\\0\"\n"
	".long 0\n"
	".popsection\n");

int main(int argc, char **argv)
{
	usleep((unsigned int)(argc > 1 ? atof(argv[1]) * 1e6 : 0));
	return 0;
}
