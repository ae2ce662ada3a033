/* SPDX-License-Identifier: MIT */
/* test_hit_copies.c - memory that the kernel copies at a hit. */
#include "crew.h"

#define SITE(n)                                                             \
	static NOINLINE uint64_t site_##n(uint64_t a, uint64_t b)           \
	{                                                                   \
		__asm__ volatile("" ::: "memory");                          \
		return a + b * (n);                                         \
	}
SITE(1)
SITE(2)

static void require_uprobes(struct rig *rig)
{
	if (access("/sys/bus/event_source/devices/uprobe/type", R_OK))
		skip_because("uprobes (CONFIG_UPROBE_EVENTS)");
	if (geteuid())
		skip_because("root (CAP_SYS_ADMIN, for uprobes)");
	rig_open(rig, BY_BPF);
}

static int try_sites(struct rig *rig, struct trapline_event_opts *opts)
{
	const uint64_t addrs[] = {ADDR(site_1), ADDR(site_2)};

	opts->arg = rig;
	return trapline_break_sites(rig->target, addrs, ARRAY_LEN(addrs), opts, &rig->event);
}

static void open_sites(struct rig *rig, struct trapline_event_opts *opts)
{
	expect_ok(try_sites(rig, opts));
	assert_int_equal(trapline_event_mechanism(rig->event), TRAPLINE_BY_UPROBE);
}

struct link {
	struct link *next;
	uint64_t value;
};
static uint64_t copied_number;

/* What a hit says that the memory was; ~0: it says nothing. */
static uint64_t copied_at(const struct trapline_hit *hit, const void *address)
{
	const void *copy;
	uint64_t value = UINT64_MAX;
	size_t n;

	if (!trapline_hit_memory(hit, ADDR(address), &copy, &n) && n >= sizeof(value))
		memcpy(&value, copy, sizeof(value));
	return value;
}

static struct {
	uint64_t number, next, value, other;
	char text[16];
	int is_absent;
} copied[4];
static struct link *chain;
static char chain_text[16];
static size_t copies_seen;

static enum trapline_action note_copies(const struct trapline_hit *hit)
{
	const size_t i = copies_seen++ % ARRAY_LEN(copied);
	const void *copy;
	size_t n = 0;

	copied[i].number = copied_at(hit, &copied_number);
	copied[i].next = copied_at(hit, &chain[0].next);
	copied[i].value = copied_at(hit, &chain[1].value);
	copied[i].other = copied_at(hit, &chain[0].value);
	copied[i].is_absent = trapline_hit_memory(hit, ADDR(chain_text), &copy, &n);
	snprintf(copied[i].text, sizeof(copied[i].text), "%.*s", (int)n,
		 copied[i].is_absent ? "" : (const char *)copy);
	return rig_note(hit);
}

static void chain_is(uint64_t value)
{
	copied_number = value;
	chain[1].value = value;
	snprintf(chain_text, sizeof(chain_text), "n%u", (unsigned int)value);
}

/* On x86-64 the first argument is in register 5, on arm64 in 0. */
#ifdef __x86_64__
#define FIRST 5
#else
#define FIRST 0
#endif

static void memory_is_copied_at_the_hit_and_at_its_site(void **state)
{
	const struct trapline_memory memory[] = {
		{.reg = TRAPLINE_MEMORY_ABSOLUTE, .base = ADDR(&copied_number), .bytes = 8},
		{.site = ADDR(site_1), .reg = FIRST, .bytes = 8, .links = 1, .offsets = {8}},
		{.site = ADDR(site_2), .reg = TRAPLINE_MEMORY_ABSOLUTE, .base = ADDR(chain_text),
		 .bytes = 16, .flags = TRAPLINE_MEMORY_TEXT},
		{.site = ADDR(site_2), .reg = FIRST, .bytes = 8, .links = 2}, /* ends at a null */
	};
	struct link two[2] = {{&two[1], 77}, {NULL, 0}};
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_uprobes(&rig);
	opts.memory = memory;
	opts.memory_count = ARRAY_LEN(memory);
	open_sites(&rig, &opts);
	chain = two;
	copies_seen = 0;
	for (uint64_t n = 1; n <= 2; n++) {
		chain_is(n);
		site_1(ADDR(two), 0);
		site_2(ADDR(two), 0);
	}
	chain_is(99);
	while (trapline_poll(rig.target, 0, note_copies) > 0)
		;
	expect_hits(&rig, 4);
	for (size_t i = 0; i < 4; i++) {
		const uint64_t n = 1 + i / 2;

		assert_int_equal(copied[i].number, n);
		assert_int_equal(copied[i].next, ADDR(&two[1]));
		assert_int_equal(copied[i].value, i % 2 ? UINT64_MAX : n);
		assert_int_equal(copied[i].other, UINT64_MAX);
		assert_string_equal(copied[i].text, i % 2 ? (n == 1 ? "n1" : "n2") : "");
		assert_int_equal(copied[i].is_absent, i % 2 ? 0 : -ENODATA);
	}
	rig_close(&rig);
}

static uint64_t at_return;

static enum trapline_action note_return(const struct trapline_hit *hit)
{
	if (hit->returned)
		at_return = copied_at(hit, &copied_number);
	else
		assert_int_equal(copied_at(hit, &copied_number), UINT64_MAX);
	return rig_note(hit);
}

/* As a result in memory, whose address the first argument is: the register has something else by then. */
static NOINLINE uint64_t fill(uint64_t *out, uint64_t value)
{
	*out = value;
	__asm__ volatile("" : "+r"(out) : : "memory");
	return value;
}

static void a_return_has_memory_of_the_first_argument_of_its_call(void **state)
{
	const struct trapline_memory memory = {.reg = TRAPLINE_MEMORY_CALL, .bytes = 8,
					       .flags = TRAPLINE_MEMORY_RETURN};
	const uint64_t address = ADDR(fill);
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_uprobes(&rig);
	opts.arg = &rig;
	opts.memory = &memory;
	opts.memory_count = 1;
	opts.flags = TRAPLINE_RETURNS;
	expect_ok(trapline_break_sites(rig.target, &address, 1, &opts, &rig.event));
	fill(&copied_number, 41);
	copied_number = 99;
	while (trapline_poll(rig.target, 0, note_return) > 0)
		;
	expect_hits(&rig, 2);
	assert_int_equal(at_return, 41);
	rig_close(&rig);
}

static void memory_that_is_described_wrongly_is_refused(void **state)
{
	const struct trapline_memory right = {.reg = FIRST, .bytes = 8};
	struct trapline_memory wrong[7];
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_uprobes(&rig);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		wrong[i] = right;
	wrong[0].bytes = 0;
	wrong[1].bytes = TRAPLINE_MEMORY_BYTES + 1;
	wrong[2].links = TRAPLINE_MEMORY_LINKS + 1;
	wrong[3].reg = 99;
	wrong[4].flags = 64;
	wrong[5].reg = TRAPLINE_MEMORY_ABSOLUTE;
	wrong[6].reg = TRAPLINE_MEMORY_CALL; /* but at calls */
	opts.memory_count = 1;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		opts.memory = &wrong[i];
		opts.flags = i == 5 ? TRAPLINE_SEVERAL : 0; /* each process has its own addresses */
		assert_int_equal(try_sites(&rig, &opts), -EINVAL);
	}
	opts.memory = &right;
	open_sites(&rig, &opts);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory_is_copied_at_the_hit_and_at_its_site),
		TEST(a_return_has_memory_of_the_first_argument_of_its_call),
		TEST(memory_that_is_described_wrongly_is_refused),
	};

	return run_group(tests);
}
