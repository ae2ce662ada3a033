/* SPDX-License-Identifier: MIT */
/*
 * shared_place.c - functions that begin with instructions of each form, run by four threads which check what
 * they return; ends with 1 at a wrong result, with 0 at SIGTERM.
 *
 *   shared_place uprobe FILE OFFSET TID...	a uprobe as another tool sets it, until the input ends
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 4

/* Each returns 3n + 1. Their first instruction has so many bytes; of nop5 the kernel makes a call. */
__asm__(".pushsection .text\n"
	".macro begin name\n"
	".p2align 4\n.globl \\name\n.type \\name, @function\n\\name:\n.cfi_startproc\n"
	".endm\n"
	".macro end name\n.cfi_endproc\n.size \\name, .-\\name\n.endm\n"
	"begin one\n	push %rbx\n	mov %rdi, %rbx\n	lea 1(%rbx,%rbx,2), %rax\n	pop %rbx\n	ret\nend one\n"
	"begin three\n	mov %rdi, %rax\n	add %rdi, %rax\n	lea 1(%rax,%rdi), %rax\n	ret\nend three\n"
	"begin four\n	sub $8, %rsp\n	lea 1(%rdi,%rdi,2), %rax\n	add $8, %rsp\n	ret\nend four\n"
	"begin landing\n	endbr64\n	push %rbx\n	lea 1(%rdi,%rdi,2), %rax\n	pop %rbx\n	ret\nend landing\n"
	"begin five\n	lea 1(%rdi,%rdi,2), %rax\n	ret\nend five\n"
	"begin seven\n	sub $0x208, %rsp\n	lea 1(%rdi,%rdi,2), %rax\n	add $0x208, %rsp\n	ret\nend seven\n"
	"begin nop5\n	.byte 0x0f, 0x1f, 0x44, 0, 0\n	push %rbx\n	lea 1(%rdi,%rdi,2), %rax\n	pop %rbx\n	ret\nend nop5\n"
	/* The bytes behind the push lead a jump 128 MiB further, where the heap would grow. */
	"begin in_heap\n	push %rax\n	mov $0x11080000, %eax\n	pop %rcx\n	lea 1(%rdi,%rdi,2), %rax\n	ret\nend in_heap\n"
	".popsection\n");

long one(long n);
long three(long n);
long four(long n);
long landing(long n);
long five(long n);
long seven(long n);
long nop5(long n);
long in_heap(long n);

static volatile sig_atomic_t is_over;

static void end(int signal)
{
	(void)signal;
	is_over = 1;
}

static void *run(void *arg)
{
	static long (*const functions[])(long) = { one,	 three, four, landing,
						   five, seven, nop5, in_heap };

	for (long n = 0; !is_over; n++) {
		for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
			if (functions[i](n) == 3 * n + 1)
				continue;
			fprintf(stderr, "function %zu is wrong\n", i);
			_exit(1);
		}
		free(malloc((size_t)n % 100));
		usleep(50);
	}
	return arg;
}

static int set_uprobe(int argc, char **argv)
{
	struct perf_event_attr attr;
	char byte;
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type = 0;

	if (!file || fscanf(file, "%d", &type) != 1)
		return 2;
	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = (uint32_t)type;
	attr.uprobe_path = (uintptr_t)argv[2];
	attr.probe_offset = strtoul(argv[3], NULL, 0);
	/* One for each thread: the kernel would look for the path of one that is inherited in the process. */
	for (int i = 4; i < argc; i++)
		if (syscall(SYS_perf_event_open, &attr, atoi(argv[i]), -1, -1, 0) < 0)
			return 2;
	puts("set");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) == 1)
		;
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	struct sigaction action = { .sa_handler = end };

	if (argc >= 5)
		return set_uprobe(argc, argv);
	sigaction(SIGTERM, &action, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
