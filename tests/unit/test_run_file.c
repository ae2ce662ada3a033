/* SPDX-License-Identifier: MIT */
/*
 * test_run_file.c - a recording gives back what was written; one that was cut or changed anywhere
 * gives what is before the damage, and harms nobody who prints it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "record/file.h"
#include "report/run/run_chunk.h"
#include "report/run/run_file.h"
#include "report/run/run_watch.h"

#define HITS 40
#define FRAMES 5

static char path[] = "/tmp/trapline-run-XXXXXX";

static const struct run_info info = {
	.what = "conn->state", .process = "server", .value_type = "enum state", .pid = 4711,
	.access = 2, .address = 0x5000, .len = 4, .started_ns = 1000, .clock_offset_ns = 77,
};

static void hit_make(unsigned int i, struct run_frame *frames, struct run_hit *out)
{
	*out = (struct run_hit){
		.time_ns = 2000 + i * 10, .pid = 4711, .tid = (pid_t)(4711 + i % 3), .ip = 0x401000 + i % 4,
		.place = { .function = "close_conn", .offset = 4 + i % 4, .module = "server",
			   .module_offset = 0x1000, .file = "src/conn.c", .line = 17 },
		.address = 0x5000, .len = 4, .access = 2, .value_when = 1, .old_known = i > 0,
		.old_value = i, .new_value = i + 1, .change = i % 2 ? "OPEN -> CLOSED" : "? -> OPEN",
		.frames = frames, .frame_count = i % FRAMES,
	};
	snprintf(out->thread, sizeof(out->thread), "worker%u", i % 3);
	for (unsigned int k = 0; k < i % FRAMES; k++)
		frames[k] = (struct run_frame){
			.ip = 0x402000 + k,
			.place = { .function = k ? "caller;<b>" : NULL, .module = "server" },
			.is_inlined = k == 1,
		};
	if (i % 4 == 0)
		out->value = json_pack("{s:s, s:s, s:s}", "type", "enum state", "old", "OPEN", "new",
				       "CLOSED");
}

static const struct run_end end = {
	.reason = "the limit was reached", .mechanism = "bpf", .taken = 44, .delivered = HITS,
	.counts = { { "limit", 3, false }, { "late", 1, true } }, .count_count = 2,
	.cost_ns = 8700, .duration_ns = 123456,
};

static struct run_multiplex_expr exprs[] = {
	{ .name = "first", .address = 0x5000, .len = 4, .chunks = 1, .hits = 30, .watched_ns = 61728 },
	{ .name = "big", .address = 0x6000, .len = 64, .chunks = 8, .hits = 10, .watched_ns = 30864 },
};
static const struct run_multiplex multiplex = { .expr = exprs, .expr_count = 2, .chunks = 9, .registers = 4,
					.slices = 12, .slice_ns = 10000000, .switching_ns = 1234,
					.failures = 2, .unplaced = 17, .duration_ns = 123456 };
static const struct run_objects objects = {
	.at = "make:ret", .until = "destroy", .function = "make", .is_return = true, .calls = 21,
	.registers = 4, .seen = 20, .watched = 15, .ended = 14, .unmapped = 2, .alive = 4, .too_late = 1,
	.no_place = 3, .nothing = 5, .untracked = 6, .life_ns = 1000, .watched_ns = 250, .delays = 7,
	.delay_max_ns = 90000, .delay_median_ns = 40000, .after_end = 8, .calls_lost = 9,
	.stalled = 12, .stalled_ns = 480000, .in_time = 11, .doubtful = 10, .is_frame = true,
};

static void file_write(bool with_end)
{
	struct run_writer *w;
	struct run_frame frames[FRAMES];
	struct run_hit hit;

	assert_int_equal(run_writer_open(path, &info, &w), 0);
	for (unsigned int i = 0; i < HITS; i++) {
		hit_make(i, frames, &hit);
		assert_int_equal(run_writer_hit(w, &hit), 0);
		json_decref(hit.value);
	}
	struct run_end more = end;
	more.objects = &objects;
	more.multiplex = &multiplex;
	if (with_end)
		assert_int_equal(run_writer_end(w, &more), 0);
	run_writer_close(w);
}

static unsigned char *file_read(size_t *size)
{
	FILE *f = fopen(path, "re");
	unsigned char *data = malloc(1 << 20);

	assert_non_null(f);
	*size = fread(data, 1, 1 << 20, f);
	fclose(f);
	return data;
}

static void a_run_comes_back_as_it_was(void **state)
{
	struct run_session *s;
	char why[200];

	file_write(true);
	assert_int_equal(run_session_read(path, &s, why, sizeof(why)), 0);
	assert_string_equal(s->info.what, info.what);
	assert_string_equal(s->info.process, info.process);
	assert_int_equal(s->info.started_ns, info.started_ns);
	assert_int_equal(s->hit_count, HITS);
	for (unsigned int i = 0; i < HITS; i++) {
		struct run_frame frames[FRAMES];
		struct run_hit wanted;
		const struct run_hit *got = &s->hits[i];
		hit_make(i, frames, &wanted);
		assert_int_equal(got->time_ns, wanted.time_ns);
		assert_int_equal(got->tid, wanted.tid);
		assert_int_equal(got->ip, wanted.ip);
		assert_string_equal(got->thread, wanted.thread);
		assert_string_equal(got->change, wanted.change);
		assert_int_equal(got->place.offset, wanted.place.offset);
		assert_string_equal(got->place.file, wanted.place.file);
		assert_int_equal(got->old_known, wanted.old_known);
		assert_int_equal(got->new_value, wanted.new_value);
		assert_int_equal(got->frame_count, wanted.frame_count);
		assert_true(json_equal(got->value, wanted.value) || (!got->value && !wanted.value));
		for (size_t k = 0; k < got->frame_count; k++)
			assert_int_equal(got->frames[k].is_inlined, frames[k].is_inlined);
		json_decref(wanted.value);
	}
	assert_true(s->has_end);
	assert_int_equal(s->good_bytes, s->all_bytes);
	assert_string_equal(s->end.reason, end.reason);
	assert_int_equal(s->end.taken, end.taken);
	assert_int_equal(s->end.counts[0].value, 3);
	assert_true(s->end.counts[1].is_lost);
	run_session_free(s);
}

/* Every form, into nothing; the text of JSON lines must be JSON. */
static void print_all(const struct run_session *s)
{
	static void (*const forms[])(FILE *f, const struct run_session *s) = { run_folded, run_trace,
									       run_html };
	struct run_text text = { .f = fopen("/dev/null", "we") };
	struct tally tally = { 0 };

	for (size_t i = 0; i < s->hit_count; i++) {
		if (s->hits[i].call) {
			run_text_call(&text, &s->info, s->calls, &s->hits[i]);
			run_jsonl_call(text.f, s->calls, &s->hits[i]);
		} else {
			run_text_hit(&text, &s->info, &s->hits[i]);
			run_jsonl_hit(text.f, &s->hits[i]);
		}
		tally_add(&tally, &s->hits[i]);
	}
	if (s->calls) {
		run_text_calls_end(&text, s->calls, &s->end, &s->calls_end);
		run_jsonl_calls_end(text.f, s->calls, &s->end, &s->calls_end);
	}
	run_text_end(&text, &s->info, &s->end, &tally);
	run_jsonl_end(text.f, &s->info, &s->end, &tally);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		forms[i](text.f, s);
	tally_free(&tally);
	fclose(text.f);
}

