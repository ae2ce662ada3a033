/* SPDX-License-Identifier: MIT */
/*
 * signals.c - SIGTRAP and SIGSEGV stay with the agent, and unblocked, although the program seems to
 * have them.
 *
 * Threads that block all signals would be invisible, and an int3 of a sweep, or a page without
 * access, would kill them. So the calls that block signals block another one in place of each: its
 * marker. No kernel sends that signal, and the kernel keeps the mask: through handlers, jumps,
 * forks and new threads. So each thread can be asked what the program has blocked, and the calls
 * that read a mask are answered so. The marker of SIGTRAP is SIGSTKFLT. That of SIGSEGV is the last
 * real-time signal. A program that uses this one itself, for more than to block all signals, keeps
 * it: then SIGSEGV never seems blocked.
 *
 * A handler for a signal that is kept is only recorded. The handler of the agent passes each one on
 * that is not its own (trap/foreign.c, guest/segv.c). One that would stay pending ends the search
 * or the budget in this process: from then on its signal is blocked as the program asks.
 *
 * What exec() passes on is made what the program believes before (signals_before_exec()).
 */
#include "guest/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/marker.h"
#include "base/sent.h"
#include "base/signal_bit.h"
#include "base/sys.h"
#include "code/window/window_under.h"
#include "guest/deferred.h"
#include "guest/kernel_action.h"
#include "guest/own_masks.h"
#include "trap/dispatch.h"
#include "trap/foreign.h"
#include "trap/install.h"

#define DEFERRED_NS 20000000
#define OF_ALL OWN_MASKS_SIGNALS

static void set_trap(const struct sigaction *action, struct sigaction *old);

struct kept {
	int signal;
	uint64_t bit;
	uint64_t marker;	     /* blocked instead of it */
	int is_ours;		     /* a search or a budget runs: it is taken */
	uint32_t has_let_go;	     /* that has ended, since the program takes it by itself */
	uint32_t has_foreign_marker; /* the program has its own use of that signal */
	int (*end)(void);
	void (*set_action)(const struct sigaction *, struct sigaction *);
};

static struct kept all[] = {
	{ .signal = SIGTRAP,
	  .bit = SIGNAL_BIT(SIGTRAP),
	  .marker = SIGNAL_BIT(MARKER_OF_SIGTRAP),
	  .set_action = set_trap },
	{ .signal = SIGSEGV, .bit = SIGNAL_BIT(SIGSEGV), .marker = SIGNAL_BIT(MARKER_OF_SIGSEGV) },
};
static struct kept *const trap = &all[0];
static struct kept *const segv = &all[1];
#define EACH(k)                               \
	struct kept *k = all;                 \
	k < all + sizeof(all) / sizeof(*all); \
	k++

/*
 * It runs in a process from before: a signal that is blocked without its marker was blocked then.
 */
static uint32_t is_late;
/*
 * There the signal is blocked as the program asks, and only the markers of before are translated.
 */
static uint32_t keeps_none;
static uint32_t has_kept_open; /* there are such markers */
static int is_libc_changed;    /* a thread that starts a program may reach an int3 */
static int spares_stacks;      /* there is no int3 of Trapline, which would kill */

static struct kept *kept_of(int signal)
{
	for (EACH(k))
		if (k->signal == signal && k->is_ours)
			return k;
	return NULL;
}

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

/* The mask of the calling thread, as the kernel has it. */
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

/*
 * A mask of the program has the marker, and neither its signal nor all others: it is meant as it
 * is.
 */
static void look_at_marker(struct kept *k, uint64_t mask)
{
	if (k == segv && mask & k->marker && !(mask & k->bit) && (mask & OF_ALL) != OF_ALL)
		atomic_set(&k->has_foreign_marker, 1u);
}

/* As the kernel gets it. */
static uint64_t one_to_kernel(const struct kept *k, uint64_t mask)
{
	if (atomic_get(&keeps_none))
		return mask;
	if (atomic_get(&k->has_foreign_marker))
		return atomic_get(&k->has_let_go) ? mask : mask & ~k->bit;
	if (!(mask & k->bit))
		return mask & ~k->marker;
	if (!atomic_get(&k->has_let_go))
		mask &= ~k->bit;
	return mask | k->marker;
}

