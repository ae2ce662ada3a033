/* SPDX-License-Identifier: MIT */
/*
 * test_condition_fuzz.c - random conditions in random states: eBPF against the interpreter
 * against a walk over the tree (condition_random.c). TRAPLINE_CONDITIONS sets how many.
 *
 * The programs run in the kernel by BPF_PROG_TEST_RUN, as a raw tracepoint: such a program may
 * call the same helpers as one on a perf event. Many conditions share a program, which is harder
 * for the verifier than one each.
 */
#include "../kernel/common.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/memory.h"
#include "base/sys.h"
#include "cond/compile.h"
#include "cond/emit.h"
#include "condition_random.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_load.h"
#include "event/ids.h"
#include "float_random.h"

#define BATCH 24
#define STATES 6
#define TEXT_BYTES 8192
#define THREAD "fuzzed"

/* The map's value: the state, and what each condition of the batch came to. */
struct shared {
	struct state state;
	uint64_t results[BATCH];
};

static uint8_t *arena;
static struct shared *shared;
static int shared_map = -1;
static struct ebpf program;
static struct condition conditions[BATCH];
static struct node *trees[BATCH];
static char texts[BATCH][TEXT_BYTES];
static struct world world = { .thread = THREAD };

static int find_symbol(void *arg, const char *name, uint64_t *address, uint64_t *bytes)
{
	if (strcmp(name, "somewhere") != 0)
		return -ENOENT;
	*address = ADDR(arena) + 100;
	*bytes = 50;
	return 0;
}

static struct trapline_event *find_event(void *arg, const char *name)
{
	return strcmp(name, "other") ? NULL : &event_table[0];
}

static int parse(const char *text, struct condition *out, struct trapline_condition_error *error)
{
	struct trapline_condition_opts opts = {
		.size = sizeof(opts),
		.find_symbol = find_symbol,
		.find_event = find_event,
	};

	return cond_parse(text, &opts, out, error);
}

static int env_term(const struct cond_env *env, enum cond_term term, uint64_t *out)
{
	const struct state *s = env->arg;
	uint64_t values[COND_TERM_COUNT] = {
		[COND_NEW] = s->new_value,
		[COND_OLD] = s->old_value,
		[COND_CHANGED] = s->new_value != s->old_value,
		[COND_ADDR] = s->addr,
		[COND_IP] = s->regs[16],
		[COND_TID] = (uint64_t)world.tid,
		[COND_PID] = (uint64_t)world.pid,
		[COND_CPU] = (uint64_t)world.cpu,
		[COND_HITS] = s->hits,
		[COND_HITS_IN_THREAD] = s->hits_in_thread,
	};

	if (term == COND_CALLER)
		return env->read(env, s->regs[7], out, 8);
	*out = values[term];
	return 0;
}

static int env_reg(const struct cond_env *env, uint32_t number, uint64_t *out)
{
	*out = ((const struct state *)env->arg)->regs[number];
	return 0;
}

static int env_count(const struct cond_env *env, uint32_t event, uint64_t *out)
{
	*out = ((const struct state *)env->arg)->count;
	return 0;
}

static int env_read(const struct cond_env *env, uint64_t address, void *buf, uint32_t n)
{
	return sys_read_memory(getpid(), address, buf, n) == (ssize_t)n ? 0 : -EFAULT;
}

static void env_thread(const struct cond_env *env, char *name)
{
	memset(name, 0, COND_THREAD_NAME);
	strcpy(name, THREAD);
}

/* 1, 0, or 2 for a fault. */
static uint64_t interpreted(const struct condition *c)
{
	struct cond_env env = { env_term, env_reg, env_count, env_read, env_thread, &shared->state };
	int holds = cond_eval(c, &env);

	return holds < 0 ? 2 : (uint64_t)holds;
}

static uint64_t walked(const struct node *n)
{
	struct value v = node_value(n, &world);

	return v.fault ? 2 : v.number != 0;
}