/* The fields of each kind of chunk, t a text and n a number, as run_write.c has them. */
static const char *const layouts[] = {
	"nt", "tttnnnnnnn", "ntntntnn", "nnntnnnnnnnnnttnnn", "ttttnnnnnnnnnntnntnn",
	"nttnnnn", "nttnn", "nnntnnnttnnnttnnn", "nnnntnnnnnnn",
	"tttnnnnnnnnnnnnnnnnnnn", "nnnnnnnntnnnnntnnnnn",
};
/* An info, a hit and an end with the fields that were added later; z is 0: no frames and counts. */
static const char *const longer[] = { NULL, "tttnnnnnnnn", NULL, "nnntnnnnnnnnnttznttn",
				      "ttttnnnnnnnnnznn" };
#define KINDS (sizeof(layouts) / sizeof(layouts[0]))

static const char *const wheres[] = { "conn_*", "main" };
static struct run_site sites[] = {
	{ .address = 0x1000, .name = "conn_open", .module = "server", .is_emulated = true },
	{ .address = 0x2000, .name = "never_hit", .kind = RUN_SITE_LINE },
	{ .address = 0x3000, .name = "main", .kind = RUN_SITE_INLINED },
};

/* Calls by turns of the first and the last site; every third has returned. */
static void calls_write(void)
{
	struct run_calls calls = { .locations = wheres, .location_count = 2, .description = "3 places",
				   .with_results = true, .site = sites, .site_count = 3,
				   .all_sites = 3, .unresolved = 1, .copies_left_out = 4 };
	struct run_calls_end calls_end = { .emulated = 2, .stepped = 1, .refused_names = "x",
					   .emulated_ns = 412, .stepped_ns = -1, .hardware_ns = -1,
					   .beyond = 5, .not_returned = 6, .unpaired = 7 };
	struct run_writer *w;

	assert_int_equal(run_writer_open(path, &info, &w), 0);
	assert_int_equal(run_writer_calls(w, &calls), 0);
	for (unsigned int i = 0; i < HITS; i++) {
		struct run_call call = { .site = i % 2 ? 2 : 0, .caller = 0x9000 + i % 4,
					 .caller_place.function = "accept", .args = "n=5",
					 .args_json = json_pack("{s:i}", "n", (int)i),
					 .args_later = i % 5 == 0, .has_result = i % 3 == 0,
					 .duration_ns = 100u << i % 20, .result = "16",
					 .result_json = json_integer(16) };
		struct run_frame frames[FRAMES];
		struct run_hit hit;
		hit_make(i, frames, &hit);
		json_decref(hit.value);
		hit.value = NULL;
		hit.call = &call;
		assert_int_equal(run_writer_hit(w, &hit), 0);
		json_decref(call.args_json);
		json_decref(call.result_json);
	}
	assert_int_equal(run_writer_calls_end(w, &calls_end), 0);
	assert_int_equal(run_writer_end(w, &end), 0);
	run_writer_close(w);
}

