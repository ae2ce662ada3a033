/* SPDX-License-Identifier: MIT */
/* processes.c - children of all kinds, descriptors, limits and confinement. See guest.h. */
#include "guest.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static int wait_status(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* ---- fork ---- */

static const char *fork_once(long arg)
{
	const pid_t child = fork();

	(void)arg;
	EXPECT(child >= 0, "fork(): %s", strerror(errno));
	if (!child) {
		work();
		_exit(control->wrong[0] ? 1 : 7);
	}
	const int status = wait_status(child);

	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child ended with %x", status);
	return NULL;
}

static void *fork_in_thread(void *arg)
{
	fork_once(0);
	return arg;
}

static const char *fork_from_threads(long arg)
{
	pthread_t thread[3];

	(void)arg;
	for (int i = 0; i < 3; i++)
		EXPECT(!pthread_create(&thread[i], NULL, fork_in_thread, NULL), "cannot create a thread");
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	return NULL;
}

/* A child that goes through exit(), with threads of its own. */
static void *end_child(void *arg)
{
	work();
	return arg;
}

static const char *fork_and_exit(long arg)
{
	const pid_t child = fork();

	(void)arg;
	if (!child) {
		pthread_t thread;

		if (!pthread_create(&thread, NULL, end_child, NULL))
			pthread_join(thread, NULL);
		exit(3);
	}
	const int status = wait_status(child);

	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3, "a child ended with %x", status);
	return NULL;
}

/* ---- other programs ---- */

static const char *run_vfork(long arg)
{
	char *const words[] = { "/bin/true", NULL };
	const pid_t child = vfork();

	(void)arg;
	if (!child) {
		execv(words[0], words);
		_exit(9);
	}
	const int status = wait_status(child);

	EXPECT(status == 0, "a child of vfork() ended with %x", status);
	return NULL;
}

static const char *run_spawn(long arg)
{
	char *const words[] = { "sh", "-c", "exit 5", NULL };
	pid_t child;
	const int error = posix_spawnp(&child, "sh", NULL, NULL, words, environ);

	(void)arg;
	EXPECT(!error, "posix_spawn(): %s", strerror(error));
	const int status = wait_status(child);

	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 5, "a child of posix_spawn() ended with %x", status);
	return NULL;
}

/*
 * What a program inherits by execve(): signals that are ignored or blocked. It asks by itself (guest_main.c): a tool
 * may be in it too, and then the kernel blocks another signal in place of one.
 */
static const char *inherit(long arg)
{
	const uint64_t wanted = 1ul << (SIGTRAP - 1) | 1ul << (SIGSEGV - 1) | 1ul << (SIGPROF - 1) | 1ul << (SIGUSR1 - 1);
	int out[2];
	FILE *file = tmpfile();
	sigset_t set;

	(void)arg;
	EXPECT(file && !pipe2(out, O_CLOEXEC), "cannot make a file");
	const pid_t child = fork();

	if (!child) {
		static const int signals[] = { SIGTRAP, SIGSEGV, SIGPROF, SIGUSR1 };

		sigemptyset(&set);
		for (int i = 0; i < 4; i++) {
			signal(signals[i], SIG_IGN);
			sigaddset(&set, signals[i]);
		}
		sigprocmask(SIG_SETMASK, &set, NULL);
		dup2(fileno(file), 1);
		execlp("/proc/self/exe", "inherited", "inherited", NULL);
		_exit(9);
	}
	const int status = wait_status(child);
	uint64_t blocked = 0, ignored = 0;

	rewind(file);
	const int n = fscanf(file, "%lx %lx", &blocked, &ignored);

	fclose(file);
	close(out[0]);
	close(out[1]);
	EXPECT(!status && n == 2, "a program ended with %x", status);
	EXPECT((blocked & wanted) == wanted, "a program lost blocked signals: %lx", blocked);
	EXPECT((ignored & wanted) == wanted, "a program lost ignored signals: %lx", ignored);
	EXPECT((blocked & ~wanted) == 0, "a program has more blocked signals: %lx", blocked);
	return NULL;
}

/* A daemon: two forks, a session of its own, and the first parent has gone. */
static const char *make_daemon(long arg)
{
	int p[2];
	char c = 0;

	(void)arg;
	EXPECT(!pipe(p), "cannot make a pipe");
	const pid_t child = fork();

	if (!child) {
		setsid();
		if (fork())
			_exit(0);
		work();
		c = 'd';
		_exit(write(p[1], &c, 1) != 1);
	}
	const int status = wait_status(child);

	close(p[1]);
	const ssize_t n = read(p[0], &c, 1);

	close(p[0]);
	EXPECT(!status && n == 1 && c == 'd', "a daemon is not there: %x, %zd bytes", status, n);
	return NULL;
}

