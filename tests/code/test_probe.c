/* SPDX-License-Identifier: MIT */
/* test_probe.c - probes: each kind of instruction under one, conditions, limits, others' breakpoints. */
#include "kinds.h"
#include "probes.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/resource.h>

/* ---- instructions ---- */

static void every_kind_of_instruction_is_probed(void **state)
{
	size_t n = (size_t)(__stop_all_sites - __start_all_sites);
	size_t jumps = 0;

	for (size_t s = 0; s < n; s++) {
		const uint8_t *site = (const void *)(uintptr_t)__start_all_sites[s];
		uint8_t before[16];
		uint8_t after[16];

		memcpy(before, site, sizeof(before));
		struct outcome plain = run_kinds(5);
		struct trapline_event *event = probe_if(site, NULL, count);
		jumps += trapline_event_mechanism(event) == TRAPLINE_BY_PROBE;
		callbacks = 0;
		struct outcome probed = run_kinds(5);
		assert_memory_equal(&plain, &probed, sizeof(plain));
		if (callbacks)
			assert_int_equal(last_ip, __start_all_sites[s]);
		assert_int_equal(callbacks, stats_of(event).delivered);
		if (s == 0)
			assert_int_equal(callbacks, 1);
		if (s == 6)
			assert_int_equal(callbacks, 5); /* the head of the loop */
		if (s == 19)
			assert_int_equal(callbacks, 0); /* behind jrcxz */
		trapline_event_close(event);
		memcpy(after, site, sizeof(after));
		assert_memory_equal(before, after, sizeof(before));
		uint64_t hits = callbacks;
		probed = run_kinds(5);
		assert_memory_equal(&plain, &probed, sizeof(plain));
		assert_int_equal(callbacks, hits);
	}
	print_message("# %zu of %zu instructions by a jump\n", jumps, n);
	assert_true(jumps > n / 2);
}

/* All probes that fit beside one another, at once. */
static void many_probes_stand_in_one_function(void **state)
{
	size_t n = (size_t)(__stop_all_sites - __start_all_sites);
	struct trapline_event *events[128];
	struct outcome plain = run_kinds(7);
	size_t count_of = 0;

	for (size_t s = 0; s < n; s += 3) {
		TRAPLINE_OPTS(event, opts);

		opts.callback = count;
		int err = trapline_probe(target, __start_all_sites[s], &opts, &events[count_of]);
		if (err != -EBUSY)
			check(err, "probe");
		count_of += !err;
	}
	struct outcome probed = run_kinds(7);
	assert_memory_equal(&plain, &probed, sizeof(plain));
	assert_true(count_of > n / 6);
	assert_true(callbacks > count_of / 2);
	while (count_of)
		trapline_event_close(events[--count_of]);
	struct outcome after = run_kinds(7);
	assert_memory_equal(&plain, &after, sizeof(plain));
}

/* ---- conditions ---- */

static void a_false_condition_calls_nothing(void **state)
{
	struct trapline_event *event = probe_if(five, "arg0 == 17 && arg1 > 2", count);

	for (uint64_t a = 0; a < 100; a++)
		for (uint64_t b = 0; b < 10; b++)
			assert_int_equal(five(a, b), a * 3 + b);
	assert_int_equal(callbacks, 7);
	struct trapline_stats stats = stats_of(event);
	assert_int_equal(stats.delivered, 7);
	assert_int_equal(stats.registers, 0);
	if (trapline_event_mechanism(event) == TRAPLINE_BY_PROBE) {
		assert_int_equal(stats.evaluated_in, TRAPLINE_EVALUATED_IN_CODE);
		assert_int_equal(stats.taken, 7);
	} else {
		assert_int_equal(stats.evaluated_in, TRAPLINE_EVALUATED_IN_HANDLER);
		assert_int_equal(stats.taken, 1000);
	}
	trapline_event_close(event);
	five(17, 3);
	assert_int_equal(callbacks, 7);
}

