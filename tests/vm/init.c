/* SPDX-License-Identifier: MIT */
/*
 * init.c - process 1 of the test machine: runs what /tests names, says how each ended, powers
 * off. Relies on nothing but the kernel and the C library.
 *
 * A line of /tests: SECONDS NAME PROGRAM [ARGUMENT]... (blanks separate, no quoting).
 * Output goes to the second serial line, so that the kernel's own messages never cut into it:
 *     @begin NAME, what the program printed, @end NAME exit|signal|timeout NUMBER; at last @done.
 * Before a timeout: what each thread of the program did, twice. Times that grow are no stall.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 512
#define ARGUMENTS_MAX 16

static const struct {
	const char *type;
	const char *where;
} mounts[] = {
	{"devtmpfs", "/dev"}, /* first: the serial line is in it */
	{"proc", "/proc"},
	{"sysfs", "/sys"},
	{"debugfs", "/sys/kernel/debug"},
	{"tracefs", "/sys/kernel/tracing"},
	{"tmpfs", "/tmp"},
	{"tmpfs", "/dev/shm"},
};

static void mount_all(void)
{
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i].where, 0755);
		if (mount(mounts[i].type, mounts[i].where, mounts[i].type, 0, NULL))
			fprintf(stderr, "init: %s: %s\n", mounts[i].where,
				strerror(errno));
	}
}

/* The console that 0 to 2 may be is the kernel's. VM_LINE comes from the kernel's command line. */
static void open_serial_line(void)
{
	const char *line = getenv("VM_LINE");
	struct termios raw;

	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (open("/dev/null", O_RDONLY) != 0)
		return;
	int fd = open(line ? line : "/dev/ttyS1", O_RDWR | O_NOCTTY);
	if (fd != 1)
		return;
	if (!tcgetattr(fd, &raw)) {
		cfmakeraw(&raw); /* no carriage returns */
		tcsetattr(fd, TCSANOW, &raw);
	}
	dup2(fd, 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

static void set_loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static pid_t start(char **arguments)
{
	sigset_t none;
	pid_t pid = fork();

	if (pid)
		return pid;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	execv(arguments[0], arguments);
	fprintf(stderr, "init: %s: %s\n", arguments[0], strerror(errno));
	_exit(127);
}

/* Also reaps what the program left behind. Returns false when it did not end in time. */
static bool wait_until(pid_t pid, double deadline, int *status)
{
	static const struct timespec tick = {.tv_nsec = 100000000};
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (seconds_now() < deadline) {
		for (;;) {
			pid_t ended = waitpid(-1, status, WNOHANG);

			if (ended == pid)
				return true;
			if (ended <= 0)
				break;
		}
		sigtimedwait(&child, NULL, &tick);
	}
	return false;
}

/* One file of a thread in one line. */
static void say_file(int pid, const char *tid, const char *file)
{
	char path[320];
	char text[1024];

	snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", pid, tid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		printf("# %s %s: %s\n", tid, file, line);
}

/* What each thread of a program does that does not end. */
static void say_threads(int pid)
{
	static const char *const files[] = {"stat", "syscall", "stack"};
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *folder = opendir(path);
	if (!folder)
		return;
	for (struct dirent *entry; (entry = readdir(folder));)
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
			if (entry->d_name[0] != '.')
				say_file(pid, entry->d_name, files[i]);
	closedir(folder);
}

static void say_end(const char *name, bool has_ended, int status, int seconds)
{
	if (!has_ended)
		printf("@end %s timeout %d\n", name, seconds);
	else if (WIFSIGNALED(status))
		printf("@end %s signal %d\n", name, WTERMSIG(status));
	else
		printf("@end %s exit %d\n", name, WEXITSTATUS(status));
}

static void run(const char *name, int seconds, char **arguments)
{
	int status = 0;
	double started = seconds_now();

	printf("@begin %s\n", name);

	pid_t pid = start(arguments);
	bool has_ended = wait_until(pid, started + seconds, &status);

	for (int twice = 0; !has_ended && twice < 2; twice++) {
		printf("\n");
		say_threads(pid);
		sleep(1);
	}
	kill(-1, SIGKILL); /* all but ourselves */
	while (waitpid(-1, NULL, 0) > 0)
		;
	/* What was killed may have left a line unfinished. */
	printf("\n# %s: %.1f s\n", name, seconds_now() - started);
	say_end(name, has_ended, status, seconds);
}

static void run_all(const char *list)
{
	char line[LINE_MAX_BYTES];
	FILE *in = fopen(list, "re");

	if (!in) {
		printf("init: %s: %s\n", list, strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), in)) {
		char *words[ARGUMENTS_MAX + 1] = {NULL};
		size_t count = 0;

		for (char *word = strtok(line, " \n"); word && count < ARGUMENTS_MAX;
		     word = strtok(NULL, " \n"))
			words[count++] = word;
		if (count > 2)
			run(words[1], atoi(words[0]), words + 2);
	}
	fclose(in);
	printf("@done\n");
}

int main(void)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	mount_all();
	open_serial_line();
	set_loopback_up();
	setenv("PATH", "/bin", 1);
	setenv("LD_LIBRARY_PATH", "/lib", 1);
	setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 1);
	run_all("/tests");
	fflush(stdout);
	tcdrain(1);
	reboot(RB_POWER_OFF);
	return 1; /* the kernel panics: better than a machine that waits */
}
