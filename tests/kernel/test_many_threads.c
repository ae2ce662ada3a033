/* SPDX-License-Identifier: MIT */
/*
 * test_many_threads.c - 2,000 threads armed while others are born and die: each access of a
 * marked thread is seen exactly once. A thread is marked when it begins after arming returned.
 */
#include "common.h"

#include <linux/capability.h>
#include <sys/resource.h>

#define MANY 2000
#define WRITES 3
#define MOST_BORN 300 /* alive at once */
#define STORM_OF 200
#define STORM_LEAST 60 /* where each takes long: an emulated machine takes a minute for 300 */
#define BIRTH_US 5000 /* 200 a second */

static volatile uint64_t word __attribute__((aligned(64)));

struct crowd {
	unsigned int count;
	pthread_t *threads;
	pthread_barrier_t begin;
	pthread_t spawner;
	bool is_armed;	  /* what writes from here on is marked */
	_Atomic bool is_quitting; /* of the spawner */
	unsigned int pause_us;
	_Atomic uint64_t written;
	_Atomic uint64_t born;
	_Atomic int alive;
};

static void write_marked(struct crowd *crowd)
{
	store_many(&word, WRITES);
	crowd->written += WRITES;
}

static void *stand(void *arg)
{
	struct crowd *crowd = arg;

	pthread_barrier_wait(&crowd->begin);
	pthread_barrier_wait(&crowd->begin);
	write_marked(crowd);
	return NULL;
}

/* Born before arming is over: half of them wait for it, the others die meanwhile. */
static void *pass_by(void *arg)
{
	struct crowd *crowd = arg;
	uint64_t nth = crowd->born++;

	for (int i = 0; nth % 2 && i < 20000; i++) {
		if (__atomic_load_n(&crowd->is_armed, __ATOMIC_ACQUIRE) || /* watch_crowd() */
		    crowd->is_quitting)
			break;
		usleep(100);
	}
	if (__atomic_load_n(&crowd->is_armed, __ATOMIC_ACQUIRE)) /* watch_crowd() */
		write_marked(crowd);
	crowd->alive--;
	return NULL;
}

static void *spawn(void *arg)
{
	struct crowd *crowd = arg;
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 65536);
	while (!crowd->is_quitting) {
		if (crowd->alive < MOST_BORN && crowd->alive < (int)crowd->count * 3 / 2) {
			crowd->alive++;
			if (pthread_create(&thread, &attr, pass_by, crowd))
				crowd->alive--;
		}
		if (crowd->pause_us)
			usleep(crowd->pause_us);
	}
	return NULL;
}

