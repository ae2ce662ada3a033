/* SPDX-License-Identifier: MIT */
/*
 * accounts.c - the program of the examples in trapline-condition(7): threads move money between
 * accounts, round after round, until the program is killed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))

enum state {
	OPEN,
	FROZEN,
	CLOSED,
};

struct account {
	long balance;
	enum state state;
};

struct account accounts[3];

NOINLINE static void deposit(int account, long cents)
{
	accounts[account].balance += cents;
}

NOINLINE static void withdraw(int account, long cents)
{
	accounts[account].balance -= cents;
}

NOINLINE static void set_state(int account, enum state state)
{
	accounts[account].state = state;
}

/* The only thread that changes states. */
static void *audit(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "auditor");
	for (;;)
		for (enum state state = OPEN; state <= CLOSED; state++) {
			set_state(1, state);
			usleep(5000);
		}
	return NULL;
}

int main(void)
{
	pthread_t thread;

	pthread_setname_np(pthread_self(), "cashier");
	if (pthread_create(&thread, NULL, audit, NULL))
		return 1;
	for (long round = 0;; round++) {
		deposit(0, 1000);
		withdraw(0, round % 10 * 100);
		set_state(2, OPEN);
		usleep(2000);
	}
}
