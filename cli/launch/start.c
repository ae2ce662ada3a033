/* SPDX-License-Identifier: MIT */
/*
 * start.c - start a command, stopped where its program begins.
 *
 * Events end at exec, and a variable of a shared library exists only after the loader
 * ran. So the child is traced through exec to its entry point (AT_ENTRY), where all
 * libraries are mapped and no code of the program has run. There the caller arms, and the
 * tracing ends. If trapline dies before, the kernel kills the child, which has done
 * nothing yet (PTRACE_O_EXITKILL).
 */
#include "cli/launch/start.h"

#include "base/own_proc.h"
#include "cli/launch/inherited.h"
#include "cli/message.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PC(regs) ((regs)->rip)
static const unsigned long trap_mask = 0xff;
static const unsigned long trap_code = 0xcc; /* int3 */
static const unsigned int trap_advance = 1;  /* pc is after it */
#elif defined(__aarch64__)
#define PC(regs) ((regs)->pc)
static const unsigned long trap_mask = 0xffffffff;
static const unsigned long trap_code = 0xd4200000; /* brk #0 */
static const unsigned int trap_advance = 0;
#endif

static bool is_alike;
static pid_t permitted;

void start_permit(pid_t tracer)
{
	permitted = tracer;
}

void start_alike(void)
{
	is_alike = true;
}

/* In the child. */
static bool trace_me(void *arg)
{
	if (is_alike) {
		personality(ADDR_NO_RANDOMIZE);
		/* It is stopped at times: if trapline dies then, it continues. */
		prctl(PR_SET_PDEATHSIG, SIGCONT);
	}
	if (permitted)
		prctl(PR_SET_PTRACER, permitted);
	return !ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static int registers_get(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec io = { regs, sizeof(*regs) };

	return ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &io) ? -errno : 0;
}

static int registers_set(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec io = { regs, sizeof(*regs) };

	return ptrace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &io) ? -errno : 0;
}

/* An entry of the auxiliary vector; 0: it does not exist. */
static uint64_t read_auxv(pid_t pid, uint64_t type)
{
	char path[64];
	Elf64_auxv_t aux;
	uint64_t entry = 0;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	while (!entry && fread(&aux, sizeof(aux), 1, f) == 1)
		if (aux.a_type == type)
			entry = aux.a_un.a_val;
	fclose(f);
	return entry;
}

/* Resumes the child until its next SIGTRAP; other signals reach it. */
static int run_to_trap(pid_t pid, int *status)
{
	long pass = 0;

	for (;;) {
		if (ptrace(PTRACE_CONT, pid, NULL, (void *)pass))
			return -errno;
		if (waitpid(pid, status, __WALL) < 0)
			return -errno;
		if (!WIFSTOPPED(*status))
			return -ECHILD;
		if (WSTOPSIG(*status) == SIGTRAP)
			return 0;
		pass = WSTOPSIG(*status);
	}
}

int start_run_to_entry(pid_t pid, int *status)
{
	struct user_regs_struct regs;
	/* The entry of the program, not of its loader. */
	uint64_t entry = read_auxv(pid, AT_ENTRY);

	if (!entry)
		return -ENOEXEC;
	if (registers_get(pid, &regs))
		return -errno;
	if (PC(&regs) == entry)
		return 0; /* a static program is there already */

	errno = 0;
	unsigned long word = (unsigned long)ptrace(PTRACE_PEEKTEXT, pid, (void *)entry, NULL);
	if (errno)
		return -errno;
	unsigned long trap = (word & ~trap_mask) | trap_code;
	if (ptrace(PTRACE_POKETEXT, pid, (void *)entry, (void *)trap))
		return -errno;
	do {
		int err = run_to_trap(pid, status);
		if (!err)
			err = registers_get(pid, &regs);
		if (err)
			return err;
	} while (PC(&regs) != entry + trap_advance);
	if (ptrace(PTRACE_POKETEXT, pid, (void *)entry, (void *)word))
		return -errno;
	PC(&regs) = entry;
	return registers_set(pid, &regs);
}

/*
 * The loader makes stack guards and pointer guards from these bytes: now they are the
 * same in each run.
 */
static void fix_random(pid_t pid)
{
	uint64_t at = read_auxv(pid, AT_RANDOM);

	for (int i = 0; at && i < 2; i++)
		ptrace(PTRACE_POKEDATA, pid, (void *)(at + 8 * (uint64_t)i),
		       (void *)0x5a3c96a5c3695a00);
}

int start_command(const char *name, char **command, pid_t *pid)
{
	pid_t child;
	int status;

	if (!own_proc_is_mounted())
		return cli_wrong(name, "cannot observe %s: " OWN_PROC_REMEDY, command[0]);
	int err = inherited_start(name, command, trace_me, NULL, &child);
	if (err)
		return err;
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		return cli_wrong(name, "cannot start %s: it ended before its first instruction",
				 command[0]);
	ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)PTRACE_O_EXITKILL);
	if (is_alike)
		fix_random(child);
	err = start_run_to_entry(child, &status);
	if (err) {
		start_kill(child);
		return cli_wrong(name,
				 "cannot run %s to its entry point: %s; start it yourself and "
				 "use -p PID",
				 command[0], strerror(-err));
	}
	*pid = child;
	return 0;
}

void start_go(pid_t pid)
{
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

int start_go_stopped(pid_t pid)
{
	int status;

	ptrace(PTRACE_DETACH, pid, NULL, (void *)SIGSTOP);
	return waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) ? 0 : -ECHILD;
}

void start_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
