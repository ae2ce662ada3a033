/* SPDX-License-Identifier: MIT */
/* test_check_busy.c - what trapline_check() makes of a probe that fails, on a machine that is busy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check/probe_run.h"
#include "check/probe_util.h"

#define BUDGET_MS 3000
#define SPIN_NS 60000000u
#define SPINNERS_MAX 64

/* How often a probe was tried; shared, since each try is a process of its own. */
static int *tries;

static void spin(void)
{
	uint64_t end = clock_now_ns() + SPIN_NS;

	while (clock_now_ns() < end)
		continue;
}

static void fail_by_count(struct probe_result *r)
{
	++*tries;
	spin();
	probe_say(r, 0, "none", "20 writes: 11 signals");
}

static void fail_once(struct probe_result *r)
{
	const int is_second = ++*tries == 2;

	probe_say(r, is_second, "none", "20 writes: %d signals", is_second ? 20 : 11);
}

static void fail_by_refusal(struct probe_result *r)
{
	++*tries;
	probe_refused(r, -EACCES, "opening", 2);
}

static void hang(struct probe_result *r)
{
	++*tries;
	for (;;)
		pause();
}

static struct probe_result run(void (*try)(struct probe_result *), int budget_ms)
{
	const struct probe probe = { "made", try, 0, 0 };
	struct probe_result result;

	*tries = 0;
	memset(&result, 0, sizeof(result));
	probe_run(&probe, budget_ms, &result);
	return result;
}

/* Twice as many threads as CPUs want to run. */
static int begin_load(pid_t *pids)
{
	int count = 2 * (int)sysconf(_SC_NPROCESSORS_ONLN) + 2;

	if (count > SPINNERS_MAX)
		count = SPINNERS_MAX;
	for (int i = 0; i < count; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				continue;
		}
	}
	return count;
}

static void end_load(const pid_t *pids, int count)
{
	for (int i = 0; i < count; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

static struct probe_result run_busy(void (*try)(struct probe_result *))
{
	pid_t pids[SPINNERS_MAX];
	int count = begin_load(pids);
	struct probe_result r = run(try, BUDGET_MS);

	end_load(pids, count);
	return r;
}

static void a_failure_on_a_busy_machine_is_not_known(void **state)
{
	struct probe_result r = run_busy(fail_by_count);

	assert_int_equal(r.is_ok, 0);
	assert_int_equal(r.is_unknown, 1);
	assert_in_range(*tries, 1, 3);
	assert_non_null(
		strstr(r.evidence, "not known, the machine is busy: 20 writes: 11 signals"));
	assert_true(strlen(r.remedy) > 0);
}

static void a_feature_that_works_on_a_busy_machine_is_known(void **state)
{
	struct probe_result r = run_busy(fail_once);

	assert_int_equal(r.is_ok, 1);
	assert_int_equal(r.is_unknown, 0);
}

static void a_failure_by_counts_is_tried_again(void **state)
{
	assert_int_equal(run(fail_once, BUDGET_MS).is_ok, 1);
	assert_int_equal(*tries, 2);
}

static void a_refusal_is_an_answer(void **state)
{
	struct probe_result r = run(fail_by_refusal, BUDGET_MS);

	assert_int_equal(r.is_ok, 0);
	assert_int_equal(r.is_unknown, 0);
	assert_int_equal(*tries, 1);
}

static void a_probe_without_time_is_not_known(void **state)
{
	struct probe_result r = run(fail_by_count, 0);

	assert_int_equal(r.is_unknown, 1);
	assert_int_equal(*tries, 0);
}

static void a_probe_that_hangs_is_ended(void **state)
{
	struct probe_result r = run(hang, 300);

	assert_int_equal(r.is_ok, 0);
	assert_true(*tries >= 1);
	assert_non_null(strstr(r.evidence, "did not end in time"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_on_a_busy_machine_is_not_known),
		cmocka_unit_test(a_feature_that_works_on_a_busy_machine_is_known),
		cmocka_unit_test(a_failure_by_counts_is_tried_again),
		cmocka_unit_test(a_refusal_is_an_answer),
		cmocka_unit_test(a_probe_without_time_is_not_known),
		cmocka_unit_test(a_probe_that_hangs_is_ended),
	};

	tries = mmap(NULL, sizeof(*tries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (tries == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
