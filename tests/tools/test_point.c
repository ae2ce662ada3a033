/* SPDX-License-Identifier: MIT */
/*
 * test_point.c - a process is stopped exactly at a point: count, instruction, registers.
 *
 * The replay: a deterministic child is interrupted by the clock at random moments, gets a signal
 * at each, and its handler notes what it interrupted. A second run gets the signals at the recorded
 * points, and its handler must note the same, bit for bit.
 */
#include "../kernel/common.h"

#include <sys/mman.h>

#include <trapline/condition.h>
#include <trapline/tools.h>

#define GENERAL_REGISTERS 16 /* x86-64: DWARF numbers below rip */
#define SIGNALS 1000
#define SAMPLE_NS 150000

struct note {
	uint64_t ticks; /* the child's own count */
	uint64_t ip;
	uint64_t regs[GENERAL_REGISTERS];
};

/* Between the child and us. */
static struct shared {
	_Atomic uint64_t ticks;
	_Atomic uint64_t notes;
	struct note note[SIGNALS + 1];
} *shared;

/* What is counted. A push comes first, which is cheap to probe. */
__attribute__((noipa, naked)) static void tick(uint64_t n)
{
	__asm__ volatile("push %rbp\n\tpop %rbp\n\tret");
}

static uint64_t tick_address(void)
{
	return ADDR(tick);
}

static void note_interrupted(int number, siginfo_t *info, void *context)
{
	const gregset_t *regs = &((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t nth = shared->notes;

	if (nth > SIGNALS)
		return;
	struct note *note = &shared->note[nth];
	note->ticks = shared->ticks;
	note->ip = (uint64_t)(*regs)[REG_RIP];
	for (int i = 0; i < GENERAL_REGISTERS; i++)
		note->regs[i] = (uint64_t)(*regs)[i];
	shared->notes = nth + 1;
}

/* Deterministic: what it does depends on nothing outside. */
__attribute__((noipa)) static uint64_t run_program(uint64_t rounds)
{
	uint64_t x = 88172645463325252u;

	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t inner = x % 60;

		tick(i);
		shared->ticks = i + 1;
		for (uint64_t k = 0; k < inner; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
		}
		x++;
	}
	return x;
}

static struct rig rig;
static struct trapline_event *counter;
static pid_t child;

/* Stopped before its first round. Its addresses are ours: the same in each run. */
static void start_child(uint64_t rounds)
{
	int status;

	memset(shared, 0, sizeof(*shared));
	child = fork();
	if (!child) {
		struct sigaction sa = {.sa_sigaction = note_interrupted, .sa_flags = SA_SIGINFO};

		sigaction(SIGUSR1, &sa, NULL);
		alarm(200);
		raise(SIGSTOP);
		_exit(run_program(rounds) == 0);
	}
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
}

static void open_counter(void)
{
	TRAPLINE_OPTS(event, opts);
	uint64_t address = tick_address();

	if (access("/sys/bus/event_source/devices/uprobe/type", R_OK) || geteuid())
		skip_because("uprobes (CONFIG_UPROBE_EVENTS, root)");
	rig_open_pid(&rig, BY_BPF, child);
	opts.flags = TRAPLINE_QUIET;
	expect_ok(trapline_break_sites(rig.target, &address, 1, &opts, &counter));
}

static void end_child(void)
{
	int status;

	close_target(rig.target);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
}

static int run_to(uint64_t count, uint64_t ip)
{
	struct trapline_point point = {
		.size = sizeof(point), .counter = counter, .count = count, .ip = ip,
	};

	return trapline_run_to(rig.target, child, &point, 20000);
}

static void expect_at(uint64_t pc)
{
	char path[64];
	char line[128] = "";
	unsigned long there = 0;

	snprintf(path, sizeof(path), "/proc/%d/syscall", child);
	FILE *f = fopen(path, "r");
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	assert_int_equal(sscanf(line, "-1 %*x %lx", &there), 1);
	assert_int_equal(there, pc);
}

static void it_stops_at_the_count_and_goes_on_to_the_next(void **state)
{
	static const uint64_t counts[] = {1, 2, 1000, 1001, 50000};

	start_child(60000);
	open_counter();
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		expect_ok(run_to(counts[i], 0));
		/* The probed instruction has run, the count of the child has not. */
		assert_int_equal(shared->ticks, counts[i] - 1);
		usleep(1000);
		assert_int_equal(shared->ticks, counts[i] - 1);
	}
	end_child();
}