static void gather(struct crowd *crowd, unsigned int count, unsigned int pause_us)
{
	pthread_attr_t attr;

	memset(crowd, 0, sizeof(*crowd));
	crowd->count = count;
	crowd->pause_us = pause_us;
	crowd->threads = calloc(count, sizeof(*crowd->threads));
	pthread_barrier_init(&crowd->begin, NULL, count + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(pthread_create(&crowd->threads[i], &attr, stand, crowd), 0);
	pthread_barrier_wait(&crowd->begin);
	assert_int_equal(pthread_create(&crowd->spawner, NULL, spawn, crowd), 0);
}

static void disperse(struct crowd *crowd)
{
	pthread_barrier_wait(&crowd->begin);
	for (unsigned int i = 0; i < crowd->count; i++)
		pthread_join(crowd->threads[i], NULL);
	crowd->is_quitting = true;
	pthread_join(crowd->spawner, NULL);
	WAIT_UNTIL(!crowd->alive);
	free(crowd->threads);
}

static void watch_crowd(enum mode mode, unsigned int count, unsigned int pause_us)
{
	struct crowd crowd;
	struct rig rig;

	alarm(1200);
	require(mode);
	gather(&crowd, count, pause_us);
	rig_open(&rig, mode);
	rig_watch(&rig, &word, NULL);
	__atomic_store_n(&crowd.is_armed, true, __ATOMIC_RELEASE); /* pass_by() */
	for (unsigned int i = 0; i < scaled(500); i++) {
		usleep(1000);
		/* Not until nothing is left: births may outrun the reader. */
		for (int n = 0; n < 8; n++)
			rig_glance(&rig);
	}
	disperse(&crowd);

	struct trapline_stats s = rig_stats(&rig);

	print_message("# %lu threads armed, %lu born meanwhile, %lu written, %lu duplicates\n",
		      s.threads, crowd.born, crowd.written, s.rejected_duplicate);
	assert_true(s.threads >= count + 1);
	assert_true(crowd.written >= (uint64_t)count * WRITES + WRITES);
	assert_int_equal(stats_lost(&s), mode == BY_RING ? s.lost_ring_full : 0);
	if (is_each_watch_reported()) {
		assert_int_equal(s.delivered + s.lost_ring_full, crowd.written);
		assert_int_equal(s.taken, crowd.written + s.rejected_duplicate);
	} else {
		/* An emulator may tell of that event of a thread with two which has no program. */
		assert_in_range(s.delivered + s.lost_ring_full, crowd.written - s.rejected_duplicate,
				crowd.written);
		assert_in_range(s.taken, crowd.written, crowd.written + s.rejected_duplicate);
	}
	rig_close(&rig);
}

static void each_access_among_2000_threads_is_seen_once(void **state)
{
	watch_crowd(MODE(state), scaled(MANY), BIRTH_US);
}

/* Many births for each thread that is armed: where a double cover is likeliest. */
static void each_access_in_a_storm_of_births_is_seen_once(void **state)
{
	unsigned int storm = scaled(STORM_OF);

	if (storm < STORM_LEAST)
		storm = STORM_LEAST;
	for (unsigned int round = 0; round < scaled(3); round++)
		watch_crowd(MODE(state), storm, 0);
}

static int watch_with_files(rlim_t soft, rlim_t hard, int *err)
{
	struct rlimit limit = {soft, hard};
	struct crowd crowd;
	struct trapline *target;
	TRAPLINE_OPTS(event, opts);
	struct rig *rig = calloc(1, sizeof(*rig));
	char why[512] = "";

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 1;
	gather(&crowd, 200, BIRTH_US);
	opts.callback = rig_note;
	opts.arg = rig;
	if (trapline_open(0, NULL, &target))
		return 2;
	*err = trapline_watch(target, ADDR(&word), 8, TRAPLINE_WRITE, &opts, &rig->event);
	if (*err) {
		trapline_explain(*err, why, sizeof(why));
		print_message("# %s\n", why);
	}
	disperse(&crowd);
	if (*err)
		return strlen(why) < 20 || rig->hits ? 3 : 0;
	return rig->hits >= 200 * WRITES ? 0 : 4;
}

static int soft_limit_is_low(void *arg)
{
	int err = 0;
	int failed = watch_with_files(64, 4096, &err);

	return failed ? failed : err ? 5 : 0;
}

/* Who has it may go past the hard limit. */
static int drop_resource_capability(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		return -1;
	data[0].effective &= ~(1u << CAP_SYS_RESOURCE);
	data[0].permitted &= ~(1u << CAP_SYS_RESOURCE);
	data[0].inheritable &= ~(1u << CAP_SYS_RESOURCE);
	return (int)syscall(SYS_capset, &header, data);
}

static int hard_limit_is_low(void *arg)
{
	if (drop_resource_capability())
		return 7;

	int err = 0;
	int failed = watch_with_files(64, 64, &err);
	int fd = dup(0);

	/* What it had opened it closed again. */
	return failed ? failed : err != -EMFILE ? 5 : fd < 0 || fd > 32 ? 6 : 0;
}

static void soft_limit_of_files_is_raised(void **state)
{
	require(BY_CALLBACK);
	expect_exit(status_of_child(soft_limit_is_low, NULL), 0);
}

static void hard_limit_of_files_is_a_clear_error(void **state)
{
	require(BY_CALLBACK);
	expect_exit(status_of_child(hard_limit_is_low, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN(each_access_among_2000_threads_is_seen_once, callback),
		TEST_IN(each_access_among_2000_threads_is_seen_once, bpf),
		TEST_EACH_MODE(each_access_in_a_storm_of_births_is_seen_once),
		TEST(soft_limit_of_files_is_raised),
		TEST(hard_limit_of_files_is_a_clear_error),
	};

	return run_group(tests);
}
