/* SPDX-License-Identifier: MIT */
/*
 * test_unwind_table.c - entries, programs and landing pads of unwind tables: made-up ones, and those of the objects
 * of this process, read in memory and by copies of any size.
 */
#include "code/unwind/unwind_table.h"

#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "code/unwind/unwind_index.h"

#define ENTRIES_MOST 3000u
#define PADS_MOST 4000u

/* What one way of reading has of an entry, as a number that depends on each part. */
struct answer {
	int err;
	uint64_t sum;
	uint64_t steps;
	uint64_t pads;
};

static uint64_t mix(uint64_t sum, uint64_t value)
{
	return (sum ^ value) * 0x9e3779b97f4a7c15u + 1;
}

static int add_pad(void *arg, uint64_t address)
{
	struct answer *a = arg;

	a->sum = mix(a->sum, address);
	return ++a->pads < PADS_MOST ? 0 : -E2BIG;
}

static size_t copy(void *arg, uint64_t address, void *to, size_t n)
{
	const uint64_t *end = arg;

	if (address >= *end)
		return 0;
	n = n < *end - address ? n : *end - address;
	memcpy(to, (const void *)(uintptr_t)address, n);
	return n;
}

static void read_all(struct unwind_reader *r, uint64_t at, struct answer *a)
{
	struct unwind_common common = { .at = 0 };
	struct unwind_entry e;
	struct unwind_step step;

	*a = (struct answer){ .err = unwind_read_head(r, at, &e) };
	if (!a->err)
		a->err = unwind_read_common(r, e.common, &common);
	if (!a->err)
		a->err = unwind_read_entry(r, &common, &e);
	if (a->err)
		return;
	a->sum = mix(mix(mix(a->sum, e.start), e.bytes), e.handlers);
	unwind_seek(r, e.program, e.end);
	while (unwind_next(r, &common, &step)) {
		a->sum = mix(mix(mix(a->sum, step.op), step.reg), (uint64_t)step.number);
		a->sum = mix(a->sum, step.block_end - step.block);
		a->steps++;
	}
	a->err = r->is_wrong ? -EILSEQ : 0;
	if (e.handlers && !a->err)
		a->err = unwind_each_handler(r, e.handlers, e.start, add_pad, a);
}

struct seen {
	uint64_t entries;
	uint64_t steps;
	uint64_t pads;
	uint64_t differences;
};

static void compare(uint64_t at, uint64_t end, struct seen *seen)
{
	static const uint32_t rooms[] = { 1, 7, 64, 4096 };
	uint8_t room[4096];
	struct unwind_reader r;
	struct answer here;
	struct answer copied;

	unwind_open(&r, NULL);
	read_all(&r, at, &here);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		const struct unwind_source source = { copy, &end, room, rooms[i] };

		unwind_open(&r, &source);
		read_all(&r, at, &copied);
		seen->differences += memcmp(&here, &copied, sizeof(here)) != 0;
	}
	assert_int_equal(here.err, 0);
	seen->entries++;
	seen->steps += here.steps;
	seen->pads += here.pads;
}

static int each_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct unwind_index *index = NULL;
	uint64_t end = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			index = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (int i = 0; index && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint64_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && (uintptr_t)index - start < p->p_memsz)
			end = start + p->p_memsz;
	}
	for (uint32_t i = 0; index && i < index->count && i < ENTRIES_MOST; i++)
		compare((uintptr_t)index + (uint64_t)(int64_t)index->rows[i].entry, end, arg);
	return 0;
}

static void the_memory_and_copies_of_it_give_the_same(void **state)
{
	struct seen seen = { 0 };

	dl_iterate_phdr(each_object, &seen);
	assert_int_equal(seen.differences, 0);
	assert_true(seen.entries > 1000);
	assert_true(seen.steps > seen.entries);
}

/* ---- made up ---- */

struct table {
	uint8_t bytes[256];
	uint32_t used;
};

