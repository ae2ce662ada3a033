/* SPDX-License-Identifier: MIT */
/* late_calls.c - see late_calls.h. */
#include "guest/late_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>

#include <trapline/code.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "code/poke/change.h"
#include "code/poke/text_mem.h"
#include "core/code_start.h"
#include "guest/action_gate.h"
#include "guest/exec_begins.h"
#include "guest/late_jump.h"
#include "guest/late_trap.h"
#include "guest/signals.h"
#include "trap/install.h"
#include "trap/probe_entry.h"

#define LOOK_NS 20000000
#define CLOSE_LOOKS 50

enum {
	ACTION,
	MASK,
	PENDING,
	EXEC, /* from here on: without these only what a new program inherits is not right */
	EXEC_AT,
	EXEC_BY_DESCRIPTOR,
	CALLS,
};

static const char *const names[CALLS] = {
	"sigaction", "pthread_sigmask", "sigpending", "execve", "execveat", "fexecve",
};
static struct late_jump jumps[CALLS];
static uint32_t runs; /* tools */

static int late_action(int signal, const struct sigaction *action, struct sigaction *old)
{
	action_gate_enter(signal);
	const int result =
		late_trap_action((signals_set_action)jumps[ACTION].original, signal, action, old);

	action_gate_exit(signal);
	return result;
}

static int late_mask(int how, const sigset_t *set, sigset_t *old)
{
	return signals_mask((signals_set_mask)jumps[MASK].original, how, set, old);
}

static int late_pending(sigset_t *set)
{
	return signals_pending((int (*)(sigset_t *))jumps[PENDING].original, set);
}

/*
 * In a child that libc makes for posix_spawn(3) as well, which shares Trapline's memory, and has
 * actions of its own.
 */
static int late_exec(const char *path, char *const argv[], char *const envp[])
{
	int (*const next)(const char *, char *const[], char *const[]) =
		(int (*)(const char *, char *const[], char *const[]))jumps[EXEC].original;
	struct signals_exec before;

	EXEC_BEGINS("execve", jumps[EXEC].address, argv, envp, 1);
	signals_before_exec(&before);
	const int result = next(path, argv, envp);
	signals_after_exec(&before);
	return result;
}

static int late_exec_at(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
	int (*const next)(int, const char *, char *const[], char *const[], int) =
		(int (*)(int, const char *, char *const[], char *const[], int))jumps[EXEC_AT]
			.original;
	struct signals_exec before;

	EXEC_BEGINS("execveat", jumps[EXEC_AT].address, argv, envp, 1);
	signals_before_exec(&before);
	const int result = next(fd, path, argv, envp, flags);
	signals_after_exec(&before);
	return result;
}

static int late_exec_by_descriptor(int fd, char *const argv[], char *const envp[])
{
	int (*const next)(int, char *const[], char *const[]) =
		(int (*)(int, char *const[], char *const[]))jumps[EXEC_BY_DESCRIPTOR].original;
	struct signals_exec before;

	EXEC_BEGINS("fexecve", jumps[EXEC_BY_DESCRIPTOR].address, argv, envp, 1);
	signals_before_exec(&before);
	const int result = next(fd, argv, envp);
	signals_after_exec(&before);
	return result;
}

/* Those of libc, which all others call in the end. */
static void find_all(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	jumps[ACTION].function = (uintptr_t)late_action;
	jumps[MASK].function = (uintptr_t)late_mask;
	jumps[PENDING].function = (uintptr_t)late_pending;
	jumps[EXEC].function = (uintptr_t)late_exec;
	jumps[EXEC_AT].function = (uintptr_t)late_exec_at;
	jumps[EXEC_BY_DESCRIPTOR].function = (uintptr_t)late_exec_by_descriptor;
	for (int i = 0; libc && i < CALLS; i++)
		jumps[i].address = (uintptr_t)dlsym(libc, names[i]);
	if (libc)
		dlclose(libc);
}

/*
 * A page that a thread of the program uses may not be exchanged at once. They lead to the original
 * functions already.
 */
static void close_all(void)
{
	const struct timespec pause = { 0, LOOK_NS };
	bool are_closed = false;

	for (int i = 0; i < CALLS; i++)
		late_jump_lead(&jumps[i], false);
	for (int look = 0; !are_closed && look < CLOSE_LOOKS; look++) {
		if (look)
			sys_nap(&pause);
		are_closed = true;
		text_mem_hold();
		for (int i = 0; i < CALLS; i++)
			are_closed &= !jumps[i].is_open || late_jump_close(&jumps[i]);
		text_mem_drop();
	}
}

static int open_all(void)
{
	struct code_problem problem;
	int err = code_prepare();

	if (!err)
		trap_probe_prepare();
	text_mem_hold();
	for (int i = 0; !err && i < CALLS; i++) {
		const int one = !jumps[i].address ? -ENOENT :
				jumps[i].is_open  ? 0 :
						    late_jump_open(&jumps[i], &problem);

		err = i < EXEC ? one : 0;
	}
	text_mem_drop();
	return err;
}

/* Not of a run before that could not take them away. */
static int lead_all(void)
{
	find_all();
	int err = open_all();

	if (err) {
		close_all();
		return err;
	}
	for (int i = 0; i < CALLS; i++)
		late_jump_lead(&jumps[i], true);
	return 0;
}

static int calls_begin(int (*end)(void), bool keeps_open)
{
	if (atomic_get(&runs)) {
		atomic_add(&runs, 1u);
		if (keeps_open)
			signals_are_late(true);
		return 0;
	}
	signals_note_own_masks();
	int err = lead_all();
	if (err) {
		signals_take_marked(end);
		trap_install();
		return err;
	}
	err = late_trap_take(end, keeps_open);
	if (err)
		close_all();
	else
		atomic_set(&runs, 1u);
	return err;
}

static void calls_rest(void)
{
	if (atomic_get(&runs) == 1)
		late_trap_rest();
}

static void calls_end(bool is_free)
{
	if (!atomic_get(&runs) || atomic_add(&runs, (uint32_t)-1) > 1)
		return;
	if (is_free)
		late_trap_give_back((signals_set_action)jumps[ACTION].original);
	close_all();
	late_trap_end();
}

const struct late_calls late_calls = {
	.begin = calls_begin,
	.look_again = late_trap_look_again,
	.rest = calls_rest,
	.wait_for_masks = late_trap_wait_for_masks,
	.end = calls_end,
};
