/* SPDX-License-Identifier: MIT */
/* test_race_library.c - trapline_race_start(): a program looks for races in itself. */
#include "../kernel/common.h"

#include <dirent.h>
#include <sys/syscall.h>

#include <trapline/tools.h>

static long shared_word;
static long locked_word;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_over;

static __attribute__((noinline, noclone)) void increment(void)
{
	shared_word++;
}

static void *race_on(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		increment();
	return NULL;
}

static void *count_with_lock(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		pthread_mutex_lock(&lock);
		locked_word++;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void begin(void *(*run)(void *), pthread_t *threads)
{
	__atomic_store_n(&is_over, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, NULL), 0);
}

static void end(pthread_t *threads)
{
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

struct seen {
	int reports;
	int complete;
	uint32_t grade;
	uint64_t address;
	pid_t reader;
	char json[800]; /* of the last one, its beginning */
};

static int is_side_complete(const struct trapline_race_side *side)
{
	const char *module = side && side->frame_count ? side->frames[0].module : NULL;

	return module && strstr(module, "test_race_library") && side->frame_count > 1 &&
	       side->frames[0].offset && side->tid && side->size == sizeof(long) &&
	       side->address == (uintptr_t)&shared_word && side->access == TRAPLINE_READ_WRITE &&
	       side->ip - (uintptr_t)increment < 64 && side->thread[0];
}

static void on_report(void *arg, const struct trapline_race_report *report)
{
	struct seen *seen = arg;

	seen->grade = report->grade;
	seen->address = report->address;
	seen->reader = (pid_t)syscall(SYS_gettid);
	seen->complete = is_side_complete(report->first) && is_side_complete(report->second) &&
			 report->first->tid != report->second->tid && report->len == 8 &&
			 report->json_length == strlen(report->json) &&
			 report->json[report->json_length - 1] == '}' &&
			 strstr(report->json, "{\"type\":\"race\",\"kind\":\"write-write\",\"grade\":\"A\"");
	snprintf(seen->json, sizeof(seen->json), "%s", report->json);
	__atomic_add_fetch(&seen->reports, 1, __ATOMIC_SEQ_CST);
}

static int reports_of(const struct seen *seen)
{
	return __atomic_load_n(&seen->reports, __ATOMIC_SEQ_CST);
}

/* Events and threads that a search has. */
static int count(const char *folder, const char *link)
{
	char path[64 + 256];
	char target[64];
	int n = 0;
	DIR *d = opendir(folder);

	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		ssize_t length = link ? readlink(path, target, sizeof(target) - 1) : 0;
		target[length > 0 ? length : 0] = '\0';
		n += e->d_name[0] != '.' && (!link || strstr(target, link));
	}
	closedir(d);
	return n;
}

static int count_events(void)
{
	return count("/proc/self/fd", "perf_event");
}

static int count_threads(void)
{
	return count("/proc/self/task", NULL);
}

static struct trapline *open_self(void)
{
	struct trapline *self = NULL;

	assert_int_equal(trapline_open(0, NULL, &self), 0);
	return self;
}

static void a_race_of_running_threads_is_reported_once(void **state)
{
	struct trapline_race_stats stats = { .size = sizeof(stats) };
	struct trapline *self = open_self();
	struct trapline_race *race = NULL;
	struct seen seen = { 0 };
	TRAPLINE_OPTS(race, opts);
	pthread_t threads[2];

	begin(race_on, threads);
	opts.budget_ppm = 200000;
	opts.report = on_report;
	opts.arg = &seen;
	assert_int_equal(trapline_race_start(self, &opts, &race), 0);
	for (int i = 0; i < 3000 && !reports_of(&seen); i++)
		usleep(10000);
	usleep(500000);
	assert_int_equal(trapline_race_stats(race, &stats), 0);
	trapline_race_stop(race);
	/* The same pair of places, however often it is found. */
	if (reports_of(&seen) != 1)
		printf("# the last of %d: %s\n", reports_of(&seen), seen.json);
	assert_int_equal(reports_of(&seen), 1);
	assert_true(seen.complete);
	assert_int_equal(seen.grade, TRAPLINE_RACE_A);
	assert_int_equal(seen.address, (uintptr_t)&shared_word);
	assert_true(seen.reader && seen.reader != syscall(SYS_gettid));
	assert_true(stats.stalls > 0 && stats.found > 0 && stats.sites > 0 && stats.run_ns > 0);
	assert_int_equal(stats.reported, 1);
	assert_true(stats.threads >= 2);
	assert_int_equal(count_events(), 0);
	end(threads);
	trapline_close(self);
}