static void put(struct table *t, const void *bytes, uint32_t n)
{
	memcpy(t->bytes + t->used, bytes, n);
	t->used += n;
}

#define PUT(t, ...)                                        \
	do {                                               \
		static const uint8_t put_bytes[] = { __VA_ARGS__ }; \
		put(t, put_bytes, sizeof(put_bytes));      \
	} while (0)

/* A common part with this augmentation, and behind it an entry whose program is given. */
static void make(struct table *t, const char *letters, const uint8_t *data, uint32_t data_bytes,
		 const uint8_t *program, uint32_t n)
{
	uint32_t length;
	uint32_t back;

	memset(t, 0, sizeof(*t));
	t->used = 4;
	PUT(t, 0, 0, 0, 0, 1);
	put(t, letters, (uint32_t)strlen(letters) + 1);
	PUT(t, 1, 0x78, 16); /* factors 1 and -8, the return address is register 16 */
	put(t, data, data_bytes);
	length = t->used - 4;
	memcpy(t->bytes, &length, 4);
	const uint32_t entry = t->used;
	t->used += 4;
	back = t->used;
	put(t, &back, 4);
	PUT(t, 0x10, 0, 0, 0, 0x20, 0, 0, 0, 0);
	put(t, program, n);
	length = t->used - entry - 4;
	memcpy(t->bytes + entry, &length, 4);
}

static const uint8_t plain[] = { 1, UNWIND_PC_RELATIVE_INT };

static int read_made(struct table *t, struct unwind_reader *r, struct unwind_common *common,
		     struct unwind_entry *e)
{
	const uint64_t at = (uintptr_t)t->bytes;
	uint32_t length;

	memcpy(&length, t->bytes, 4);
	unwind_open(r, NULL);
	common->at = 0;
	int err = unwind_read_head(r, at + 4 + length, e);
	if (!err)
		err = unwind_read_common(r, e->common, common);
	if (!err)
		err = unwind_read_entry(r, common, e);
	unwind_seek(r, e->program, e->end);
	return err;
}

static void each_instruction_has_its_operands(void **state)
{
	static const uint8_t program[] = {
		0x0c, 7,  16,	    /* def_cfa rsp, 16 */
		0x86, 2,	    /* offset rbp, -16 */
		0x43,		    /* advance 3 */
		0x03, 0,  1,	    /* advance 256 */
		0x11, 3,  0x7e,	    /* offset_extended_sf rbx, -2: 16 */
		0x0f, 2,  0x76, 0,  /* def_cfa_expression */
		0xc6,		    /* restore rbp */
		0x2e, 0x80, 1,	    /* args_size 128 */
	};
	static const struct unwind_step expected[] = {
		{ .op = UNWIND_DEF_CFA, .reg = 7, .number = 16 },
		{ .op = UNWIND_OFFSET, .reg = 6, .number = -16 },
		{ .op = UNWIND_ADVANCE, .number = 3 },
		{ .op = UNWIND_ADVANCE, .number = 256 },
		{ .op = UNWIND_OFFSET, .reg = 3, .number = 16 },
		{ .op = UNWIND_DEF_CFA_EXPRESSION },
		{ .op = UNWIND_RESTORE, .reg = 6 },
		{ .op = UNWIND_ARGS_SIZE, .number = 128 },
	};
	struct unwind_common common;
	struct unwind_reader r;
	struct unwind_entry e;
	struct unwind_step step;
	struct table t;

	make(&t, "zR", plain, sizeof(plain), program, sizeof(program));
	assert_int_equal(read_made(&t, &r, &common, &e), 0);
	assert_int_equal(e.bytes, 0x20);
	assert_int_equal(e.start, e.place + 0x10);
	assert_true(common.is_plain && common.has_data);
	assert_int_equal(common.return_register, 16);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_int_equal(unwind_next(&r, &common, &step), 1);
		assert_int_equal(step.op, expected[i].op);
		assert_int_equal(step.reg, expected[i].reg);
		assert_int_equal(step.number, expected[i].number);
		assert_int_equal(step.block_end - step.block, step.op == UNWIND_DEF_CFA_EXPRESSION ? 2 : 0);
	}
	assert_int_equal(unwind_next(&r, &common, &step), 0);
	assert_false(r.is_wrong);
}

