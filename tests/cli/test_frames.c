/* SPDX-License-Identifier: MIT */
/*
 * test_frames.c - variables on the stack: where they are, from when until when, and which writes a watch
 * reports. The program prints how many writes there were.
 */
#include "../kernel/common.h"

#include "report/dwarf/symbols.h"
#include "report/dwarf/variables.h"
#include "report/lang/frame_variable.h"

#include <sys/ptrace.h>

static const char *folder; /* of the victims */

static pid_t start_frames(const char *mode, const char *rounds)
{
	char path[4096];
	char byte;
	int ready[2];

	assert_int_equal(pipe(ready), 0);
	snprintf(path, sizeof(path), "%s/frames", folder);
	pid_t pid = fork();
	if (!pid) {
		dup2(ready[1], 1);
		close(ready[0]);
		close(ready[1]);
		execl(path, path, mode, rounds, (char *)NULL);
		_exit(127);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void stop_frames(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* --- where the variable is, by uprobes: no register is needed --- */

struct lives {
	const struct frame_variable *v;
	uint64_t last; /* address of the variable in the frame that began last */
	unsigned long begun;
	unsigned long ended;
	bool is_alive;
	bool is_wrong; /* a frame began or ended twice */
	struct trapline_event *entries;
	struct trapline_event *exits;
};

static const struct frame_site *site_at(const struct frame_sites *sites, uint64_t address)
{
	for (size_t i = 0; i < sites->count; i++)
		if (sites->site[i].address == address)
			return &sites->site[i];
	return NULL;
}

static enum trapline_action on_edge(const struct trapline_hit *hit)
{
	struct lives *l = hit->arg;
	bool is_entry = hit->event == l->entries;
	uint64_t base;

	if (!is_entry && l->v->is_whole && !hit->returned)
		return TRAPLINE_GO_ON;
	if (!is_entry) {
		l->ended += l->is_alive;
		l->is_alive = false;
		return TRAPLINE_GO_ON;
	}
	const struct frame_site *site = site_at(&l->v->entries, hit->address);
	if (!site || trapline_hit_register(hit, site->reg, &base)) {
		l->is_wrong = true;
		return TRAPLINE_GO_ON;
	}
	/* Within a loop a thread may come by again. */
	if (l->is_alive && !l->v->is_whole)
		return TRAPLINE_GO_ON;
	l->is_wrong |= l->is_alive;
	l->is_alive = true;
	l->last = base + (uint64_t)site->add + (uint64_t)l->v->offset;
	l->begun++;
	return TRAPLINE_GO_ON;
}

static struct trapline_event *break_on(struct trapline *t, const struct frame_sites *sites,
				       uint32_t flags, void *arg)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event = NULL;
	uint64_t addresses[64];

	assert_true(sites->count > 0 && sites->count <= ARRAY_LEN(addresses));
	for (size_t i = 0; i < sites->count; i++)
		addresses[i] = sites->site[i].address;
	opts.flags = flags;
	opts.arg = arg;
	assert_int_equal(trapline_break_sites(t, addresses, sites->count, &opts, &event), 0);
	return event;
}

static uint64_t read_word(struct symbols *s, const char *name)
{
	struct variables_problem problem;
	struct named_variable v;
	uint64_t value = 0;

	assert_int_equal(variables_find(s, NULL, name, &v, &problem), 0);
	assert_int_equal(symbols_read(s, v.address, &value, sizeof(value)), 0);
	return value;
}

/* The address that the program has published, whenever no frame began in between. */
static void compare_addresses(struct symbols *s, struct trapline *t, struct lives *l)
{
	unsigned int equal = 0;

	for (int i = 0; i < 3000 && equal < 10; i++) {
		uint64_t before = read_word(s, "places");
		usleep(3000);
		while (trapline_poll(t, 0, on_edge) > 0)
			;
		unsigned long begun = l->begun;
		uint64_t place = read_word(s, "place");
		usleep(1000);
		while (trapline_poll(t, 0, on_edge) > 0)
			;
		if (!begun || l->begun != begun || read_word(s, "places") != before)
			continue;
		assert_int_equal(place, l->last);
		equal++;
	}
	assert_int_equal(equal, 10);
}

static void follow_variable(const char *mode, const char *function, const char *name, bool is_whole)
{
	struct code_sites sites = { 0 };
	struct frame_variable *v = NULL;
	struct trapline *t = NULL;
	struct symbols *s = NULL;
	size_t count = 0;
	char why[500] = "";

	if (geteuid())
		skip_because("uprobes and BPF (root)");
	pid_t pid = start_frames(mode, "100000");
	assert_int_equal(symbols_open(pid, &s), 0);
	assert_int_equal(code_sites_find(s, function, &sites, why, sizeof(why)), 0);
	for (size_t i = 0; i < sites.count && !count; i++)
		frame_variable_find(s, &sites.site[i], name, &v, &count, why, sizeof(why));
	if (!count)
		print_message("# %s\n", why);
	assert_int_equal(count, 1);
	assert_int_equal(v->is_whole, is_whole);
	struct lives l = { .v = v };
	assert_int_equal(trapline_open(pid, NULL, &t), 0);
	keep_target(t);
	l.exits = is_whole ? break_on(t, &v->entries, TRAPLINE_RETURNS, &l) :
			     break_on(t, &v->exits, 0, &l);
	l.entries = break_on(t, &v->entries, 0, &l);
	compare_addresses(s, t, &l);
	print_message("# %s: %lu begun, %lu ended, wrong %d; from", mode, l.begun, l.ended,
		      l.is_wrong);
	for (size_t i = 0; i < v->entries.count; i++)
		print_message(" 0x%llx", (unsigned long long)(v->entries.site[i].address & 0xffff));
	print_message(" to");
	for (size_t i = 0; i < v->exits.count; i++)
		print_message(" 0x%llx", (unsigned long long)(v->exits.site[i].address & 0xffff));
	print_message("\n");
	assert_true(l.begun - l.ended <= 1);
	assert_false(l.is_wrong);
	close_target(t);
	frame_variables_free(v, count);
	code_sites_free(&sites);
	symbols_close(s);
	stop_frames(pid);
}

static void a_variable_is_where_the_program_says(void **state)
{
	(void)state;
	follow_variable("plain", "parse_line", "count", true);
}

static void so_is_one_of_an_inlined_copy(void **state)
{
	(void)state;
	follow_variable("inlined", "inlined_part", "inner", false);
}

static void so_is_one_of_a_block(void **state)
{
	(void)state;
	follow_variable("block", "in_block", "first", false);
}

/* --- stops --- */

struct stops {
	unsigned int stopped;
	unsigned int hits;
};

static enum trapline_action on_stop(const struct trapline_hit *hit)
{
	struct stops *s = hit->arg;

	s->hits++;
	s->stopped += hit->stopped;
	return TRAPLINE_GO_ON;
}

/* A thread that ignores the signal does not notice it; its tracer stalls it. */
static void the_next_hits_stop_a_traced_thread(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event = NULL;
	struct code_sites sites = { 0 };
	struct stops stops = { 0 };
	struct trapline *t = NULL;
	struct symbols *s = NULL;
	char why[500];
	int status;

	(void)state;
	if (geteuid())
		skip_because("uprobes, BPF and ptrace (root)");
	pid_t pid = start_frames("plain", "100000");
	assert_int_equal(symbols_open(pid, &s), 0);
	assert_int_equal(code_sites_find(s, "parse_line", &sites, why, sizeof(why)), 0);
	assert_int_equal(trapline_open(pid, NULL, &t), 0);
	keep_target(t);
	opts.arg = &stops;
	opts.signal = SIGURG;
	assert_int_equal(trapline_break_sites(t, &sites.site[0].address, 1, &opts, &event),
			 -EINVAL);
	opts.flags = TRAPLINE_STOP;
	assert_int_equal(trapline_break_sites(t, &sites.site[0].address, 1, &opts, &event), 0);
	assert_int_equal(trapline_event_stop_next(event, UINT64_MAX), -EINVAL);

	/* Not traced: it goes on. */
	assert_int_equal(trapline_event_stop_next(event, 2), 0);
	WAIT_UNTIL(trapline_poll(t, 1000, on_stop) < 0 || stops.hits > 4);
	assert_int_equal(stops.stopped, 2);

	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	for (int i = 0; i < 3; i++) {
		stops = (struct stops){ 0 };
		assert_int_equal(trapline_event_stop_next(event, 1), 0);
		assert_int_equal(waitpid(pid, &status, __WALL), pid);
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGURG && !(status >> 16));
		while (trapline_poll(t, 0, on_stop) > 0)
			;
		assert_int_equal(stops.stopped, 1);
		/* Stalled: no further call. */
		unsigned int hits = stops.hits;
		usleep(30000);
		while (trapline_poll(t, 0, on_stop) > 0)
			;
		assert_int_equal(stops.hits, hits);
		assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
		WAIT_UNTIL(trapline_poll(t, 1000, on_stop) < 0 || stops.hits > hits + 2);
		assert_int_equal(stops.stopped, 1);
	}
	close_target(t);
	code_sites_free(&sites);
	symbols_close(s);
	stop_frames(pid);
}

/* The tracer is killed while it stalls the thread: the thread continues. */
static void a_stalled_thread_survives_its_tracer(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event = NULL;
	struct code_sites sites = { 0 };
	struct stops stops = { 0 };
	struct trapline *t = NULL;
	struct symbols *s = NULL;
	char why[500];
	int traced[2];
	char byte;

	(void)state;
	if (geteuid())
		skip_because("uprobes, BPF and ptrace (root)");
	pid_t pid = start_frames("plain", "100000");
	assert_int_equal(symbols_open(pid, &s), 0);
	assert_int_equal(code_sites_find(s, "parse_line", &sites, why, sizeof(why)), 0);
	assert_int_equal(trapline_open(pid, NULL, &t), 0);
	keep_target(t);
	opts.arg = &stops;
	opts.signal = SIGURG;
	opts.flags = TRAPLINE_STOP;
	assert_int_equal(trapline_break_sites(t, &sites.site[0].address, 1, &opts, &event), 0);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(pipe(traced), 0);
		pid_t tracer = fork();
		if (!tracer) {
			(void)!write(traced[1], "", ptrace(PTRACE_SEIZE, pid, NULL, NULL) ? 0 : 1);
			waitpid(pid, NULL, __WALL);
			(void)!write(traced[1], "", 1);
			for (;;)
				pause();
		}
		close(traced[1]);
		assert_int_equal(read(traced[0], &byte, 1), 1);
		assert_int_equal(trapline_event_stop_next(event, 1), 0);
		assert_int_equal(read(traced[0], &byte, 1), 1);
		close(traced[0]);
		kill(tracer, SIGKILL);
		assert_int_equal(waitpid(tracer, NULL, 0), tracer);
		unsigned int hits = stops.hits;
		WAIT_UNTIL(trapline_poll(t, 1000, on_stop) < 0 || stops.hits > hits + 2);
		assert_int_equal(kill(pid, 0), 0);
	}
	assert_int_equal(stops.stopped, 10);
	close_target(t);
	code_sites_free(&sites);
	symbols_close(s);
	stop_frames(pid);
}

