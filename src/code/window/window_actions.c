/* SPDX-License-Identifier: MIT */
/*
 * window_actions.c - the actions of the signals that instructions raise, while a window runs in any
 * thread.
 *
 * They are Trapline's then. What is not of a window goes to the program's action as the kernel
 * would deliver it: with its mask, by a jump on the frame that the kernel made. That frame is on
 * the stack that the program's action asks for, since Trapline's has the same flags. So the
 * program's action is never put back while a window runs, and a fault of one thread does not reach
 * the window of another.
 *
 * Nothing here waits for another thread without bound. Only the first window to begin and the last
 * to end change actions, and their word reports it: state. A window that would begin at that moment
 * yields the processor a bounded number of times; then it does not begin, and -EAGAIN reports it.
 * Ending never waits. The word has the process in it: a forked child finds it free. Callers have
 * all signals blocked that do not come from instructions, so no handler comes between that might
 * never return.
 */
#include <errno.h>
#include <string.h>

#include "base/action.h"
#include "base/atomic.h"
#include "base/sent.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/window/window_call.h"
#include "code/window/window_under.h"

#define SIGNAL_SET_BYTES 8
#define SA_RESTORER_BIT 0x04000000u
#define SA_KNOWN 0xdc000807u /* by the kernel: it clears others */
#define OWNED 6
#define TRIES 1000
#define BUSY 1u
#define ONE_USER 2u
#define USERS 0xfffffffeu
/* In siginfo, which the kernel clears for each signal: the program's handler has got it once. */
#define MARK_AT 112
#define MARK 0x776f646e69777274ull

struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static const uint8_t owned[OWNED] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
static struct action previous[OWNED] = { ACTION_DEFAULT, ACTION_DEFAULT, ACTION_DEFAULT,
					 ACTION_DEFAULT, ACTION_DEFAULT, ACTION_DEFAULT };
static struct action first[OWNED] = { ACTION_DEFAULT, ACTION_DEFAULT, ACTION_DEFAULT,
				      ACTION_DEFAULT, ACTION_DEFAULT, ACTION_DEFAULT };
static uint32_t has_first[OWNED];
static uint64_t state; /* the process, the number of windows, BUSY */

/* The bytes by which unwinders know the frame of a signal; so must the byte before. */
__asm__(".text\n"
	"\t.p2align 4, 0xcc\n"
	"\tnop\n"
	".type window_restorer, @function\n"
	"window_restorer:\n\t"
	"movq $15, %rax\n\t"
	"syscall\n"
	".size window_restorer, . - window_restorer\n");
extern void window_restorer(void) __attribute__((visibility("hidden")));

TRAP_PATH static int act(int signal, const struct kernel_action *action, struct kernel_action *old)
{
	return (int)sys4(SYS_rt_sigaction, signal, action, old, SIGNAL_SET_BYTES);
}

TRAP_PATH static int number_of(unsigned int signal)
{
	for (int i = 0; i < OWNED; i++)
		if (owned[i] == signal)
			return i;
	return -1;
}

/* ---- as the kernel has it, and as struct action keeps it ---- */

TRAP_PATH static void from_kernel(const struct kernel_action *from, struct sigaction *to)
{
	memset(to, 0, sizeof(*to));
	to->sa_sigaction = from->handler;
	to->sa_flags = (int)from->flags;
	to->sa_restorer = from->restorer;
	memcpy(&to->sa_mask, &from->mask, sizeof(from->mask));
}

TRAP_PATH static void to_kernel(const struct sigaction *from, struct kernel_action *to)
{
	to->handler = from->sa_sigaction;
	to->flags = (uint32_t)from->sa_flags;
	to->restorer = from->sa_restorer;
	memcpy(&to->mask, &from->sa_mask, sizeof(to->mask));
}

TRAP_PATH static void keep_before(int i, const struct kernel_action *action)
{
	struct sigaction as_libc;
	uint32_t none = 0;

	from_kernel(action, &as_libc);
	action_replace(&previous[i], &as_libc, NULL);
	if (!has_first[i] && atomic_cas(&has_first[i], &none, 1u))
		action_replace(&first[i], &as_libc, NULL);
}

/* ---- Trapline's ---- */

/*
 * The frame lies where the program's own would, and its calls begin again as its own flags state.
 */
