/* SPDX-License-Identifier: MIT */
/*
 * fleet_flood.c - a target that floods a patrol: each of 65,536 instructions reads a block that is
 * freed, so that no finding is like another one.
 *
 * fleet_flood [NAME]: with this as the name of the process. No symbol covers the instructions.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define READS 65536
#define READ_BYTES 4

extern const char flood_reads[];

__asm__(".text\n"
	".balign 16\n"
	".hidden flood_reads\n"
	".globl flood_reads\n"
	"flood_reads:\n"
	".rept 65536\n"
	"movb (%rdi), %al\n"
	"ret\n"
	"nop\n"
	".endr\n");

static void read_freed(uint32_t n)
{
	char *volatile block = malloc(64);
	uintptr_t at = (uintptr_t)flood_reads + (uintptr_t)(n % READS) * READ_BYTES;

	memset(block, 1, 64);
	free(block);
	((void (*)(const char *))at)(block);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		prctl(PR_SET_NAME, argv[1]);
	for (uint32_t i = 0;; i++) {
		read_freed(i);
		if (i % 64 == 0)
			usleep(1000);
	}
}