static void a_lock_is_no_race(void **state)
{
	struct trapline_race_stats stats = { .size = sizeof(stats) };
	struct trapline *self = open_self();
	struct trapline_race *race = NULL;
	struct seen seen = { 0 };
	TRAPLINE_OPTS(race, opts);
	pthread_t threads[2];

	begin(count_with_lock, threads);
	opts.budget_ppm = 500000;
	opts.grade = TRAPLINE_RACE_B;
	opts.report = on_report;
	opts.arg = &seen;
	assert_int_equal(trapline_race_start(self, &opts, &race), 0);
	for (int i = 0; i < 6000 && stats.stalls < 20; i++) {
		usleep(10000);
		trapline_race_stats(race, &stats);
	}
	trapline_race_stop(race);
	end(threads);
	assert_true(stats.stalls >= 20);
	assert_int_equal(reports_of(&seen), 0);
	trapline_close(self);
}

static void reports_are_lines_in_a_file(void **state)
{
	struct trapline *self = open_self();
	struct trapline_race *race = NULL;
	TRAPLINE_OPTS(race, opts);
	char line[32768] = "";
	pthread_t threads[2];
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	begin(race_on, threads);
	opts.budget_ppm = 200000;
	opts.fd = fds[1];
	assert_int_equal(trapline_race_start(self, &opts, &race), 0);
	ssize_t n = read(fds[0], line, sizeof(line) - 1);
	trapline_race_stop(race);
	end(threads);
	assert_true(n > 0 && line[n - 1] == '\n');
	assert_non_null(strstr(line, "\"type\":\"race\""));
	assert_non_null(strstr(line, "\"module\":\"test_race_library\""));
	assert_non_null(strstr(line, "\"module_offset\":\"0x"));
	close(fds[0]);
	close(fds[1]);
	trapline_close(self);
}

/*
 * There is no command whose end could be the search's. Who reads the lines may go: neither the program
 * nor the search ends with that, and what was not written is counted.
 */
static void a_reader_of_the_lines_may_go(void **state)
{
	struct trapline_race_stats stats = { .size = sizeof(stats) };
	struct trapline *self = open_self();
	struct trapline_race *race = NULL;
	TRAPLINE_OPTS(race, opts);
	pthread_t threads[2];
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	close(fds[0]);
	begin(race_on, threads);
	opts.budget_ppm = 200000;
	opts.fd = fds[1];
	assert_int_equal(trapline_race_start(self, &opts, &race), 0);
	for (int i = 0; i < 3000 && !stats.lost; i++) {
		usleep(10000);
		assert_int_equal(trapline_race_stats(race, &stats), 0);
	}
	assert_true(stats.lost > 0);
	uint64_t stalls = stats.stalls;
	for (int i = 0; i < 3000 && stats.stalls == stalls; i++) {
		usleep(10000);
		trapline_race_stats(race, &stats);
	}
	assert_true(stats.stalls > stalls);
	assert_true(count_events() > 0);
	trapline_race_stop(race);
	assert_int_equal(count_events(), 0);
	end(threads);
	close(fds[1]);
	trapline_close(self);
}

static void nothing_stays_after_a_hundred_searches(void **state)
{
	struct trapline *self = open_self();
	TRAPLINE_OPTS(race, opts);
	struct seen seen = { 0 };
	pthread_t threads[2];

	begin(race_on, threads);
	int before = count_threads();
	opts.report = on_report;
	opts.arg = &seen;
	for (int i = 0; i < 100; i++) {
		struct trapline_race *race = NULL;

		assert_int_equal(trapline_race_start(self, &opts, &race), 0);
		assert_true(count_events() > 0);
		usleep(2000);
		trapline_race_stop(race);
		assert_int_equal(count_events(), 0);
	}
	assert_int_equal(count_threads(), before);
	end(threads);
	trapline_close(self);
}

