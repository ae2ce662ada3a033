/* SPDX-License-Identifier: MIT */
/*
 * reentrant.c - a program that a signal can break, at some of its calls of write() and not at others.
 *
 * A line is put together in one buffer; the handler of SIGALRM uses the same function. A signal at
 * the write inside put_line() finds the buffer full. Exits with 3 when a line was damaged.
 * Each line but the handler's comes after a fault at a page of its own.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINES 3
#define APART 65536 /* no two pages are mapped at one fault */

static char buffer[64];
static volatile char pages[(LINES + 1) * APART];
static unsigned int used;
static volatile unsigned int damaged;

__attribute__((noinline)) static void put_line(const char *text)
{
	memcpy(buffer + used, text, strlen(text));
	used += (unsigned int)strlen(text);
	if (write(1, buffer, used) < 0 || used != strlen(text))
		damaged++;
	used = 0;
}

static void on_alarm(int number)
{
	put_line("alarm\n");
}

int main(void)
{
	signal(SIGALRM, on_alarm);
	for (int i = 1; i <= 4 * LINES; i++) {
		if (write(1, ".\n", 2) < 0)
			return 1;
		if (i % 4 == 0) {
			pages[i / 4 * APART] = 1;
			put_line("line\n");
		}
	}
	return damaged ? 3 : 0;
}
