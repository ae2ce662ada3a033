/* SPDX-License-Identifier: MIT */
/* linkmap.c - prints at SIGUSR1 the objects that are loaded, then "end". */
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t is_asked;

static void on_signal(int number)
{
	is_asked = 1;
}

static int print(struct dl_phdr_info *info, size_t size, void *arg)
{
	printf("object %s\n", info->dlpi_name);
	return 0;
}

unsigned work(unsigned n);

__attribute__((noinline)) unsigned work(unsigned n)
{
	return n * n + (unsigned)is_asked;
}

int main(void)
{
	volatile unsigned count = 0;

	alarm(120); /* not left over by a test that failed */
	signal(SIGUSR1, on_signal);
	for (;;) {
		usleep(20000);
		count = work(count + 1);
		if (!is_asked)
			continue;
		is_asked = 0;
		lseek(1, 0, SEEK_SET);
		dl_iterate_phdr(print, NULL);
		for (struct link_map *m = _r_debug.r_map; m; m = m->l_next)
			printf("map %s\n", m->l_name);
		puts("end");
		fflush(stdout);
	}
}