TRAP_PATH static struct kernel_action ours_for(int i)
{
	struct sigaction before;
	unsigned long flags = SA_ONSTACK | SA_RESTART;

	action_read(&previous[i], &before);
	if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		flags = (uint32_t)before.sa_flags & flags;
	return (struct kernel_action){
		.handler = window_on_signal,
		.flags = SA_SIGINFO | SA_RESTORER_BIT | flags,
		.restorer = window_restorer,
		.mask = UINT64_MAX,
	};
}

TRAP_PATH static int install(int i)
{
	struct kernel_action now;
	struct kernel_action before;

	/* Known before Trapline's is in place: a signal of another thread may come at once. */
	int err = act(owned[i], NULL, &now);
	if (err)
		return err;
	if (now.handler != window_on_signal)
		keep_before(i, &now);
	const struct kernel_action ours = ours_for(i);
	err = act(owned[i], &ours, &before);
	if (!err && before.handler != window_on_signal && memcmp(&before, &now, sizeof(now)) != 0)
		keep_before(i, &before);
	return err;
}

/* Unless the program has set another action in the meantime. */
TRAP_PATH static void take_out(int i)
{
	struct sigaction as_libc;
	struct kernel_action program;
	struct kernel_action before;

	action_read(&previous[i], &as_libc);
	to_kernel(&as_libc, &program);
	if (!act(owned[i], &program, &before) && before.handler != window_on_signal)
		act(owned[i], &before, NULL);
}

TRAP_PATH static int install_all(void)
{
	int err = 0;

	for (int i = 0; !err && i < OWNED; i++) {
		err = install(i);
		while (err && i--)
			take_out(i);
	}
	return err;
}

/* As it is for this process. *raw: what the word is. */
TRAP_PATH static uint64_t state_now(uint64_t *raw)
{
	const uint64_t own = (uint64_t)(uint32_t)sys_getpid() << 32;

	*raw = atomic_get(&state);
	return *raw >> 32 == own >> 32 ? *raw : own;
}

TRAP_PATH static int begin_first(uint64_t now, uint64_t raw)
{
	int err = -EBUSY;

	if (atomic_cas(&state, &raw, now | BUSY)) {
		err = install_all();
		atomic_set(&state, err ? now : now + ONE_USER);
	}
	return err;
}

/* The program may have natively set an action of its own since. */
TRAP_PATH static void renew(int i)
{
	struct kernel_action now;

	if (!act(owned[i], NULL, &now) && now.handler != window_on_signal)
		install(i);
}

TRAP_PATH static int begin_next(uint64_t now, uint64_t raw)
{
	if (!atomic_cas(&state, &raw, now + ONE_USER))
		return -EBUSY;
	for (int i = 0; i < OWNED; i++)
		renew(i);
	return 0;
}

TRAP_PATH int window_faults_take(void)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t raw;
		const uint64_t now = state_now(&raw);

		int err = -EBUSY;

		if (now & BUSY)
			sys_sched_yield();
		else
			err = now & USERS ? begin_next(now, raw) : begin_first(now, raw);
		if (err != -EBUSY)
			return err;
	}
	return -EAGAIN;
}

TRAP_PATH void window_faults_release(void)
{
	uint64_t raw;
	uint64_t now = state_now(&raw);

	while (now & USERS) {
		const uint64_t less = now - ONE_USER;
		const int is_last = !(less & USERS);

		if (atomic_cas(&state, &raw, is_last ? less | BUSY : less)) {
			for (int i = 0; is_last && i < OWNED; i++)
				take_out(i);
			if (is_last)
				atomic_set(&state, less);
			return;
		}
		now = state_now(&raw);
	}
}

TRAP_PATH void window_faults_renew(void)
{
	static uint32_t turn;

	renew((int)(atomic_add(&turn, 1u) % OWNED));
}

TRAP_PATH const void *window_faults_under(unsigned int signal)
{
	struct sigaction action;
	uint64_t raw;
	const int i = number_of(signal);

	if (i < 0 || !(state_now(&raw) & USERS))
		return NULL;
	action_read(&previous[i], &action);
	return (const void *)(uintptr_t)action.sa_sigaction;
}

TRAP_PATH void window_faults_from_kernel(unsigned int signal, struct sigaction *old)
{
	const int i = number_of(signal);

	if (i >= 0 && old->sa_sigaction == window_on_signal)
		action_read(&previous[i], old);
}

/* ---- sigaction(2) in a window ---- */

