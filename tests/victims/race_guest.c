/* SPDX-License-Identifier: MIT */
/*
 * race_guest.c - what a program may do that must go on as it was while races are searched for:
 * MODE on the command line; exit status 0 when nothing was disturbed.
 */
#include "race_common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long shared_word;
static volatile int is_over;

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

/* Their signals go to the main thread. */
static void start_threads(pthread_t *threads, int n)
{
	sigset_t alarm;
	sigset_t old;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, &old);
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, race_for_ever, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void stop_threads(const pthread_t *threads, int n)
{
	is_over = 1;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static volatile sig_atomic_t own_traps;

static void on_own_trap(int signal)
{
	own_traps++;
}

/* A handler for SIGTRAP of its own, set while the search runs, gets its own traps and no others. */
static int own_sigtrap(void)
{
	struct sigaction action = { .sa_handler = on_own_trap };
	struct sigaction old;
	pthread_t threads[2];

	sigaction(SIGTRAP, &action, NULL);
	start_threads(threads, 2);
	for (int i = 0; i < 100; i++) {
		raise(SIGTRAP);
		__asm__ volatile("int3");
		usleep(5000);
	}
	stop_threads(threads, 2);
	sigaction(SIGTRAP, NULL, &old);
	if (old.sa_handler != on_own_trap)
		fprintf(stderr, "the handler reads back as another\n");
	if (own_traps != 200)
		fprintf(stderr, "%d traps of 200\n", (int)own_traps);
	return own_traps != 200 || old.sa_handler != on_own_trap;
}

/* Threads that block all signals are searched too. */
static int blocked_signals(void)
{
	pthread_t threads[2];
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	start_threads(threads, 2);
	sleep(2);
	stop_threads(threads, 2);
	return 0;
}

/* Calls that end with EINTR when a signal comes: none of ours may come inside one. */
static int interrupted_calls(void)
{
	struct timespec pause = { 0, 2000000 };
	pthread_t threads[2];
	int interrupted = 0;

	start_threads(threads, 2);
	for (int i = 0; i < 500; i++) {
		interrupted += nanosleep(&pause, NULL) != 0;
		interrupted += poll(NULL, 0, 1) < 0;
	}
	stop_threads(threads, 2);
	if (interrupted)
		fprintf(stderr, "%d calls were interrupted\n", interrupted);
	return interrupted != 0;
}

/* All descriptors that the program did not open itself are closed, as daemons do. */
static int closed_descriptors(void)
{
	pthread_t threads[2];
	int wrong = 0;

	for (int fd = 3; fd < 4096; fd++)
		close(fd);
	start_threads(threads, 2);
	for (int i = 0; i < 200; i++) {
		int fds[64];
		for (int n = 0; n < 64; n++)
			fds[n] = open("/dev/null", O_WRONLY);
		usleep(2000);
		for (int n = 0; n < 64; n++)
			wrong += write(fds[n], "x", 1) != 1 || close(fds[n]) != 0;
	}
	stop_threads(threads, 2);
	return wrong != 0;
}

/* Children search on their own. */
static int forks(void)
{
	for (int i = 0; i < 30; i++) {
		pid_t child = fork();
		if (child == 0) {
			pthread_t threads[2];
			start_threads(threads, 2);
			usleep(100000);
			stop_threads(threads, 2);
			_exit(0);
		}
		int status;
		if (waitpid(child, &status, 0) != child || status != 0)
			return 1;
	}
	return 0;
}

/* Many forks while threads run: what handlers do must not end up half done in a child. */
static int fork_storm(void)
{
	pthread_t threads[3];
	int bad = 0;

	start_threads(threads, 3);
	for (int i = 0; i < 300; i++) {
		pid_t child = fork();
		if (child == 0)
			_exit(7);
		int status = 0;
		waitpid(child, &status, 0);
		bad += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
	}
	stop_threads(threads, 3);
	if (bad)
		fprintf(stderr, "%d children ended badly\n", bad);
	return bad != 0;
}

/* A child of vfork() has the memory, but not the signals of its parent: nobody may be held there. */
static __attribute__((noinline)) int vfork_once(void)
{
	pid_t child = vfork();

	if (child == 0) {
		for (volatile long n = 0; n < 3000000; n++)
			;
		_exit(7);
	}
	int status = 0;
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

static int count_events(void)
{
	struct dirent *entry;
	int count = 0;
	DIR *dir = opendir("/proc/self/fd");

	while (dir && (entry = readdir(dir))) {
		char text[64];
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, text, sizeof(text) - 1);

		text[n > 0 ? n : 0] = '\0';
		count += !strcmp(text, "anon_inode:[perf_event]");
	}
	return count;
}

/* Prints the most events that a child had: a copy of one keeps a register in the parent. */
static int fork_events(void)
{
	pthread_t threads[4];
	int most = 0;

	start_threads(threads, 4);
	for (int i = 0; i < 300; i++) {
		int status = 0;
		pid_t child = fork();

		if (!child)
			_exit(count_events());
		waitpid(child, &status, 0);
		most = WEXITSTATUS(status) > most ? WEXITSTATUS(status) : most;
		/* This thread is stalled as well, so the slots hold its id from earlier stalls. */
		for (int n = 0; n < 200000; n++)
			increment();
		usleep(300);
	}
	stop_threads(threads, 4);
	printf("events %d\n", most);
	return 0;
}

static NOINLINE void add_to_all(long *a, long *b, long *c, long *d)
{
	++*a;
	++*b;
	++*c;
	++*d;
}

/* Variables of a frame whose addresses are passed on, more than the tiny tables have room for. */
static int given_locals(void)
{
	pthread_t threads[2];
	int bad = 0;

	start_threads(threads, 2);
	for (long i = 0; i < 100000; i++) {
		long a = i;
		long b = i;
		long c = i;
		long d = i;

		add_to_all(&a, &b, &c, &d);
		bad += a + b + c + d != 4 * i + 4;
	}
	stop_threads(threads, 2);
	return bad != 0;
}

static int vforks(void)
{
	pthread_t threads[2];
	int bad = 0;

	start_threads(threads, 2);
	for (int i = 0; i < 100; i++)
		bad += !vfork_once();
	stop_threads(threads, 2);
	if (bad)
		fprintf(stderr, "%d children ended badly\n", bad);
	return bad != 0;
}

static int exec_self(char **argv)
{
	char *again[] = { argv[0], "blocked_signals", NULL };

	execv("/proc/self/exe", again);
	return 1;
}

/* A lock held while its holder is held: others wait, all go on. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *lock_and_add(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		pthread_mutex_lock(&mutex);
		increment();
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static int locks(void)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, lock_and_add, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	return shared_word != 8 * 20000;
}

static void *little_thread(void *arg)
{
	long *mine = arg;

	for (int i = 0; i < 1000; i++)
		mine[0] += i;
	usleep(100000);
	return NULL;
}

/* Two thousand threads, alive together. */
static int many_threads(void)
{
	static pthread_t threads[2000];
	static long parts[2000][8];
	pthread_attr_t attr;
	int n = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (; n < 2000; n++)
		if (pthread_create(&threads[n], &attr, little_thread, parts[n]))
			break;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < n; i++)
		if (parts[i][0] != 499500)
			return 1;
	return n != 2000;
}

