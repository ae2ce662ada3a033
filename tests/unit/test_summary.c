/* SPDX-License-Identifier: MIT */
/* test_summary.c - the exact lines of a summary: one when all is well, one more for each exception. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "report/run/run_call.h"
#include "report/run/writer.h"

static const struct run_info info = { .what = "counter", .pid = 4711, .access = 2, .len = 8 };

/* 161 hits of one site and thread in ten seconds. */
static const struct run_end well = {
	.reason = RUN_ENDED_TIME, .mechanism = "bpf", .taken = 161, .delivered = 161,
	.counts = { { "condition", 0, false }, { "ring_full", 0, true } }, .count_count = 2,
	.cost_ns = 4300, .duration_ns = 10000000000, .max_rate = 1000,
};

#define HEAD "161 hits in 10.0 s"
#define TABLES                                                   \
	"\n      hits  share  threads  where\n"                  \
	"       161 100.0%        1  bump in app\n"              \
	"\n      hits  share    sites  thread\n"                 \
	"       161 100.0%        1  worker/4712\n"

static void check(const struct run_end *end, unsigned int hits, bool is_verbose, const char *expected)
{
	struct run_hit hit = { .ip = 0x1000, .tid = 4712, .thread = "worker",
			       .place = { .function = "bump", .module = "app" } };
	struct tally tally = { 0 };
	char *text = NULL;
	size_t n = 0;
	struct run_text out = { .f = open_memstream(&text, &n), .is_verbose = is_verbose };

	for (unsigned int i = 0; i < hits; i++)
		tally_add(&tally, &hit);
	run_text_end(&out, &info, end, &tally);
	fclose(out.f);
	assert_string_equal(text, expected);
	free(text);
	tally_free(&tally);
}

static void all_is_well_in_one_line(void **state)
{
	check(&well, 161, false, "\n" HEAD ", none lost\n" TABLES);
}

static void an_end_that_was_not_asked_for_is_in_the_first_line(void **state)
{
	struct run_end end = well;

	end.reason = "the process ended";
	end.command = "exited with status 3";
	check(&end, 161, false,
	      "\n" HEAD ", none lost; the process ended\ncommand: exited with status 3\n" TABLES);
	end = well;
	end.is_stopped = true;
	check(&end, 161, false, "\n" HEAD ", none lost; the process is stopped\n" TABLES);
}

static void lost_hits_add_the_balance(void **state)
{
	struct run_end end = well;

	end.taken = 173;
	end.counts[1].value = 12;
	check(&end, 161, false,
	      "\n" HEAD ", 12 lost\n" TABLES
	      "\ntaken 173 = rejected 0 + delivered 161 + lost 12 (ring_full 12)\n");
}

static void pauses_add_a_line(void **state)
{
	struct run_end end = well;

	end.pauses = 3;
	end.paused_ns = 2600000000;
	check(&end, 161, false,
	      "\n" HEAD ", paused for 26% of the time\n" TABLES
	      "\npaused 3 times, 2.6 s of 10.0 s, to stay below 1000 hits a second; hits in a pause were "
	      "not seen (--max-rate 0: no pauses)\n");
}

static void rejected_hits_add_a_line(void **state)
{
	struct run_end end = well;

	end.taken = 200;
	end.counts[0].value = 39;
	check(&end, 161, false, "\n" HEAD ", none lost\n" TABLES "\n--if rejected 39 of 200 hits\n");
}

/* Few hits pass, the target pays for all of them, and nothing else shows it. */
static void rejected_hits_that_cost_much_say_so(void **state)
{
	struct run_end end = well;

	end.taken = 230192;
	end.delivered = 0;
	end.counts[0].value = 230192;
	check(&end, 0, false,
	      "0 hits in 10.0 s\n"
	      "--if rejected 230192 of 230192 hits; each hit cost the target up to 4.3 us, in all 9.9% of "
	      "one CPU\n");
	end.condition_faults = 7;
	end.cost_ns = 43000;
	check(&end, 0, false,
	      "0 hits in 10.0 s\n"
	      "--if rejected 230192 of 230192 hits; each hit cost the target up to 43.0 us, in all 99% of "
	      "one CPU\n"
	      "7 of them because the condition could not be evaluated: unreadable memory, or a division "
	      "by 0\n");
}

