/* SPDX-License-Identifier: MIT */
/*
 * own_trap.c - a program that uses SIGTRAP itself, in each way there is: MODE on the command line. It
 * prints what it sees, which must be the same under any tool. Other threads race all the while.
 */
#include "race_common.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 2
#define TIMES 40

static long shared_word;
static volatile int is_over;
static volatile sig_atomic_t seen;
static sigjmp_buf place;
static char alternate[65536] __attribute__((aligned(64)));

static NOINLINE void increment(void)
{
	shared_word++;
}

static void *race_for_ever(void *arg)
{
	while (!is_over)
		increment();
	return NULL;
}

/* Time for samples and stalls, in this thread as well. */
static void work_on(void)
{
	for (int i = 0; i < 200000; i++)
		increment();
}

static int is_in(const sigset_t *set, int signal)
{
	return sigismember(set, signal) == 1;
}

static int is_blocked(int signal)
{
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	return is_in(&now, signal);
}

static sigset_t trap_set(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	return set;
}

static int is_blocked_before; /* a tool was attached since */

static void block(int how)
{
	sigset_t set = trap_set();

	if (how == SIG_BLOCK && is_blocked_before)
		return;
	pthread_sigmask(how, &set, NULL);
}

static void breakpoint(void)
{
	__asm__ volatile("int3");
}

/* ---- handlers ---- */

static void print_frame(int signal, int code)
{
	const char *here = __builtin_frame_address(0);

	seen = seen + 1;
	printf("  signal %d code %d, blocked: trap %d usr1 %d stkflt %d, on the alternate stack: %d\n",
	       signal, code, is_blocked(SIGTRAP), is_blocked(SIGUSR1), is_blocked(SIGSTKFLT),
	       here >= alternate && here < alternate + sizeof(alternate));
	work_on();
}

static void on_plain(int signal)
{
	print_frame(signal, 0);
}

static void on_info(int signal, siginfo_t *info, void *context)
{
	const ucontext_t *c = context;

	print_frame(signal, info->si_code);
	printf("  frame: trap %d usr1 %d, from here %d\n", is_in(&c->uc_sigmask, SIGTRAP),
	       is_in(&c->uc_sigmask, SIGUSR1), info->si_code == SI_TKILL && info->si_pid == getpid());
}

static void install(int flags, int with_mask)
{
	struct sigaction action = { .sa_flags = flags };

	if (flags & SA_SIGINFO)
		action.sa_sigaction = on_info;
	else
		action.sa_handler = on_plain;
	if (with_mask)
		sigaddset(&action.sa_mask, SIGUSR1);
	sigaction(SIGTRAP, &action, NULL);
}

static void print_action(void)
{
	struct sigaction now;

	sigaction(SIGTRAP, NULL, &now);
	printf("  action: flags %x, handler %s, mask usr1 %d trap %d\n", (unsigned int)now.sa_flags,
	       now.sa_handler == SIG_DFL  ? "default" :
	       now.sa_handler == SIG_IGN  ? "ignored" :
	       now.sa_handler == on_plain ? "plain" :
	       now.sa_sigaction == on_info ? "info" :
					     "foreign",
	       is_in(&now.sa_mask, SIGUSR1), is_in(&now.sa_mask, SIGTRAP));
}

static int flags(void)
{
	static const int all[] = { 0, SA_SIGINFO, SA_RESTART, SA_NODEFER, SA_ONSTACK, SA_RESETHAND,
				   SA_NOCLDSTOP, SA_NOCLDWAIT, SA_SIGINFO | SA_ONSTACK | SA_NODEFER,
				   SA_SIGINFO | SA_RESTART | SA_RESETHAND };
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };

	sigaltstack(&stack, NULL);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		printf("flags %x\n", (unsigned int)all[i]);
		for (int n = 0; n < 2; n++) {
			install(all[i], n);
			work_on();
			raise(SIGTRAP);
			print_action();
			install(all[i], n);
			breakpoint();
			print_action();
			printf("  after: trap %d usr1 %d\n", is_blocked(SIGTRAP), is_blocked(SIGUSR1));
		}
	}
	return 0;
}

/* Again, while the handler runs: it comes when that has returned, or at once. */
static volatile int depth;