static uint64_t mask_to_kernel(uint64_t mask)
{
	for (EACH(k)) {
		look_at_marker(k, mask);
		if (k->is_ours)
			mask = one_to_kernel(k, mask);
	}
	return mask;
}

/* It has all signals blocked but this one, and the marker with all others. */
static int is_own(const struct kept *k, uint64_t mask)
{
	return (mask & OF_ALL) == OF_ALL &&
	       (own_masks_have(mask, k->bit) ||
		(atomic_get(&keeps_none) && !atomic_get(&has_kept_open)));
}

/* As the program has set it. The markers that it seems to have blocked with all others, it has. */
static uint64_t one_to_program(const struct kept *k, uint64_t mask)
{
	const int has_all = (mask & OF_ALL) == OF_ALL;

	if (atomic_get(&k->has_foreign_marker) || is_own(k, mask))
		return mask;
	if (!(mask & k->marker)) {
		if (!atomic_get(&k->has_let_go) && !atomic_get(&is_late))
			mask &= ~k->bit;
		return has_all ? mask | k->marker : mask;
	}
	return (has_all ? mask : mask & ~k->marker) | k->bit;
}

static uint64_t mask_to_program(uint64_t mask)
{
	for (EACH(k))
		if (k->is_ours)
			mask = one_to_program(k, mask);
	return mask;
}

static int has_marker(const struct kept *k, const ucontext_t *context)
{
	const uint64_t mask = first_word(&context->uc_sigmask);

	return !atomic_get(&k->has_foreign_marker) && mask & k->marker && !is_own(k, mask);
}

int signals_is_blocked(int signal, const ucontext_t *context)
{
	const struct kept *k = kept_of(signal);

	return k && has_marker(k, context);
}

static int is_held(const ucontext_t *context)
{
	return has_marker(trap, context);
}

static int let_go(struct kept *k)
{
	int err = atomic_get(&k->has_let_go) ? 0 : k->end();

	if (!err)
		atomic_set(&k->has_let_go, 1u);
	return err;
}

/* In SIGTRAP. */
static int let_trap_go(const siginfo_t *info)
{
	const int err = let_go(trap);

	if (err != -EINPROGRESS)
		return err;
	deferred_keep(info);
	return 1;
}

void signals_tool_has_ended(void)
{
	const struct timespec pause = { 0, DEFERRED_NS };

	atomic_set(&trap->has_let_go, 1u);
	deferred_send();
	/* A handler may have asked just before. */
	sys_nap(&pause);
	deferred_send();
}

void signals_leave_pending(const siginfo_t *info, ucontext_t *context)
{
	struct kept *k = kept_of(info->si_signo);

	if (k)
		let_go(k);
	uint64_t mask = first_word(&context->uc_sigmask) | SIGNAL_BIT(info->si_signo);
	set_first_word(&context->uc_sigmask, mask);
	mask = SIGNAL_BIT(info->si_signo);
	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask));
	sent_again(info);
}

/* A process can inherit it blocked, or what another agent has blocked instead. */
static void begin(struct kept *k, int (*end)(void))
{
	k->end = end;
	atomic_set(&k->has_let_go, 0u);
	/*
	 * A thread of Trapline keeps it blocked: what is sent to the program is for its own
	 * threads.
	 */
	if (!foreign_keeps_sent())
		set_own_mask(one_to_kernel(k, own_mask()));
}

void signals_prepare(int (*end)(void))
{
	trap_held_bit = trap->marker;
	trap_let_go = let_trap_go;
	trap_is_held = is_held;
	trap_blocks_signals = 1;
	begin(trap, end);
}

void signals_take_marked(int (*end)(void))
{
	trap_blocks_signals = 1;
	atomic_set(&trap_held_bit, trap->marker);
	atomic_set(&trap->has_let_go, 0u);
	trap->end = end;
	atomic_set(&trap_let_go, let_trap_go);
	atomic_set(&trap_is_held, is_held);
}

void signals_own(int signal, const struct signals_owner *owner)
{
	for (EACH(k)) {
		if (k->signal != signal)
			continue;
		k->set_action = owner->set_action;
		k->is_ours = 1; /* before: one that is pending comes at once */
		begin(k, owner->end);
	}
}

int signals_have_let_go(void)
{
	return atomic_get(&trap->has_let_go) != 0;
}

void signals_give_back(void)
{
	trap->is_ours = 0;
	set_own_mask(one_to_program(trap, own_mask()));
}

