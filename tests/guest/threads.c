/* SPDX-License-Identifier: MIT */
/* threads.c - threads that are born, end, block everything, wait and hold locks. See guest.h. */
#include "guest.h"

#include <sched.h>
#include <sys/wait.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int ended, ran;

/* What only an int3 can be put on: a nop and a ret. */
__asm__(".globl tiny\n.type tiny, @function\ntiny:\n\tnop\n\tret\n.size tiny, . - tiny\n\t.byte 0, 0, 0, 0\n");
extern void tiny(void);

static void *do_work(void *arg)
{
	work();
	tiny();
	__atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
	return arg;
}

/* ---- a helper thread with all signals blocked, as libraries have ---- */

static const char *bear_blocked(long arg)
{
	sigset_t all, old;
	pthread_t thread;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	const int error = pthread_create(&thread, NULL, do_work, NULL);

	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!error)
		pthread_join(thread, NULL);
	return NULL;
}

/* The mask is that of the thread, whatever a tool does to it. */
static const char *block_at_moments(long arg)
{
	sigset_t all, old, seen;

	(void)arg;
	sigfillset(&all);
	for (int i = 0; i < 50; i++) {
		pthread_sigmask(SIG_SETMASK, &all, &old);
		EXPECT(!sigismember(&old, SIGTRAP) && !sigismember(&old, SIGSEGV), "a signal was blocked");
		step(i);
		work();
		pthread_sigmask(SIG_SETMASK, &old, &seen);
		EXPECT(sigismember(&seen, SIGTRAP) && sigismember(&seen, SIGSEGV) && sigismember(&seen, SIGPROF),
		       "a signal was open");
	}
	return NULL;
}

static const char *churn(long arg)
{
	pthread_t thread[8];

	(void)arg;
	ran = 0;
	for (int i = 0; i < 8; i++)
		EXPECT_THREAD(pthread_create(&thread[i], NULL, do_work, NULL));
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	EXPECT(ran == 8, "%d of 8 threads ran", ran);
	return NULL;
}

static void *end_at_once(void *arg)
{
	__atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
	return arg;
}

static const char *detach(long arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	(void)arg;
	ended = 0;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 4; i++)
		EXPECT_THREAD(pthread_create(&thread, &attr, end_at_once, NULL));
	pthread_attr_destroy(&attr);
	for (double end = now() + PATIENCE; ended < 4 && now() < end;)
		usleep(500);
	EXPECT(ended == 4, "%d of 4 detached threads ran", ended);
	return NULL;
}

static const char *have_many(long arg)
{
	pthread_t thread[64];
	int n = 0;

	(void)arg;
	for (; n < 64 && !pthread_create(&thread[n], NULL, do_work, NULL); n++)
		;
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	EXPECT(n == 64, "%d of 64 threads were created", n);
	return NULL;
}

/* ---- ends of threads ---- */

static void clean_up(void *arg)
{
	++*(volatile int *)arg;
}

static volatile int forever; /* the compiler cannot know that it does not return */

__attribute__((noinline)) static void leave(long n)
{
	if (n)
		leave(n - 1);
	else if (!forever)
		pthread_exit((void *)7);
	__asm__ volatile("" ::: "memory");
}

static void *exit_deep(void *arg)
{
	pthread_cleanup_push(clean_up, arg);
	step(1);
	leave(5);
	pthread_cleanup_pop(0);
	return NULL;
}

static const char *exit_thread(long arg)
{
	volatile int cleaned = 0;
	void *result = NULL;
	pthread_t thread;

	(void)arg;
	EXPECT_THREAD(pthread_create(&thread, NULL, exit_deep, (void *)&cleaned));
	pthread_join(thread, &result);
	EXPECT(cleaned == 1 && result == (void *)7, "pthread_exit(): %d cleanups", cleaned);
	return NULL;
}

static void *wait_for_ever(void *arg)
{
	pthread_cleanup_push(clean_up, arg);
	if (ended)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		if (ended)
			step(1);
		else
			pause();
	pthread_cleanup_pop(0);
	return NULL;
}

/* By turns in a call, and anywhere. */
static const char *cancel(long arg)
{
	volatile int cleaned = 0;
	void *result = NULL;
	pthread_t thread;

	(void)arg;
	ended = control->rounds % 2;
	EXPECT_THREAD(pthread_create(&thread, NULL, wait_for_ever, (void *)&cleaned));
	usleep(2000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	EXPECT(result == PTHREAD_CANCELED && cleaned == 1, "a cancelled thread cleaned %d times", cleaned);
	return NULL;
}

static pthread_key_t key;

static void destroy(void *arg)
{
	work();
	clean_up(arg);
}

static void *use_key(void *arg)
{
	pthread_setspecific(key, arg);
	return NULL;
}

static int make_key(long arg)
{
	(void)arg;
	return pthread_key_create(&key, destroy) ? 77 : 0;
}

static const char *destroy_key(long arg)
{
	volatile int destroyed = 0;
	pthread_t thread;

	(void)arg;
	EXPECT_THREAD(pthread_create(&thread, NULL, use_key, (void *)&destroyed));
	pthread_join(thread, NULL);
	EXPECT(destroyed == 1, "a destructor ran %d times", destroyed);
	return NULL;
}

/* A thread without the C library: it ends by its own system call. */
static int bare(void *arg)
{
	*(volatile int *)arg = 4711;
	return 0;
}

static const char *clone_bare(long arg)
{
	static char stack[65536] __attribute__((aligned(64)));
	static volatile int value;
	int status;

	(void)arg;
	value = 0;
	const pid_t child = clone(bare, stack + sizeof(stack), CLONE_VM | SIGCHLD, (void *)&value);

	EXPECT(child > 0, "clone(): %s", strerror(errno));
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	EXPECT(value == 4711 && status == 0, "a child in the same memory: %x", status);
	return NULL;
}

/* ---- locks ---- */

static volatile long sum;

static void *add(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(arg);
		sum = sum + 1;
		pthread_mutex_unlock(arg);
	}
	return NULL;
}