TRAP_PATH static long change_action(int i, uint64_t new_at, uint64_t old_at)
{
	struct sigaction replaced;
	struct sigaction wanted;
	struct kernel_action action;

	if (new_at && window_read(&action, new_at, sizeof(action)) != sizeof(action))
		return -EFAULT;
	if (new_at) {
		action.flags &= SA_KNOWN;
		action.mask &= ~(WINDOW_SIGNAL_BIT(SIGKILL) | WINDOW_SIGNAL_BIT(SIGSTOP));
		from_kernel(&action, &wanted);
		action_replace(&previous[i], &wanted, &replaced);
		const struct kernel_action ours = ours_for(i);
		act(owned[i], &ours, NULL);
	} else {
		action_read(&previous[i], &replaced);
	}
	to_kernel(&replaced, &action);
	if (old_at && window_read((void *)(uintptr_t)old_at, (uint64_t)(uintptr_t)&action,
				  sizeof(action)) != sizeof(action))
		return -EFAULT;
	return 0;
}

TRAP_PATH int window_action_call(struct window_area *a, long *result)
{
	const int i = number_of((unsigned int)a->regs.r[INSN_RDI]);

	if (i < 0 || a->regs.r[INSN_R10] != SIGNAL_SET_BYTES)
		return 0;
	*result = change_action(i, a->regs.r[INSN_RSI], a->regs.r[INSN_RDX]);
	return 1;
}

/* ---- what is not of a window ---- */

TRAP_PATH static int is_handed_back(const siginfo_t *info)
{
	uint64_t mark;

	memcpy(&mark, (const char *)info + MARK_AT, sizeof(mark));
	return mark == MARK;
}

/* An instruction that runs again raises it again; another signal is sent again. */
TRAP_PATH static void die(int sig, const siginfo_t *info, ucontext_t *context)
{
	const struct kernel_action none = { 0 };
	uint64_t mask;

	act(sig, &none, NULL);
	if (info->si_code > 0 && sig != SIGTRAP && sig != SIGSYS)
		return;
	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	mask &= ~WINDOW_SIGNAL_BIT(sig);
	memcpy(&context->uc_sigmask, &mask, sizeof(mask));
	sys4(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), sig, info);
}

/*
 * Nothing of Trapline is left on the stack: the handler returns to the kernel, or leaves by a jump.
 */
static inline __attribute__((always_inline, noreturn)) void
jump_to(uintptr_t handler, int sig, siginfo_t *info, ucontext_t *context)
{
	register uintptr_t sp __asm__("r10") = (uintptr_t)context - sizeof(uint64_t);
	register uintptr_t to __asm__("r11") = handler;

	__asm__ volatile(
		"movq %[sp], %%rsp\n\t"
		"movq %[bp], %%rbp\n\t"
		"cld\n\t"
		"jmp *%[to]"
		:
		: [sp] "r"(sp), [bp] "c"(context->uc_mcontext.gregs[REG_RBP]), [to] "r"(to),
		  "D"((long)sig), "S"(info), "d"(context), "a"(0)
		: "memory");
	__builtin_unreachable();
}

TRAP_PATH void window_pass_on(int sig, siginfo_t *info, ucontext_t *context, const void *frame)
{
	const uint64_t mark = MARK;
	const int i = number_of((unsigned int)sig);
	struct action *from = is_handed_back(info) ? &first[i] : &previous[i];
	struct sigaction action;
	uint64_t mask;
	uint64_t more;

	if (info->si_code <= 0 && sent_waits(info))
		return;
	const uint64_t version = action_read(from, &action);
	if (action.sa_handler == SIG_IGN && (info->si_code <= 0 || sig == SIGTRAP))
		return;
	if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN ||
	    action.sa_sigaction == window_on_signal ||
	    (action.sa_flags & SA_RESETHAND && !action_reset(from, version))) {
		die(sig, info, context);
		return;
	}
	memcpy((char *)info + MARK_AT, &mark, sizeof(mark));
	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	memcpy(&more, &action.sa_mask, sizeof(more));
	if (!(action.sa_flags & SA_NODEFER))
		more |= WINDOW_SIGNAL_BIT(sig);
	mask |= more;
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, SIGNAL_SET_BYTES);
	/* By the kernel: the return address is the first word of the frame. */
	if ((uintptr_t)frame + 2 * sizeof(uint64_t) == (uintptr_t)context)
		jump_to((uintptr_t)action.sa_sigaction, sig, info, context);
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(sig, info, context);
	else
		action.sa_handler(sig);
}