static void calls_come_back_as_they_were(void **state)
{
	struct run_session *s;
	char why[200];

	calls_write();
	assert_int_equal(run_session_read(path, &s, why, sizeof(why)), 0);
	assert_int_equal(s->good_bytes, s->all_bytes);
	assert_non_null(s->calls);
	assert_int_equal(s->calls->location_count, 2);
	assert_string_equal(s->calls->locations[0], "conn_*");
	assert_int_equal(s->calls->copies_left_out, 4);
	assert_int_equal(s->calls->site_count, 2); /* those that were hit */
	assert_int_equal(s->calls->sums[0].hits, HITS / 2);
	assert_int_equal(s->calls->sums[1].hits, HITS / 2);
	assert_int_equal(s->hit_count, HITS);
	for (unsigned int i = 0; i < HITS; i++) {
		const struct run_call *call = s->hits[i].call;
		assert_string_equal(s->calls->site[call->site].name, i % 2 ? "main" : "conn_open");
		assert_int_equal(s->hits[i].address, i % 2 ? 0x3000 : 0x1000);
		assert_int_equal(call->caller, 0x9000 + i % 4);
		assert_string_equal(call->args, "n=5");
		assert_int_equal(json_integer_value(json_object_get(call->args_json, "n")), i);
		assert_int_equal(call->has_result, i % 3 == 0);
		assert_int_equal(call->args_later, i % 5 == 0);
		assert_int_equal(call->duration_ns, 100u << i % 20);
		assert_int_equal(s->hits[i].frame_count, i % FRAMES);
	}
	assert_int_equal(s->calls_end.unpaired, 7);
	assert_true(s->calls_end.emulated_ns == 412 && s->calls_end.stepped_ns < 0);
	print_all(s);
	run_session_free(s);
}

/* Text and JSON line of the end, to be freed. */
static char *end_print(const struct run_info *i, const struct run_end *e)
{
	struct tally tally = { 0 };
	char *text = NULL;
	size_t n = 0;
	struct run_text out = { .f = open_memstream(&text, &n) };

	run_text_end(&out, i, e, &tally);
	run_jsonl_end(out.f, i, e, &tally);
	fclose(out.f);
	return text;
}