static void the_interpreter_decides_what_code_cannot(void **state)
{
	uint64_t word = 5;
	struct trapline_event *event = probe_if(five, "hits % 10 == 0 && *(u64 *)arg0 == 5", count);

	for (int i = 0; i < 100; i++)
		five(ADDR(&word), 1);
	assert_int_equal(callbacks, 10);
	struct trapline_stats stats = stats_of(event);
	assert_int_equal(stats.evaluated_in, TRAPLINE_EVALUATED_IN_HANDLER);
	assert_int_equal(stats.rejected_condition, 90);
	assert_int_equal(stats.taken, 100);
	five(0, 1); /* a load that fails is false */
	trapline_event_close(event);
}

static struct {
	uint64_t value[512];
} guarded __attribute__((aligned(4096)));

/* They are read where they are. A page without access cannot be read, and does not fault. */
static void variables_of_the_object_are_read_and_protected_ones_are_not(void **state)
{
	char text[96];

	snprintf(text, sizeof(text), "*(u64 *)%p == 7 || *(u32 *)%p == 3", (void *)&guarded.value[8],
		 (void *)((char *)&guarded.value[9] + 1));
	struct trapline_event *event = probe_if(five, text, count);

	callbacks = 0;
	for (int i = 0; i < 10; i++) {
		guarded.value[8] = i;
		five(0, 1);
	}
	assert_int_equal(callbacks, 1);
	memset((char *)&guarded.value[9] + 1, 3, 1); /* not aligned */
	five(0, 1);
	assert_int_equal(callbacks, 2);
	assert_int_equal(stats_of(event).condition_faults, 0);
	assert_int_equal(mprotect(&guarded, sizeof(guarded), PROT_NONE), 0);
	five(0, 1);
	assert_int_equal(mprotect(&guarded, sizeof(guarded), PROT_READ | PROT_WRITE), 0);
	assert_int_equal(callbacks, 2);
	assert_int_equal(stats_of(event).condition_faults, 1);
	trapline_event_close(event);
}

static void the_thread_of_a_condition_is_found(void **state)
{
	char text[64];

	snprintf(text, sizeof(text), "tid == %d", (int)gettid());
	struct trapline_event *event = probe_if(five, text, count);
	five(1, 1);
	five(1, 1);
	assert_int_equal(callbacks, 2);
	trapline_event_close(event);
	snprintf(text, sizeof(text), "tid == %d", (int)gettid() + 1);
	event = probe_if(five, text, count);
	five(1, 1);
	assert_int_equal(callbacks, 2);
	trapline_event_close(event);
}

static void limit_skip_disable_and_rearm_are_exact(void **state)
{
	struct trapline_event *event = NULL;
	TRAPLINE_OPTS(event, opts);

	opts.callback = count;
	opts.limit = 5;
	opts.skip = 3;
	check(trapline_probe(target, ADDR(five), &opts, &event), "probe");
	for (int i = 0; i < 20; i++)
		five(1, 1);
	assert_int_equal(callbacks, 5);
	check(trapline_event_rearm(event, 2), "rearm");
	for (int i = 0; i < 20; i++)
		five(1, 1);
	assert_int_equal(callbacks, 7);
	check(trapline_event_rearm(event, 100), "rearm");
	check(trapline_event_disable(event), "disable");
	five(1, 1);
	assert_int_equal(callbacks, 7);
	check(trapline_event_enable(event), "enable");
	five(1, 1);
	assert_int_equal(callbacks, 8);
	assert_int_equal(trapline_event_move(event, ADDR(check)), -EINVAL);
	trapline_event_close(event);
}

/* ---- what a callback sees and does ---- */

static uint32_t frame_count;
static uint64_t frame_copy[8];

static enum trapline_action note_stack(const struct trapline_hit *hit)
{
	frame_count = hit->stack_count < 8 ? hit->stack_count : 8;
	memcpy(frame_copy, hit->stack, frame_count * sizeof(frame_copy[0]));
	return count(hit);
}

