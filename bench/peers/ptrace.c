/* SPDX-License-Identifier: MIT */
/*
 * ptrace.c - a supervisor that stops a process at each hit and evaluates the condition itself:
 * what a debugger does at its very least.
 *
 *   peer_ptrace watch|break PID ADDR VALUE PROGRAM registers|int3
 *
 * registers: a debug register finds the hits. One stop each.
 * int3: breaks by int3 and steps over it, as rr does. A false hit costs two stops: at the int3
 * (read siginfo and registers, evaluate, put the byte and the instruction pointer back,
 * single-step) and after the step (read them again, put the int3 back, continue). rr asks for
 * more, so this is the cheaper of the two.
 *
 * Speaks as bench/round.h says. The condition: the word at ADDR (watch) or the first argument
 * (break) is VALUE. x86-64, one thread.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#define DEBUG_REGISTER(n) offsetof(struct user, u_debugreg[n])
#define DR7_LOCAL_0 1ul
#define DR7_WRITE_8 (0x9ul << 16) /* length 8, on writes; 0 is length 1, on execution */
#define DR6_HIT_0 1ul
#define INT3 0xccul
#define FIRST_BYTE 0xfful

struct site {
	pid_t pid;
	uint64_t addr;
	uint64_t value;
	int is_watch;
	uint64_t text;	/* int3: the word at addr, as it was */
	uint64_t taken; /* hits that were evaluated */
};

struct mechanism {
	const char *name;
	void (*arm)(struct site *site);
	int (*at_stop)(
		struct site *site); /* the signal to go on with; 0: the stop is ours */
};

static _Noreturn void fail(const char *what)
{
	printf("skip ptrace: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* What a supervisor reads at any stop, to know what it is. */
static void look(const struct site *site, siginfo_t *info, struct user_regs_struct *regs)
{
	if (ptrace(PTRACE_GETSIGINFO, site->pid, 0, info) ||
	    ptrace(PTRACE_GETREGS, site->pid, 0, regs))
		fail("look at a stop");
}

static void evaluate(struct site *site, uint64_t value)
{
	site->taken++;
	if (value == site->value)
		printf("true %lu\n", (unsigned long)value);
}

static void registers_arm(struct site *site)
{
	uint64_t dr7 = DR7_LOCAL_0 | (site->is_watch ? DR7_WRITE_8 : 0);

	if (ptrace(PTRACE_POKEUSER, site->pid, DEBUG_REGISTER(0), site->addr) ||
	    ptrace(PTRACE_POKEUSER, site->pid, DEBUG_REGISTER(7), dr7))
		fail("set a debug register");
}

static int registers_at_stop(struct site *site)
{
	uint64_t dr6 = (uint64_t)ptrace(PTRACE_PEEKUSER, site->pid, DEBUG_REGISTER(6), 0);
	struct user_regs_struct regs;

	if (!(dr6 & DR6_HIT_0))
		return SIGTRAP;
	ptrace(PTRACE_POKEUSER, site->pid, DEBUG_REGISTER(6), 0);
	if (site->is_watch) {
		evaluate(site,
			 (uint64_t)ptrace(PTRACE_PEEKDATA, site->pid, site->addr, 0));
		return 0;
	}
	if (ptrace(PTRACE_GETREGS, site->pid, 0, &regs))
		fail("read registers");
	evaluate(site, regs.rdi);
	return 0;
}

static void int3_insert(const struct site *site)
{
	if (ptrace(PTRACE_POKETEXT, site->pid, site->addr,
		   (site->text & ~FIRST_BYTE) | INT3))
		fail("insert int3");
}

static void int3_arm(struct site *site)
{
	errno = 0;
	site->text = (uint64_t)ptrace(PTRACE_PEEKTEXT, site->pid, site->addr, 0);
	if (errno != 0)
		fail("read the site");
	int3_insert(site);
}

static void int3_step_over(const struct site *site, struct user_regs_struct *regs)
{
	siginfo_t info;
	int status;

	if (ptrace(PTRACE_POKETEXT, site->pid, site->addr, site->text))
		fail("remove int3");
	regs->rip = site->addr;
	if (ptrace(PTRACE_SETREGS, site->pid, 0, regs) ||
	    ptrace(PTRACE_SINGLESTEP, site->pid, 0, 0))
		fail("step");
	if (waitpid(site->pid, &status, __WALL) < 0 || !WIFSTOPPED(status))
		fail("wait for the step");
	look(site, &info, regs);
	int3_insert(site);
}

static int int3_at_stop(struct site *site)
{
	struct user_regs_struct regs;
	siginfo_t info;

	look(site, &info, &regs);
	if (regs.rip != site->addr + 1)
		return SIGTRAP;
	evaluate(site, regs.rdi);
	int3_step_over(site, &regs);
	return 0;
}

static const struct mechanism mechanisms[] = {
	{ "registers", registers_arm, registers_at_stop },
	{ "int3", int3_arm, int3_at_stop },
};

static const struct mechanism *mechanism_named(const char *name)
{
	for (size_t i = 0; i < sizeof(mechanisms) / sizeof(mechanisms[0]); i++)
		if (strcmp(mechanisms[i].name, name) == 0)
			return &mechanisms[i];
	return NULL;
}

static void supervise(struct site *site, const struct mechanism *mechanism)
{
	int status;

	if (ptrace(PTRACE_SEIZE, site->pid, 0, 0) ||
	    ptrace(PTRACE_INTERRUPT, site->pid, 0, 0))
		fail("seize");
	if (waitpid(site->pid, &status, __WALL) < 0)
		fail("wait");
	mechanism->arm(site);
	if (ptrace(PTRACE_CONT, site->pid, 0, 0))
		fail("continue");
	puts("armed");
	while (waitpid(site->pid, &status, __WALL) == site->pid && WIFSTOPPED(status)) {
		int is_trap = WSTOPSIG(status) == SIGTRAP && status >> 16 == 0;
		int sig = is_trap      ? mechanism->at_stop(site) :
			  status >> 16 ? 0 :
					 WSTOPSIG(status);

		ptrace(PTRACE_CONT, site->pid, 0, sig);
	}
}

int main(int argc, char **argv)
{
	const struct mechanism *mechanism = argc == 7 ? mechanism_named(argv[6]) : NULL;

	if (mechanism == NULL) {
		fprintf(stderr,
			"usage: %s watch|break PID ADDR VALUE PROGRAM registers|int3\n",
			argv[0]);
		return 2;
	}
	setlinebuf(stdout);

	struct site site = {
		.pid = atoi(argv[2]),
		.addr = strtoull(argv[3], NULL, 0),
		.value = strtoull(argv[4], NULL, 0),
		.is_watch = strcmp(argv[1], "watch") == 0,
	};

	supervise(&site, mechanism);
	printf("taken %lu\n", (unsigned long)site.taken);
	return 0;
}
