/* SPDX-License-Identifier: MIT */
/*
 * test_action_gate.c - while an action changes no call of the program for that signal runs, and each call ends. TAP.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "guest/action_gate.h"

#define THREADS 4
#define ROUNDS 2000

static int count;
static uint32_t inside;
static uint32_t is_shut;
static uint32_t wrong;
static uint32_t made;
static uint32_t is_over;

static void say(int ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++count, name);
}

static void call(void)
{
	action_gate_enter(SIGTRAP);
	atomic_add(&inside, 1u);
	if (atomic_get(&is_shut))
		atomic_add(&wrong, 1u);
	atomic_add(&made, 1u);
	atomic_add(&inside, -1u);
	action_gate_exit(SIGTRAP);
}

/* It interrupts a call, and makes another one: neither may wait for the other. */
static void on_signal(int signal)
{
	(void)signal;
	call();
}

static void *make_calls(void *arg)
{
	(void)arg;
	while (!atomic_get(&is_over)) {
		call();
		usleep(20);
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];
	uint32_t late = 0;

	signal(SIGUSR1, on_signal);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, make_calls, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_kill(threads[i % THREADS], SIGUSR1);
		action_gate_shut(SIGTRAP);
		/* Where a call has no CPU for long the gate waits no longer. */
		late += atomic_get(&inside) != 0;
		if (!atomic_get(&inside))
			atomic_set(&is_shut, 1u);
		usleep(10);
		atomic_set(&is_shut, 0u);
		action_gate_open(SIGTRAP);
	}
	atomic_set(&is_over, 1u);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("# %u calls, %u of %d changes found one that did not end\n", atomic_get(&made), late, ROUNDS);
	say(!atomic_get(&wrong) && late < ROUNDS / 2, "no call runs while the gate is shut");
	say(atomic_get(&made) > 0, "calls run while it is open");
}

static void *call_once(void *arg)
{
	(void)arg;
	call();
	return NULL;
}

static void test_signals(void)
{
	pthread_t thread;
	const uint32_t before = atomic_get(&made);

	action_gate_shut(SIGSEGV);
	pthread_create(&thread, NULL, call_once, NULL);
	pthread_join(thread, NULL);
	action_gate_open(SIGSEGV);
	say(atomic_get(&made) == before + 1, "a call for another signal does not wait");
	action_gate_enter(SIGRTMIN);
	action_gate_shut(SIGRTMIN);
	action_gate_open(SIGRTMIN);
	action_gate_exit(SIGRTMIN);
	say(1, "a signal that is never taken has no gate");
}

static void test_own_thread(void)
{
	action_gate_shut(SIGTRAP);
	call();
	action_gate_open(SIGTRAP);
	action_gate_shut(SIGTRAP);
	action_gate_open(SIGTRAP);
	say(1, "the thread that changes the action passes, and the count is right after it");
}

static void test_left(void)
{
	action_gate_enter(SIGBUS);
	action_gate_shut(SIGBUS);
	action_gate_open(SIGBUS);
	say(1, "a call that longjmp() left is not waited for");
}

/* The thread that had it shut is not in the child. */
static void test_fork(void)
{
	int status = 1;

	action_gate_shut(SIGTRAP);
	const pid_t child = fork();
	if (!child) {
		action_gates_forked();
		for (int i = 0; i < 1000; i++)
			call();
		action_gate_shut(SIGBUS); /* with the count of a call that the parent left */
		action_gate_open(SIGBUS);
		_exit(0);
	}
	action_gate_open(SIGTRAP);
	waitpid(child, &status, 0);
	say(child > 0 && !status, "a child finds all gates open");
}

int main(void)
{
	test_threads();
	test_signals();
	test_own_thread();
	test_left();
	test_fork();
	printf("1..%d\n", count);
	return 0;
}