static void a_second_search_is_refused(void **state)
{
	struct trapline *self = open_self();
	struct trapline_race *race = NULL;
	struct trapline_race *other = NULL;
	TRAPLINE_OPTS(race, opts);
	struct seen seen = { 0 };
	char why[256];

	opts.report = on_report;
	opts.arg = &seen;
	assert_int_equal(trapline_race_start(self, &opts, &race), 0);
	assert_int_equal(trapline_race_start(self, &opts, &other), -EBUSY);
	trapline_explain(-EBUSY, why, sizeof(why));
	assert_non_null(strstr(why, "runs in this process already"));
	assert_null(other);
	assert_true(count_events() > 0);
	trapline_race_stop(race);
	trapline_race_stop(NULL);
	assert_int_equal(trapline_race_start(self, &opts, &race), 0);
	trapline_race_stop(race);
	trapline_close(self);
}

static void taken_registers_are_named(void **state)
{
	static long never[4];
	struct trapline *self = open_self();
	struct trapline_event *watches[4] = { NULL };
	struct trapline_race *race = NULL;
	TRAPLINE_OPTS(race, opts);
	TRAPLINE_OPTS(event, event_opts);
	struct seen seen = { 0 };
	char why[256];
	int taken = 0;

	while (taken < 4 && !trapline_watch(self, (uintptr_t)&never[taken], 8, TRAPLINE_WRITE,
					    &event_opts, &watches[taken]))
		taken++;
	opts.report = on_report;
	opts.arg = &seen;
	assert_int_equal(taken, 4);
	assert_int_equal(trapline_race_start(self, &opts, &race), -ENOSPC);
	trapline_explain(-ENOSPC, why, sizeof(why));
	assert_non_null(strstr(why, "no debug register is left"));
	/* With two of them it is searched: one watch, one breakpoint. */
	trapline_event_close(watches[0]);
	trapline_event_close(watches[1]);
	assert_int_equal(trapline_race_start(self, &opts, &race), 0);
	trapline_race_stop(race);
	trapline_close(self);
}

static void a_forked_child_is_not_searched(void **state)
{
	struct trapline *self = open_self();
	struct trapline_race *race = NULL;
	TRAPLINE_OPTS(race, opts);
	struct seen seen = { 0 };
	pthread_t threads[2];
	int status = -1;

	begin(race_on, threads);
	opts.report = on_report;
	opts.arg = &seen;
	assert_int_equal(trapline_race_start(self, &opts, &race), 0);
	pid_t child = fork();
	if (!child) {
		int events = count_events();
		trapline_race_stop(race);
		_exit(events ? 1 : 7);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_true(count_events() > 0);
	trapline_race_stop(race);
	end(threads);
	trapline_close(self);
}

static void wrong_options_are_refused(void **state)
{
	struct trapline *self = open_self();
	struct trapline_race *race = NULL;
	struct seen seen = { 0 };
	TRAPLINE_OPTS(race, good);
	struct trapline_race_opts opts;

	good.report = on_report;
	good.arg = &seen;
	opts = good;
	opts.report = NULL;
	assert_int_equal(trapline_race_start(self, &opts, &race), -EINVAL);
	opts = good;
	opts.flags = 1;
	assert_int_equal(trapline_race_start(self, &opts, &race), -EINVAL);
	opts = good;
	opts.grade = 4;
	assert_int_equal(trapline_race_start(self, &opts, &race), -EINVAL);
	opts = good;
	opts.budget_ppm = 10000001;
	assert_int_equal(trapline_race_start(self, &opts, &race), -EINVAL);
	assert_int_equal(trapline_race_start(NULL, &good, &race), -EINVAL);
	assert_int_equal(trapline_race_start(self, &good, NULL), -EINVAL);
	assert_null(race);
	trapline_close(self);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_race_of_running_threads_is_reported_once),
		TEST(a_lock_is_no_race),
		TEST(reports_are_lines_in_a_file),
		TEST(a_reader_of_the_lines_may_go),
		TEST(nothing_stays_after_a_hundred_searches),
		TEST(a_second_search_is_refused),
		TEST(taken_registers_are_named),
		TEST(a_forked_child_is_not_searched),
		TEST(wrong_options_are_refused),
	};

	return run_group(tests);
}