static void on_again(int signal)
{
	int is_first = seen == 0;

	seen = seen + 1;
	printf("  enter at depth %d\n", depth++);
	work_on();
	if (is_first)
		raise(SIGTRAP);
	printf("  leave at depth %d\n", --depth);
}

static int again(void)
{
	struct sigaction action = { .sa_handler = on_again };

	for (int i = 0; i < 2; i++) {
		action.sa_flags = i ? SA_NODEFER : 0;
		seen = 0;
		sigaction(SIGTRAP, &action, NULL);
		raise(SIGTRAP);
		printf("seen %d\n", (int)seen);
	}
	return 0;
}

static void leave(int signal)
{
	seen = seen + 1;
	work_on();
	siglongjmp(place, 1);
}

static int jump(void)
{
	struct sigaction action = { .sa_handler = leave };
	volatile int i;

	for (volatile int n = 0; n < 3; n++) {
		action.sa_flags = n == 1 ? SA_NODEFER : n == 2 ? SA_ONSTACK : 0;
		sigaction(SIGTRAP, &action, NULL);
		for (i = 0; i < TIMES; i++) {
			if (sigsetjmp(place, 1))
				continue;
			work_on();
			if (i % 2)
				breakpoint();
			else
				raise(SIGTRAP);
			printf("not reached\n");
		}
		printf("left %d times, blocked %d\n", (int)seen, is_blocked(SIGTRAP));
	}
	return 0;
}

/* ---- calls that the signal ends, or not ---- */

static pthread_t first_thread;
static int pipe_fds[2];

/* Asleep in read(), not in a stall. */
static int is_reading(void)
{
	char text[64] = "";
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", getpid());
	FILE *f = fopen(path, "r");
	if (f && !fgets(text, sizeof(text), f))
		text[0] = '\0';
	if (f)
		fclose(f);
	return atoi(text) == SYS_read && text[0] == '0';
}

static void *send_and_write(void *arg)
{
	while (!is_reading())
		usleep(10000);
	pthread_kill(first_thread, SIGTRAP);
	usleep(100000);
	if (write(pipe_fds[1], "x", 1) != 1)
		printf("no write\n");
	return NULL;
}

static void on_quiet(int signal)
{
	seen = seen + 1;
}

static int restart(void)
{
	struct sigaction action = { .sa_handler = on_quiet };
	pthread_t sender;
	char c;

	first_thread = pthread_self();
	for (int i = 0; i < 2 && !pipe(pipe_fds); i++) {
		action.sa_flags = i ? SA_RESTART : 0;
		sigaction(SIGTRAP, &action, NULL);
		pthread_create(&sender, NULL, send_and_write, NULL);
		errno = 0;
		long n = read(pipe_fds[0], &c, 1);
		printf("read: %ld, %s; seen %d\n", n, n < 0 ? strerror(errno) : "-", (int)seen);
		pthread_join(sender, NULL);
	}
	return 0;
}

/* ---- blocked, and taken without a handler ---- */

static void print_pending(void)
{
	sigset_t pending;

	sigpending(&pending);
	printf("pending: trap %d; blocked: trap %d\n", is_in(&pending, SIGTRAP), is_blocked(SIGTRAP));
}

static int pending(void)
{
	install(SA_SIGINFO, 0);
	block(SIG_BLOCK);
	work_on();
	print_pending();
	raise(SIGTRAP);
	raise(SIGTRAP);
	work_on();
	print_pending();
	block(SIG_UNBLOCK);
	print_pending();
	printf("seen %d\n", (int)seen);
	return 0;
}

static int wait_for_it(void)
{
	sigset_t set = trap_set();
	int signal = 0;

	block(SIG_BLOCK);
	for (int i = 0; i < 10; i++) {
		work_on();
		raise(SIGTRAP);
		work_on();
		int err = sigwait(&set, &signal);
		printf("sigwait: %d, signal %d\n", err, signal);
	}
	print_pending();
	return 0;
}