/* --- the command --- */

static void run_command(const char *victim, const char *expr, const char *options, const char *mode,
			int rounds, char *out, size_t size)
{
	char command[8192];
	char path[4096];
	size_t used = 0;

	snprintf(path, sizeof(path), "%s/trapline", folder);
	if (access(path, X_OK))
		snprintf(path, sizeof(path), "%s/../trapline", folder);
	snprintf(command, sizeof(command), "%s watch '%s' %s -- %s/%s %s %d 2>&1", path, expr,
		 options, folder, victim, mode, rounds);
	FILE *f = popen(command, "r");
	assert_non_null(f);
	while (used + 1 < size && fgets(out + used, (int)(size - used), f))
		used += strlen(out + used);
	pclose(f);
	out[used] = '\0';
	if (strstr(out, "debug registers of this machine do not work"))
		skip_because("debug registers that fire");
}

static unsigned long count_of(const char *text, const char *part)
{
	unsigned long n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

static unsigned long number_behind(const char *text, const char *part)
{
	const char *at = strstr(text, part);

	return at ? strtoul(at + strlen(part), NULL, 10) : ~0ul;
}

struct shares {
	unsigned long writes;
	unsigned long hits;
	unsigned long registers;
};

static struct shares watch_frames_of(const char *victim, const char *expr, const char *options,
				     const char *mode, int rounds)
{
	static char out[1 << 20];

	run_command(victim, expr, options, mode, rounds, out, sizeof(out));
	struct shares s = { .writes = number_behind(out, "\nwrites "),
			    .hits = count_of(out, "{\"type\":\"hit\""),
			    .registers = number_behind(out, "\"registers\":") };
	const char *end = strstr(out, "{\"type\":\"summary\"");
	print_message("# %s %s %s: %lu of %lu writes; %s\n", expr, options, mode, s.hits, s.writes,
		      end ? strstr(end, "\"objects\"") : out);
	/* What others write into the same memory. */
	assert_null(strstr(out, "\"new\":21845"));
	assert_true(s.writes != ~0ul && s.hits <= s.writes);
	return s;
}

static struct shares watch_frames(const char *expr, const char *options, const char *mode,
				  int rounds)
{
	return watch_frames_of("frames", expr, options, mode, rounds);
}

/* Several frames at a time need several registers, which other programs may have. */
static void all_are_reported(struct shares s)
{
	if (s.hits < s.writes && s.registers < 4)
		skip_because("four free debug registers");
	assert_int_equal(s.hits, s.writes);
}

static void each_write_to_a_stalled_frame_is_reported(void **state)
{
	(void)state;
	struct shares s = watch_frames("parse_line:count", "--json --stall 100%", "plain", 20);
	assert_int_equal(s.hits, s.writes);
}

static void writes_of_two_threads_are_reported(void **state)
{
	(void)state;
	struct shares s = watch_frames("parse_line:count", "--json --stall 100%", "threads", 10);
	all_are_reported(s);
}

static void each_frame_of_a_recursion_is_an_object(void **state)
{
	(void)state;
	struct shares s = watch_frames("descend:level", "--json --stall 100%", "recursion", 10);
	all_are_reported(s);
}

static void an_inlined_copy_is_watched_while_it_runs(void **state)
{
	(void)state;
	struct shares s = watch_frames("inlined_part:inner", "--json --stall 100%", "inlined", 10);
	assert_int_equal(s.hits, s.writes);
}

static void a_block_is_watched_while_it_runs(void **state)
{
	(void)state;
	struct shares s = watch_frames("in_block:first[0]", "--json --stall 100%", "block", 10);
	assert_int_equal(s.hits, s.writes);
}

static void a_frame_left_by_longjmp_is_not_reported_any_more(void **state)
{
	(void)state;
	struct shares s = watch_frames("left_by_jump:before", "--json --stall 100%", "jump", 10);
	assert_int_equal(s.hits, s.writes);
}

static void a_frame_left_by_pthread_exit_is_not_reported_any_more(void **state)
{
	(void)state;
	struct shares s = watch_frames("left_by_exit:before", "--json --stall 100%", "exit", 10);
	assert_int_equal(s.hits, s.writes);
}

static void a_frame_left_by_an_exception_is_not_reported_any_more(void **state)
{
	(void)state;
	struct shares s =
		watch_frames_of("frames_cpp", "thrown:value", "--json --stall 100%", "thrown", 10);
	assert_int_equal(s.hits, s.writes);
}

/* From the throw to the catch its hits are rejected: it makes none then. */
static void a_frame_that_catches_goes_on(void **state)
{
	(void)state;
	struct shares s =
		watch_frames_of("frames_cpp", "caught:value", "--json --stall 100%", "caught", 10);
	assert_int_equal(s.hits, s.writes);
}

/* The first two writes are made in the function itself. */
static void each_write_to_a_new_object_is_reported(void **state)
{
	(void)state;
	struct shares s = watch_frames("t->count",
				       "--from thing_begin --until thing_end --json --stall 100%",
				       "objects", 20);
	assert_int_equal(s.hits, s.writes);
	s = watch_frames("((struct thing *)ret)->count",
			 "--from thing_make:ret --until thing_end --json --stall 100%", "objects",
			 20);
	assert_int_equal(s.hits, s.writes);
}

/* Without it the share is what it is; other writes are not reported either. */
static void without_a_stall_some_are_missed(void **state)
{
	(void)state;
	watch_frames("t->count", "--from thing_begin --until thing_end --json --no-stall",
		     "objects", 20);
}

static void a_variable_in_a_register_is_refused(void **state)
{
	char out[4096];

	(void)state;
	run_command("frames", "in_register:held", "", "plain", 1, out, sizeof(out));
	assert_non_null(strstr(out, "is in a register"));
	run_command("frames", "parse_line:nosuch", "", "plain", 1, out, sizeof(out));
	assert_non_null(strstr(out, "parse_line has no variable 'nosuch'"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_variable_is_where_the_program_says),
		TEST(so_is_one_of_an_inlined_copy),
		TEST(so_is_one_of_a_block),
		TEST(the_next_hits_stop_a_traced_thread),
		TEST(a_stalled_thread_survives_its_tracer),
		TEST(a_variable_in_a_register_is_refused),
		TEST(each_write_to_a_stalled_frame_is_reported),
		TEST(writes_of_two_threads_are_reported),
		TEST(each_frame_of_a_recursion_is_an_object),
		TEST(an_inlined_copy_is_watched_while_it_runs),
		TEST(a_block_is_watched_while_it_runs),
		TEST(a_frame_left_by_longjmp_is_not_reported_any_more),
		TEST(a_frame_left_by_pthread_exit_is_not_reported_any_more),
		TEST(a_frame_left_by_an_exception_is_not_reported_any_more),
		TEST(a_frame_that_catches_goes_on),
		TEST(each_write_to_a_new_object_is_reported),
		TEST(without_a_stall_some_are_missed),
	};

	folder = argc > 1 ? argv[1] : ".";
	return run_group(tests);
}
