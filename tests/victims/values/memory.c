/* SPDX-License-Identifier: MIT */
/* memory.c - scalars that are not aligned, in another byte order, or shared with another process. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#pragma pack(push, 1)
struct header {
	uint8_t type;
	uint16_t len;
	int32_t delta;
	double gain;
} h;
#pragma pack(pop)

#ifdef __clang__
#define BIG_ENDIAN_MEMBERS
#else
#define BIG_ENDIAN_MEMBERS __attribute__((scalar_storage_order("big-endian")))
#endif

unsigned __int128 big;
volatile long own;
volatile long *shared;
volatile long shared_count;
struct BIG_ENDIAN_MEMBERS wires {
	uint32_t be;
	uint8_t le;
} wire;

int main(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 1; i < 3000; i++) {
		h.len = (uint16_t)(1000 + i % 5000);
		h.delta = -i;
		h.gain = i * 0.5;
		big = ((unsigned __int128)i << 70) + (unsigned int)i;
		own = i;
		shared_count = i;
		*shared = i;
		wire.be = (uint32_t)i;
		wire.le = (uint8_t)(i % 100 + 1);
		puts("round");
		fflush(stdout);
		usleep(20000);
	}
}