/* The program replaces itself: with the same name and process. */
static const char *exec_itself(long arg)
{
	static int rounds;
	char own[4096];

	(void)arg;
	work();
	if (++rounds < 20 || control->stop || control->hold)
		return NULL;
	const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	/* The name of CONTROL is the last argument. */
	char words[8192];
	const int fd = open("/proc/self/cmdline", O_RDONLY);
	const ssize_t bytes = read(fd, words, sizeof(words) - 1);

	close(fd);
	EXPECT(n > 0 && bytes > 0, "cannot read the command line");
	own[n] = 0;
	words[bytes] = 0;
	char *name = words + strlen(words) + 1, *file = name + strlen(name) + 1;

	control->entered++;
	execl(own, own, name, file, NULL);
	return wrong("execl(): %s", strerror(errno));
}

/* It traces a child of its own, as a debugger. */
static const char *trace_child(long arg)
{
	const pid_t child = fork();

	(void)arg;
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		raise(SIGTRAP);
		_exit(4);
	}
	int status = wait_status(child);

	EXPECT(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "a traced child: %x", status);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	status = wait_status(child);
	EXPECT(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "a traced child at SIGTRAP: %x", status);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	status = wait_status(child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 4, "a traced child ended with %x", status);
	return NULL;
}

/* A child stops and continues it. */
static const char *stop_and_continue(long arg)
{
	const pid_t self = getpid(), child = fork();

	(void)arg;
	if (!child) {
		kill(self, SIGSTOP);
		usleep(3000);
		kill(self, SIGCONT);
		_exit(0);
	}
	work();
	const int status = wait_status(child);

	EXPECT(!status, "a child ended with %x", status);
	return NULL;
}

/* ---- descriptors ---- */

/* The file holds what is written by this number, and by nothing else. */
static const char *own_numbers(int first)
{
	int fd[6];

	for (int i = 0; i < 6; i++) {
		fd[i] = memfd_create("own", MFD_CLOEXEC);
		EXPECT(fd[i] >= first, "memfd_create(): %s", strerror(errno));
		EXPECT(write(fd[i], "0123456789", 10) == 10, "cannot write to a file");
	}
	work();
	for (int i = 0; i < 6; i++) {
		char text[16] = "";
		struct stat about;

		EXPECT(!fstat(fd[i], &about) && about.st_size == 10, "a file of 10 bytes has %ld", about.st_size);
		EXPECT(pread(fd[i], text, 10, 0) == 10 && !strcmp(text, "0123456789"), "a file holds '%s'", text);
		close(fd[i]);
	}
	return NULL;
}

static const char *close_all(long arg)
{
	(void)arg;
	const char *what = own_numbers(3);

	closefrom(3);
	return what ? what : own_numbers(3);
}

/* It uses fixed numbers, as shells and servers do. */
static const char *use_numbers(long arg)
{
	static const int numbers[] = { 10, 63, 100, 255, 511 };

	(void)arg;
	for (int i = 0; i < 5; i++)
		EXPECT(dup2(1, numbers[i]) == numbers[i], "dup2(): %s", strerror(errno));
	work();
	for (int i = 0; i < 5; i++)
		EXPECT(!close(numbers[i]), "descriptor %d was closed by another", numbers[i]);
	return NULL;
}

/* The lowest free number is given, which old programs count on. */
static const char *lowest_number(long arg)
{
	(void)arg;
	const int a = open("/", O_RDONLY), b = open("/", O_RDONLY);

	close(a);
	const int c = open("/", O_RDONLY);

	close(b);
	close(c);
	work();
	EXPECT(a < 10 && b < 12 && c == a, "open() gave %d, %d, %d", a, b, c);
	return NULL;
}

/* ---- limits ---- */

static int limit_files(long n)
{
	return setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)n, (rlim_t)n }) ? 77 : 0;
}

static const char *reach_limit(long n)
{
	int fd[64], count = 0;

	while (count < 64 && (fd[count] = dup(1)) >= 0)
		count++;
	for (int i = 0; i < count; i++)
		close(fd[i]);
	EXPECT(count >= n - 10 && count <= n, "%d of %ld descriptors are there", count, n);
	work();
	return NULL;
}

static int limit_sizes(long bytes)
{
	return setrlimit(RLIMIT_FSIZE, &(struct rlimit){ (rlim_t)bytes, (rlim_t)bytes }) ? 77 : 0;
}

static __thread volatile long too_large;

static void count_too_large(int number)
{
	(void)number;
	too_large++;
}

