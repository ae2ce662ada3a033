/* SPDX-License-Identifier: MIT */
/*
 * race_short.cc - programs that are over in a moment, as most tests and examples are; where threads
 * poll a word; and what C++ and compilers make of atomics. Modes that begin with wrong_ have a race.
 */
#include "race_common.h"

#include <atomic>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define POLLS 3000

static void nap(long us)
{
	struct timespec ts = { 0, us * 1000 };

	nanosleep(&ts, NULL);
}

/* ---- one thread polls a word of the other ---- */

struct job {
	int state;
	int result;
};

static struct job *job = (struct job *)calloc(1, sizeof(struct job));

static NOINLINE int job_poll(void)
{
	for (int i = 0; i < POLLS; i++) {
		if (job->state == 1)
			return i;
		sched_yield();
	}
	return 0;
}

static NOINLINE void job_finish(void)
{
	job->state = 1;
}

static void wrong_poll(int thread)
{
	if (thread) {
		nap(300);
		job_finish();
	} else {
		job_poll();
	}
}

struct old_job {
	volatile int phase;
};

static struct old_job *old_job =
	(struct old_job *)calloc(1, sizeof(struct old_job));

static NOINLINE int volatile_poll(void)
{
	for (int i = 0; i < POLLS; i++) {
		if (old_job->phase == 1)
			return i;
		sched_yield();
	}
	return 0;
}

static NOINLINE void volatile_finish(void)
{
	old_job->phase = 1;
}

static void right_poll_volatile(int thread)
{
	if (thread) {
		nap(300);
		volatile_finish();
	} else {
		volatile_poll();
	}
}

#define JOB_STATE(j) __atomic_load_n(&(j)->state, __ATOMIC_ACQUIRE)
#define JOB_SET(j, value) \
	__atomic_store_n(&(j)->state, (value), __ATOMIC_RELEASE)

static NOINLINE int macro_poll(void)
{
	for (int i = 0; i < POLLS; i++) {
		if (JOB_STATE(job) == 1)
			return i;
		sched_yield();
	}
	return 0;
}

static NOINLINE void macro_finish(void)
{
	JOB_SET(job, 1);
}

static void right_poll_macro(int thread)
{
	if (thread) {
		nap(300);
		macro_finish();
	} else {
		macro_poll();
	}
}

/* ---- the macros, and no loop ---- */

static NOINLINE long macro_read(void)
{
	return JOB_STATE(job);
}

static NOINLINE void macro_write(int value)
{
	JOB_SET(job, value);
}

static void right_macro(int thread)
{
	static long sink[2][8];

	for (int i = 0; i < POLLS; i++)
		if (thread)
			macro_write(i);
		else
			sink[0][0] += macro_read();
}

/* ---- one add, as clang makes it of n.store(n.load(relaxed) + 1, relaxed) ---- */

static std::atomic<long> alone;

static inline void atomic_add_alone(long n)
{
	__asm__ volatile("addq %1, %0" : "+m"(alone) : "r"(n));
}

static void right_folded_add(int thread)
{
	static long sink[2][8];

	for (int i = 0; i < POLLS; i++)
		if (thread)
			atomic_add_alone(i);
		else
			sink[0][0] += alone.load(std::memory_order_relaxed);
}

/* That it is volatile makes no add whole. */
static volatile long volatile_count;

static NOINLINE void volatile_add(void)
{
	__asm__ volatile("addq $1, %0" : "+m"(volatile_count));
}

static void wrong_volatile_add(int)
{
	for (int i = 0; i < POLLS; i++)
		volatile_add();
}

/* ---- made for something atomic, and not atomic itself ---- */

struct atomic_policy {
};

template <class Policy> struct holder {
	long word;
};

static holder<atomic_policy> held;

static NOINLINE void holder_set(long n)
{
	held.word = n;
}

static NOINLINE long holder_get(void)
{
	return held.word;
}

static void wrong_template(int thread)
{
	static long sink[2][8];

	for (int i = 1; i < POLLS; i++)
		if (thread)
			holder_set(i);
		else
			sink[0][0] += holder_get();
}

/* ---- once each, and one of both has a long way to go before ---- */

static long way[64];
static long at_last;

#define STEP(n) \
	way[n] += n; \
	__asm__ volatile("" ::: "memory");
#define STEPS_4(n) STEP(n) STEP(n + 1) STEP(n + 2) STEP(n + 3)
#define STEPS_16(n) STEPS_4(n) STEPS_4(n + 4) STEPS_4(n + 8) STEPS_4(n + 12)

static NOINLINE void at_last_add(long n)
{
	at_last += n;
}

static NOINLINE void walk(void)
{
	STEPS_16(0) STEPS_16(16) STEPS_16(32) STEPS_16(48)
}

static void wrong_at_last(int thread)
{
	if (thread)
		walk();
	at_last_add(thread + 1);
}

static std::atomic<long> at_last_atomic;

static void right_at_last(int thread)
{
	if (thread)
		walk();
	at_last_atomic += thread + 1;
}

/* ---- a thread that libc makes when a timer fires ---- */

static long ticks;

static void on_tick(union sigval)
{
	ticks++;
}

static NOINLINE long ticks_read(void)
{
	return ticks;
}

