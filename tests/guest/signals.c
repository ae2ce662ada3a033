/* SPDX-License-Identifier: MIT */
/* signals.c - signals that are sent to a program, and how it takes them. See guest.h. */
#include "guest.h"

#include <poll.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static volatile int taken, last_code, last_value;

static sigset_t only(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	return set;
}

static int mask(int how, int signal)
{
	sigset_t set = only(signal);

	return pthread_sigmask(how, &set, NULL);
}

static int is_blocked(int signal)
{
	sigset_t set;

	pthread_sigmask(SIG_SETMASK, NULL, &set);
	return sigismember(&set, signal);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	last_code = info->si_code;
	last_value = info->si_value.sival_int;
	__atomic_fetch_add(&taken, 1, __ATOMIC_SEQ_CST);
}

static void take(int signal, int flags)
{
	struct sigaction action = { .sa_flags = flags | SA_SIGINFO };

	action.sa_sigaction = on_signal;
	sigaction(signal, &action, NULL);
}

static int reaches(volatile int *value, int goal)
{
	const double end = now() + PATIENCE;

	while (*value < goal && now() < end)
		usleep(200);
	return *value == goal;
}

/* ---- sigwait(): all signals blocked everywhere, as daemons do ---- */

static int block_all(long signal)
{
	sigset_t all;

	(void)signal;
	sigfillset(&all);
	return pthread_sigmask(SIG_BLOCK, &all, NULL) ? 77 : 0;
}

static const char *wait_for(long signal)
{
	sigset_t set = only((int)signal);
	struct timespec limit = { PATIENCE, 0 };
	siginfo_t info;

	for (int i = 0; i < 4; i++) {
		if (i % 2)
			pthread_kill(pthread_self(), (int)signal);
		else
			kill(getpid(), (int)signal);
		work();
		EXPECT(sigtimedwait(&set, &info, &limit) == signal, "sigtimedwait() missed signal %ld", signal);
		/* The C library makes SI_USER of SI_TKILL here. */
		EXPECT(info.si_code == SI_USER && info.si_pid == getpid(), "signal %ld has code %d", signal,
		       info.si_code);
	}
	return NULL;
}

/* ---- signalfd() ---- */

static int signal_fds[65];

static int open_signalfd(long signal)
{
	sigset_t set = only((int)signal);

	mask(SIG_BLOCK, (int)signal);
	signal_fds[signal] = signalfd(-1, &set, SFD_CLOEXEC);
	return signal_fds[signal] < 0 ? 77 : 0;
}

static const char *read_signalfd(long signal)
{
	struct signalfd_siginfo info = {};
	struct pollfd poller = { .fd = signal_fds[signal], .events = POLLIN };

	kill(getpid(), (int)signal);
	work();
	const double end = now() + PATIENCE;

	while (poll(&poller, 1, 1000) != 1 && now() < end)
		;
	EXPECT(poller.revents & POLLIN, "a signalfd has not signal %ld", signal);
	EXPECT(read(signal_fds[signal], &info, sizeof(info)) == sizeof(info), "a signalfd is empty");
	EXPECT(info.ssi_signo == (uint32_t)signal && info.ssi_code == SI_USER,
	       "a signalfd has signal %u code %d", info.ssi_signo, info.ssi_code);
	return NULL;
}

/* ---- blocked, ignored, sent ---- */

static int take_it(long signal)
{
	take((int)signal, 0);
	return 0;
}

static const char *stay_blocked(long signal)
{
	sigset_t pending;
	const int before = taken;

	mask(SIG_BLOCK, (int)signal);
	pthread_kill(pthread_self(), (int)signal);
	work();
	EXPECT(is_blocked((int)signal), "signal %ld is not blocked any more", signal);
	sigpending(&pending);
	EXPECT(sigismember(&pending, (int)signal), "signal %ld is not pending", signal);
	EXPECT(taken == before, "signal %ld was delivered although it is blocked", signal);
	mask(SIG_UNBLOCK, (int)signal);
	EXPECT(taken == before + 1, "signal %ld was delivered %d times", signal, taken - before);
	EXPECT(!is_blocked((int)signal), "signal %ld stays blocked", signal);
	return NULL;
}

static int ignore_it(long signal)
{
	return sigaction((int)signal, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL) ? 77 : 0;
}

