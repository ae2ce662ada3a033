/* SPDX-License-Identifier: MIT */
/*
 * patrolled.c - a service for the tests of trapline patrol: requests for ever.
 *
 * patrolled [wrong]: each request takes a block and frees it; wrong reads every fifth again. Some
 * log in, with a secret.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile char sum;

__attribute__((noinline)) static void handle_request(int number, int is_wrong)
{
	char *volatile block = malloc(64);

	memset(block, number, 64);
	free(block);
	if (is_wrong && number % 5 == 0)
		sum += block[3];
}

struct session {
	int number;
	const char *token;
};

__attribute__((noinline)) static void log_in(const char *name, const char *passphrase,
					     const struct session *session)
{
	__asm__ volatile("" : : "r"(name), "r"(passphrase), "r"(session) : "memory");
}

int main(int argc, char **argv)
{
	const struct session session = { 7, "s3cret" };
	int is_wrong = argc > 1 && !strcmp(argv[1], "wrong");

	for (int i = 1;; i++) {
		handle_request(i, is_wrong);
		if (i % 16 == 0)
			log_in("alice", "hunter2", &session);
		usleep(1000);
	}
}
