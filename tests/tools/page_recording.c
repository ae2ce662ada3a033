/* SPDX-License-Identifier: MIT */
/*
 * page_recording.c - writes a recording whose contents are always the same, for the tests of pages.
 *
 * page_recording values|calls HITS FILE. The values are three variables that differ by powers of ten;
 * the calls are three functions with durations from 1 microsecond to 0.1 seconds. The writer is that of
 * `trapline record`.
 */
#include "report/run/run_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_NS 50000000000u
#define CLOCK_NS 1700000000000000000u /* to be added: 2023-11-14 22:14:10 UTC */
#define STEP_NS 400000u
#define FRAMES 3

/* Not rand(): the same numbers with each C library. */
static uint32_t next(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static struct run_frame frame(uint64_t ip, const char *function, const char *file, int line)
{
	return (struct run_frame){ .ip = ip,
				   .place = { .function = function,
					      .offset = ip & 0xff,
					      .module = "bank",
					      .module_offset = ip & 0xffff,
					      .file = file,
					      .line = line } };
}

static void begin_hit(struct run_hit *hit, uint64_t i, uint32_t *random, struct run_frame *frames)
{
	static const char *const functions[] = { "pay", "close_account", "audit<int>", "main" };
	unsigned int site = next(random) % 3;
	unsigned int thread = next(random) % 7 < 4 ? 0 : next(random) % 4;

	memset(hit, 0, sizeof(*hit));
	hit->time_ns = START_NS + i * STEP_NS + next(random) % (STEP_NS / 2);
	hit->pid = 4711;
	hit->tid = 4711 + (pid_t)thread;
	snprintf(hit->thread, sizeof(hit->thread), thread ? "worker%u" : "bank", thread);
	frames[0] = frame(0x401010 + site, functions[site], "src/bank.c", 40 + (int)site);
	frames[1] = frame(0x402020, "serve_a_client_with_a_rather_long_name", "src/serve.c", 128);
	frames[2] = frame(0x403030, functions[3], "src/main.c", 12);
	hit->ip = frames[0].ip;
	hit->place = frames[0].place;
	hit->frames = frames;
	hit->frame_count = FRAMES;
}

static int values(struct run_writer *w, uint64_t count)
{
	static const char *const states[] = { "IDLE", "OPEN", "BUSY", "CLOSED" };
	static const char *const names[] = { "bank.total", "conn->state", "ratio" };
	double last[3] = { 0, 0, 1 };
	uint32_t random = 1;

	for (uint64_t i = 0; i < count; i++) {
		struct run_frame frames[FRAMES];
		struct run_hit hit;
		char change[64];
		unsigned int which = i % 10 < 7 ? 0 : i % 10 < 9 ? 1 : 2;
		double now = which == 0 ? last[0] + next(&random) % 90 :
			     which == 1 ? next(&random) % 4 :
					  (double)(next(&random) % 1000) / 1000 - 0.5;

		begin_hit(&hit, i, &random, frames);
		hit.access = 2;
		hit.value_when = 1;
		hit.of = names[which];
		hit.value = json_pack("{s:s}", "type", which == 2 ? "double" : "long");
		if (which == 1) {
			snprintf(change, sizeof(change), "%s -> %s", states[(int)last[1]],
				 states[(int)now]);
			hit.new_value = (uint64_t)now;
		} else {
			snprintf(change, sizeof(change), "%.10g -> %.10g", last[which], now);
			json_object_set_new(hit.value, "new", json_real(now));
		}
		hit.change = change;
		last[which] = now;
		int err = run_writer_hit(w, &hit);
		json_decref(hit.value);
		if (err)
			return err;
	}
	return 0;
}

static int calls(struct run_writer *w, uint64_t count)
{
	uint32_t random = 2;

	for (uint64_t i = 0; i < count; i++) {
		struct run_frame frames[FRAMES];
		struct run_hit hit;
		char args[64];
		char result[32];
		unsigned int which = i % 10 < 6 ? 0 : i % 10 < 9 ? 1 : 2;
		int value = (int)(next(&random) % 200) - 20;

		begin_hit(&hit, i, &random, frames);
		snprintf(args, sizeof(args), "key=\"account %u\", cents=%u", next(&random) % 5000,
			 next(&random) % 100);
		snprintf(result, sizeof(result), "%d", value);
		struct run_call call = { .site = which,
					 .caller = frames[1].ip,
					 .caller_place = frames[1].place,
					 .args = args,
					 .has_result = i % 50 != 49,
					 .duration_ns = 1000u << (next(&random) % 17),
					 .result = result,
					 .result_json = json_integer(value) };
		hit.call = &call;
		hit.access = RUN_ACCESS_EXECUTE;
		int err = run_writer_hit(w, &hit);
		json_decref(call.result_json);
		if (err)
			return err;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const locations[] = { "lookup", "store", "sweep" };
	static struct run_site sites[] = { { .address = 0x1000, .name = "lookup", .module = "bank" },
					   { .address = 0x2000, .name = "store", .module = "bank" },
					   { .address = 0x3000, .name = "sweep", .module = "bank" } };
	struct run_calls all = { .locations = locations, .location_count = 3,
				 .description = "3 functions", .with_results = true,
				 .site = sites, .site_count = 3, .all_sites = 3 };
	struct run_info info = { .process = "bank", .pid = 4711, .started_ns = START_NS,
				 .clock_offset_ns = CLOCK_NS };
	struct run_writer *w;

	if (argc != 4)
		return 2;
	bool is_calls = !strcmp(argv[1], "calls");
	uint64_t count = strtoull(argv[2], NULL, 10);
	info.what = is_calls ? "lookup store sweep" : "bank.total conn->state ratio";
	info.is_several = !is_calls;
	info.access = is_calls ? RUN_ACCESS_EXECUTE : 2;
	struct run_end end = { .reason = RUN_ENDED_LIMIT, .mechanism = "BPF records", .taken = count + 3,
			       .delivered = count, .counts = { { "limit", 3, false } },
			       .count_count = 1, .cost_ns = 8700, .duration_ns = count * STEP_NS };
	struct run_calls_end calls_end = { .refused_names = "", .emulated_ns = -1, .stepped_ns = -1,
					   .hardware_ns = -1, .probe_ns = -1 };
	if (run_writer_open(argv[3], &info, &w) || (is_calls && run_writer_calls(w, &all)) ||
	    (is_calls ? calls(w, count) : values(w, count)) ||
	    (is_calls && run_writer_calls_end(w, &calls_end)) || run_writer_end(w, &end))
		return 1;
	run_writer_close(w);
	return 0;
}