static const char *add_with(pthread_mutex_t *mutex)
{
	pthread_t thread[3];

	sum = 0;
	for (int i = 0; i < 3; i++)
		EXPECT_THREAD(pthread_create(&thread[i], NULL, add, mutex));
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	EXPECT(sum == 6000, "3 threads made %ld of 6000 steps", sum);
	return NULL;
}

static const char *lock_plain(long arg)
{
	(void)arg;
	return add_with(&lock);
}

static const char *lock_pi(long arg)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex;

	(void)arg;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&mutex, &attr);
	const char *what = add_with(&mutex);

	pthread_mutex_destroy(&mutex);
	return what;
}

static void *die_with_lock(void *mutex)
{
	pthread_mutex_lock(mutex);
	return NULL;
}

static const char *lock_robust(long arg)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t mutex;
	pthread_t thread;

	(void)arg;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutex, &attr);
	if (!pthread_create(&thread, NULL, die_with_lock, &mutex))
		pthread_join(thread, NULL);
	EXPECT(pthread_mutex_lock(&mutex) == EOWNERDEAD, "a robust lock has no dead owner");
	return NULL;
}

static const char *lock_all(long arg)
{
	const char *what = lock_plain(arg);

	what = what ? what : lock_pi(arg);
	return what ? what : lock_robust(arg);
}

static volatile int turn;

static void *ping(void *arg)
{
	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(&lock);
		while (turn != (arg != NULL))
			pthread_cond_wait(&condition, &lock);
		turn = !turn;
		pthread_cond_broadcast(&condition);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static const char *take_turns(long arg)
{
	pthread_t thread;

	(void)arg;
	EXPECT_THREAD(pthread_create(&thread, NULL, ping, (void *)&turn));
	ping(NULL);
	pthread_join(thread, NULL);
	return NULL;
}

/* ---- real time ---- */

static int become_fifo(long arg)
{
	struct sched_param p = { .sched_priority = 1 };

	(void)arg;
	return sched_setscheduler(0, SCHED_FIFO, &p) ? 77 : 0;
}

static const char *stay_fifo(long arg)
{
	work();
	usleep(3000);
	EXPECT(sched_getscheduler(0) == SCHED_FIFO, "the policy changed");
	return churn(arg);
}

/* ---- timers with threads, affinity, names ---- */

static void on_timer(union sigval value)
{
	(void)value;
	ended++;
}

static const char *use_timer(long arg)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD };
	struct itimerspec soon = { .it_value = { 0, 1000000 } };
	timer_t timer;

	(void)arg;
	event.sigev_notify_function = on_timer;
	ended = 0;
	EXPECT(!timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create(): %s", strerror(errno));
	timer_settime(timer, 0, &soon, NULL);
	for (double end = now() + PATIENCE; !ended && now() < end;)
		usleep(500);
	timer_delete(timer);
	EXPECT(ended == 1, "a timer came %d times", ended);
	return NULL;
}

static const char *keep_name(long arg)
{
	char name[32] = "";
	cpu_set_t set;

	(void)arg;
	pthread_setname_np(pthread_self(), "of its own");
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	work();
	pthread_getname_np(pthread_self(), name, sizeof(name));
	EXPECT(!strcmp(name, "of its own"), "a thread has another name");
	sched_getaffinity(0, sizeof(set), &set);
	EXPECT(CPU_COUNT(&set) == 1, "a thread has another affinity");
	return NULL;
}

static const char *run_without_leader(long arg)
{
	work();
	return take_turns(arg);
}

const struct behaviour behaviours[] = {
	{ "born_blocked", bear_blocked, 0, 0, NULL, NULL },
	{ "blocked_at_moments", block_at_moments, 0, 0, NULL, NULL },
	{ "thread_churn", churn, 0, 0, NULL, NULL },
	{ "detached", detach, 0, 0, NULL, NULL },
	{ "many_threads", have_many, 0, 0, NULL, NULL },
	{ "pthread_exit", exit_thread, 0, 0, NULL, NULL },
	{ "pthread_cancel", cancel, 0, 0, NULL, NULL },
	{ "tls_destructor", destroy_key, 0, 0, make_key, NULL },
	{ "clone_vm", clone_bare, 0, 0, NULL, NULL },
	{ "locks", lock_all, 0, 0, NULL, NULL },
	{ "condition", take_turns, 0, 0, NULL, NULL },
	{ "fifo", stay_fifo, 0, 0, become_fifo, NULL },
	{ "timer_thread", use_timer, 0, 0, NULL, NULL },
	{ "thread_name", keep_name, 0, 0, NULL, NULL },
	{ "leaderless", run_without_leader, 0, LEADERLESS, NULL, NULL },
	{},
};