static void it_stops_before_the_instruction_of_that_pass(void **state)
{
	start_child(60000);
	open_counter();
	for (uint64_t count = 0; count < 20000; count += 1 + count / 2) {
		/* At the counter's own place the pass to come is not yet counted. */
		expect_ok(run_to(count, tick_address()));
		assert_int_equal(shared->ticks, count);
		expect_at(tick_address());
	}
	end_child();
}

static void a_condition_at_the_place_decides(void **state)
{
	struct trapline_condition *condition;
	uint64_t address = tick_address();
	struct trapline_point point = {.size = sizeof(point), .ip = address};

	start_child(60000);
	open_counter();
	assert_int_equal(trapline_condition_parse("arg0 == 777", NULL, &condition), 0);
	point.condition = condition;
	expect_ok(trapline_run_to(rig.target, child, &point, 20000));
	assert_int_equal(shared->ticks, 777);
	expect_at(address);
	trapline_condition_free(condition);
	end_child();
}

static void a_missed_point_is_an_error_with_the_distance(void **state)
{
	char why[256];

	start_child(60000);
	open_counter();
	expect_ok(run_to(100, 0));
	assert_int_equal(run_to(90, 0), -ERANGE);
	trapline_explain(-ERANGE, why, sizeof(why));
	assert_non_null(strstr(why, "10 past it"));
	/* Never at this instruction before the next tick: stopped there, and said so. */
	assert_int_equal(run_to(200, ADDR(start_child)), -ERANGE);
	trapline_explain(-ERANGE, why, sizeof(why));
	assert_non_null(strstr(why, "1 past it"));
	expect_ok(run_to(300, 0));
	end_child();
}

static void the_end_and_the_timeout_are_told(void **state)
{
	struct trapline_point point = {.size = sizeof(point)};

	start_child(100);
	open_counter();
	assert_int_equal(run_to(1000000, 0), -ESRCH);
	end_child();
	start_child(UINT64_MAX);
	open_counter();
	point.counter = counter;
	point.count = UINT64_MAX;
	assert_int_equal(trapline_run_to(rig.target, child, &point, 50), -ETIMEDOUT);
	/* It went on meanwhile, and a later point is still reached. */
	expect_ok(run_to(shared->ticks + 20000, 0));
	end_child();
}

static void what_is_no_point_is_refused(void **state)
{
	struct trapline_point point = {.size = sizeof(point)};
	struct trapline *self;

	start_child(100);
	open_counter();
	assert_int_equal(trapline_run_to(rig.target, child, &point, 0), -EINVAL);
	point.registers_used = 1;
	point.counter = counter;
	assert_int_equal(trapline_run_to(rig.target, child, &point, 0), -EINVAL);
	point.registers_used = 1ull << 60;
	point.ip = tick_address();
	assert_int_equal(trapline_run_to(rig.target, child, &point, 0), -EINVAL);
	expect_ok(trapline_open(0, NULL, &self));
	point.registers_used = 0;
	assert_int_equal(trapline_run_to(self, child, &point, 0), -EINVAL);
	trapline_close(self);
	end_child();
}

struct recorded {
	uint64_t count;
	uint64_t ip;
	uint64_t regs[GENERAL_REGISTERS];
};

static struct recorded recorded[SIGNALS];
static uint64_t recorded_count;

static enum trapline_action record_tick(const struct trapline_hit *hit)
{
	struct recorded *r = &recorded[recorded_count];

	/* Only what hit the program itself, not the handler of the last signal. */
	r->count = hit->count;
	r->ip = hit->ip;
	for (unsigned int i = 0; i < GENERAL_REGISTERS; i++)
		trapline_hit_register(hit, i, &r->regs[i]);
	recorded_count++;
	return TRAPLINE_GO_ON;
}