/* The end as it is printed live and from the file is the same, and holds what it should. */
static void what_watches_have_beside_comes_back(void **state)
{
	struct run_end more = end;
	struct run_info several = info;
	struct run_session *s;
	struct run_writer *w;
	struct run_frame frames[FRAMES];
	struct run_hit hit;
	char why[200];

	several.is_several = true;
	more.objects = &objects;
	more.multiplex = &multiplex;
	more.sees_kernel = true;
	more.unseen_changes = 3;
	more.is_stopped = true;
	assert_int_equal(run_writer_open(path, &several, &w), 0);
	hit_make(1, frames, &hit);
	hit.is_by_kernel = true;
	hit.syscall = "read";
	hit.of = "0x5581";
	hit.is_object = true;
	assert_int_equal(run_writer_hit(w, &hit), 0);
	hit_make(2, frames, &hit);
	assert_int_equal(run_writer_hit(w, &hit), 0);
	assert_int_equal(run_writer_end(w, &more), 0);
	run_writer_close(w);
	assert_int_equal(run_session_read(path, &s, why, sizeof(why)), 0);
	assert_int_equal(s->good_bytes, s->all_bytes);
	assert_true(s->info.is_several);
	assert_true(s->hits[0].is_by_kernel && s->hits[0].is_object);
	assert_string_equal(s->hits[0].syscall, "read");
	assert_string_equal(s->hits[0].of, "0x5581");
	assert_false(s->hits[1].is_by_kernel || s->hits[1].is_object);
	assert_null(s->hits[1].of);
	assert_null(s->hits[1].syscall);
	char *live = end_print(&several, &more);
	char *recorded = end_print(&s->info, &s->end);
	assert_string_equal(live, recorded);
	assert_non_null(strstr(recorded, "frames: 20 seen at make:ret, 15 watched, 5 not watched (4 debug registers)"));
	assert_non_null(strstr(recorded, "watched for 25.0% of their lifetimes\n"));
	assert_non_null(strstr(recorded, "   50.0%  first, 4 bytes\n"));
	assert_non_null(strstr(recorded, "17 hits rejected: the address is outside of all expressions\n"));
	assert_non_null(strstr(recorded, "multiplexed: 9 chunks shared 4 debug registers, 12 time slices of 10 ms"));
	assert_non_null(strstr(recorded, "not seen: the value changed at least 3 times without a hit, by DMA"));
	assert_non_null(strstr(recorded, "; the process is stopped\n"));
	free(live);
	free(recorded);
	print_all(s);
	run_session_free(s);
}

static void chunk_write(FILE *f, enum run_chunk kind, struct record_bytes *b)
{
	assert_int_equal(record_write_chunk(f, kind, b), 0);
	b->len = 0;
}

/* As files were before some chunks grew. */
static void old_write(void)
{
	static const struct {
		enum run_chunk kind;
		const char *layout;
	} old[] = { { RUN_INFO, "tttnnnnnnn" },
		    { RUN_PLACE, "ntntntnn" },
		    { RUN_HIT, "nnntznnnnnnnnttz" },
		    { RUN_END, "ttttnnnnnnnnnz" } };
	struct record_bytes b = { 0 };
	FILE *f = fopen(path, "we");

	record_write_header(f);
	for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
		for (const char *field = old[i].layout; *field; field++) {
			if (*field == 't')
				record_put_text(&b, "3");
			else
				record_put_number(&b, *field == 'z' ? 0 : 2);
		}
		chunk_write(f, old[i].kind, &b);
	}
	fclose(f);
	free(b.data);
}

static void a_file_without_the_later_fields_is_read(void **state)
{
	struct run_session *s;
	char why[200];

	old_write();
	assert_int_equal(run_session_read(path, &s, why, sizeof(why)), 0);
	assert_int_equal(s->good_bytes, s->all_bytes);
	assert_int_equal(s->hit_count, 1);
	assert_true(s->has_end);
	assert_false(s->info.is_several || s->hits[0].is_by_kernel || s->end.sees_kernel);
	assert_null(s->hits[0].of);
	char *text = end_print(&s->info, &s->end);
	assert_null(strstr(text, "objects"));
	assert_null(strstr(text, "places\":"));
	assert_null(strstr(text, "multiplexed"));
	assert_null(strstr(text, "without a hit"));
	assert_null(strstr(text, "is stopped"));
	free(text);
	print_all(s);
	run_session_free(s);
}

static void more_places_than_there_can_be_end_the_file(void **state)
{
	static const uint64_t counts[] = { RUN_MULTIPLEX_EXPRS_MAX + 1, UINT64_MAX, UINT64_MAX / 48, 1 };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct record_bytes b = { 0 };
		struct run_session *s;
		char why[200];
		FILE *f = fopen(path, "we");
		record_write_header(f);
		for (int k = 0; k < 7; k++)
			record_put_number(&b, 1);
		record_put_number(&b, counts[i]);
		chunk_write(f, RUN_MULTIPLEX, &b);
		fclose(f);
		free(b.data);
		assert_int_equal(run_session_read(path, &s, why, sizeof(why)), 0);
		assert_true(s->good_bytes < s->all_bytes);
		assert_null(s->end.multiplex);
		print_all(s);
		run_session_free(s);
	}
}