static int timed_wait(void)
{
	const struct timespec none = { 0, 100000000 };
	sigset_t set = trap_set();
	siginfo_t info;

	block(SIG_BLOCK);
	work_on();
	printf("sigtimedwait: %d\n", sigtimedwait(&set, &info, &none));
	raise(SIGTRAP);
	memset(&info, 0, sizeof(info));
	printf("sigwaitinfo: %d", sigwaitinfo(&set, &info));
	printf(", code %d, own %d\n", info.si_code, info.si_pid == getpid());
	kill(getpid(), SIGTRAP);
	memset(&info, 0, sizeof(info));
	printf("sigwaitinfo: %d", sigwaitinfo(&set, &info));
	printf(", code %d, own %d\n", info.si_code, info.si_pid == getpid());
	sigqueue(getpid(), SIGTRAP, (union sigval){ .sival_int = 42 });
	memset(&info, 0, sizeof(info));
	printf("sigwaitinfo: %d", sigwaitinfo(&set, &info));
	printf(", code %d, value %d\n", info.si_code, info.si_value.sival_int);
	printf("sigtimedwait: %d\n", sigtimedwait(&set, &info, &none));
	return 0;
}

static int by_descriptor(void)
{
	sigset_t set = trap_set();
	struct signalfd_siginfo info;

	block(SIG_BLOCK);
	int fd = signalfd(-1, &set, SFD_NONBLOCK);
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	work_on();
	printf("poll: %d\n", poll(&wanted, 1, 100));
	for (int i = 0; i < 5; i++) {
		kill(getpid(), SIGTRAP);
		work_on();
		printf("poll: %d\n", poll(&wanted, 1, 1000));
		long n = read(fd, &info, sizeof(info));
		printf("read: %ld, signal %u\n", n, n > 0 ? info.ssi_signo : 0);
	}
	printf("poll: %d\n", poll(&wanted, 1, 100));
	return 0;
}

/* The same calls by their numbers. */
static int by_number(void)
{
	uint64_t set = 1ull << (SIGTRAP - 1);
	uint64_t old = 0;
	const struct timespec none = { 0, 0 };

	install(SA_SIGINFO, 0);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, sizeof(set));
	work_on();
	raise(SIGTRAP);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &old, sizeof(old));
	printf("blocked %#lx\n", (unsigned long)old);
	syscall(SYS_rt_sigpending, &old, sizeof(old));
	printf("pending %#lx\n", (unsigned long)old);
	printf("taken %ld\n", syscall(SYS_rt_sigtimedwait, &set, NULL, &none, sizeof(set)));
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, &old, sizeof(set));
	breakpoint();
	printf("seen %d\n", (int)seen);
	return 0;
}

/* As servers do: all signals are blocked in all threads, and one thread waits for them. */
static void *wait_for_all(void *arg)
{
	sigset_t all;
	int signal;

	sigfillset(&all);
	for (int i = 0; i < 3; i++) {
		sigwait(&all, &signal);
		printf("thread: signal %d\n", signal);
		if (write(pipe_fds[1], "x", 1) != 1)
			printf("no write\n");
		usleep(20000); /* the next one may come before it waits again */
	}
	return NULL;
}

static int thread_waits(void)
{
	static const int sent[] = { SIGUSR1, SIGTRAP, SIGTERM };
	pthread_t waiter;
	sigset_t all;
	char c;

	sigfillset(&all);
	if (!is_blocked_before)
		pthread_sigmask(SIG_SETMASK, &all, NULL);
	if (pipe(pipe_fds))
		return 1;
	pthread_create(&waiter, NULL, wait_for_all, NULL);
	for (int i = 0; i < 3; i++) {
		work_on();
		kill(getpid(), sent[i]);
		while (read(pipe_fds[0], &c, 1) != 1)
			printf("interrupted\n");
	}
	pthread_join(waiter, NULL);
	printf("blocked: trap %d stkflt %d\n", is_blocked(SIGTRAP), is_blocked(SIGSTKFLT));
	return 0;
}

/* Threads, children and other handlers have the mask that the program gave them. */
static void *print_mask(void *arg)
{
	printf("%s: trap %d usr1 %d stkflt %d\n", (const char *)arg, is_blocked(SIGTRAP),
	       is_blocked(SIGUSR1), is_blocked(SIGSTKFLT));
	return NULL;
}

static void on_usr1(int signal)
{
	print_mask("handler");
}