AT_FORK int signals_are_ours(int are)
{
	int were = trap->is_ours;

	trap->is_ours = are;
	return were;
}

int signals_have_trap(void)
{
	return trap->is_ours;
}

void signals_are_late(int keeps_open)
{
	atomic_set(&is_late, 1u);
	if (keeps_open)
		atomic_set(&has_kept_open, 1u);
	atomic_set(&keeps_none, (uint32_t)!keeps_open);
}

static void look_at_mask(uint64_t mask)
{
	look_at_marker(segv, mask);
}

void signals_note_own_masks(void)
{
	own_masks_read(look_at_mask);
}

void signals_disown(int signal)
{
	for (EACH(k))
		if (k->signal == signal)
			k->is_ours = 0;
}

void signals_let_go(int signal)
{
	for (EACH(k))
		if (k->signal == signal)
			atomic_set(&k->has_let_go, 1u);
}

static int is_any_ours(void)
{
	return trap->is_ours || segv->is_ours;
}

void signals_libc_is_changed(void)
{
	is_libc_changed = 1;
}

void signals_spare_stacks(int spare)
{
	spares_stacks = spare;
}

static void set_trap(const struct sigaction *action, struct sigaction *old)
{
	struct sigaction as_kernel;

	if (action) {
		as_kernel = *action;
		as_kernel.sa_flags |= KERNEL_ACTION_RESTORER;
	}
	trap_set_previous(action ? &as_kernel : NULL, old);
}

/*
 * A handler on a stack of its own, which may be just large enough for it: no signal of Trapline on
 * top of that. But it would die of a breakpoint, as it does anyway where SIGTRAP has its default
 * action.
 */
static uint64_t mask_in_handler(const struct sigaction *action)
{
	uint64_t mask = mask_to_kernel(first_word(&action->sa_mask));
	struct sigaction own;

	trap_set_previous(NULL, &own);
	if (trap->is_ours && spares_stacks && action->sa_flags & SA_ONSTACK &&
	    own.sa_handler == SIG_DFL)
		mask |= SIGNAL_BIT(SIGTRAP);
	return mask;
}