__attribute__((noipa)) static uint64_t outer(uint64_t a)
{
	return five(a, 2) + 1;
}

static bool is_in(const void *function, uint64_t pc)
{
	return pc - ADDR(function) < 64;
}

static void a_stack_goes_through_the_probe(void **state)
{
	struct trapline_event *event = NULL;
	TRAPLINE_OPTS(event, opts);

	opts.callback = note_stack;
	opts.stack_depth = 8;
	check(trapline_probe(target, ADDR(five), &opts, &event), "probe");
	outer(3);
	trapline_event_close(event);
	assert_true(frame_count >= 3);
	assert_int_equal(frame_copy[0], ADDR(five));
	assert_true(is_in(outer, frame_copy[1]));
	assert_true(is_in(a_stack_goes_through_the_probe, frame_copy[2]) ||
		    frame_copy[2] - ADDR(a_stack_goes_through_the_probe) < 512);
}

static enum trapline_action return_at_once(const struct trapline_hit *hit)
{
	greg_t *gregs = ((ucontext_t *)hit->context)->uc_mcontext.gregs;

	gregs[REG_RAX] = gregs[REG_RDI] + 1000;
	gregs[REG_RIP] = *(greg_t *)gregs[REG_RSP];
	gregs[REG_RSP] += 8;
	return TRAPLINE_GO_ON;
}

static void a_callback_sends_the_thread_elsewhere(void **state)
{
	struct trapline_event *event = probe_if(five, "arg0 == 4", return_at_once);

	assert_int_equal(five(4, 1), 1004);
	assert_int_equal(five(5, 1), 16);
	trapline_event_close(event);
	assert_int_equal(five(4, 1), 13);
}

static enum trapline_action spoil_vectors(const struct trapline_hit *hit)
{
	uint32_t control = 0;

	__asm__ volatile("stmxcsr %0" : "=m"(control));
	assert_int_equal(control, 0x1f80);
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm7, %%xmm7\n pcmpeqd %%xmm15, %%xmm15\n"
			 "fld1" ::: "xmm0", "xmm7", "xmm15");
	__asm__ volatile("fstp %%st(0)" ::: "memory");
	return count(hit);
}

double add_doubles(double a, double b, double c);
__asm__(".text\n.globl add_doubles\nadd_doubles:\n"
	"addsd %xmm1, %xmm0\n"
	"add_doubles_inside: addsd %xmm2, %xmm0\n"
	"ret\n");
extern const char add_doubles_inside[];

static void vector_registers_are_as_before(void **state)
{
	struct trapline_event *event = probe_if(add_doubles_inside, NULL, spoil_vectors);

	uint32_t before = 0x9f80; /* flushes to zero */
	uint32_t after = 0;

	__asm__ volatile("ldmxcsr %0" ::"m"(before));
	double sum = add_doubles(1, 2, 4);
	__asm__ volatile("stmxcsr %0" : "=m"(after));
	__asm__ volatile("ldmxcsr %0" ::"m"((uint32_t){0x1f80}));
	assert_true(sum == 7);
	assert_int_equal(after, before);
	assert_int_equal(callbacks, 1);
	trapline_event_close(event);
}

/* Code is used again for the same condition alone: others of the same length differ in some bytes. */
static void conditions_of_the_same_length_are_kept_apart(void **state)
{
	for (uint32_t i = 0; i < 400; i++) {
		char text[64];

		snprintf(text, sizeof(text), "arg0 == 0x%x", 0x10000000 + i % 200 * 0x01010101);
		struct trapline_event *event = probe_if(five, text, count);

		callbacks = 0;
		for (uint32_t k = 0; k < 200; k++)
			five(0x10000000 + k * 0x01010101, 1);
		assert_int_equal(callbacks, 1);
		trapline_event_close(event);
	}
}

static enum trapline_action go_again(const struct trapline_hit *hit)
{
	if (callbacks < 3)
		five(1, 1);
	return count(hit);
}