#define STATE_AT(member) ((int16_t)offsetof(struct shared, state.member))

static void emit_state(struct ebpf *p)
{
	static const struct {
		int16_t from;
		int16_t to;
	} terms[] = {
		{ STATE_AT(new_value), FRAME_VALUE },
		{ STATE_AT(old_value), FRAME_OLD },
		{ STATE_AT(hits), FRAME_HITS },
		{ STATE_AT(hits_in_thread), FRAME_HITS_IN_THREAD },
	};

	ebpf_load_map_value(p, R6, shared_map, 0);
	for (size_t i = 0; i < ARRAY_LEN(terms); i++) {
		ebpf_load_mem(p, BPF_DW, R1, R6, terms[i].from);
		ebpf_store(p, BPF_DW, R10, terms[i].to, R1);
	}
}

static void emit_batch(uint32_t n)
{
	int16_t regs_at[REGISTERS];
	struct ids ids;

	ids_read(world.pid, &ids);
	struct cond_place place = {
		.ids = ids.numbered_by,
		.context = R6,
		.control = R6,
		.zero_at = STATE_AT(zero),
		.frame_at = FRAME_CONDITION,
		.terms_at = {
			[COND_NEW] = FRAME_VALUE,
			[COND_OLD] = FRAME_OLD,
			[COND_HITS] = FRAME_HITS,
			[COND_HITS_IN_THREAD] = FRAME_HITS_IN_THREAD,
		},
		.addr_at = STATE_AT(addr),
		.regs_at = regs_at,
		.ip_reg = 16,
		.caller_reg = 7,
		.caller_in_memory = 1,
		.count_maps = {shared_map},
		.count_at = (uint32_t)STATE_AT(count),
	};

	for (int i = 0; i < REGISTERS; i++)
		regs_at[i] = (int16_t)(STATE_AT(regs) + 8 * i);
	program.count = 0;
	program.overflow = 0;
	emit_state(&program);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(cond_emit(&program, &conditions[i], &place), 0);
		ebpf_store(&program, BPF_DW, R6,
			   (int16_t)(offsetof(struct shared, results) + 8 * i), R0);
	}
	ebpf_mov_imm(&program, R0, 0);
	ebpf_exit(&program);
	cond_emit_functions(&program);
}

static int load_batch(void)
{
	static char log[1 << 16];
	int fd = ebpf_load(&program, BPF_PROG_TYPE_RAW_TRACEPOINT, NULL, 0);

	if (fd < 0) {
		fd = ebpf_load(&program, BPF_PROG_TYPE_RAW_TRACEPOINT, log, sizeof(log));
		print_message("# refused: %s\n# %s\n", strerror(-fd), texts[0]);
		fprintf(stderr, "%.3000s\n", log);
	}
	assert_true(fd >= 0);
	return fd;
}

static void run_program(int fd)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = (uint32_t)fd;
	assert_int_equal(sys_bpf(BPF_PROG_TEST_RUN, &attr, sizeof(attr)), 0);
}

static void random_state(void)
{
	struct state *s = &shared->state;

	for (int i = 0; i < REGISTERS; i++)
		s->regs[i] = random_interesting();
	s->regs[7] = random_below(4) ? ADDR(arena) + random_below(ARENA_BYTES + 8) :
				       random_interesting();
	s->regs[16] = ADDR(arena) + random_below(200);
	s->addr = ADDR(arena) + random_below(ARENA_BYTES);
	s->new_value = random_interesting();
	s->old_value = random_below(3) ? random_interesting() : s->new_value;
	s->hits = random_interesting();
	s->hits_in_thread = random_interesting();
	s->count = random_interesting();
	s->zero = 0;
	for (int i = 0; i < 8; i++)
		arena[random_below(ARENA_BYTES)] = (uint8_t)random_next();
}