/* Stacks as small as they may be. */
static int small_stacks(void)
{
	pthread_t threads[4];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], &attr, race_for_ever, NULL))
			return 1;
	sleep(1);
	stop_threads(threads, 4);
	return 0;
}

/* As language runtimes do: each thread has a signal stack of 8 KiB, and a page below it that kills. */
static void *race_with_signal_stack(void *arg)
{
	char *room = mmap(NULL, 4096 + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_sp = room + 4096, .ss_size = 8192 };

	mprotect(room, 4096, PROT_NONE);
	sigaltstack(&stack, NULL);
	return race_for_ever(arg);
}

static int signal_stacks(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, race_with_signal_stack, NULL);
	sleep(1);
	stop_threads(threads, 2);
	return 0;
}

static sigjmp_buf start_again;

static void on_alarm(int signal)
{
	siglongjmp(start_again, 1);
}

/* A handler that leaves by siglongjmp, perhaps out of a stall. */
static int jumps(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	volatile int left = 200;
	pthread_t threads[2];

	start_threads(threads, 2);
	sigaction(SIGALRM, &action, NULL);
	sigsetjmp(start_again, 1);
	while (left-- > 0) {
		ualarm(3000, 0);
		for (;;)
			increment();
	}
	stop_threads(threads, 2);
	return 0;
}

#define ALLOW(number) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* From here on what libc needs to have and end threads is allowed: any other call would kill. */
static int allow_little(unsigned int flags)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_rt_sigreturn),
		ALLOW(SYS_rt_sigprocmask),
		ALLOW(SYS_clock_nanosleep),
		ALLOW(SYS_futex),
		ALLOW(SYS_madvise),
		ALLOW(SYS_mmap),
		ALLOW(SYS_mprotect),
		ALLOW(SYS_munmap),
		ALLOW(SYS_clone),
		ALLOW(SYS_clone3),
		ALLOW(SYS_wait4),
		ALLOW(SYS_set_robust_list),
		ALLOW(SYS_rseq),
		ALLOW(SYS_getrandom),
		ALLOW(SYS_exit),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return flags ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) :
		       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int seccomp(void)
{
	pthread_t threads[2];

	start_threads(threads, 2);
	usleep(300000);
	if (allow_little(SECCOMP_FILTER_FLAG_TSYNC))
		return 1;
	usleep(500000);
	stop_threads(threads, 2);
	return 0;
}

/* One that is forked for it, before it has threads, while the first one goes on as it was. */
static int seccomp_child(void)
{
	pthread_t threads[2];
	pthread_t own[2];
	int status = 1;

	start_threads(own, 2);
	usleep(100000);
	pid_t child = fork();

	if (!child) {
		if (allow_little(0))
			_exit(1);
		start_threads(threads, 2);
		usleep(300000);
		stop_threads(threads, 2);
		child = fork();
		if (!child)
			_exit(0);
		waitpid(child, &status, 0);
		_exit(status != 0);
	}
	waitpid(child, &status, 0);
	stop_threads(own, 2);
	return status != 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} guests[] = {
		{ "own_sigtrap", own_sigtrap },
		{ "blocked_signals", blocked_signals },
		{ "interrupted_calls", interrupted_calls },
		{ "closed_descriptors", closed_descriptors },
		{ "forks", forks },
		{ "fork_storm", fork_storm },
		{ "fork_events", fork_events },
		{ "vforks", vforks },
		{ "given_locals", given_locals },
		{ "locks", locks },
		{ "many_threads", many_threads },
		{ "small_stacks", small_stacks },
		{ "signal_stacks", signal_stacks },
		{ "jumps", jumps },
		{ "seccomp", seccomp },
		{ "seccomp_child", seccomp_child },
	};

	if (argc > 1 && !strcmp(argv[1], "exec"))
		return exec_self(argv);
	for (size_t i = 0; argc > 1 && i < sizeof(guests) / sizeof(guests[0]); i++)
		if (!strcmp(argv[1], guests[i].name))
			return guests[i].run();
	return 2;
}
