/* SPDX-License-Identifier: MIT */
/*
 * names.c - writes variables of every kind, each from a function of its own, until killed or for
 * argv[1] rounds. With names_other.c, which has a static variable of the same name.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "names.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

struct point {
	int x;
	int y;
};

struct conn first_conn;
struct conn *conn = &first_conn;
struct conn *no_conn;
struct conn **conn_list = &conn;
struct conn table[4];
int matrix[3][4];
int current = 2;
struct point position;
double temperature;
float ratio;
color_t color;
enum flags flags;
const char *message;
void (*callback)(int);
char text[8];
unsigned long big_number;
short small_number;
__thread long thread_count;
int inlined_value;
static long same_name; /* names_other.c has another */
static const int fixed_number = 42;
static int never_used;

NOINLINE static void on_read(int i)
{
	table[3].fd = i;
}

NOINLINE static void on_write(int i)
{
	table[3].next = &table[i & 1];
}

NOINLINE static void write_conn(int i)
{
	conn->state = i & 1 ? OPEN : CLOSED;
	conn->meta.load = i / 4.0;
	conn->as_int = i;
	conn->handler = i & 1 ? on_read : on_write;
	conn->peer = i & 1 ? "alpha" : "beta";
	conn->is_ready = i & 1;
	conn->letter = (char)('a' + i % 26);
	conn->hidden->secret = i;
}

NOINLINE static void write_low(int i)
{
	conn->low = (unsigned int)i;
}

NOINLINE static void write_mode(int i)
{
	conn->mode = (unsigned int)i;
	conn->delta = -(i & 7);
	conn->high = (unsigned int)i & 0xfff;
	conn->wide = (uint64_t)i << 20;
}

__attribute__((always_inline)) static inline void set_inlined(int i)
{
	inlined_value = i;
}

NOINLINE static void write_globals(int i)
{
	set_inlined(i);
	matrix[1][2] = i;
	position.y = i;
	temperature = i / 10.0;
	ratio = (float)i / 10;
	color = i & 1 ? GREEN : RED;
	flags = i & 1 ? FLAG_READ | FLAG_SYNC : FLAG_WRITE;
	message = i & 1 ? "hello" : NULL;
	callback = i & 1 ? on_read : on_write;
	text[0] = (char)('A' + i % 26);
	big_number = UINT64_C(0xffff000000000000) + (unsigned int)i;
	small_number = (short)-i;
	same_name += 2;
}

NOINLINE static int count_calls(void)
{
	static int calls;

	return ++calls;
}

static void *worker(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "worker");
	for (long i = 1;; i++) {
		thread_count = i * 1000;
		usleep(10000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t thread;

	if (pthread_create(&thread, NULL, worker, NULL))
		return 1;
	conn->hidden = &the_opaque;
	for (int i = 1; !rounds || i <= rounds; i++) {
		thread_count = i;
		write_conn(i);
		write_low(i);
		write_mode(i);
		write_globals(i);
		on_read(i);
		on_write(i);
		if (count_calls() == 1000000)
			never_used = fixed_number;
		other_round(i);
		usleep(10000);
	}
	return 0;
}
