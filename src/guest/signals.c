/* SPDX-License-Identifier: MIT */
/*
 * signals.c - SIGTRAP stays with the agent, and unblocked, although the program seems to
 * have it.
 *
 * Threads that block all signals would be invisible, and an int3 of a sweep would kill them.
 * So the calls that block signals block SIGSTKFLT in place of SIGTRAP. No kernel sends that
 * signal, and the kernel keeps the mask: through handlers, jumps, forks and new threads. So
 * each thread can be asked what the program has blocked, and the calls that read a mask
 * are answered so.
 *
 * A handler for SIGTRAP is only noted. The handler of the agent passes each signal on that
 * is not its own (src/trap/foreign.c). A signal that would stay pending ends the search or
 * the budget in this process: from then on SIGTRAP is blocked as the program asks.
 */
#include "guest/signals.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "trap/foreign.h"
#include "trap/install.h"

#define BIT(signal) (1ull << ((signal)-1))
#define HELD SIGSTKFLT
/* What a mask of all signals has beside: then SIGSTKFLT was meant, too. */
#define OF_ALL (BIT(SIGPWR) | BIT(SIGURG) | BIT(SIGWINCH))
#define RESTORER 0x04000000 /* SA_RESTORER, which libc sets */

static int spares_stacks;   /* there is no int3 of ours, which would kill */
static int is_ours;	    /* a search or a budget runs: SIGTRAP is taken */
static uint32_t has_let_go; /* it has ended, since the program takes signals by itself */
static int (*end_all)(void);

static uint64_t first_word(const sigset_t *set)
{
	uint64_t word;

	memcpy(&word, set, sizeof(word));
	return word;
}

static void set_first_word(sigset_t *set, uint64_t word)
{
	memcpy(set, &word, sizeof(word));
}

/* Of the calling thread, as the kernel has it. */
static uint64_t own_mask(void)
{
	uint64_t mask = 0;

	sys4(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, sizeof(mask));
	return mask;
}

