/* SPDX-License-Identifier: MIT */
/*
 * points.h - a deterministic child, what its signal handler notes, and the replay: a first run is
 * interrupted by the clock at random moments and gets a signal at each; a second run gets the
 * signals at the recorded points, and its handler must note the same, bit for bit.
 */
#ifndef TESTS_TOOLS_POINTS_H
#define TESTS_TOOLS_POINTS_H

#include "../kernel/common.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <trapline/condition.h>
#include <trapline/tools.h>

#define SIGNALS_MAX 1000

/* By DWARF number, without the program counter; and which of them tell a pass from the next. */
#if defined(__x86_64__)
#define GENERAL_REGISTERS 16
#define POINT_REGISTERS 0xffffu
#else
#define GENERAL_REGISTERS 32
#define POINT_REGISTERS (1u << 31 | 1u << 24 | 1u << 20 | 1u << 19 | 3u) /* each one is slow to emulate */
#endif

struct note {
	uint64_t ticks; /* the child's own count */
	uint64_t ip;
	uint64_t regs[GENERAL_REGISTERS];
};

/* Between the child and us. */
static struct shared {
	_Atomic uint64_t ticks;
	_Atomic uint64_t notes;
	struct note note[SIGNALS_MAX + 1];
} *shared;

/*
 * The program's code and nothing else: a signal that is sent while its handler runs is blocked, and
 * two of them are one.
 */
#define REPLAYED __attribute__((noipa, section("replayed")))
extern const char __start_replayed[];
extern const char __stop_replayed[];

/* What is counted: its first instruction is cheap to probe. */
#if defined(__x86_64__)
REPLAYED __attribute__((naked)) static void tick(uint64_t n)
{
	__asm__ volatile("push %rbp\n\tpop %rbp\n\tret");
}
#else
REPLAYED static void tick(uint64_t n)
{
	__asm__ volatile("nop");
}
#endif

/* In the machine's own order: only compared with what another run has noted. */
static void read_context(const ucontext_t *context, struct note *note)
{
#if defined(__x86_64__)
	const gregset_t *regs = &context->uc_mcontext.gregs;

	note->ip = (uint64_t)(*regs)[REG_RIP];
	for (int i = 0; i < GENERAL_REGISTERS; i++)
		note->regs[i] = (uint64_t)(*regs)[i];
#else
	note->ip = context->uc_mcontext.pc;
	memcpy(note->regs, context->uc_mcontext.regs, sizeof(uint64_t) * 31);
	note->regs[31] = context->uc_mcontext.sp;
#endif
}

static void note_interrupted(int number, siginfo_t *info, void *context)
{
	uint64_t nth = shared->notes;

	if (nth > SIGNALS_MAX)
		return;
	shared->note[nth].ticks = shared->ticks;
	read_context(context, &shared->note[nth]);
	shared->notes = nth + 1;
}

/* Deterministic: what it does depends on nothing outside. */
REPLAYED static uint64_t run_program(uint64_t rounds)
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

static void wait_until_stopped(void)
{
	int status;

	waiting_for = "the child to stop";
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	waiting_for = NULL;
}

/* What the parent left in registers is not the same at each fork. */
__attribute__((always_inline)) static inline void clear_registers(void)
{
#if defined(__x86_64__)
	__asm__ volatile("xor %%ebx, %%ebx; xor %%r8d, %%r8d; xor %%r9d, %%r9d; xor %%r10d, %%r10d;"
			 "xor %%r11d, %%r11d; xor %%r12d, %%r12d; xor %%r13d, %%r13d;"
			 "xor %%r14d, %%r14d; xor %%r15d, %%r15d" ::
				 : "rbx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc");
#else
	__asm__ volatile("mov x8, 0; mov x9, 0; mov x10, 0; mov x11, 0; mov x12, 0; mov x13, 0;"
			 "mov x14, 0; mov x15, 0; mov x16, 0; mov x17, 0; mov x18, 0; mov x19, 0;"
			 "mov x20, 0; mov x21, 0; mov x22, 0; mov x23, 0; mov x24, 0; mov x25, 0;"
			 "mov x26, 0; mov x27, 0; mov x28, 0" ::
				 : "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
				   "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
				   "x28");
#endif
}

/* Stopped before its first round. Its addresses are ours: the same in each run. */
static void start_program(uint64_t (*program)(uint64_t), uint64_t rounds)
{
	memset(shared, 0, sizeof(*shared));
	child = fork();
	if (!child) {
		struct sigaction sa = {.sa_sigaction = note_interrupted, .sa_flags = SA_SIGINFO};

		sigaction(SIGUSR1, &sa, NULL);
		alarm(900);
		raise(SIGSTOP);
		clear_registers();
		_exit(program(rounds) == 0);
	}
	wait_until_stopped();
}

