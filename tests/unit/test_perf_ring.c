/* SPDX-License-Identifier: MIT */
/*
 * test_perf_ring.c - records of two CPUs as the kernel writes them, in rings of our own: which sample is
 * a duplicate, where a thread's number comes again.
 */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "event/ring/perf_ring.h"
#include "event/table.h"

#define PAGE 4096
#define RING_BYTES 4096
#define OWNERS_BYTES (65536 * 64) /* as many as perf_ring.c has, and more room than it takes */
#define TID 7

static struct trapline_event *event;
static struct cpu_ring two[2];
static struct event_id ids[2];
static struct perf_rings rings = {
	.rings = two, .count = 2, .bytes = RING_BYTES, .ids = ids, .id_count = 2};

static int begin(void **state)
{
	event = event_take();
	event->state = EVENT_LIVE;
	event->owners = calloc(1, OWNERS_BYTES);
	rings.sample = malloc(65536);
	for (uint32_t i = 0; i < 2; i++) {
		two[i] = (struct cpu_ring){.fd = 0, .page = calloc(1, PAGE + RING_BYTES)};
		ids[i] = (struct event_id){i, event, event->first_generation, 0, i};
	}
	return 0;
}

static int end(void **state)
{
	for (int i = 0; i < 2; i++)
		free(two[i].page);
	free(rings.sample);
	free(event->owners);
	ring_names_free(&rings.names);
	event_give(event);
	return 0;
}

static void write_record(int cpu, uint32_t type, uint64_t *words, size_t count)
{
	struct perf_event_mmap_page *page = two[cpu].page;
	struct perf_event_header *header = (void *)words;

	*header = (struct perf_event_header){.type = type, .size = (uint16_t)(count * 8)};
	memcpy((char *)page + PAGE + page->data_head, words, count * 8);
	page->data_head += count * 8;
}

static void write_sample(int cpu, uint64_t time_ns, uint64_t class)
{
	write_record(cpu, PERF_RECORD_SAMPLE,
		     (uint64_t[]){0, class, 0, (uint64_t)TID << 32, time_ns, 0, 0, 0, 0}, 9);
}

/* The end or the birth of the thread. */
static void write_notice(int cpu, uint64_t time_ns, uint32_t type)
{
	write_record(cpu, type, (uint64_t[]){0, 0, TID, time_ns, 0, time_ns, 0, 0}, 8);
}

static unsigned int read_all(void)
{
	struct trapline_event *of;
	struct record record;
	const void *stack;
	unsigned int count = 0;
	uint32_t part;

	while (perf_rings_next(&rings, &of, &part, &record, &stack)) {
		event_leave(of);
		count++;
	}
	return count;
}

static void second_class_of_a_thread_is_a_duplicate(void **state)
{
	write_sample(0, 10, 0);
	write_sample(0, 11, 1);
	write_sample(1, 12, 1);
	assert_int_equal(read_all(), 1);
	assert_int_equal(event->rejected_duplicate, 2);
}

static void next_thread_of_that_number_has_its_own_class(void **state)
{
	write_sample(0, 10, 0);
	write_notice(0, 20, PERF_RECORD_EXIT);
	write_sample(0, 40, 1);
	assert_int_equal(read_all(), 2);
	assert_int_equal(event->rejected_duplicate, 0);
}

/* The end stands first in its ring, so it is read before the older samples of the other one. */
static void end_is_read_before_older_samples(void **state)
{
	write_notice(0, 20, PERF_RECORD_EXIT);
	write_notice(0, 30, PERF_RECORD_FORK);
	write_sample(0, 40, 1);
	write_sample(1, 10, 0);
	write_sample(1, 11, 1); /* still of the first */
	assert_int_equal(read_all(), 2);
	assert_int_equal(event->rejected_duplicate, 1);
}

static void birth_tells_of_an_end_that_was_lost(void **state)
{
	write_sample(0, 10, 0);
	write_notice(0, 30, PERF_RECORD_FORK);
	write_sample(0, 40, 1);
	assert_int_equal(read_all(), 2);
	assert_int_equal(event->rejected_duplicate, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(second_class_of_a_thread_is_a_duplicate),
		CASE(next_thread_of_that_number_has_its_own_class),
		CASE(end_is_read_before_older_samples),
		CASE(birth_tells_of_an_end_that_was_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
