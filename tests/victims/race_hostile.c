/* SPDX-License-Identifier: MIT */
/*
 * race_hostile.c - a target that uses what it shares with `trapline race` against others. The first
 * argument says how:
 *
 * fds FILE       a process that holds FILE open is named as the command, by a worker of another user;
 *                does the next worker get that descriptor?
 * cut            the shared memory is truncated below the command
 * fuzz MS        a worker of another user writes anything anywhere for so long, while workers that keep
 *                their user, and the command, read it
 * gate FILE      attached to: has its gate in a file, with the number of another process
 * pipe FIFO      attached to: names a pipe of the file system as the one that trapline holds; who opens it?
 * service FILE   that process, which has the file where gates are: it counts the SIGTRAP it gets
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record/race_region.h"

#define NOBODY 65534

static struct race_region *find_region(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long start = 0;
	unsigned long offset;
	unsigned long found = 0;

	/* Of an attached process the head has no name. */
	while (f && !found && fgets(line, sizeof(line), f))
		if (strstr(line, "/memfd:trapline-r") &&
		    sscanf(line, "%lx-%*x %*s %lx", &start, &offset) == 2)
			found = start - offset;
	if (f)
		fclose(f);
	return (struct race_region *)found;
}

/* Where it may not write, that fails instead of ending the process. */
static int poke(void *at, const void *value, size_t n)
{
	struct iovec from = { (void *)(uintptr_t)value, n };
	struct iovec to = { at, n };
	uintptr_t page = (uintptr_t)at & ~4095ul;

	mprotect((void *)page, 2 * 4096, PROT_READ | PROT_WRITE);
	return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == (ssize_t)n ? 0 : -errno;
}

static void become_nobody(void)
{
	if (setgid(NOBODY) || setuid(NOBODY))
		_exit(3);
}

/* Names of the descriptors that this process has. */
static int have_open(const char *path)
{
	DIR *d = opendir("/proc/self/fd");
	char link[4096];
	int count = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		count += !strcmp(link, path);
	}
	if (d)
		closedir(d);
	return count;
}

static void *stay(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void name_another(struct race_region *r, pid_t keeper, int fd)
{
	struct race_settings *set = &r->settings;
	uint32_t one = 1;
	int err = poke(&r->share.observer, &keeper, sizeof(keeper));

	err |= poke(&set->clock_fds[0], &fd, sizeof(fd));
	err |= poke(&set->clock_count, &one, sizeof(one));
	printf("the worker %s the settings\n", err ? "could not change" : "changed");
	fflush(stdout);
}

static int steal_descriptor(const char *path)
{
	struct race_region *r = find_region();
	int told[2];
	int fd = -1;
	pthread_t thread;
	pid_t worker;

	if (!r || pipe2(told, O_CLOEXEC))
		return 2;
	pthread_create(&thread, NULL, stay, NULL);
	pid_t keeper = fork();
	if (!keeper) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (write(told[1], &fd, sizeof(fd)) < 0)
			_exit(2);
		stay(NULL);
	}
	if (read(told[0], &fd, sizeof(fd)) != sizeof(fd) || fd < 0)
		return 2;
	worker = fork();
	if (!worker) {
		become_nobody();
		name_another(r, keeper, fd);
		_exit(0);
	}
	waitpid(worker, NULL, 0);
	worker = fork();
	if (!worker) {
		become_nobody();
		printf("the next worker has the file open: %d\n", have_open(path));
		fflush(stdout);
		_exit(0);
	}
	waitpid(worker, NULL, 0);
	kill(keeper, SIGKILL);
	return 0;
}

/* The memory of this run, by the descriptors of the command. */
static int cut_region(void)
{
	char path[64];
	char link[256];
	int cuts = 0;
	int tries = 0;

	for (int i = 3; i < 64; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", getppid(), i);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (strncmp(link, "/memfd:trapline-", 16) != 0)
			continue;
		int fd = open(path, O_RDWR | O_CLOEXEC);
		tries++;
		cuts += fd >= 0 && !ftruncate(fd, 0);
	}
	printf("files cut: %d of %d\n", cuts, tries);
	fflush(stdout);
	usleep(300000);
	return 0;
}

/* What another process shall have where the kernel's program looks. */
struct shared_gate {
	struct race_gate gate;
	uint64_t pid; /* of the service */
};

static struct shared_gate *map_gate_file(const char *path, uintptr_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *gate = mmap((void *)at, 4096, PROT_READ | PROT_WRITE,
			  MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0), fd, 0);

	return gate == MAP_FAILED ? NULL : gate;
}

static volatile sig_atomic_t trapped;

static void on_trap(int number)
{
	trapped++;
}

static uint64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

/* Keeps bytes of another user at known addresses, and works. */
static int serve(const char *path)
{
	struct shared_gate *gate = map_gate_file(path, RACE_GATE_AT);
	uint64_t end = now_s() + 4;
	struct sigaction sa = { .sa_handler = on_trap };

	if (!gate)
		return 2;
	sigaction(SIGTRAP, &sa, NULL);
	gate->pid = (uint64_t)getpid();
	while (now_s() < end && !trapped)
		;
	printf("the service got %s\n", trapped ? "SIGTRAP" : "no SIGTRAP");
	return 0;
}

static volatile uint64_t work;

static void *spin(void *arg)
{
	for (;;)
		work++;
	return arg;
}