static const char *stay_ignored(long signal)
{
	struct sigaction action;

	kill(getpid(), (int)signal);
	pthread_kill(pthread_self(), (int)signal);
	work();
	sigaction((int)signal, NULL, &action);
	EXPECT(action.sa_handler == SIG_IGN, "signal %ld is not ignored any more", signal);
	return NULL;
}

static const char *be_sent(long signal)
{
	int before = taken;

	kill(getpid(), (int)signal);
	EXPECT(reaches(&taken, before + 1), "signal %ld was delivered %d times", signal, taken - before);
	EXPECT(last_code == SI_USER, "signal %ld has code %d", signal, last_code);
	work();
	before = taken;
	pthread_kill(pthread_self(), (int)signal);
	EXPECT(taken == before + 1 && last_code == SI_TKILL, "signal %ld by tgkill(): %d times, code %d",
	       signal, taken - before, last_code);
	pthread_sigqueue(pthread_self(), (int)signal, (union sigval){ .sival_int = 4711 });
	EXPECT(taken == before + 2 && last_value == 4711, "signal %ld lost its value", signal);
	return NULL;
}

/* A handler that the program installs and asks for is what it sees. */
static const char *see_handler(long signal)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_NODEFER }, seen;

	sigaddset(&action.sa_mask, SIGUSR2);
	action.sa_sigaction = on_signal;
	sigaction((int)signal, &action, NULL);
	work();
	sigaction((int)signal, NULL, &seen);
	EXPECT(seen.sa_sigaction == on_signal, "signal %ld has another handler", signal);
	EXPECT((seen.sa_flags & ~0x04000000) == action.sa_flags, "signal %ld has flags %x", signal,
	       seen.sa_flags);
	EXPECT(sigismember(&seen.sa_mask, SIGUSR2), "signal %ld has another mask", signal);
	sigaction((int)signal, &(struct sigaction){ .sa_handler = SIG_DFL }, &seen);
	EXPECT(seen.sa_sigaction == on_signal, "signal %ld had another handler", signal);
	sigaction((int)signal, NULL, &seen);
	EXPECT(seen.sa_handler == SIG_DFL, "signal %ld has a handler by default", signal);
	return NULL;
}

static const char *die_of(int signal)
{
	int status;
	const pid_t child = fork();

	if (!child) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		kill(getpid(), signal);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == signal, "a child did not die of signal %d: %x", signal,
	       status);
	return NULL;
}

static const char *die_by_default(long arg)
{
	static const int all[] = { SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGPROF, SIGALRM };
	const char *what = NULL;

	(void)arg;
	for (int i = 0; i < 6 && !what; i++)
		what = die_of(all[i]);
	return what;
}

/* ---- how handlers run ---- */

static char alternate[65536] __attribute__((aligned(4096)));
static volatile int depth, deepest, is_on_stack, was_blocked;
static sigjmp_buf back;

static int is_here(const void *p)
{
	return (const char *)p >= alternate && (const char *)p < alternate + sizeof(alternate);
}

static void on_stack(int signal, siginfo_t *info, void *context)
{
	stack_t stack;

	sigaltstack(NULL, &stack);
	is_on_stack = is_here(__builtin_frame_address(0)) && stack.ss_flags & SS_ONSTACK;
	work();
	on_signal(signal, info, context);
}

static const char *use_onstack(long signal)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) }, seen;
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };

	action.sa_sigaction = on_stack;
	sigaltstack(&stack, NULL);
	sigaction((int)signal, &action, NULL);
	is_on_stack = 0;
	pthread_kill(pthread_self(), (int)signal);
	EXPECT(is_on_stack, "the handler of signal %ld is not on its stack", signal);
	sigaltstack(NULL, &seen);
	EXPECT(seen.ss_sp == alternate && seen.ss_size == sizeof(alternate) && !seen.ss_flags,
	       "the alternate stack is another one");
	return NULL;
}

static const char *use_resethand(long signal)
{
	struct sigaction seen;
	const int before = taken;

	take((int)signal, SA_RESETHAND);
	pthread_kill(pthread_self(), (int)signal);
	EXPECT(taken == before + 1, "signal %ld was delivered %d times", signal, taken - before);
	sigaction((int)signal, NULL, &seen);
	EXPECT(seen.sa_handler == SIG_DFL, "SA_RESETHAND did not reset signal %ld", signal);
	return NULL;
}

