/* SPDX-License-Identifier: MIT */
/* test_inject.c - loading an object into a running process leaves it as it was. */
#include "../kernel/common.h"

#include "cli/act/snapshot.h"
#include "cli/inject/inject.h"
#include "cli/inject/inject_return.h"
#include "cli/launch/program.h"

#include <fcntl.h>
#include <sys/prctl.h>
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
		setenv("OPENS_FILES", "1", 1);
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

static int inject_once(pid_t pid, const char *object, const char *function, int *result, char *why)
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
	siginfo_t info = { 0 };

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

#define WAITERS_MAX 24
#define WAIT_SECONDS "8"

/* Calls that the kernel continues, and how each ends. */
static const char *const continued[] = { "nanosleep 0 0 ", "poll 0 0 ", "futex -1 110 " };

struct waiter {
	pid_t pid;
	int out;
	const char *ending;
};

static struct waiter start_waiter(const char *ending)
{
	char path[4096];
	char call[32];
	int out[2];

	snprintf(path, sizeof(path), "%s/waits", folder);
	snprintf(call, sizeof(call), "%.*s", (int)strcspn(ending, " "), ending);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		dup2(out[1], 1);
		execl(path, path, call, WAIT_SECONDS, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	return (struct waiter){ pid, out[0], ending };
}

/* Where the code is that made the call that the process waits in. 0: it waits in none. */
static uint64_t code_of_call(pid_t pid)
{
	char path[32];
	char text[256];

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *last = strrchr(text, ' ');
	return last ? strtoull(last, NULL, 16) : 0;
}

/* It waits again, by no code of its own, and by none that was mapped. */
static bool waits_elsewhere(pid_t pid, uint64_t before)
{
	uint64_t start = 0;
	uint64_t end = 0;
	uint64_t now = 0;

	for (int look = 0; !now && look < 1000; look++) {
		usleep(1000);
		now = code_of_call(pid);
	}
	return now && now != before && program_mapping(pid, NULL, now, &start, &end) &&
	       end - start != RETURN_BYTES;
}

/* Until it is in its first call for the observer, which is mmap(2); or the observer has ended. */
static void wait_until_it_maps(pid_t pid, pid_t observer)
{
	siginfo_t info = { 0 };
	char path[32];
	char text[256] = "";

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (strncmp(text, "9 ", 2) != 0 && !info.si_pid &&
	       !waitid(P_PID, (id_t)observer, &info, WEXITED | WNOHANG | WNOWAIT))
		text[pread(fd, text, sizeof(text) - 1, 0) > 0 ? 2 : 0] = '\0';
	close(fd);
}

static bool kill_before_the_way_back(pid_t pid)
{
	uint64_t before = code_of_call(pid);
	pid_t observer = observe(pid);

	wait_until_it_maps(pid, observer);
	kill(observer, SIGKILL);
	waitpid(observer, NULL, 0);
	return waits_elsewhere(pid, before);
}

static bool ended_as_alone(const struct waiter *w)
{
	char line[256] = "";
	int status;
	ssize_t n = read(w->out, line, sizeof(line) - 1);
	bool is_as_alone = n > 0 && !strncmp(line, w->ending, strlen(w->ending)) &&
			   atoi(line + strlen(w->ending)) >= 1000 * atoi(WAIT_SECONDS) - 2;

	if (!is_as_alone)
		print_message("# not %s: %s", w->ending, n > 0 ? line : "not a word\n");
	close(w->out);
	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	return is_as_alone;
}

/* Every other one meets a second observer, which is not killed. */
static void a_call_goes_on_after_a_kill_at_the_first_step(void **state)
{
	const size_t least = scaled(12) < WAITERS_MAX ? scaled(12) : WAITERS_MAX;
	struct waiter waiters[WAITERS_MAX];
	char why[256] = "";
	size_t killed = 0;
	size_t aimed = 0;
	size_t good = 0;
	int result;

	require_ptrace();
	for (size_t i = 0; i < WAITERS_MAX; i++)
		waiters[i] = start_waiter(continued[i % 3]);
	usleep(300000);
	for (size_t i = 0; i < WAITERS_MAX && (i < least || !aimed); i++, killed++) {
		aimed += kill_before_the_way_back(waiters[i].pid);
		if (i % 2 &&
		    inject_once(waiters[i].pid, "injected.so", "injected_start", &result, why) &&
		    code_of_call(waiters[i].pid)) /* it has not ended on a busy machine */
			fail_msg("%s", why);
	}
	for (size_t i = 0; i < WAITERS_MAX; i++)
		good += ended_as_alone(&waiters[i]);
	print_message("# %zu of %zu kills came before the way back\n", aimed, killed);
	assert_int_equal(good, WAITERS_MAX);
	if (!aimed)
		skip_because("a CPU that sees the moment");
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

static pid_t start_storm(pid_t pid, int number)
{
	pid_t storm = fork();

	if (!storm) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!kill(pid, number))
			usleep(20);
		_exit(0);
	}
	return storm;
}

static void use_nothing(pid_t copy, void *arg)
{
	(void)copy;
	(void)arg;
}

/* SIGCONT wakes a traced thread in the middle of fork(2), which the kernel then begins again. */
static void a_snapshot_in_a_storm_of_signals_is_made(void **state)
{
	const struct snapshot_use use = { use_nothing, NULL };
	char why[256] = "";
	unsigned int failed = 0;

	require_ptrace();
	pid_t pid = start("injectee", NULL, open("/dev/null", O_WRONLY));
	pid_t storms[2] = { start_storm(pid, SIGCONT), start_storm(pid, SIGCONT) };
	for (int i = 0; i < 150; i++) {
		struct snapshot taken;

		if (snapshot_take(pid, pid, 0, &use, &taken, why, sizeof(why))) {
			print_message("# %s\n", why);
			failed++;
		}
	}
	for (int i = 0; i < 2; i++) {
		kill(storms[i], SIGKILL);
		waitpid(storms[i], NULL, 0);
	}
	assert_int_equal(kill(pid, 0), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_busy_program_is_not_disturbed_by_fifty_calls),
		TEST(an_observer_may_be_killed_at_any_moment),
		TEST(so_it_may_where_the_first_thread_cannot_be_taken),
		TEST(a_call_goes_on_after_a_kill_at_the_first_step),
		TEST(what_cannot_be_loaded_is_said),
		TEST(a_snapshot_in_a_storm_of_signals_is_made),
	};

	folder = argc > 1 ? argv[1] : ".";
	return run_group(tests);
}