/* As soon as the agent has the memory: what opens the gate of this process opens that of the other. */
static int name_gate(const char *path)
{
	struct shared_gate *gate = map_gate_file(path, 0);
	struct race_region *r = NULL;
	pthread_t thread;

	if (!gate)
		return 2;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, spin, NULL);
	while (!(r = find_region()))
		;
	gate->gate = (struct race_gate){ .pid = gate->pid };
	while (!__atomic_load_n(&r->settings.gate_magic, __ATOMIC_SEQ_CST))
		;
	__atomic_store_n(&gate->gate.magic, r->settings.gate_magic, __ATOMIC_SEQ_CST);
	pause();
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* For as long as the command begins, and then it tells. */
static int name_pipe(const char *path)
{
	char events[4096];
	struct race_region *r = NULL;
	pthread_t thread;
	int opens = 0;
	int fifo = open(path, O_RDWR | O_CLOEXEC);
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fifo < 0 || inotify_add_watch(watch, path, IN_OPEN) < 0)
		return 2;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, spin, NULL);
	while (!(r = find_region()))
		;
	for (uint64_t end = now_ms() + 700; now_ms() < end;)
		for (int i = 0; i < 1000; i++)
			__atomic_store_n(&r->hangup_fd, fifo, __ATOMIC_SEQ_CST);
	while (read(watch, events, sizeof(events)) > 0)
		opens++;
	printf("the pipe was opened %d times\n", opens);
	fflush(stdout);
	for (;;)
		pause();
}

static uint64_t random_state;

static uint64_t draw(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Small parts are met as often as large ones. */
static char *draw_place(struct race_region *r)
{
	const struct {
		void *at;
		size_t bytes;
	} parts[] = {
		{ (char *)r + SHARE_HEAD_BYTES, offsetof(struct race_region, records) - SHARE_HEAD_BYTES },
		{ &r->write_at, 2 * sizeof(r->write_at) },
		{ r->records, sizeof(r->records) },
		{ r->files, sizeof(r->files) },
		{ r->processes, 16 * sizeof(r->processes[0]) },
		{ r->processes, sizeof(r->processes) },
		{ r->sites, sizeof(r->sites) },
		{ r->pairs, sizeof(r->pairs) },
	};
	uint64_t which = draw() % (sizeof(parts) / sizeof(parts[0]));

	return (char *)parts[which].at + draw() % (parts[which].bytes / 4) * 4;
}

static uint32_t draw_value(pid_t canary)
{
	const uint32_t telling[] = { 0, 1, 2, 3, UINT32_MAX, 0x7fffffff, 0x80000000, 0x01010101,
				     (uint32_t)canary, (uint32_t)-canary, 0x41414141, 8, 255, 65535 };
	uint64_t n = draw() % (2 * sizeof(telling) / sizeof(telling[0]));

	return n < sizeof(telling) / sizeof(telling[0]) ? telling[n] : (uint32_t)draw();
}

static void write_anything(struct race_region *r, pid_t canary, uint64_t end_ms)
{
	become_nobody();
	for (uint64_t n = 0; n % 256 || now_ms() < end_ms; n++) {
		if (n % 4096 == 0) /* the same in all: as at the depth of each site */
			memset(r->sites, (int)draw(), sizeof(r->sites) / 16);
		*(volatile uint32_t *)draw_place(r) = draw_value(canary);
		__atomic_store_n(&r->stop, 0u, __ATOMIC_SEQ_CST);
	}
}

static volatile uint64_t shared_work;

static void *race_on(void *arg)
{
	for (uint64_t end = now_ms() + 50; now_ms() < end;)
		for (int i = 0; i < 1000; i++)
			shared_work++;
	return arg;
}

/* Is searched, and reads what the other one writes. */
static void work_as_before(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, race_on, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

/* Is not of the run, and gets no signal. */
static pid_t begin_canary(void)
{
	pid_t pid = fork();

	if (!pid) {
		unsetenv("LD_PRELOAD");
		unsetenv("TRAPLINE_OPTIONS");
		execl("/proc/self/exe", "race_hostile", "canary", (char *)NULL);
		_exit(2);
	}
	usleep(50000);
	return pid;
}

static int fuzz(uint64_t ms)
{
	struct race_region *r = find_region();
	const char *seed = getenv("TRAPLINE_SEED");
	uint64_t end_ms = now_ms() + ms;
	int died = 0;
	int status;

	if (!r)
		return 2;
	random_state = seed ? strtoull(seed, NULL, 10) : now_ms();
	printf("seed %llu\n", (unsigned long long)random_state);
	fflush(stdout);
	pid_t canary = begin_canary();
	pid_t worker = fork();
	if (!worker) {
		write_anything(r, canary, end_ms);
		_exit(0);
	}
	while (now_ms() < end_ms) {
		pid_t other = fork();
		if (!other)
			work_as_before();
		if (waitpid(other, &status, 0) == other && !status)
			continue;
		died++;
		printf("one died with status 0x%x\n", status);
	}
	waitpid(worker, &status, 0);
	printf("workers that died: %d\n", died + (status != 0));
	printf("the canary %s\n", waitpid(canary, NULL, WNOHANG) ? "died" : "lives");
	fflush(stdout);
	kill(canary, SIGKILL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "fds") && argc > 2)
		return steal_descriptor(argv[2]);
	if (!strcmp(mode, "cut"))
		return cut_region();
	if (!strcmp(mode, "pipe") && argc > 2)
		return name_pipe(argv[2]);
	if (!strcmp(mode, "fuzz") && argc > 2)
		return fuzz(strtoull(argv[2], NULL, 10));
	if (!strcmp(mode, "canary"))
		for (;;)
			pause();
	if (!strcmp(mode, "gate") && argc > 2)
		return name_gate(argv[2]);
	if (!strcmp(mode, "service") && argc > 2)
		return serve(argv[2]);
	return 2;
}