static void nest(int signal, siginfo_t *info, void *context)
{
	depth++;
	deepest = depth > deepest ? depth : deepest;
	was_blocked = is_blocked(signal);
	/* One that comes late must end as well: nothing is nested then. */
	if (depth < 3 && taken < 9)
		pthread_kill(pthread_self(), signal);
	work();
	depth--;
	on_signal(signal, info, context);
}

/* With SA_NODEFER the handler is entered in itself; without, after itself. */
static const char *use_nodefer(long signal)
{
	for (int nodefer = 0; nodefer < 2; nodefer++) {
		struct sigaction action = { .sa_flags = SA_SIGINFO | (nodefer ? SA_NODEFER : 0) };

		action.sa_sigaction = nest;
		sigaction((int)signal, &action, NULL);
		deepest = 0;
		taken = 0;
		if (nodefer) {
			pthread_kill(pthread_self(), (int)signal);
			EXPECT(deepest == 3 && taken == 3 && !was_blocked, "SA_NODEFER: depth %d, %d times",
			       deepest, taken);
		} else {
			depth = 2; /* once */
			pthread_kill(pthread_self(), (int)signal);
			depth = 0;
			EXPECT(taken == 1 && was_blocked, "signal %ld is open in its handler", signal);
		}
	}
	return NULL;
}

static void nest_other(int signal, siginfo_t *info, void *context)
{
	if (signal == SIGUSR1) {
		pthread_kill(pthread_self(), SIGUSR2);
		last_value = taken;
	}
	work();
	on_signal(signal, info, context);
}

/* A signal of the mask of a handler waits for its end; another one does not. */
static const char *use_mask(long arg)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	(void)arg;
	for (int masked = 0; masked < 2; masked++) {
		sigemptyset(&action.sa_mask);
		if (masked)
			sigaddset(&action.sa_mask, SIGUSR2);
		action.sa_sigaction = nest_other;
		sigaction(SIGUSR1, &action, NULL);
		sigaction(SIGUSR2, &action, NULL);
		taken = 0;
		pthread_kill(pthread_self(), SIGUSR1);
		EXPECT(taken == 2, "%d of 2 signals were delivered", taken);
		EXPECT(!is_blocked(SIGUSR2) && !is_blocked(SIGUSR1), "a signal stays blocked");
	}
	return NULL;
}

static void jump(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

static const char *use_longjmp(long signal)
{
	struct sigaction action = { .sa_handler = jump };

	sigaction((int)signal, &action, NULL);
	for (int i = 0; i < 20; i++) {
		if (!sigsetjmp(back, 1)) {
			pthread_kill(pthread_self(), (int)signal);
			return wrong("signal %ld was not delivered", signal);
		}
		EXPECT(!is_blocked((int)signal), "signal %ld stays blocked after a jump", signal);
		step(i);
	}
	return NULL;
}

/* SS_AUTODISARM: in the handler there is no alternate stack, afterwards there is. */
static void disarmed(int signal, siginfo_t *info, void *context)
{
	stack_t stack;

	sigaltstack(NULL, &stack);
	is_on_stack = is_here(__builtin_frame_address(0)) && stack.ss_flags & SS_DISABLE;
	on_signal(signal, info, context);
}

static const char *use_autodisarm(long signal)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate), .ss_flags = (int)(1u << 31) };
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };

	action.sa_sigaction = disarmed;
	sigaltstack(&stack, NULL);
	sigaction((int)signal, &action, NULL);
	pthread_kill(pthread_self(), (int)signal);
	EXPECT(is_on_stack, "SS_AUTODISARM: the stack is armed in the handler");
	sigaltstack(NULL, &stack);
	EXPECT(stack.ss_sp == alternate, "SS_AUTODISARM: the stack is gone after the handler");
	return NULL;
}

/* A pending SIGALRM ends sigsuspend() with the old mask back. */
static const char *suspend(long signal)
{
	sigset_t open;

	take((int)signal, 0);
	mask(SIG_BLOCK, (int)signal);
	pthread_sigmask(SIG_SETMASK, NULL, &open);
	sigdelset(&open, (int)signal);
	const int before = taken;

	pthread_kill(pthread_self(), (int)signal);
	EXPECT(sigsuspend(&open) < 0 && errno == EINTR, "sigsuspend() did not end with EINTR");
	EXPECT(taken == before + 1 && is_blocked((int)signal), "sigsuspend(): %d times, blocked %d",
	       taken - before, is_blocked((int)signal));
	mask(SIG_UNBLOCK, (int)signal);
	return NULL;
}