static int is_in_program(uint64_t ip)
{
	return ip - ADDR(run_program) < 256 || ip - ADDR(tick) < 32;
}

static void wait_until_stopped(void)
{
	int status;

	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
}

/* The first run: the clock says where. Returns what the child's handler noted. */
static void record_run(struct note *notes)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *clock;

	opts.flags = TRAPLINE_STOP;
	opts.count_of = counter;
	expect_ok(trapline_sample(rig.target, SAMPLE_NS, &opts, &clock));
	recorded_count = 0;
	while (recorded_count < SIGNALS) {
		kill(child, SIGCONT);
		wait_until_stopped();
		uint64_t before = recorded_count;
		while (trapline_poll(rig.target, 0, record_tick) > 0)
			;
		assert_int_equal(recorded_count, before + 1);
		/* In the handler, or no step further than the last one: no signal here. */
		if (!is_in_program(recorded[before].ip) ||
		    (before && !memcmp(&recorded[before], &recorded[before - 1],
				       sizeof(recorded[before]))))
			recorded_count--;
		else
			syscall(SYS_tgkill, child, child, SIGUSR1);
	}
	trapline_event_close(clock);
	kill(child, SIGCONT);
	WAIT_UNTIL(shared->notes == SIGNALS);
	memcpy(notes, shared->note, sizeof(shared->note));
}

static void replay_run(void)
{
	for (int i = 0; i < SIGNALS; i++) {
		struct trapline_point point = {
			.size = sizeof(point),
			.counter = counter,
			.count = recorded[i].count,
			.ip = recorded[i].ip,
			.registers_used = (1u << GENERAL_REGISTERS) - 1,
		};

		memcpy(point.regs, recorded[i].regs, sizeof(recorded[i].regs));
		int err = trapline_run_to(rig.target, child, &point, 20000);
		if (err < 0)
			print_message("# signal %d: count %lu ip %lx\n", i, point.count, point.ip);
		expect_ok(err);
		assert_int_equal(syscall(SYS_tgkill, child, child, SIGUSR1), 0);
	}
	kill(child, SIGCONT);
	WAIT_UNTIL(shared->notes == SIGNALS);
}

static void a_thousand_signals_are_replayed_exactly(void **state)
{
	static struct note notes[SIGNALS + 1];
	uint64_t equal = 0;

	alarm(300);
	start_child(UINT64_MAX);
	open_counter();
	record_run(notes);
	end_child();
	start_child(UINT64_MAX);
	open_counter();
	replay_run();
	for (int i = 0; i < SIGNALS; i++)
		equal += memcmp(&notes[i], &shared->note[i], sizeof(notes[i])) == 0;
	print_message("# %lu of %d signals at the same count, ip and registers, over %lu ticks\n",
		      equal, SIGNALS, notes[SIGNALS - 1].ticks);
	assert_int_equal(equal, SIGNALS);
	/* They are not all the same one. */
	assert_true(notes[0].ticks < notes[SIGNALS / 2].ticks &&
		    notes[SIGNALS / 2].ticks < notes[SIGNALS - 1].ticks);
	end_child();
}

static int begin(void **state)
{
	test_begin(state);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	return 0;
}

static int end(void **state)
{
	if (child > 0)
		kill(child, SIGKILL);
	munmap(shared, sizeof(*shared));
	return test_end(state);
}

#define POINT_TEST(f) {#f, f, begin, end, NULL}

int main(void)
{
	const struct CMUnitTest tests[] = {
		POINT_TEST(it_stops_at_the_count_and_goes_on_to_the_next),
		POINT_TEST(it_stops_before_the_instruction_of_that_pass),
		POINT_TEST(a_condition_at_the_place_decides),
		POINT_TEST(a_missed_point_is_an_error_with_the_distance),
		POINT_TEST(the_end_and_the_timeout_are_told),
		POINT_TEST(what_is_no_point_is_refused),
		POINT_TEST(a_thousand_signals_are_replayed_exactly),
	};

	return run_group(tests);
}