/* Beside the first thread, which has created none itself. */
static void wrong_timer(int)
{
	static long sink[8];
	struct itimerspec every = { { 0, 500000 }, { 0, 500000 } };
	struct sigevent event = {};
	timer_t timer;

	event.sigev_notify = SIGEV_THREAD;
	event.sigev_notify_function = on_tick;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		return;
	timer_settime(timer, 0, &every, NULL);
	for (int i = 0; i < 50; i++) {
		sink[0] += ticks_read();
		nap(200);
	}
	timer_delete(timer);
}

/* ---- what is written out while it is changed ---- */

static char out_text[256];

static NOINLINE void out_change(int n)
{
	for (size_t i = 0; i < sizeof(out_text); i++)
		out_text[i] = (char)(n + (int)i);
}

static NOINLINE void out_write(int fd)
{
	if (write(fd, out_text, sizeof(out_text)) < 0)
		perror("write");
}

static int out_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

static void wrong_write(int thread)
{
	for (int i = 0; i < 100; i++)
		if (thread)
			out_change(i);
		else
			out_write(out_fd);
}

/* ---- one round of a loop meets one of another thread ---- */

static long cells[2][200];
static long met;
static pthread_mutex_t met_lock = PTHREAD_MUTEX_INITIALIZER;

static NOINLINE void cell_add(long *cell, long n)
{
	*cell += n;
}

static bool is_where_they_meet(int thread, int i)
{
	return i == (thread ? 30 : 160);
}

static void wrong_one_round(int thread)
{
	for (int i = 0; i < 200; i++)
		cell_add(is_where_they_meet(thread, i) ? &met : &cells[thread][i], i);
}

static void right_one_round(int thread)
{
	for (int i = 0; i < 200; i++)
		if (is_where_they_meet(thread, i)) {
			pthread_mutex_lock(&met_lock);
			cell_add(&met, i);
			pthread_mutex_unlock(&met_lock);
		} else {
			cell_add(&cells[thread][i], i);
		}
}

/* ---- main returns, and does not wait for its threads ---- */

static long left;
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;

static void *leave_wrong(void *)
{
	cell_add(&left, 1);
	return NULL;
}

static void *leave_right(void *)
{
	pthread_mutex_lock(&left_lock);
	cell_add(&left, 1);
	pthread_mutex_unlock(&left_lock);
	return NULL;
}

static void leave_two(void *(*act)(void *))
{
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, act, NULL);
}

static void wrong_left(int)
{
	leave_two(leave_wrong);
}

static void right_left(int)
{
	leave_two(leave_right);
}

/* ---- a destructor stores the pointer to its virtual functions, which is there already ---- */

struct base {
	virtual ~base()
	{
	}
	virtual NOINLINE int number()
	{
		return 1;
	}
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool is_done = false;
};

struct derived : base {
	~derived() override
	{
		for (bool is = false; !is; sched_yield()) {
			pthread_mutex_lock(&lock);
			is = is_done;
			pthread_mutex_unlock(&lock);
		}
	}
	NOINLINE int number() override
	{
		return 2;
	}
};

static base *object = new derived;

static void right_destructor(int thread)
{
	if (thread) {
		delete object;
		return;
	}
	object->number();
	pthread_mutex_lock(&object->lock);
	object->is_done = true;
	pthread_mutex_unlock(&object->lock);
}

/* A pipe says when the other may go on. */
static int pipes[2];
static int has_pipe = pipe(pipes);

static void right_write(int thread)
{
	char byte[sizeof(out_text)];

	for (int i = 0; i < 100 && !has_pipe; i++)
		if (!thread) {
			out_change(i);
			out_write(pipes[1]);
			while (__atomic_load_n(&job->result, __ATOMIC_ACQUIRE) <= i)
				sched_yield();
		} else if (read(pipes[0], byte, sizeof(byte)) > 0) {
			out_change(i + 1);
			__atomic_store_n(&job->result, i + 1, __ATOMIC_RELEASE);
		}
}

int main(int argc, char **argv)
{
	static const struct mode modes[] = {
		{ "wrong_poll", wrong_poll, 2 },
		{ "wrong_volatile_add", wrong_volatile_add, 2 },
		{ "wrong_template", wrong_template, 2 },
		{ "wrong_at_last", wrong_at_last, 2 },
		{ "wrong_timer", wrong_timer, 0 },
		{ "wrong_timer_beside_threads", wrong_timer, 1 },
		{ "wrong_write", wrong_write, 2 },
		{ "wrong_left", wrong_left, 0 },
		{ "right_left", right_left, 0 },
		{ "right_write", right_write, 2 },
		{ "wrong_one_round", wrong_one_round, 2 },
		{ "right_one_round", right_one_round, 2 },
		{ "right_destructor", right_destructor, 2 },
		{ "right_poll_volatile", right_poll_volatile, 2 },
		{ "right_poll_macro", right_poll_macro, 2 },
		{ "right_macro", right_macro, 2 },
		{ "right_folded_add", right_folded_add, 2 },
		{ "right_at_last", right_at_last, 2 },
	};

	/* By main itself, before it returns. */
	if (argc > 1 && !strcmp(argv[1], "wrong_timer"))
		wrong_timer(0);
	if (argc > 1 && !strcmp(argv[1], "wrong_left"))
		wrong_left(0);
	if (argc > 1 && !strcmp(argv[1], "right_left"))
		right_left(0);
	return run_modes(argc, argv, modes, sizeof(modes) / sizeof(modes[0]));
}