/* ---- all signals but one are blocked, as in threads of runtimes ---- */

static int block_others(long signal)
{
	sigset_t set;

	take((int)signal, 0);
	sigfillset(&set);
	sigdelset(&set, (int)signal);
	return pthread_sigmask(SIG_SETMASK, &set, NULL) ? 77 : 0;
}

static const char *stay_open(long signal)
{
	const int before = taken;

	EXPECT(!is_blocked((int)signal), "signal %ld is blocked", signal);
	EXPECT(is_blocked(SIGSTKFLT) && is_blocked(64) && is_blocked(SIGUSR1), "other signals are open");
	if (signal == SIGTRAP)
		__asm__ volatile("int3");
	else
		pthread_kill(pthread_self(), (int)signal);
	EXPECT(taken == before + 1, "signal %ld was delivered %d times", signal, taken - before);
	EXPECT(!is_blocked((int)signal), "signal %ld is blocked after its handler", signal);
	step(taken);
	return NULL;
}

/* The signals that no tool uses have a row together: one after the other. */
#define OTHERS 0
static const int others[] = { SIGBUS, SIGILL, SIGPROF, SIGALRM };

static const char *each(const char *(*round)(long), long signal)
{
	const char *what = NULL;

	if (signal != OTHERS)
		return round(signal);
	for (int i = 0; i < 4 && !what; i++)
		what = round(others[i]);
	return what;
}

static int prepare_each(int (*prepare)(long), long signal)
{
	int status = 0;

	if (signal != OTHERS)
		return prepare(signal);
	for (int i = 0; i < 4 && !status; i++)
		status = prepare(others[i]);
	return status;
}

#define EACH(round, prepare)                                                                        \
	static const char *round##_each(long signal)                                                \
	{                                                                                           \
		return each(round, signal);                                                         \
	}                                                                                           \
	static int round##_prepare(long signal)                                                     \
	{                                                                                           \
		return prepare_each(prepare, signal);                                               \
	}
EACH(wait_for, block_all)
EACH(read_signalfd, open_signalfd)
EACH(stay_blocked, take_it)
EACH(stay_ignored, ignore_it)
EACH(be_sent, take_it)

#define OF(name, number)                                                                            \
	{ "sigwait_" name, wait_for_each, number, 0, wait_for_prepare, NULL },                      \
	{ "signalfd_" name, read_signalfd_each, number, 0, read_signalfd_prepare, NULL },           \
	{ "blocked_" name, stay_blocked_each, number, 0, stay_blocked_prepare, NULL },              \
	{ "ignored_" name, stay_ignored_each, number, 0, stay_ignored_prepare, NULL },              \
	{ "sent_" name, be_sent_each, number, 0, be_sent_prepare, NULL }
#define BY(name, number)                                                                            \
	{ "onstack_" name, use_onstack, number, 0, NULL, NULL },                                    \
	{ "resethand_" name, use_resethand, number, 0, NULL, NULL },                                \
	{ "nodefer_" name, use_nodefer, number, 0, NULL, NULL },                                    \
	{ "longjmp_" name, use_longjmp, number, 0, NULL, NULL }

const struct behaviour behaviours[] = {
	/* signalfd and kill(): every thread has it blocked, which the workers inherit. */
	OF("trap", SIGTRAP), OF("segv", SIGSEGV), OF("others", OTHERS), BY("trap", SIGTRAP),
	BY("segv", SIGSEGV),
	{ "handler_seen_trap", see_handler, SIGTRAP, 0, NULL, NULL },
	{ "handler_seen_segv", see_handler, SIGSEGV, 0, NULL, NULL },
	{ "open_trap", stay_open, SIGTRAP, 0, block_others, NULL },
	{ "open_segv", stay_open, SIGSEGV, 0, block_others, NULL },
	{ "autodisarm", use_autodisarm, SIGUSR1, 0, NULL, NULL },
	{ "sigsuspend", suspend, SIGALRM, 0, NULL, NULL },
	{ "handler_mask", use_mask, 0, 0, NULL, NULL },
	{ "dies_by_default", die_by_default, 0, 0, NULL, NULL },
	{},
};