static void random_condition(uint32_t i)
{
	struct trapline_condition_error error;
	int err;

	do {
		uint32_t size = (uint32_t)random_below(random_below(8) ? 12 : 60);

		if (trees[i])
			node_free(trees[i]);
		trees[i] = node_random(size, arena);
		node_print(trees[i], texts[i], sizeof(texts[i]));
		err = parse(texts[i], &conditions[i], &error);
		if (err == -EINVAL)
			print_message("# %d:%d %s\n# %s\n", error.line, error.column, error.message,
				      texts[i]);
		assert_int_not_equal(err, -EINVAL);
	} while (err); /* too large */
}

static uint64_t differences(uint32_t n)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t kernel = shared->results[i];
		uint64_t handler = interpreted(&conditions[i]);
		uint64_t plain = walked(trees[i]);

		if (node_strayed() || (kernel == plain && handler == plain))
			continue;
		found++;
		print_message("# eBPF %lu interpreter %lu plain %lu: %s\n", kernel, handler, plain,
			      texts[i]);
	}
	return found;
}

static void setup_world(void)
{
	cpu_set_t cpus;
	uint8_t *pages = mmap(NULL, 3 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	arena = pages + PAGE_BYTES;
	assert_int_equal(mprotect(arena, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	for (int i = 0; i < ARENA_BYTES; i++)
		arena[i] = (uint8_t)random_next();
	world.cpu = sched_getcpu();
	CPU_ZERO(&cpus);
	CPU_SET(world.cpu, &cpus);
	assert_int_equal(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	assert_int_equal(prctl(PR_SET_NAME, THREAD), 0);
	world.arena = arena;
	world.pid = getpid();
	world.tid = (int)gettid();
	shared_map =
		ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, sizeof(struct shared), 1, BPF_F_MMAPABLE);
	assert_true(shared_map >= 0);
	shared = memory_map_shared(PAGE_BYTES, 1, shared_map, 0);
	assert_false(memory_failed(shared));
	world.state = &shared->state;
}

static int group_begin(void **state)
{
	random_seed(test_seed());
	if (bpf_is_permitted())
		setup_world();
	return 0;
}

static void ebpf_interpreter_and_plain_evaluation_agree(void **state)
{
	const char *wanted = getenv("TRAPLINE_CONDITIONS");
	uint64_t total = wanted ? strtoull(wanted, NULL, 10) : scaled(100000);
	uint64_t counts[3] = { 0 };
	uint64_t found = 0;

	if (!arena)
		skip_because("BPF programs (CAP_BPF and CAP_PERFMON)");
	for (uint64_t done = 0; done < total && found < 5; done += BATCH) {
		for (uint32_t i = 0; i < BATCH; i++)
			random_condition(i);
		emit_batch(BATCH);
		int fd = load_batch();
		for (int s = 0; s < STATES; s++) {
			random_state();
			run_program(fd);
			found += differences(BATCH);
			for (uint32_t i = 0; i < BATCH; i++)
				counts[shared->results[i]]++;
		}
		sys_close(fd);
	}
	print_message("# %lu conditions in %d states each: false %lu true %lu faults %lu\n", total,
		      STATES, counts[0], counts[1], counts[2]);
	assert_int_equal(found, 0);
	/* All three happen often, else this compares nothing. */
	for (int i = 0; i < 3; i++)
		assert_true(counts[i] > total / 20);
}

/* ---- floating-point numbers ---- */

/* A whole number is compared with a constant; the constant may be on the left. */
struct float_case {
	struct side left;
	struct side right;
	uint32_t op;
	int has_constant;
	int is_mirrored;
	double constant;
};

static struct float_case cases[BATCH];

static void random_float_case(uint32_t i)
{
	struct float_case *c = &cases[i];
	struct trapline_condition_error error;
	char constant[64];
	char left[64];
	char right[64];

	c->left = (struct side){ (enum number_type)random_below(4), arena + 64 * i };
	c->right = (struct side){ (enum number_type)random_below(2), arena + 64 * i + 32 };
	c->op = (uint32_t)random_below(6);
	do
		c->constant = random_double();
	while (c->constant != c->constant || c->constant - c->constant != 0);
	c->has_constant = c->left.type >= S64 || random_below(2);
	c->is_mirrored = c->has_constant && random_below(2);
	snprintf(constant, sizeof(constant), "%.17e", c->constant);
	snprintf(left, sizeof(left), "*(%s *)%#lx", number_type_names[c->left.type], ADDR(c->left.at));
	snprintf(right, sizeof(right), "*(%s *)%#lx", number_type_names[c->right.type], ADDR(c->right.at));
	snprintf(texts[i], sizeof(texts[i]), "%s %s %s", c->is_mirrored ? constant : left,
		 float_comparisons[c->op],
		 c->is_mirrored	 ? left :
		 c->has_constant ? constant :
				   right);
	int err = parse(texts[i], &conditions[i], &error);
	if (err)
		print_message("# %d: %s: %s\n", error.column, error.message, texts[i]);
	assert_int_equal(err, 0);
}

static uint64_t float_differences(void)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < BATCH; i++) {
		const struct float_case *c = &cases[i];
		long double left = side_value(&c->left);
		long double right = c->has_constant ? c->constant : side_value(&c->right);
		uint64_t plain = (uint64_t)(c->is_mirrored ? float_holds(c->op, right, left) :
							     float_holds(c->op, left, right));

		if (shared->results[i] == plain && interpreted(&conditions[i]) == plain)
			continue;
		found++;
		print_message("# eBPF %lu interpreter %lu plain %lu: %s: %.20Lg and %.20Lg\n",
			      shared->results[i], interpreted(&conditions[i]), plain, texts[i], left,
			      right);
	}
	return found;
}

static void floating_point_comparisons_are_those_of_c(void **state)
{
	uint64_t counts[2] = { 0 };
	uint64_t found = 0;

	if (!arena)
		skip_because("BPF programs (CAP_BPF and CAP_PERFMON)");
	for (uint64_t done = 0; done < scaled(20000) && found < 5; done += BATCH) {
		for (uint32_t i = 0; i < BATCH; i++)
			random_float_case(i);
		emit_batch(BATCH);
		int fd = load_batch();
		for (int s = 0; s < 4 * STATES; s++) {
			for (uint32_t i = 0; i < BATCH; i++) {
				const struct float_case *c = &cases[i];
				double value = random_below(2) ? c->constant : random_double();

				side_set(&c->left, value);
				side_set(&c->right, random_below(2) ? value : random_double());
			}
			run_program(fd);
			found += float_differences();
			for (uint32_t i = 0; i < BATCH; i++)
				counts[shared->results[i] & 1]++;
		}
		sys_close(fd);
	}
	print_message("# false %lu true %lu\n", counts[0], counts[1]);
	assert_int_equal(found, 0);
	assert_true(counts[0] > 1000 && counts[1] > 1000);
}

/* ---- arithmetic: expressions are compared with what C has for them, or what is next to that */

static struct float_tree float_trees[BATCH];
static uint32_t float_ops[BATCH];

static uint8_t *float_beside(uint32_t i)
{
	return arena + 160 * i + 8 * FLOAT_LEAVES;
}

static void random_arithmetic(uint32_t i)
{
	struct trapline_condition_error error;
	char text[4000];

	float_tree_random(&float_trees[i], arena + 160 * i);
	float_tree_print(&float_trees[i], text, sizeof(text));
	float_ops[i] = (uint32_t)random_below(6);
	snprintf(texts[i], sizeof(texts[i]), "%s %s *(%s *)%#lx", text, float_comparisons[float_ops[i]],
		 number_type_names[float_trees[i].root->type], ADDR(float_beside(i)));
	int err = parse(texts[i], &conditions[i], &error);
	if (err)
		print_message("# %d: %s: %s\n", error.column, error.message, texts[i]);
	assert_int_equal(err, 0);
}

/* The number beside it: the same, one of its neighbours, or any. */
static void set_beside(uint32_t i)
{
	const struct float_value v = float_tree_value(&float_trees[i]);
	const uint64_t moved = random_below(2) ? 0 : random_below(3) - 1;
	const double other = random_double();
	uint64_t bits = 0;
	uint32_t single;

	memcpy(&bits, &v.f64, 8);
	memcpy(&single, &v.f32, 4);
	bits = v.type == F64 ? bits + moved : single + (uint32_t)moved;
	if (v.type == F64 && random_below(6) == 0)
		memcpy(&bits, &other, 8);
	memcpy(float_beside(i), &bits, 8);
}

static uint64_t plain_arithmetic(uint32_t i)
{
	const struct float_value v = float_tree_value(&float_trees[i]);
	double wide;
	float single;

	memcpy(&wide, float_beside(i), 8);
	memcpy(&single, float_beside(i), 4);
	if (v.fault)
		return 2;
	return v.type == F64 ? (uint64_t)float_holds(float_ops[i], v.f64, wide) :
			       (uint64_t)float_holds(float_ops[i], v.f32, single);
}

static uint64_t arithmetic_differences(uint64_t *counts)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < BATCH; i++) {
		const uint64_t plain = plain_arithmetic(i);
		const uint64_t handler = interpreted(&conditions[i]);

		counts[plain]++;
		if (shared->results[i] == plain && handler == plain)
			continue;
		const struct float_value v = float_tree_value(&float_trees[i]);
		found++;
		print_message("# eBPF %lu interpreter %lu plain %lu: %s: %a, %a\n",
			      shared->results[i], handler, plain, texts[i], v.f64, (double)v.f32);
	}
	return found;
}

