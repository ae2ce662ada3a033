/* SPDX-License-Identifier: MIT */
/* test_inject.c - loading an object into a running process leaves it as it was. */
#include "../kernel/common.h"

#include "cli/inject.h"
#include "cli/program.h"

#include <fcntl.h>
#include <time.h>

static const char *folder; /* of the victims */

/* The program, not ourselves, and its threads. */
static void wait_until_it_runs(pid_t pid, char *path, size_t size, const char *program)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	do {
		usleep(10000);
		n = readlink(link, path, size - 1);
		path[n > 0 ? n : 0] = '\0';
	} while (n > 0 && !strstr(path, program));
	usleep(100000);
}

static pid_t start(const char *program, const char *argument, int output)
{
	char path[4096];
	pid_t pid = fork();

	if (!pid) {
		snprintf(path, sizeof(path), "%s/%s", folder, program);
		dup2(output, 1);
		execl(path, program, argument, (char *)NULL);
		_exit(127);
	}
	wait_until_it_runs(pid, path, sizeof(path), program);
	return pid;
}

static void require_ptrace(void)
{
	if (geteuid())
		skip_because("root (to trace another process)");
}

static int inject_once(pid_t pid, const char *object, const char *function, int *result,
		       char *why)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, object);
	return inject(pid, path, function, "hello", NULL, result, why, 256);
}

static void a_busy_program_is_not_disturbed_by_fifty_calls(void **state)
{
	char line[256] = "";
	char why[256] = "";
	int status;
	int out[2];

	require_ptrace();
	assert_int_equal(pipe(out), 0);
	pid_t pid = start("injectee", NULL, out[1]);
	close(out[1]);
	for (int i = 0; i < 50; i++) {
		int result = 0;
		int err = inject_once(pid, "injected.so", "injected_start", &result, why);

		if (err)
			print_message("# %s\n", why);
		assert_int_equal(err, 0);
		/* It is loaded once: the calls go on counting. */
		assert_int_equal(result, 1000 * (i + 1) + (int)strlen("hello 1.5"));
	}
	kill(pid, SIGTERM);
	assert_true(read(out[0], line, sizeof(line) - 1) > 0);
	print_message("# %s", line);
	assert_int_equal(strncmp(line, "ok ", 3), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	close(out[0]);
}

static bool is_traced(pid_t pid)
{
	char tracer[16];

	return program_status(pid, pid, "TracerPid", tracer, sizeof(tracer)) && atoi(tracer);
}

/* Or until the observer has ended: its time inside may be shorter than a look. */
static void wait_until_traced(pid_t pid, pid_t observer)
{
	siginfo_t info = {0};

	while (!is_traced(pid) && !info.si_pid &&
	       !waitid(P_PID, (id_t)observer, &info, WEXITED | WNOHANG | WNOWAIT))
		usleep(50);
}

static pid_t observe(pid_t pid)
{
	char why[256];
	int result;
	pid_t observer = fork();

	if (!observer) {
		inject_once(pid, "injected.so", "injected_start", &result, why);
		_exit(0);
	}
	wait_until_traced(pid, observer);
	return observer;
}

static unsigned int microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned int)now.tv_sec * 1000000u + (unsigned int)now.tv_nsec / 1000u;
}

/* How long an observer is at it that nobody kills. */
static unsigned int time_observed(const char *argument)
{
	pid_t pid = start("injectee", argument, open("/dev/null", O_WRONLY));
	pid_t observer = observe(pid);
	unsigned int start_us = microseconds();

	waitpid(observer, NULL, 0);
	unsigned int took_us = microseconds() - start_us;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return took_us;
}

/* Half of them at its beginning, when nothing of ours is there yet. */
static void observe_and_be_killed(pid_t pid, unsigned int most_us)
{
	pid_t observer = observe(pid);

	usleep((unsigned int)rand() % (rand() % 2 ? most_us : 2000));
	kill(observer, SIGKILL);
	waitpid(observer, NULL, 0);
}

/* Each program is new: what loads the object takes longest, and is done once in it. */
static void kill_observers(const char *argument)
{
	const unsigned int programs = scaled(10);
	char line[256] = "";
	int status;
	int out[2];

	require_ptrace();
	srand(test_seed());
	unsigned int most_us = time_observed(argument);
	print_message("# it takes %u us\n", most_us);
	for (unsigned int i = 0; i < programs; i++) {
		assert_int_equal(pipe(out), 0);
		pid_t pid = start("injectee", argument, out[1]);
		close(out[1]);
		for (int k = 0; k < 10; k++)
			observe_and_be_killed(pid, most_us);
		kill(pid, SIGTERM);
		if (read(out[0], line, sizeof(line) - 1) <= 0)
			snprintf(line, sizeof(line), "not a word\n");
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (strncmp(line, "ok ", 3) != 0)
			print_message("# status %#x, %s", (unsigned int)status, line);
		assert_int_equal(strncmp(line, "ok ", 3), 0);
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
		close(out[0]);
	}
}

static void an_observer_may_be_killed_at_any_moment(void **state)
{
	kill_observers(NULL);
}

static void so_it_may_where_the_first_thread_cannot_be_taken(void **state)
{
	kill_observers("inside");
}

static void what_cannot_be_loaded_is_said(void **state)
{
	char why[256] = "";
	int result = 77;
	int status;
	int out[2];

	require_ptrace();
	assert_int_equal(pipe(out), 0);
	pid_t pid = start("injectee", NULL, out[1]);
	assert_true(inject_once(pid, "nothing.so", "injected_start", &result, why) < 0);
	print_message("# %s\n", why);
	assert_non_null(strstr(why, "cannot read"));
	assert_true(inject_once(pid, "injected.so", "no_such_function", &result, why) < 0);
	print_message("# %s\n", why);
	assert_non_null(strstr(why, "no_such_function"));
	assert_true(inject_once(pid, "counter", "main", &result, why) < 0);
	print_message("# %s\n", why);
	assert_non_null(strstr(why, "refused the object"));
	assert_int_equal(result, 77);
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	pid = start("injectee", "ends", out[1]);
	assert_true(inject_once(pid, "injected.so", "injected_start", &result, why) < 0);
	print_message("# %s\n", why);
	assert_non_null(strstr(why, "first thread has ended"));
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	pid = start("static_victim", NULL, out[1]);
	assert_true(inject_once(pid, "injected.so", "injected_start", &result, why) < 0);
	print_message("# %s\n", why);
	assert_non_null(strstr(why, "statically linked"));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(out[0]);
	close(out[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_busy_program_is_not_disturbed_by_fifty_calls),
		TEST(an_observer_may_be_killed_at_any_moment),
		TEST(so_it_may_where_the_first_thread_cannot_be_taken),
		TEST(what_cannot_be_loaded_is_said),
	};

	folder = argc > 1 ? argv[1] : ".";
	return run_group(tests);
}