static void a_run_without_end_says_so(void **state)
{
	struct run_session *s;
	char why[200];

	file_write(false);
	assert_int_equal(run_session_read(path, &s, why, sizeof(why)), 0);
	assert_false(s->has_end);
	assert_int_equal(s->hit_count, HITS);
	assert_non_null(strstr(s->end.reason, "no end"));
	run_session_free(s);
}

static void a_file_cut_anywhere_gives_what_is_complete(void **state)
{
	struct run_session *s;
	char why[200];
	size_t size;
	size_t before = 0;

	file_write(true);
	unsigned char *data = file_read(&size);
	for (size_t n = RECORD_FILE_HEADER_BYTES; n <= size; n++) {
		/* A copy of just these bytes, so that a read behind them is seen by the checkers. */
		unsigned char *part = malloc(n);
		memcpy(part, data, n);
		assert_int_equal(run_session_parse(part, n, &s, why, sizeof(why)), 0);
		assert_true(s->hit_count >= before);
		assert_true(s->hit_count - before <= 1);
		assert_int_equal(s->has_end, n == size);
		before = s->hit_count;
		run_session_free(s);
		free(part);
	}
	assert_int_equal(before, HITS);
	free(data);
}

static void what_is_no_recording_is_refused(void **state)
{
	struct run_session *s;
	char why[200];
	unsigned char data[32] = "TRAPLINE\2";

	assert_int_equal(run_session_parse(data, 0, &s, why, sizeof(why)), -EBADMSG);
	assert_int_equal(run_session_parse(data, 32, &s, why, sizeof(why)), -EPROTO);
	data[0] = 'X';
	assert_int_equal(run_session_parse(data, 32, &s, why, sizeof(why)), -EBADMSG);
	assert_int_not_equal(run_session_read("/nonexistent", &s, why, sizeof(why)), 0);
	assert_int_not_equal(run_session_read("/dev/null", &s, why, sizeof(why)), 0);
}

static uint64_t random_state;

static unsigned int random_below(size_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned int)((random_state >> 20) % n);
}

static void seed_set(void)
{
	const char *given = getenv("TRAPLINE_SEED");

	random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) << 16 | 1;
	print_message("# TRAPLINE_SEED=%" PRIu64 "\n", random_state);
}

static void a_changed_byte_ends_the_file_there(void **state)
{
	struct run_session *s;
	char why[200];
	size_t size;

	seed_set();
	file_write(true);
	unsigned char *data = file_read(&size);
	for (int i = 0; i < 500; i++) {
		size_t at = RECORD_FILE_HEADER_BYTES +
			    random_below(size - RECORD_FILE_HEADER_BYTES);
		unsigned char *copy = malloc(size);
		memcpy(copy, data, size);
		copy[at] ^= (unsigned char)(1 + random_below(255));
		assert_int_equal(run_session_parse(copy, size, &s, why, sizeof(why)), 0);
		/* The last four bytes of a chunk's head are not used. */
		assert_true(s->good_bytes <= at || s->good_bytes == size);
		run_session_free(s);
		free(copy);
	}
	free(data);
}

static void field_put(struct record_bytes *b, char kind)
{
	static const char *const texts[] = { "a", "a\033[2J<script>", "", "{\"new\":1e999}", "[[[[",
					     "{\"type\":\"int\",\"new\":3}", "\xc2\x9b;x" };

	if (kind == 'z')
		record_put_number(b, 0);
	else if (kind == 't')
		record_put_text(b, random_below(4) ? texts[random_below(7)] : NULL);
	else
		record_put_number(b, random_below(60) ? random_below(3) : random_state);
}

/* Chunks whose checksums are right and whose contents are nearly so. */
static size_t chunks_make(unsigned char *out, size_t room)
{
	FILE *f = fmemopen(out, room, "w");
	struct record_bytes b = { 0 };

	/* Hits need places, and calls a site. */
	static const unsigned int first[] = { 2, 2, 2, 5, 6 };
	bool is_calls = random_below(2);

	record_write_header(f);
	for (unsigned int i = 0, n = 1 + random_below(20); i < n; i++) {
		unsigned int kind = i < (is_calls ? 5 : 3) ? first[i] :
				    is_calls && random_below(2) ? 7 : random_below(KINDS);
		b.len = 0;
		b.is_failed = false;
		bool is_longer = kind < 5 && longer[kind] && random_below(2);
		for (const char *field = is_longer ? longer[kind] : layouts[kind]; *field && random_below(600); field++)
			field_put(&b, random_below(600) ? *field : 't');
		/* A text's length, or anything else, becomes anything. */
		if (b.len && !random_below(30))
			b.data[random_below(b.len)] = (unsigned char)random_below(256);
		record_write_chunk(f, kind, &b);
	}
	size_t size = (size_t)ftell(f);
	fclose(f);
	free(b.data);
	return size;
}