static void set_own_mask(uint64_t mask)
{
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

/* As the kernel gets it. */
static uint64_t mask_to_kernel(uint64_t mask)
{
	if (!(mask & BIT(SIGTRAP)))
		return mask & ~BIT(HELD);
	if (!atomic_get(&has_let_go))
		mask &= ~BIT(SIGTRAP);
	return mask | BIT(HELD);
}

/* As the program has set it. */
static uint64_t mask_to_program(uint64_t mask)
{
	if (!(mask & BIT(HELD)))
		return mask & ~BIT(SIGTRAP);
	if ((mask & OF_ALL) != OF_ALL)
		mask &= ~BIT(HELD);
	return mask | BIT(SIGTRAP);
}

static int is_held(const ucontext_t *context)
{
	return (first_word(&context->uc_sigmask) & BIT(HELD)) != 0;
}

/* In SIGTRAP. */
static int signals_let_go(void)
{
	int err = end_all();

	if (!err)
		atomic_set(&has_let_go, 1u);
	return err;
}

/* A process can inherit SIGTRAP blocked, or what another agent has blocked in its place. */
void signals_prepare(int (*end)(void))
{
	end_all = end;
	trap_held_bit = BIT(HELD);
	trap_let_go = signals_let_go;
	trap_is_held = is_held;
	uint64_t now = own_mask();
	set_own_mask(mask_to_kernel(now));
}

void signals_take_late(int (*end)(void), int (*is_blocked)(const ucontext_t *))
{
	atomic_set(&has_let_go, 0u);
	end_all = end;
	atomic_set(&trap_let_go, signals_let_go);
	atomic_set(&trap_is_held, is_blocked);
}

int signals_have_let_go(void)
{
	return atomic_get(&has_let_go) != 0;
}

void signals_give_back(void)
{
	is_ours = 0;
	set_own_mask(mask_to_program(own_mask()));
}

int signals_are_ours(int are)
{
	int were = is_ours;

	is_ours = are;
	return were;
}

void signals_spare_stacks(int spare)
{
	spares_stacks = spare;
}

static void set_action(const struct sigaction *action, struct sigaction *old)
{
	struct sigaction as_kernel;

	if (action) {
		as_kernel = *action;
		as_kernel.sa_flags |= RESTORER;
	}
	trap_set_previous(action ? &as_kernel : NULL, old);
}

/*
 * A handler on a stack of its own, which may be just large enough for it: no signal of ours on top of that.
 * But it would die of a breakpoint, as it does anyway where SIGTRAP has its default action.
 */
static uint64_t mask_in_handler(const struct sigaction *action)
{
	uint64_t mask = mask_to_kernel(first_word(&action->sa_mask));
	struct sigaction own;

	trap_set_previous(NULL, &own);
	if (spares_stacks && action->sa_flags & SA_ONSTACK && own.sa_handler == SIG_DFL)
		mask |= BIT(SIGTRAP);
	return mask;
}

int signals_action(signals_set_action next, int signal, const struct sigaction *action,
		   struct sigaction *old)
{
	struct sigaction without;

	if (!is_ours)
		return next(signal, action, old);
	if (signal == SIGTRAP) {
		set_action(action, old);
		return 0;
	}
	if (action) {
		without = *action;
		set_first_word(&without.sa_mask, mask_in_handler(action));
		action = &without;
	}
	int err = next(signal, action, old);
	if (!err && old)
		set_first_word(&old->sa_mask, mask_to_program(first_word(&old->sa_mask)));
	return err;
}

const sigset_t *signals_to_kernel(const sigset_t *set, sigset_t *changed)
{
	if (!is_ours || !set)
		return set;
	*changed = *set;
	set_first_word(changed, mask_to_kernel(first_word(set)));
	return changed;
}

/* The marker alone is neither set nor taken away by the program. */
static const sigset_t *change_to_kernel(int how, const sigset_t *set, sigset_t *changed)
{
	if (!is_ours || !set || how == SIG_SETMASK)
		return signals_to_kernel(set, changed);
	uint64_t mask = first_word(set) & ~BIT(HELD);

	if (mask & BIT(SIGTRAP)) {
		mask |= BIT(HELD);
		if (how == SIG_BLOCK && !atomic_get(&has_let_go))
			mask &= ~BIT(SIGTRAP);
	}
	*changed = *set;
	set_first_word(changed, mask);
	return changed;
}

int signals_mask(signals_set_mask next, int how, const sigset_t *set, sigset_t *old)
{
	sigset_t changed;
	int err = next(how, change_to_kernel(how, set, &changed), old);

	if (!err && old && is_ours)
		set_first_word(old, mask_to_program(first_word(old)));
	return err;
}

/* ---- without libc ---- */

/* The kernel's struct sigaction. */
struct raw_action {
	sighandler_t handler;
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static long raw_action(const struct raw_action *action, struct raw_action *old)
{
	struct sigaction ours = { 0 };
	struct sigaction before;

	if (action) {
		ours.sa_handler = action->handler;
		ours.sa_flags = (int)action->flags;
		ours.sa_restorer = action->restorer;
		set_first_word(&ours.sa_mask, action->mask);
	}
	trap_set_previous(action ? &ours : NULL, &before);
	if (old)
		*old = (struct raw_action){ before.sa_handler, (unsigned int)before.sa_flags,
					    before.sa_restorer, first_word(&before.sa_mask) };
	return 0;
}

static long raw_mask(raw_call next, int how, const uint64_t *set, uint64_t *old)
{
	sigset_t whole;
	sigset_t changed;

	sigemptyset(&whole);
	if (set)
		set_first_word(&whole, *set);
	const sigset_t *to = change_to_kernel(how, &whole, &changed);
	long result = next(SYS_rt_sigprocmask, (long)how, set ? to : NULL, old, sizeof(*old));
	if (!result && old)
		*old = mask_to_program(*old);
	return result;
}

int signals_raw(raw_call next, long number, const long *a, long *result)
{
	if (!is_ours || a[3] != (long)sizeof(uint64_t))
		return 0;
	if (number == SYS_rt_sigprocmask)
		*result = raw_mask(next, (int)a[0], (const uint64_t *)a[1], (uint64_t *)a[2]);
	else if (number == SYS_rt_sigaction && a[0] == SIGTRAP)
		*result = raw_action((const struct raw_action *)a[1], (struct raw_action *)a[2]);
	else
		return 0;
	return 1;
}