static void floating_point_arithmetic_is_that_of_c(void **state)
{
	uint64_t counts[3] = { 0 };
	uint64_t found = 0;

	if (!arena)
		skip_because("BPF programs (CAP_BPF and CAP_PERFMON)");
	for (uint64_t done = 0; done < scaled(20000) && found < 5; done += BATCH) {
		for (uint32_t i = 0; i < BATCH; i++)
			random_arithmetic(i);
		emit_batch(BATCH);
		int fd = load_batch();
		for (int s = 0; s < 4 * STATES && found < 5; s++) {
			for (uint32_t i = 0; i < BATCH; i++) {
				float_tree_values(&float_trees[i]);
				set_beside(i);
			}
			run_program(fd);
			found += arithmetic_differences(counts);
		}
		sys_close(fd);
	}
	print_message("# false %lu true %lu faults %lu\n", counts[0], counts[1], counts[2]);
	assert_int_equal(found, 0);
	assert_true(counts[0] > 1000 && counts[1] > 1000 && counts[2] > 100);
}

/* As it will be attached, with everything around the condition. */
static int load_real_program(const struct condition *c)
{
	static struct trapline_event ev;

	memset(&ev, 0, sizeof(ev));
	ev.access = TRAPLINE_WRITE;
	ev.part_count = 1;
	ev.parts[0].len = 8;
	ev.has_limit = 1;
	ev.condition = c;
	assert_int_equal(program_maps_open(&ev), 0);
	event_table[0].control_fd = ev.control_fd; /* what count(other) reads */
	int fd = program_load(&ev, 0, 0, PROGRAM_SIGNALS, NULL, 0);
	program_maps_close(&ev);
	if (fd >= 0)
		sys_close(fd);
	return fd;
}

