/* SPDX-License-Identifier: MIT */
/* unprobed.c - calls functions whose first instructions the kernel refuses to probe, and others. */
#include <unistd.h>

#define FUNCTION(name, first)                                                  \
	void name(void *memory);                                               \
	__asm__(".pushsection .text\n"                                         \
		".globl " #name "\n"                                           \
		".type " #name ", @function\n" #name ":\n\t" first "\n\tret\n" \
		".size " #name ", . - " #name "\n"                             \
		".popsection\n")

FUNCTION(refused_lock, "lock incl (%rdi)");
FUNCTION(refused_segment, ".byte 0x3e\n\tnop");
FUNCTION(refused_vpxor, ".byte 0xc5, 0xf9, 0xef, 0xc0");
FUNCTION(refused_vmovd, ".byte 0xc5, 0xf9, 0x6e, 0xc7");
FUNCTION(refused_vmovdqa, ".byte 0xc5, 0xf9, 0x6f, 0xc1");
FUNCTION(refused_vzeroupper, ".byte 0xc5, 0xf8, 0x77");
FUNCTION(probed_plain, "incl (%rdi)");

int main(void)
{
	static int memory;
	int has_vectors = __builtin_cpu_supports("avx");

	for (;;) {
		refused_lock(&memory);
		refused_segment(&memory);
		if (has_vectors) {
			refused_vpxor(&memory);
			refused_vmovd(&memory);
			refused_vmovdqa(&memory);
		}
		if (has_vectors)
			refused_vzeroupper(&memory);
		probed_plain(&memory);
		usleep(5000);
	}
}