/* The signal of its own write, and no other: one that it did not cause ends most programs. */
static const char *reach_size(long limit)
{
	static __thread long writes;
	const struct sigaction ours = { .sa_handler = count_too_large };
	int fd = memfd_create("own", MFD_CLOEXEC);

	EXPECT(fd >= 0 && !sigaction(SIGXFSZ, &ours, NULL), "memfd_create() or sigaction() fails");
	EXPECT(pwrite(fd, "x", 1, limit) == -1 && errno == EFBIG, "a file became larger than its limit");
	close(fd);
	EXPECT(too_large == ++writes, "SIGXFSZ came for what the program did not write");
	work();
	return NULL;
}

static int limit_memory(long megabytes)
{
	struct rlimit all = { (rlim_t)megabytes << 20, (rlim_t)megabytes << 20 };

	return setrlimit(RLIMIT_AS, &all) ? 77 : 0;
}

static const char *allocate_much(long arg)
{
	char *p = malloc(100 << 20);

	(void)arg;
	EXPECT(p, "malloc(100 MiB) fails");
	p[99 << 20] = 1;
	free(p);
	work();
	return NULL;
}

static int lock_memory(long arg)
{
	(void)arg;
	return mlockall(MCL_CURRENT | MCL_FUTURE) ? 77 : 0;
}

/* ---- confinement ---- */

/* What it does itself; all else is deadly. */
static int filter_calls(long arg)
{
	struct sock_filter forbid[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 298 /* perf_event_open */, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 41 /* socket */, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 59 /* execve */, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 101 /* ptrace */, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(forbid) / sizeof(forbid[0]), forbid };

	(void)arg;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? 77 : 0;
}

static int leave_root(long arg)
{
	static char empty[] = "root-XXXXXX";

	(void)arg;
	if (!mkdtemp(empty) || chroot(empty) || chdir("/"))
		return 77;
	return 0;
}

static int give_up_user(long arg)
{
	(void)arg;
	return setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) ? 77 : 0;
}

static int be_undumpable(long arg)
{
	(void)arg;
	return prctl(PR_SET_DUMPABLE, 0) ? 77 : 0;
}

static const char *stay_undumpable(long arg)
{
	(void)arg;
	work();
	EXPECT(!prctl(PR_GET_DUMPABLE), "the process became dumpable");
	return NULL;
}

static const char *only_work(long arg)
{
	(void)arg;
	work();
	return NULL;
}

static volatile int children;

static void on_child(int signal)
{
	(void)signal;
	children++;
}

static int count_children(long arg)
{
	(void)arg;
	return signal(SIGCHLD, on_child) == SIG_ERR ? 77 : 0;
}

/* Each child is told once, and no other child is there. */
static const char *hear_of_child(long arg)
{
	children = 0;
	const char *what = fork_once(arg);

	for (double end = now() + PATIENCE; !children && now() < end;)
		usleep(200);
	EXPECT(children == 1, "SIGCHLD came %d times", children);
	EXPECT(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "there is another child");
	return what;
}

const struct behaviour behaviours[] = {
	{ "fork", fork_once, 0, 0, NULL, NULL },
	{ "fork_from_threads", fork_from_threads, 0, 0, NULL, NULL },
	{ "fork_and_exit", fork_and_exit, 0, 0, NULL, NULL },
	{ "vfork", run_vfork, 0, 0, NULL, NULL },
	{ "posix_spawn", run_spawn, 0, 0, NULL, NULL },
	{ "exec_inherits", inherit, 0, 0, NULL, NULL },
	{ "exec_itself", exec_itself, 0, 0, NULL, NULL },
	{ "daemon", make_daemon, 0, 0, NULL, NULL },
	{ "traces_child", trace_child, 0, 0, NULL, NULL },
	{ "stop_continue", stop_and_continue, 0, 0, NULL, NULL },
	{ "sigchld", hear_of_child, 0, 0, count_children, NULL },
	/* Alone: it would close a file that a thread that works has just opened, and that thread one of these. */
	{ "closefrom", close_all, 0, ALONE, NULL, NULL },
	{ "fixed_descriptors", use_numbers, 0, 0, NULL, NULL },
	{ "lowest_descriptor", lowest_number, 0, ALONE, NULL, NULL },
	{ "limit_nofile", reach_limit, 24, 0, limit_files, NULL },
	{ "limit_fsize", reach_size, 3000, 0, limit_sizes, NULL },
	{ "limit_as", allocate_much, 300, 0, limit_memory, NULL },
	{ "mlockall", only_work, 0, 0, lock_memory, NULL },
	{ "seccomp", only_work, 0, 0, filter_calls, NULL },
	{ "chroot", only_work, 0, 0, leave_root, NULL },
	{ "other_user", only_work, 0, 0, give_up_user, NULL },
	{ "undumpable", stay_undumpable, 0, 0, be_undumpable, NULL },
	{},
};