static void hits_that_cost_much_say_so(void **state)
{
	struct run_end end = well;

	end.cost_ns = 1000000;
	check(&end, 161, false,
	      "\n" HEAD ", none lost\n" TABLES
	      "\na hit cost the target about 1000.0 us, in all 1.6% of one CPU\n");
}

static void no_hit_says_what_is_not_seen(void **state)
{
	struct run_end end = well;

	end.taken = end.delivered = 0;
	check(&end, 0, false,
	      "0 hits in 10.0 s\n"
	      "not seen: an access by a system call (--kernel reports those), DMA, another process or "
	      "another mapping of the same memory\n");
	end.unseen_changes = 1;
	end.sees_kernel = true;
	check(&end, 0, false,
	      "0 hits in 10.0 s\n"
	      "not seen: the value changed at least 1 time without a hit, by DMA, another process or another "
	      "mapping\n");
}

static void verbose_has_the_bookkeeping(void **state)
{
	struct run_end end = well;

	end.evaluated_in = "kernel";
	check(&end, 161, true,
	      "\n" HEAD ", none lost\n" TABLES
	      "\ntaken 161 = rejected 0 + delivered 161 + lost 0\n"
	      "the condition was evaluated in the kernel: a rejected hit has no other effect\n"
	      "mechanism: BPF records, with the values at the hit; a hit costs the target about 4.3 us on "
	      "this machine\n"
	      "ended: the time is over\n"
	      "not seen: an access by a system call (--kernel reports those), DMA, another process or "
	      "another mapping of the same memory\n");
}

static void an_output_that_failed_lost_something(void **state)
{
	struct run_end end = well;

	end.reason = RUN_ENDED_OUTPUT;
	check(&end, 161, false, "\n" HEAD "; an output cannot be written\n" TABLES);
}

/* A stack as libc makes it, and the place that is told. */
static void writer_check(const char *function, const char *module, const char *via, const char *where)
{
	const struct run_frame frames[] = {
		{ .ip = 0x1000, .place = { .function = function, .module = module } },
		{ .ip = 0x2000, .place = { .function = "fill", .module = "app" } },
		{ .ip = 0x3000, .place = { .function = "main", .module = "app" } },
	};
	struct run_hit hit = { .ip = 0x1000, .place = frames[0].place, .frames = frames,
			       .frame_count = 3 };

	run_hit_set_writer(&hit);
	assert_string_equal(hit.place.function, where);
	assert_int_equal(hit.ip, via ? 0x2000 : 0x1000);
	assert_true(via ? hit.via && !strcmp(hit.via, via) : !hit.via);
	hit.frame_count = 1;
	hit.via = NULL;
	hit.place = frames[0].place;
	run_hit_set_writer(&hit);
	assert_string_equal(hit.place.function, function);
	assert_null(hit.via);
}

static void the_writer_of_a_copy_is_its_caller(void **state)
{
	writer_check("__memmove_avx512_unaligned_erms", "libc.so.6", "memmove", "fill");
	writer_check("__memset_evex_unaligned", "libc-2.31.so", "memset", "fill");
	writer_check("strcpy", "libc.so.6", "strcpy", "fill");
	writer_check("__mempcpy_sse2", "static_app", "mempcpy", "fill");
	writer_check("memcpy", "ld-musl-x86_64.so.1", "memcpy", "fill");
}

static void other_functions_write_themselves(void **state)
{
	writer_check("memcpy_page", "app", NULL, "memcpy_page");
	writer_check("memset", "app", NULL, "memset");
	writer_check("memsetting", "libc.so.6", NULL, "memsetting");
	writer_check("qsort", "libc.so.6", NULL, "qsort");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_writer_of_a_copy_is_its_caller),
		cmocka_unit_test(other_functions_write_themselves),
		cmocka_unit_test(all_is_well_in_one_line),
		cmocka_unit_test(an_end_that_was_not_asked_for_is_in_the_first_line),
		cmocka_unit_test(lost_hits_add_the_balance),
		cmocka_unit_test(pauses_add_a_line),
		cmocka_unit_test(rejected_hits_add_a_line),
		cmocka_unit_test(rejected_hits_that_cost_much_say_so),
		cmocka_unit_test(hits_that_cost_much_say_so),
		cmocka_unit_test(no_hit_says_what_is_not_seen),
		cmocka_unit_test(verbose_has_the_bookkeeping),
		cmocka_unit_test(an_output_that_failed_lost_something),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
