/* SPDX-License-Identifier: MIT */
/* sparse.c - reserves 2 TB and uses 64 pages of it, and 1 TB of a file that it shares and uses 4 pages of. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESERVED (UINT64_C(2) << 40)
#define SHARED (UINT64_C(1) << 40)
#define PAGES 64
#define SHARED_PAGES 4

volatile uint64_t *page[PAGES];
volatile uint64_t *shared_page[SHARED_PAGES];
volatile uint64_t ticks;

static __attribute__((noinline)) void tick(void)
{
	ticks++;
}

int main(void)
{
	int fd = memfd_create("sparse", MFD_CLOEXEC);
	char *reserved = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *shared = ftruncate(fd, (off_t)SHARED) ? MAP_FAILED :
						      mmap(NULL, SHARED, PROT_READ | PROT_WRITE,
							   MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (reserved == MAP_FAILED || shared == MAP_FAILED)
		return 77;
	for (int i = 0; i < PAGES; i++) {
		page[i] = (volatile uint64_t *)(reserved + RESERVED / PAGES * (uint64_t)i + 4096);
		*page[i] = 1000 + (uint64_t)i;
	}
	for (int i = 0; i < SHARED_PAGES; i++) {
		shared_page[i] =
			(volatile uint64_t *)(shared + SHARED / SHARED_PAGES * (uint64_t)i + 4096);
		*shared_page[i] = 2000 + (uint64_t)i;
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		tick();
		usleep(10000);
	}
}