static void no_content_harms_the_reader(void **state)
{
	static unsigned char room[65536];
	char why[200];
	unsigned long hits = 0;
	unsigned long calls = 0;
	unsigned long of = 0;
	unsigned long sums = 0;

	seed_set();
	for (int i = 0; i < 6000; i++) {
		struct run_session *s;
		size_t size = chunks_make(room, sizeof(room));
		unsigned char *data = malloc(size);
		memcpy(data, room, size);
		assert_int_equal(run_session_parse(data, size, &s, why, sizeof(why)), 0);
		hits += s->hit_count;
		for (size_t k = 0; k < s->hit_count; k++) {
			calls += s->hits[k].call != NULL;
			of += s->hits[k].of != NULL;
		}
		sums += s->end.objects && s->end.multiplex;
		print_all(s);
		run_session_free(s);
		free(data);
	}
	print_message("# %lu hits, of these %lu calls, %lu of one of several\n", hits, calls, of);
	assert_true(of > 100);
	assert_true(sums > 10);
	assert_true(calls > 100);
	assert_true(hits - calls > 100);
}

/* The lines of frames in the text of a hit that has four frames. */
static size_t frame_lines(size_t frames_max)
{
	struct run_frame frames[FRAMES];
	struct run_hit hit;
	char *text = NULL;
	size_t n = 0;
	size_t lines = 0;
	struct run_text out = { .f = open_memstream(&text, &n), .frames_max = frames_max };

	hit_make(4, frames, &hit);
	run_text_hit(&out, &info, &hit);
	fclose(out.f);
	for (const char *c = text; (c = strstr(c, "\n    #")); c++)
		lines++;
	assert_non_null(strstr(text, "\n    #0 "));
	json_decref(hit.value);
	free(text);
	return lines;
}

static void stacks_are_cut_to_the_number_of_frames(void **state)
{
	assert_int_equal(frame_lines(0), 4);
	assert_int_equal(frame_lines(1), 1);
	assert_int_equal(frame_lines(3), 3);
	assert_int_equal(frame_lines(9), 4);
}

/* A valid run whose numbers and texts are random: it goes through all forms. */
static void a_hostile_name_stays_a_name(void **state)
{
	struct run_session *s;
	struct run_writer *w;
	struct run_frame frame = { .place.function = "</script><script>x()</script>;\033[31m\n" };
	struct run_hit hit = { .change = "\033]0;title\007", .frames = &frame, .frame_count = 1,
			       .place.function = "\xff\xfe" };
	char why[200];
	char *text = NULL;
	size_t n = 0;

	assert_int_equal(run_writer_open(path, &info, &w), 0);
	assert_int_equal(run_writer_hit(w, &hit), 0);
	run_writer_close(w);
	assert_int_equal(run_session_read(path, &s, why, sizeof(why)), 0);
	FILE *f = open_memstream(&text, &n);
	run_html(f, s);
	fclose(f);
	assert_null(strstr(text, "<script>x()"));
	assert_null(strchr(text, '\033'));
	free(text);
	f = open_memstream(&text, &n);
	struct run_text out = { .f = f };
	run_text_hit(&out, &s->info, &s->hits[0]);
	run_folded(f, s);
	fclose(f);
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "script>:?[31m? 1\n"));
	free(text);
	print_all(s);
	run_session_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_comes_back_as_it_was),
		cmocka_unit_test(calls_come_back_as_they_were),
		cmocka_unit_test(what_watches_have_beside_comes_back),
		cmocka_unit_test(stacks_are_cut_to_the_number_of_frames),
		cmocka_unit_test(a_file_without_the_later_fields_is_read),
		cmocka_unit_test(more_places_than_there_can_be_end_the_file),
		cmocka_unit_test(a_run_without_end_says_so),
		cmocka_unit_test(a_file_cut_anywhere_gives_what_is_complete),
		cmocka_unit_test(what_is_no_recording_is_refused),
		cmocka_unit_test(a_changed_byte_ends_the_file_there),
		cmocka_unit_test(no_content_harms_the_reader),
		cmocka_unit_test(a_hostile_name_stays_a_name),
	};
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
