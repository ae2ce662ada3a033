/* SPDX-License-Identifier: MIT */
/*
 * point.c - what one pass costs on the way to an exact point in a tight loop: trapline_run_to(), whose
 * passes are counted in the kernel, and a supervisor that stops at an int3, looks and steps over
 * it, as replayers do. In one run; JSON lines.
 *
 * bench_point [PASSES]: default 200000 for ours; the supervisor does a tenth.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <trapline/tools.h>

/* Begins as most functions do: with an instruction that the kernel emulates. */
__attribute__((noipa, naked)) static void pass(uint64_t n)
{
	__asm__ volatile("push %rbp\n\tpop %rbp\n\tret");
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t pass_address(void)
{
	return (uintptr_t)pass;
}

static pid_t start_loop(int is_traced)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (is_traced)
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		for (uint64_t i = 0;; i++)
			pass(i);
	}
	waitpid(pid, &status, WUNTRACED);
	return pid;
}

static void end_loop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ns a pass, or negative: not permitted here. */
static double by_trapline(uint64_t passes)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_point point = {.size = sizeof(point), .count = passes};
	uint64_t address = pass_address();
	pid_t pid = start_loop(0);
	struct trapline *t;
	double ns = -1;

	opts.flags = TRAPLINE_QUIET;
	if (trapline_open(pid, NULL, &t) == 0) {
		if (trapline_break_sites(t, &address, 1, &opts, &point.counter) == 0) {
			point.ip = address;
			double start = now_ns();
			if (trapline_run_to(t, pid, &point, -1) >= 0)
				ns = (now_ns() - start) / (double)passes;
		}
		trapline_close(t);
	}
	end_loop(pid);
	return ns;
}

/* One stop at the int3: is it the one? Then over it. */
static int step_over(pid_t pid, uint64_t address, long word)
{
	struct user_regs_struct regs;
	int status;

	ptrace(PTRACE_CONT, pid, NULL, NULL);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return -1;
	ptrace(PTRACE_GETREGS, pid, NULL, &regs);
	regs.rip = address;
	ptrace(PTRACE_SETREGS, pid, NULL, &regs);
	ptrace(PTRACE_POKETEXT, pid, address, word);
	ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
	waitpid(pid, &status, 0);
	ptrace(PTRACE_POKETEXT, pid, address, (word & ~0xffl) | 0xcc);
	return 0;
}

static double by_supervisor(uint64_t passes)
{
	uint64_t address = pass_address();
	pid_t pid = start_loop(1);
	long word = ptrace(PTRACE_PEEKTEXT, pid, address, NULL);
	double ns = -1;

	ptrace(PTRACE_POKETEXT, pid, address, (word & ~0xffl) | 0xcc);
	double start = now_ns();
	uint64_t done = 0;
	while (done < passes && !step_over(pid, address, word))
		done++;
	if (done == passes)
		ns = (now_ns() - start) / (double)passes;
	end_loop(pid);
	return ns;
}

int main(int argc, char **argv)
{
	uint64_t passes = argc > 1 ? strtoull(argv[1], NULL, 0) : 200000;
	double ours[5];
	double theirs[5];

	for (int i = 0; i < 5; i++) {
		ours[i] = by_trapline(passes);
		theirs[i] = by_supervisor(passes / 10);
		printf("{\"bench\":\"point\",\"passes\":%lu,\"trapline_ns\":%.0f,"
		       "\"ptrace_int3_ns\":%.0f,\"ratio\":%.4f}\n",
		       passes, ours[i], theirs[i], ours[i] / theirs[i]);
	}
	return ours[0] < 0;
}