static void expect_loads(const char *text)
{
	static struct condition c;
	struct trapline_condition_error error;
	int err = parse(text, &c, &error);

	if (err == -E2BIG)
		return;
	assert_int_equal(err, 0);
	err = load_real_program(&c);
	if (err < 0)
		print_message("# refused (%s): %s\n", strerror(-err), text);
	assert_true(err >= 0);
}

/* As often as the parser takes it: the largest condition of its kind. */
static void expect_longest_loads(const char *first, const char *more, const char *last)
{
	static struct condition c;
	struct trapline_condition_error error;
	char *text = calloc(1, COND_TEXT_MAX + 64);
	char *longest = calloc(1, COND_TEXT_MAX + 64);
	int n = 0;

	for (;; n++) {
		strcpy(text, first);
		for (int i = 0; i < n; i++)
			strcat(text, more);
		strcat(text, last);
		if (strlen(text) > COND_TEXT_MAX || parse(text, &c, &error))
			break;
		strcpy(longest, text);
	}
	print_message("# %d times '%s'\n", n - 1, more);
	assert_true(n > 1);
	expect_loads(longest);
	free(longest);
	free(text);
}

static void the_largest_conditions_load(void **state)
{
	static const char *const repeated[][3] = {
		{ "new==1", "||old==2", "" },
		{ "new==1", "&&old!=2", "" },
		{ "new<1", "+(old<2)", "" },
		{ "(s64)new/(s64)3", "/(s64)r8", "" },
		{ "(s64)new%(s64)3", "%(s64)r8", "" },
		{ "str(r8)==\"abcdefgh\"", "||str(r9)==\"abcdefg\"", "" },
		{ "str(r8)==\"a\"", "+(str(r9)==\"b\")", "" },
		{ "thread==\"a\"", "||thread==\"b\"", "" },
		{ "*(u8*)r8", "+*(s16*)r9", "" },
		{ "*(u8*)r8", "&&*(s16*)r9", "" },
		{ "", "new?1:", "old" },
		{ "(new&&old", ")+(new&&hits||old", ")" },
		{ "r8 in somewhere", "||r9 in somewhere", "" },
		{ "count(other)", "+count(other)", "" },
		{ "!new", "+!old", "" },
		{ "-new", "*~tid<<cpu", "" },
		{ "caller", "^caller", "" },
		{ "*(f32*)r8<1.5", "||*(f64*)r9>=*(f32*)r8", "" },
		{ "!*(f64*)r8", "+!*(f32*)r9", "" },
		{ "*(f64*)r8", "+*(f64*)r9", "" },
		{ "new*1.5", "/*(f64*)r9*old", "" },
		{ "*(f32*)r8", "*new/(f32)old", "" },
		{ "new", "+(u64)(new*1.5f)", "" },
		{ "new*1.5<2", "||old/2.5>=new", "" },
	};

	if (!arena)
		skip_because("BPF programs (CAP_BPF and CAP_PERFMON)");
	for (size_t i = 0; i < ARRAY_LEN(repeated); i++)
		expect_longest_loads(repeated[i][0], repeated[i][1], repeated[i][2]);
	expect_loads("*(u64*)*(u64*)*(u64*)*(u64*)*(u64*)*(u64*)*(u64*)*(u64*)r8");
}

static void random_conditions_load_as_they_are_attached(void **state)
{
	if (!arena)
		skip_because("BPF programs (CAP_BPF and CAP_PERFMON)");
	for (unsigned int i = 0; i < scaled(500); i++) {
		struct node *n = node_random((uint32_t)random_below(250), arena);

		node_print(n, texts[0], sizeof(texts[0]));
		node_free(n);
		if (strlen(texts[0]) <= COND_TEXT_MAX)
			expect_loads(texts[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ebpf_interpreter_and_plain_evaluation_agree),
		cmocka_unit_test(floating_point_comparisons_are_those_of_c),
		cmocka_unit_test(floating_point_arithmetic_is_that_of_c),
		cmocka_unit_test(the_largest_conditions_load),
		cmocka_unit_test(random_conditions_load_as_they_are_attached),
	};

	cmocka_set_test_filter(getenv("TRAPLINE_TEST"));
	return cmocka_run_group_tests(tests, group_begin, NULL);
}
