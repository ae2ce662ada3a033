/* SPDX-License-Identifier: MIT */
/* search_reader.c - see search_reader.h. */
#include "search/search_reader.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <time.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "guest/own_thread.h"

/* A record that stays half written for so long belongs to a dead thread. */
#define LOOK_AFTER_S 1

static void write_line(struct search_reader *r, size_t length)
{
	r->line[length] = '\n';
	for (size_t at = 0; at < length + 1;) {
		ssize_t n = sys_write(r->fd, r->line + at, length + 1 - at);

		if (n == -EINTR)
			continue;
		if (n <= 0) {
			counter_add(&r->unwritten, 1u);
			return;
		}
		at += (size_t)n;
	}
}

void search_reader_report(struct search_reader *r, size_t length)
{
	if (r->fd > 0)
		write_line(r, length);
	counter_add(&r->reported, 1u);
}

static void *read_records(void *arg)
{
	struct timespec second = { LOOK_AFTER_S, 0 };
	struct search_reader *r = arg;

	own_thread_begins();
	for (;;) {
		/* In this order: what is reported after the inspection wakes this thread. */
		const uint32_t seen = atomic_get(r->told);
		const uint32_t is_over = atomic_get(&r->is_over);

		own_thread_opens_to_code();
		while (r->take(r->arg))
			;
		own_thread_shuts();
		const bool is_half = atomic_get(r->write_at) != atomic_get(r->read_at);
		if (is_over && !is_half)
			return NULL;
		sys6(SYS_futex, r->told, FUTEX_WAIT_PRIVATE, seen, is_half ? &second : NULL, NULL,
		     0);
	}
}

int search_reader_start(struct search_reader *r)
{
	return own_thread_start_joinable(&r->thread, read_records, r);
}

void search_reader_end(struct search_reader *r)
{
	atomic_set(&r->is_over, 1u);
	atomic_add(r->told, 1u);
	sys6(SYS_futex, r->told, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	pthread_join(r->thread, NULL);
}