static void what_is_cut_off_or_not_known_is_wrong(void **state)
{
	static const struct {
		uint8_t program[4];
		uint32_t n;
	} list[] = {
		{ { 0x0c, 7 }, 2 },	    /* no number */
		{ { 0x0f, 9, 0x76, 0 }, 4 }, /* a block that ends behind the entry */
		{ { 0x04, 1, 2, 3 }, 4 },    /* 3 bytes of 4 */
		{ { 0x3f }, 1 },
		{ { 0x01 }, 1 },
		{ { 0x86, 0x80, 0x80 }, 3 },
	};
	struct unwind_common common;
	struct unwind_reader r;
	struct unwind_entry e;
	struct unwind_step step;
	struct table t;

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		make(&t, "zR", plain, sizeof(plain), list[i].program, list[i].n);
		assert_int_equal(read_made(&t, &r, &common, &e), 0);
		assert_int_equal(unwind_next(&r, &common, &step), 0);
		assert_true(r.is_wrong);
	}
}

static void an_augmentation_that_is_not_known_is_refused(void **state)
{
	static const struct {
		const char *letters;
		uint8_t data[8];
		uint32_t n;
		int err;
		int is_plain;
	} list[] = {
		{ "", { 0 }, 0, 0, 1 },
		{ "zR", { 1, 0x1b }, 2, 0, 1 },
		{ "zRS", { 1, 0x1b }, 2, 0, 0 },
		{ "zLR", { 2, 0xff, 0x1b }, 3, 0, 1 },
		{ "zPR", { 6, 0x9b, 1, 2, 3, 4, 0x1b }, 7, 0, 1 },
		{ "R", { 0x1b }, 1, -EILSEQ, 0 },
		{ "eh", { 0 }, 8, -EILSEQ, 0 },
		{ "zX", { 1, 0 }, 2, -EILSEQ, 0 },
		{ "zR", { 99, 0x1b }, 2, -EILSEQ, 0 },
		{ "zRSBGSBGS", { 1, 0x1b }, 2, -EILSEQ, 0 },
	};
	struct unwind_common common;
	struct unwind_reader r;
	struct table t;

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		make(&t, list[i].letters, list[i].data, list[i].n, plain, 0);
		unwind_open(&r, NULL);
		common.at = 0;
		assert_int_equal(unwind_read_common(&r, (uintptr_t)t.bytes, &common), list[i].err);
		if (!list[i].err)
			assert_int_equal(common.is_plain, list[i].is_plain);
		assert_int_equal(common.at != 0, !list[i].err);
	}
}

static void the_end_of_a_table_and_long_entries_are_told_apart(void **state)
{
	static const uint8_t end[8] = { 0 };
	static const uint8_t is_long[12] = { 0xff, 0xff, 0xff, 0xff };
	static const uint8_t is_short[8] = { 3 };
	struct unwind_entry e;
	struct unwind_reader r;

	unwind_open(&r, NULL);
	assert_int_equal(unwind_read_head(&r, (uintptr_t)end, &e), -ENOENT);
	assert_int_equal(unwind_read_head(&r, (uintptr_t)is_long, &e), -EILSEQ);
	assert_int_equal(unwind_read_head(&r, (uintptr_t)is_short, &e), -EILSEQ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_memory_and_copies_of_it_give_the_same),
		cmocka_unit_test(each_instruction_has_its_operands),
		cmocka_unit_test(what_is_cut_off_or_not_known_is_wrong),
		cmocka_unit_test(an_augmentation_that_is_not_known_is_refused),
		cmocka_unit_test(the_end_of_a_table_and_long_entries_are_told_apart),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("unwind_table", tests, NULL, NULL);
}