static int has_handler(const struct sigaction *action)
{
	return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static int set_or_note(signals_set_action next, int signal, const struct sigaction *action,
		       struct sigaction *old)
{
	const struct kept *k = kept_of(signal);
	struct sigaction without;

	if (k) {
		k->set_action(action, old);
		return 0;
	}
	if (!is_any_ours())
		return next(signal, action, old);
	if (action) {
		if (signal > 0 && signal <= 64 && SIGNAL_BIT(signal) == segv->marker &&
		    has_handler(action))
			atomic_set(&segv->has_foreign_marker, 1u);
		without = *action;
		set_first_word(&without.sa_mask, mask_in_handler(action));
		action = &without;
	}
	int err = next(signal, action, old);
	if (!err && old)
		set_first_word(&old->sa_mask, mask_to_program(first_word(&old->sa_mask)));
	return err;
}

/*
 * A window has some signals for a moment, and takes what is set in the meantime for the program's.
 */
int signals_action(signals_set_action next, int signal, const struct sigaction *action,
		   struct sigaction *old)
{
	const int err = set_or_note(next, signal, action, old);

	if (!err && old)
		window_faults_from_kernel((unsigned int)signal, old);
	return err;
}

const sigset_t *signals_to_kernel(const sigset_t *set, sigset_t *changed)
{
	if (!is_any_ours() || !set)
		return set;
	*changed = *set;
	set_first_word(changed, mask_to_kernel(first_word(set)));
	return changed;
}

/* The marker alone is neither set nor taken away by the program. */
static uint64_t one_change(const struct kept *k, int how, uint64_t mask)
{
	if (atomic_get(&keeps_none))
		return how == SIG_UNBLOCK && mask & k->bit ? mask | k->marker : mask;
	if (atomic_get(&k->has_foreign_marker))
		return how == SIG_BLOCK ? one_to_kernel(k, mask) : mask;
	mask &= ~k->marker;
	if (!(mask & k->bit))
		return mask;
	if (how == SIG_BLOCK && !atomic_get(&k->has_let_go))
		mask &= ~k->bit;
	return mask | k->marker;
}

static const sigset_t *change_to_kernel(int how, const sigset_t *set, sigset_t *changed)
{
	if (!is_any_ours() || !set || how == SIG_SETMASK)
		return signals_to_kernel(set, changed);
	uint64_t mask = first_word(set);

	for (EACH(k)) {
		if (how == SIG_BLOCK)
			look_at_marker(k, mask);
		if (k->is_ours)
			mask = one_change(k, how, mask);
	}
	*changed = *set;
	set_first_word(changed, mask);
	return changed;
}

static void send_what_is_open(void)
{
	if (deferred_has(SIGTRAP) && !(own_mask() & (trap->marker | trap->bit)))
		deferred_send_open(SIGTRAP);
}

int signals_mask(signals_set_mask next, int how, const sigset_t *set, sigset_t *old)
{
	sigset_t changed;
	int err = next(how, change_to_kernel(how, set, &changed), old);

	if (!err && old && is_any_ours())
		set_first_word(old, mask_to_program(first_word(old)));
	if (!err && set && how != SIG_BLOCK && trap->is_ours)
		send_what_is_open();
	return err;
}

int signals_pending(int (*next)(sigset_t *), sigset_t *set)
{
	const int err = next(set);

	if (!err && trap->is_ours && deferred_has(SIGTRAP))
		sigaddset(set, SIGTRAP);
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

static long raw_action(const struct kept *k, const struct raw_action *action,
		       struct raw_action *old)
{
	struct sigaction ours = { 0 };
	struct sigaction before;

	if (action) {
		ours.sa_handler = action->handler;
		ours.sa_flags = (int)action->flags;
		ours.sa_restorer = action->restorer;
		set_first_word(&ours.sa_mask, action->mask);
	}
	k->set_action(action ? &ours : NULL, &before);
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
	const struct kept *k = number == SYS_rt_sigaction ? kept_of((int)a[0]) : NULL;

	if (!is_any_ours() || a[3] != (long)sizeof(uint64_t))
		return 0;
	if (number == SYS_rt_sigprocmask)
		*result = raw_mask(next, (int)a[0], (const uint64_t *)a[1], (uint64_t *)a[2]);
	else if (k)
		*result = raw_action(k, (const struct raw_action *)a[1], (struct raw_action *)a[2]);
	else
		return 0;
	return 1;
}

/* ---- a new program ---- */

static int is_ignored(const struct kept *k)
{
	struct sigaction action;

	k->set_action(NULL, &action);
	return action.sa_handler == SIG_IGN;
}

/* The signal itself may be there already: by a call of libc inside another one. */
static uint64_t mask_for_exec(uint64_t mask)
{
	for (EACH(k)) {
		if (k->is_ours && mask & k->marker)
			mask = one_to_program(k, mask);
		else if (k->is_ours && (mask & OF_ALL) == OF_ALL)
			mask |= k->marker;
	}
	return mask;
}

static void set_ignored(int signal)
{
	const struct kernel_action ignored = { .handler = (void (*)(int, siginfo_t *, void *))(
						       uintptr_t)SIG_IGN };

	kernel_action(signal, &ignored, NULL);
}

void signals_before_exec(struct signals_exec *before)
{
	for (uint32_t i = 0; i < SIGNALS_KEPT; i++) {
		before->is_changed[i] = all[i].is_ours && is_ignored(&all[i]);
		if (!before->is_changed[i])
			continue;
		kernel_action(all[i].signal, NULL, &before->actions[i]);
		set_ignored(all[i].signal);
	}
	before->mask = own_mask();
	before->is_mask_changed = mask_for_exec(before->mask) != before->mask;
	if (before->is_mask_changed)
		set_own_mask(mask_for_exec(before->mask));
}

void signals_after_exec(const struct signals_exec *before)
{
	if (before->is_mask_changed)
		set_own_mask(before->mask);
	for (uint32_t i = 0; i < SIGNALS_KEPT; i++)
		if (before->is_changed[i])
			kernel_action(all[i].signal, &before->actions[i], NULL);
}

void signals_before_spawn(struct signals_exec *before)
{
	*before = (struct signals_exec){ .mask = 0 };
	if (trap->is_ours && is_libc_changed)
		return;
	for (EACH(k))
		if (k->is_ours && is_ignored(k) && !let_go(k))
			set_ignored(k->signal);
	before->mask = own_mask();
	before->is_mask_changed = mask_for_exec(before->mask) != before->mask;
	if (before->is_mask_changed)
		set_own_mask(mask_for_exec(before->mask));
}