static int masks(void)
{
	struct sigaction action = { .sa_handler = on_usr1 };
	sigset_t none;
	pthread_t thread;

	sigaddset(&action.sa_mask, SIGTRAP);
	sigaction(SIGUSR1, &action, NULL);
	print_mask("first");
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &action);
	printf("sa_mask: trap %d stkflt %d\n", is_in(&action.sa_mask, SIGTRAP),
	       is_in(&action.sa_mask, SIGSTKFLT));
	block(SIG_BLOCK);
	print_mask("blocked");
	pthread_create(&thread, NULL, print_mask, "thread");
	pthread_join(thread, NULL);
	if (!sigsetjmp(place, 1)) {
		block(SIG_UNBLOCK);
		print_mask("unblocked");
		siglongjmp(place, 1);
	}
	print_mask("after a jump");
	pid_t child = fork();
	if (!child) {
		print_mask("child");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	sigfillset(&none);
	sigdelset(&none, SIGTRAP);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	printf("all but it: trap %d usr1 %d\n", is_blocked(SIGTRAP), is_blocked(SIGUSR1));
	install(SA_SIGINFO, 0);
	breakpoint();
	return 0;
}

/* A handler on an alternate stack that is just large enough for it, with memory below that is used. */
static struct {
	unsigned char below[16384];
	char stack[8192];
} small __attribute__((aligned(4096)));

static void on_small(int signal)
{
	for (int i = 0; i < 30; i++)
		work_on();
}

static int small_stack(void)
{
	struct sigaction action = { .sa_handler = on_small, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = small.stack, .ss_size = sizeof(small.stack) };
	size_t wrong = 0;

	memset(small.below, 0x5a, sizeof(small.below));
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 10; i++)
		raise(SIGUSR1);
	for (size_t i = 0; i < sizeof(small.below); i++)
		wrong += small.below[i] != 0x5a;
	sigaction(SIGUSR1, NULL, &action);
	printf("below the stack: %zu bytes changed; mask: trap %d, stkflt %d\n", wrong,
	       is_in(&action.sa_mask, SIGTRAP), is_in(&action.sa_mask, SIGSTKFLT));
	return 0;
}

/* ---- no handler ---- */

static int ignored(void)
{
	signal(SIGTRAP, SIG_IGN);
	for (int i = 0; i < TIMES; i++) {
		raise(SIGTRAP);
		work_on();
	}
	print_action();
	signal(SIGTRAP, SIG_DFL);
	print_action();
	return 0;
}

static int dies_by_default(void)
{
	work_on();
	breakpoint();
	return 0;
}

static int dies_by_a_signal(void)
{
	install(SA_RESETHAND, 0);
	raise(SIGTRAP);
	raise(SIGTRAP);
	return 0;
}

static int dies_though_ignored(void)
{
	signal(SIGTRAP, SIG_IGN);
	work_on();
	breakpoint();
	return 0;
}

static int dies_blocked(void)
{
	install(0, 0);
	block(SIG_BLOCK);
	work_on();
	breakpoint();
	return 0;
}

static void on_nested(int signal)
{
	printf("  handler\n");
	breakpoint();
}

static int dies_in_handler(void)
{
	signal(SIGTRAP, on_nested);
	work_on();
	breakpoint();
	return 0;
}

/* Once more, under a filter that allows all, as a container has one. */
static int run_filtered(char **argv)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	execv("/proc/self/exe", argv + 1);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} modes[] = {
		{ "flags", flags },
		{ "again", again },
		{ "jump", jump },
		{ "restart", restart },
		{ "masks", masks },
		{ "small_stack", small_stack },
		{ "ignored", ignored },
		{ "pending", pending },
		{ "sigwait", wait_for_it },
		{ "sigtimedwait", timed_wait },
		{ "signalfd", by_descriptor },
		{ "by_number", by_number },
		{ "thread_waits", thread_waits },
		{ "dies_by_default", dies_by_default },
		{ "dies_by_a_signal", dies_by_a_signal },
		{ "dies_though_ignored", dies_though_ignored },
		{ "dies_blocked", dies_blocked },
		{ "dies_in_handler", dies_in_handler },
	};
	pthread_t threads[THREADS];
	int status = 2;
	sigset_t old;
	sigset_t all;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2) {
		for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
			printf("%s\n", modes[i].name);
		return 0;
	}
	if (!strcmp(argv[1], "filtered"))
		return run_filtered(argv);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, race_for_ever, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	/* Until a tool is there, where one is to come; with the signals blocked that it will unblock. */
	if (argc > 2) {
		is_blocked_before = 1;
		pthread_sigmask(SIG_SETMASK, &all, NULL);
		while (access(argv[2], F_OK))
			usleep(10000);
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			status = modes[i].run();
	is_over = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return status;
}
