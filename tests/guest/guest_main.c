/* SPDX-License-Identifier: MIT */
/* guest_main.c - what the programs of the matrix share: guest.h. */
#include "guest.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>

struct control *control;
volatile long counter;
static const struct behaviour *chosen;
static volatile int is_over;
static atomic_int working; /* threads that have done their first work */

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

const char *wrong(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	if (!control->wrong[0])
		vsnprintf(control->wrong, sizeof(control->wrong), format, list);
	va_end(list);
	return control->wrong;
}

/* It is called, traced, probed, broken on and patched. Room for a jump comes first. */
__attribute__((noinline)) long step(long x)
{
	__asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tnop" ::: "memory");
	counter = x;
	return x + 1;
}

/* Where a tool hooks in: calls, the heap, reads and writes, a shared variable. */
void work(void)
{
	char name[32] = "", copy[32];
	int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (read(fd, name, sizeof(name) - 1) < 0)
			name[0] = 0;
		close(fd);
	}
	for (long i = 0; i < 40; i++) {
		char *block = malloc((size_t)(20 + i % 30));

		if (block) {
			memset(block, 'x', 19);
			block[19] = 0;
			memcpy(copy, block, 20);
			if (strlen(block) != 19)
				wrong("a string of 19 bytes has another length");
		}
		free(block);
		if (step(i) != i + 1)
			wrong("step() returned another value");
	}
}

static void *work_on(void *arg)
{
	(void)arg;
	work();
	working++;
	while (!is_over) {
		work();
		usleep(2000);
	}
	return NULL;
}

static void hold(void)
{
	while (control->hold) {
		control->held = 1;
		usleep(1000);
	}
	control->held = 0;
}

static const char *live(void)
{
	do {
		const char *what = chosen->round(chosen->arg);

		if (what || control->wrong[0])
			return control->wrong;
		control->rounds++;
		hold();
		if (!(chosen->flags & ALONE))
			usleep(1000);
	} while (!control->stop);
	return NULL;
}

static int life(void)
{
	pthread_t thread[2];
	const int workers = chosen->flags & ALONE ? 0 : 2;

	for (int i = 0; i < workers; i++)
		if (pthread_create(&thread[i], NULL, work_on, NULL))
			return 77;
	/* A thread has all signals blocked at its birth, which is not how the program is. */
	while (working < workers)
		usleep(1000);
	const char *what = live();

	is_over = 1;
	if (what) {
		printf("%s: %s\n", chosen->name, what);
		fflush(stdout);
		_exit(1);
	}
	for (int i = 0; i < workers; i++)
		pthread_join(thread[i], NULL);
	puts("ok");
	fflush(stdout);
	if (chosen->last)
		chosen->last(chosen->arg);
	return 0;
}

static void *life_without_leader(void *arg)
{
	(void)arg;
	exit(life());
}

static int map_control(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	control = (struct control *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return control == MAP_FAILED ? -1 : 0;
}

static void list(void)
{
	for (const struct behaviour *b = behaviours; b->name; b++)
		puts(b->name);
}

/* The signals that this program has blocked, and that it ignores, as words. */
static int tell_inherited(void)
{
	uint64_t blocked = 0, ignored = 0;
	struct sigaction action;
	sigset_t set;

	pthread_sigmask(SIG_SETMASK, NULL, &set);
	for (int i = 1; i < 65; i++) {
		if (sigismember(&set, i) == 1)
			blocked |= 1ul << (i - 1);
		if (!sigaction(i, NULL, &action) && action.sa_handler == SIG_IGN)
			ignored |= 1ul << (i - 1);
	}
	printf("%lx %lx\n", blocked, ignored);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc == 2 && !strcmp(argv[1], "inherited"))
		return tell_inherited();
	if (argc == 1) {
		list();
		return 0;
	}
	if (argc < 3 || map_control(argv[2]))
		return 2;
	for (chosen = behaviours; chosen->name && strcmp(chosen->name, argv[1]);)
		chosen++;
	if (!chosen->name)
		return 2;
	control->pid = (uint32_t)getpid();
	int status = chosen->prepare ? chosen->prepare(chosen->arg) : 0;

	if (status)
		return status;
	if (!(chosen->flags & LEADERLESS))
		return life();
	if (pthread_create(&thread, NULL, life_without_leader, NULL))
		return 77;
	pthread_exit(NULL);
}