static void a_hit_inside_a_callback_is_counted(void **state)
{
	struct trapline_event *event = probe_if(five, NULL, go_again);

	five(1, 1);
	assert_int_equal(callbacks, 1);
	assert_int_equal(stats_of(event).lost_nested, 1);
	assert_int_equal(stats_of(event).taken, 2);
	trapline_event_close(event);
}

static enum trapline_action close_it(const struct trapline_hit *hit)
{
	trapline_event_close(hit->event);
	return count(hit);
}

static void a_callback_closes_its_probe(void **state)
{
	uint8_t before[16];
	uint8_t after[16];

	memcpy(before, five, sizeof(before));
	probe_if(five, NULL, close_it);
	five(1, 1);
	five(1, 1);
	assert_int_equal(callbacks, 1);
	trapline_event_close(probe_if(outer, NULL, count));
	memcpy(after, five, sizeof(after));
	assert_memory_equal(before, after, sizeof(before));
}

/* ---- others ---- */

static void a_forked_child_is_not_told_of(void **state)
{
	struct trapline_event *event = probe_if(five, NULL, count);
	pid_t child = fork();
	int status = 1;

	if (!child) {
		uint64_t result = five(2, 1);
		_exit(result == 7 && callbacks == 0 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	five(2, 1);
	assert_int_equal(callbacks, 1);
	trapline_event_close(event);
}

static void what_is_wrong_is_refused(void **state)
{
	static const uint8_t not_code[16] = {0x06, 0x06};
	struct trapline_event *event = NULL;
	struct trapline_event *other = NULL;
	TRAPLINE_OPTS(event, opts);

	opts.callback = count;
	assert_int_equal(trapline_probe(target, ADDR(not_code), &opts, &event), -EINVAL);
	assert_int_equal(trapline_probe(target, 16, &opts, &event), -EFAULT);
	check(trapline_probe(target, ADDR(five), &opts, &event), "probe");
	assert_int_equal(trapline_probe(target, ADDR(five), &opts, &other), -EBUSY);
	assert_null(other);
	TRAPLINE_OPTS(traps, trap_opts);
	struct trapline_traps *traps;
	uint64_t address = ADDR(five);
	assert_int_equal(trapline_traps_set(&address, 1, &trap_opts, &traps), -EBUSY);
	trapline_event_close(event);
	opts.flags = TRAPLINE_KERNEL;
	assert_int_equal(trapline_probe(target, ADDR(five), &opts, &event), -EINVAL);
}

extern const char pushes_2[];
extern const char pushes_3[];
static volatile uint64_t breakpoints;

/* As a debugger would: puts the instruction back, and runs it. */
static void debugger(int sig, siginfo_t *info, void *context)
{
	greg_t *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)gregs[REG_RIP] - 1;

	breakpoints++;
	if (pc == ADDR(pushes_2)) {
		gregs[REG_RBP] = gregs[REG_RSP];
		gregs[REG_RIP] += 2;
	} else {
		gregs[REG_RSP] -= 8;
		*(greg_t *)gregs[REG_RSP] = gregs[REG_RBX];
	}
}

static void write_text(const void *at, uint8_t byte)
{
	uint64_t page = ADDR(at) & ~4095ull;

	assert_int_equal(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	*(volatile uint8_t *)(uintptr_t)ADDR(at) = byte;
	assert_int_equal(mprotect((void *)page, 8192, PROT_READ | PROT_EXEC), 0);
}

static void a_breakpoint_behind_the_first_instruction_works(void **state)
{
	struct sigaction ours = {.sa_sigaction = debugger, .sa_flags = SA_SIGINFO};
	struct sigaction before;

	sigaction(SIGTRAP, &ours, &before);
	struct trapline_event *event = probe_if(pushes, NULL, count);
	if (trapline_event_mechanism(event) != TRAPLINE_BY_PROBE) {
		trapline_event_close(event);
		skip();
	}
	assert_int_equal(pushes(1), 4);
	assert_int_equal(callbacks, 1);
	write_text(pushes_2, 0xcc);
	assert_int_equal(pushes(2), 5);
	assert_int_equal(callbacks, 2);
	assert_int_equal(breakpoints, 1);
	write_text(pushes_3, 0xcc);
	assert_int_equal(pushes(3), 6);
	assert_int_equal(callbacks, 3);
	assert_int_equal(breakpoints, 3);
	write_text(pushes_2, 0x48);
	assert_int_equal(pushes(3), 6);
	assert_int_equal(callbacks, 4);
	assert_int_equal(breakpoints, 4);
	write_text(pushes_3, 0x53);
	trapline_event_close(event);
	assert_int_equal(pushes(1), 4);
	assert_int_equal(callbacks, 4);
}

/* Nothing that a probe makes is a file then. */
static void a_limit_of_file_sizes_leaves_probes_as_they_are(void **state)
{
	struct rlimit before;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	struct trapline_event *event = probe_if(pushes, NULL, count);
	uint64_t result = pushes(1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(result, 4);
	assert_int_equal(callbacks, 1);
	trapline_event_close(event);
}

/* ---- code that was not written here ---- */

struct functions {
	size_t tried;
	size_t jumps;
	size_t traps;
	size_t refused;
};

/* The first instruction of every hundredth function of libc that nothing calls meanwhile. */
static void probe_symbols(struct functions *f, const struct link_map *map)
{
	const ElfW(Dyn) *dyn = map->l_ld;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;

	for (; dyn->d_tag != DT_NULL; dyn++) {
		if (dyn->d_tag == DT_SYMTAB)
			symbols = (const void *)dyn->d_un.d_ptr;
		else if (dyn->d_tag == DT_STRTAB)
			names = (const void *)dyn->d_un.d_ptr;
	}
	for (const ElfW(Sym) *s = symbols + 1; (const char *)s < names; s++) {
		struct trapline_event *event = NULL;
		TRAPLINE_OPTS(event, opts);

		if ((s->st_info & 15) != STT_FUNC || !s->st_value || (s - symbols) % 8)
			continue;
		opts.callback = count;
		int err = trapline_probe(target, map->l_addr + s->st_value, &opts, &event);
		f->tried++;
		if (err) {
			f->refused++;
			continue;
		}
		f->jumps += trapline_event_mechanism(event) == TRAPLINE_BY_PROBE;
		f->traps += trapline_event_mechanism(event) == TRAPLINE_BY_TRAP;
		trapline_event_close(event);
	}
}

static void functions_of_libc_take_a_jump(void **state)
{
	struct functions f = {0};
	struct link_map *map;
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	assert_non_null(libc);
	assert_int_equal(dlinfo(libc, RTLD_DI_LINKMAP, &map), 0);
	probe_symbols(&f, map);
	print_message("# libc: %zu functions: %zu by a jump, %zu by a trap, %zu refused\n", f.tried,
		      f.jumps, f.traps, f.refused);
	assert_true(f.jumps > f.tried / 2);
	dlclose(libc);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(every_kind_of_instruction_is_probed),
		T(many_probes_stand_in_one_function),
		T(a_false_condition_calls_nothing),
		T(the_interpreter_decides_what_code_cannot),
		T(variables_of_the_object_are_read_and_protected_ones_are_not),
		T(the_thread_of_a_condition_is_found),
		T(limit_skip_disable_and_rearm_are_exact),
		T(a_stack_goes_through_the_probe),
		T(a_callback_sends_the_thread_elsewhere),
		T(vector_registers_are_as_before),
		T(conditions_of_the_same_length_are_kept_apart),
		T(a_hit_inside_a_callback_is_counted),
		T(a_callback_closes_its_probe),
		T(a_forked_child_is_not_told_of),
		T(what_is_wrong_is_refused),
		T(a_breakpoint_behind_the_first_instruction_works),
		T(a_limit_of_file_sizes_leaves_probes_as_they_are),
		T(functions_of_libc_take_a_jump),
	};

	cmocka_set_test_filter(getenv("TRAPLINE_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