static inline void start_child(uint64_t rounds)
{
	start_program(run_program, rounds);
}

static void end_child(void)
{
	int status;

	close_target(rig.target);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
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

/* --- the replay --- */

struct recorded {
	uint64_t count;
	uint64_t ip;
	uint64_t regs[GENERAL_REGISTERS];
};

static struct recorded recorded[SIGNALS_MAX + 8]; /* and what one stop has too many */
static uint64_t recorded_count;

static enum trapline_action record_tick(const struct trapline_hit *hit)
{
	struct recorded *r = &recorded[recorded_count];

	if (recorded_count == ARRAY_LEN(recorded))
		return TRAPLINE_GO_ON;
	r->count = hit->count;
	r->ip = hit->ip;
	for (unsigned int i = 0; i < GENERAL_REGISTERS; i++)
		trapline_hit_register(hit, i, &r->regs[i]);
	recorded_count++;
	return TRAPLINE_GO_ON;
}

static int is_in_program(uint64_t ip)
{
	return ip >= ADDR(__start_replayed) && ip < ADDR(__stop_replayed);
}

/*
 * The record of the stop that was just seen. A processor of a virtual machine that is taken away
 * during the clock's interrupt for longer than a period finds the next one due in the same
 * interrupt: two records and one stop, which is at the last of them.
 */
static void take_record(struct trapline_event *clock)
{
	uint64_t before = recorded_count;

	while (trapline_poll(rig.target, 0, record_tick) > 0)
		;
	if (recorded_count != before + 1)
		print_message("# %lu records of stop %lu; %lu stops failed\n",
			      recorded_count - before, before, stats_of(clock).stops_failed);
	assert_true(recorded_count > before);
	recorded[before] = recorded[recorded_count - 1];
	recorded_count = before + 1;
}

/* The first run: the clock says where. Returns what the child's handler noted. */
static void record_run(uint64_t signals, uint64_t sample_ns, struct note *notes)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *clock;

	opts.flags = TRAPLINE_STOP;
	opts.count_of = counter;
	expect_ok(trapline_sample(rig.target, sample_ns, &opts, &clock));
	recorded_count = 0;
	while (recorded_count < signals) {
		kill(child, SIGCONT);
		wait_until_stopped();
		uint64_t before = recorded_count;
		take_record(clock);
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
	WAIT_UNTIL(shared->notes == signals);
	memcpy(notes, shared->note, sizeof(shared->note));
}

static void replay_run(uint64_t signals)
{
	for (uint64_t i = 0; i < signals; i++) {
		struct trapline_point point = {
			.size = sizeof(point),
			.counter = counter,
			.count = recorded[i].count,
			.ip = recorded[i].ip,
			.registers_used = POINT_REGISTERS,
		};

		memcpy(point.regs, recorded[i].regs, sizeof(recorded[i].regs));
		int err = trapline_run_to(rig.target, child, &point, 20000);
		if (err < 0)
			print_message("# signal %lu: count %lu ip %lx\n", i, point.count, point.ip);
		expect_ok(err);
		assert_int_equal(syscall(SYS_tgkill, child, child, SIGUSR1), 0);
	}
	kill(child, SIGCONT);
	WAIT_UNTIL(shared->notes == signals);
}

/* open_counter opens `counter` in the child that was just started. */
static void expect_replay(uint64_t signals, uint64_t sample_ns, void (*open_counter)(void))
{
	static struct note notes[SIGNALS_MAX + 1];
	uint64_t equal = 0;

	alarm(900);
	start_child(UINT64_MAX);
	open_counter();
	record_run(signals, sample_ns, notes);
	end_child();
	start_child(UINT64_MAX);
	open_counter();
	replay_run(signals);
	for (uint64_t i = 0; i < signals; i++)
		equal += memcmp(&notes[i], &shared->note[i], sizeof(notes[i])) == 0;
	print_message("# %lu of %lu signals at the same count, ip and registers, over %lu ticks\n",
		      equal, signals, notes[signals - 1].ticks);
	assert_int_equal(equal, signals);
	/* They are not all the same one. */
	assert_true(notes[0].ticks < notes[signals / 2].ticks &&
		    notes[signals / 2].ticks < notes[signals - 1].ticks);
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

#endif
