/* SPDX-License-Identifier: MIT */
/*
 * test_expression.c - the parser of places in memory takes any text, and says where one is wrong;
 * the resolver takes anything the parser lets through, in the process of this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cond/compile.h"
#include "cond/print.h"
#include "report/lang/condition_names.h"
#include "report/lang/expression.h"
#include "report/lang/value.h"

enum mood { CALM = 1, ANGRY = 2, LOUD = 4 };

struct item {
	int number;
	enum mood mood;
	struct item *next;
	unsigned int three : 3;
	unsigned int six : 6;
	double real;
	char name[8];
};

struct item items[3];
struct item *first = &items[1];
struct item *nothing;
int chosen = 2;
long plain_number;

static struct symbols *self;

static void must_parse(const char *text)
{
	struct expression_error error;
	struct expression *e = NULL;

	if (expression_parse(text, &e, &error))
		fail_msg("'%s': column %d: %s", text, error.column, error.text);
	expression_free(e);
}

static void must_fail_at(const char *text, int column)
{
	struct expression_error error;
	struct expression *e = NULL;

	if (!expression_parse(text, &e, &error)) {
		expression_free(e);
		fail_msg("'%s' was taken", text);
	}
	if (error.column != column || !error.text[0])
		fail_msg("'%s': column %d, not %d: %s", text, error.column, column, error.text);
}

static void places_are_parsed(void **state)
{
	static const char *const good[] = {
		"a", "a.b", "a->b", "a[3]", "a[-1]", "a[b.c].d", "*a", "**a->b", "(*a).b",
		"(a)", "((a))->b", "*(int *)0x10", "*(struct foo *)0x10", "((ns::T<a, b<c>> *)1)->x",
		"file.c:a", "dir/file.c:a.b", "libc.so.6:environ", "ld-linux-x86-64.so.2:x", "a::b",
		"::a", "a<int>::b", "a+8", "a-8", "a+0x10:4", "a:1", "a:32", "0x1000", "0x1000:8",
		"4096:2", " a . b ", "a -> b [ 1 ]", "*(unsigned long *)0", "count.0", "main.count",
		"a.Base::b", "*(int *)(a+16)", "*(a - 8):4", "((struct foo *)(a+0x10))->b", "big:64",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		must_parse(good[i]);
}

static void errors_say_the_column(void **state)
{
	must_fail_at("", 1);
	must_fail_at(".a", 1);
	must_fail_at("a.", 3);
	must_fail_at("a->", 4);
	must_fail_at("a->->b", 4);
	must_fail_at("a[", 3);
	must_fail_at("a[1", 4);
	must_fail_at("a b", 3);
	must_fail_at("(a", 3);
	must_fail_at("a)", 2);
	must_fail_at("a:0", 3);
	must_fail_at("a:4097", 3);
	must_fail_at("(a+", 4);
	must_fail_at("(a+b)", 4);
	must_fail_at("(a+1", 5);
	must_fail_at("a:8x", 4);
	must_fail_at("a+b", 3);
	must_fail_at("&a", 1);
	must_fail_at("a = 1", 3);
	must_fail_at("*(int *", 8);
	must_fail_at("0x10000000000000000", 1);
}

static void long_texts_are_refused(void **state)
{
	char text[20000];
	struct expression_error error;
	struct expression *e;

	memset(text, '*', sizeof(text));
	text[sizeof(text) - 1] = 0;
	assert_int_equal(expression_parse(text, &e, &error), -EINVAL);
	text[400] = 0; /* short enough, and too deep */
	assert_int_equal(expression_parse(text, &e, &error), -EINVAL);
}

static int resolve(const char *text, struct expression_place *out, bool path_only)
{
	struct expression_options options = { .path_only = path_only };
	struct expression_error error;
	struct expression *e;

	if (expression_parse(text, &e, &error))
		fail_msg("'%s': %s", text, error.text);
	int err = expression_resolve(self, e, &options, out, &error);
	if (err && !error.text[0])
		fail_msg("'%s' fails with %d and says nothing", text, err);
	expression_free(e);
	return err;
}

static void places_are_found(void **state)
{
	const struct {
		const char *text;
		const void *address;
		size_t size;
	} places[] = {
		{ "items", items, sizeof(items) },
		{ "items[2].real", &items[2].real, 8 },
		{ "first->mood", &items[1].mood, 4 },
		{ "items[chosen].number", &items[2].number, 4 },
		{ "first[-1].name", items[0].name, 8 },
		{ "(*first).next", &items[1].next, 8 },
		{ "test_expression.c:plain_number", &plain_number, 8 },
		{ "items+4:4", &items[0].mood, 4 },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct expression_place place;
		assert_int_equal(resolve(places[i].text, &place, false), 0);
		assert_int_equal(place.address, (uintptr_t)places[i].address);
		assert_int_equal(place.size, places[i].size);
		assert_non_null(place.type);
	}
}

static void a_path_leads_where_the_pointers_lead_later(void **state)
{
	struct expression_place place;

	assert_int_equal(resolve("first->next->mood", &place, true), 0);
	assert_int_equal(place.path.links, 2);
	items[1].next = &items[2];
	first = &items[1];
	uint64_t at = place.path.base;
	for (size_t i = 0; i < place.path.links; i++)
		at = *(uint64_t *)(uintptr_t)at + place.path.offsets[i];
	assert_int_equal(at, (uintptr_t)&items[2].mood);
	items[1].next = NULL;
}

/* `item` is an argument with a type, `word` one without. */
static int value_named(void *arg, const char *scope, const char *name, struct expression_name *out,
		       char *why, size_t n)
{
	out->type = strcmp(name, "item") ? NULL : arg;
	if (!scope && (!strcmp(name, "item") || !strcmp(name, "word")))
		return 0;
	snprintf(why, n, "no '%s' here", name);
	return -ENOENT;
}

static int resolve_value(const char *text, uint64_t value, uint64_t *address, uint64_t *size)
{
	struct expression_options options = {
		.path_only = true,
		.name = value_named,
		.arg = (void *)(uintptr_t)type_pointer_to(self, type_find(self, "struct item")),
	};
	struct expression_error error;
	struct expression_place place;
	struct expression *e;

	if (expression_parse(text, &e, &error))
		fail_msg("'%s': %s", text, error.text);
	int err = expression_resolve(self, e, &options, &place, &error);
	if (err && !error.text[0])
		fail_msg("'%s' fails with %d and says nothing", text, err);
	*size = err ? 0 : place.size ? place.size : expression_length(e);
	expression_free(e);
	return err ? err : expression_path_follow(self, &place.path, value, address);
}

static void a_value_of_a_hit_begins_a_path(void **state)
{
	const struct {
		const char *text;
		const void *address;
		size_t size;
	} places[] = {
		{ "item->mood", &items[0].mood, 4 },
		{ "(*item).real", &items[0].real, 8 },
		{ "item[2].mood", &items[2].mood, 4 },
		{ "item->next->mood", &items[1].mood, 4 },
		{ "((struct item *)word)->mood", &items[0].mood, 4 },
		{ "*(uint32_t *)(word+4)", &items[0].mood, 4 },
		{ "*(uint32_t *)(item+4)", &items[0].mood, 4 },
		{ "*(word+4):4", &items[0].mood, 4 },
		{ "*word:8", &items[0], 8 },
	};

	items[0].next = &items[1];
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		uint64_t address = 0;
		uint64_t size;
		if (resolve_value(places[i].text, (uintptr_t)items, &address, &size))
			fail_msg("'%s' leads nowhere", places[i].text);
		assert_int_equal(address, (uintptr_t)places[i].address);
		assert_int_equal(size, places[i].size);
	}
	items[0].next = NULL;
}

static void what_is_no_value_of_a_hit_is_refused(void **state)
{
	uint64_t address;
	uint64_t size;

	assert_int_equal(resolve_value("items[0].mood", 0, &address, &size), -ENOENT);
	assert_int_equal(resolve_value("file.c:item->mood", 0, &address, &size), -ENOENT);
	assert_int_equal(resolve_value("item", 0, &address, &size), -EINVAL);
	assert_int_equal(resolve_value("word->mood", 0, &address, &size), -EINVAL);
	assert_int_equal(resolve_value("(item->next+1)->mood", 0, &address, &size), -EINVAL);
	assert_int_equal(resolve_value("item->next->mood", (uintptr_t)items, &address, &size), -EFAULT);
	assert_int_equal(resolve_value("item->next->mood", 8, &address, &size), -EFAULT);
}

static void a_null_pointer_is_said(void **state)
{
	struct expression_place place;

	assert_int_equal(resolve("nothing->mood", &place, false), -EFAULT);
	assert_int_equal(resolve("nothing->mood", &place, true), 0);
}

static void text_of(const char *where, const void *bytes, size_t len, char *buf, size_t n)
{
	struct expression_place place;
	struct value_part part = { .len = (uint32_t)len, .new_known = true, .old_known = true };

	assert_int_equal(resolve(where, &place, false), 0);
	struct value_view view = { place.type, place.bit_offset, place.bit_size };
	memcpy(&part.new_value, bytes, len);
	part.old_value = part.new_value;
	value_change(self, &view, &part, true, buf, n);
}

static void values_read_as_their_type(void **state)
{
	char text[200];
	enum mood mood = ANGRY;
	double real = 0.1;
	uint32_t bits = 5u << 3; /* six is behind three */

	text_of("first->mood", &mood, sizeof(mood), text, sizeof(text));
	assert_string_equal(text, "ANGRY");
	mood = CALM | LOUD;
	text_of("first->mood", &mood, sizeof(mood), text, sizeof(text));
	assert_string_equal(text, "CALM|LOUD");
	mood = 64;
	text_of("first->mood", &mood, sizeof(mood), text, sizeof(text));
	assert_string_equal(text, "64");
	text_of("first->real", &real, sizeof(real), text, sizeof(text));
	assert_string_equal(text, "0.1");
	text_of("first->six", &bits, 2, text, sizeof(text));
	assert_string_equal(text, "5");
	text_of("first->name", "ab\"\0\0\0\0", 8, text, sizeof(text));
	assert_string_equal(text, "\"ab\\\"\"");
	text_of("first->next", &(struct item *){ NULL }, 8, text, sizeof(text));
	assert_string_equal(text, "NULL");
}

static uint64_t random_state;

static unsigned int random_below(unsigned int n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned int)(random_state >> 33) % n;
}

/* Mostly words of the language, at times any byte. */
static void random_text(char *text, size_t n)
{
	static const char *const words[] = {
		"items", "first", "nothing", "chosen", "plain_number", "next", "mood", "three", "six",
		"name", "real", "number", ".", "->", "[", "]", "(", ")", "*", "**", "+", "-", ":", "::",
		"0", "1", "2", "0x10", "8", "(struct item *)", "(int *)", "(u8*)", "<", ">", ",", " ",
		"test_expression.c:", "libc.so.6:", "environ", "errno", "items[1].", "first->next->",
		"18446744073709551615", "-1", "&", "struct", "\xff", "\"",
	};
	unsigned int count = 1 + random_below(12);
	size_t used = 0;

	text[0] = 0;
	while (count-- && used + 24 < n) {
		if (random_below(20))
			used += (size_t)snprintf(text + used, n - used, "%s",
						 words[random_below(sizeof(words) / sizeof(words[0]))]);
		else
			text[used++] = (char)(1 + random_below(255));
		text[used] = 0;
	}
}

/* A place that the grammar allows, from variables that exist. */
static void random_place(char *text, size_t n)
{
	static const char *const roots[] = { "items", "first", "nothing", "chosen", "plain_number",
					     "items[1]", "(*first)", "((struct item *)0x10)" };
	static const char *const steps[] = { ".next", "->next", "->mood", ".three", "[2]", "[-1]",
					     "[chosen]", "[first->number]", "->nmae", ".name",
					     "->next->next", "[99999999999]", ".real" };
	static const char *const heads[] = { "*", "**", "(u8 *)", "*(struct item *)", "(double **)" };
	static const char *const tails[] = { "", "", "", ":8", "+8", "-8:4", "+16:8", "+0xffffffffff" };
	const char *head = random_below(3) ? "" : heads[random_below(5)];
	unsigned int count = random_below(5);
	size_t used = (size_t)snprintf(text, n, "%s%s", head, roots[random_below(8)]);

	while (count-- && used + 40 < n)
		used += (size_t)snprintf(text + used, n - used, "%s", steps[random_below(13)]);
	snprintf(text + used, n - used, "%s", tails[random_below(8)]);
}

static void seed_set(void)
{
	const char *given = getenv("TRAPLINE_SEED");

	random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) << 16 | 1;
	print_message("# TRAPLINE_SEED=%" PRIu64 "\n", random_state);
}

static void no_text_harms_the_parser(void **state)
{
	unsigned long taken = 0;
	char text[400];

	seed_set();
	for (int i = 0; i < 200000; i++) {
		struct expression_error error;
		struct expression *e = NULL;
		random_text(text, sizeof(text));
		if (expression_parse(text, &e, &error)) {
			assert_in_range(error.column, 1, strlen(text) + 1);
			assert_true(error.text[0]);
		} else {
			taken++;
		}
		expression_free(e);
	}
	assert_in_range(taken, 1, 199999);
}

static void no_place_harms_the_resolver(void **state)
{
	unsigned long found = 0;
	char text[400];

	seed_set();
	for (int i = 0; i < 2000; i++) {
		struct expression_place place = { 0 };
		char values[400];
		random_place(text, sizeof(text));
		if (resolve(text, &place, random_below(2)))
			continue;
		found++;
		struct value_view view = { place.type, place.bit_offset, place.bit_size };
		struct value_part part = {
			.len = 1u << random_below(4), .offset = random_below(2) * random_below(40),
			.old_known = random_below(2), .new_known = true,
			.old_value = random_below(1000), .new_value = random_below(2) ? UINT64_MAX : 0,
		};
		if (!view.type)
			continue;
		value_change(self, &view, &part, random_below(2), values,
			     1 + random_below(sizeof(values)));
		json_decref(value_json(self, &view, &part, true));
	}
	assert_in_range(found, 1, 1999);
}

static char *steps_of(const struct trapline_condition *condition)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	cond_print(f, &condition->ir);
	fclose(f);
	return text;
}

static void same_condition(const struct condition_names *names, const char *text, const char *plain)
{
	struct condition_parts parts[2] = { { 0 } };
	struct trapline_condition_error wrong;
	TRAPLINE_OPTS(condition, opts);
	struct expression_error error;
	char *steps[2];

	opts.error = &wrong;
	if (condition_make(names, text, &parts[0], &error))
		fail_msg("'%s': column %d: %s", text, error.column, error.text);
	if (trapline_condition_parse(plain, &opts, &parts[1].entry))
		fail_msg("'%s': column %d: %s", plain, wrong.column, wrong.message);
	for (int i = 0; i < 2; i++)
		steps[i] = steps_of(parts[i].entry);
	if (strcmp(steps[0], steps[1]) != 0)
		fail_msg("'%s' is not '%s':\n%s%s", text, plain, steps[0], steps[1]);
	for (int i = 0; i < 2; i++) {
		trapline_condition_free(parts[i].entry);
		free(steps[i]);
	}
}

/* Without a process each name stands as a 1: what is taken for a name is what is looked at. */
static void condition_must_become(const char *text, const char *wanted)
{
	const struct condition_names names = { 0 };

	same_condition(&names, text, wanted);
}

static void names_in_conditions_are_told_from_terms(void **state)
{
	condition_must_become("new > old && changed", "new > old && changed");
	condition_must_become("a > b", "1 > 1");
	condition_must_become("a.b->c[2] == 3", "1 == 3");
	condition_must_become("new & a", "new & 1");
	condition_must_become("new && &a.b == b", "new && 1 == 1");
	condition_must_become("new&&a", "new&&1");
	condition_must_become("new * a", "new * 1");
	condition_must_become("*a == *b.c", "1 == 1");
	condition_must_become("*(u32 *)new == 1", "*(u32 *)new == 1");
	condition_must_become("*(u32 *)(new + 8)", "*(u32 *)(new + 8)");
	condition_must_become("*(u32 *)(a + 8)", "*(u32 *)(1 + 8)");
	condition_must_become("(u32)a + (s8)-b", "(u32)1 + (s8)-1");
	condition_must_become("(u32 *)a", "1");
	condition_must_become("(a) & b", "(1) & 1");
	condition_must_become("(a * b) & b", "(1 * 1) & 1");
	condition_must_become("(*a)->b < 0x1f", "1 < 0x1f");
	condition_must_become("thread == \"a.b\" || a", "thread == \"a.b\" || 1");
	condition_must_become("'a' + a", "'a' + 1");
	condition_must_become("str(a.b) == \"x\"", "str(1) == \"x\"");
	condition_must_become("new ? a : b", "new ? 1 : 1");
	condition_must_become("f.c:a<b::c", "1<1");
	condition_must_become("f.c:new", "1");
	condition_must_become("a<b>::c", "1");
	condition_must_become("newer", "1");
	condition_must_become("$a + \xc3\xa9 + ::b", "1 + 1 + 1");
}

static void condition_must_fail_at(const char *text, int column, const char *says)
{
	const struct condition_names names = { .has_result = true };
	struct condition_parts parts;
	struct expression_error error;

	assert_int_equal(condition_make(&names, text, &parts, &error), -EINVAL);
	if (error.column != column || !strstr(error.text, says))
		fail_msg("'%s': column %d: %s", text, error.column, error.text);
}

static void wrong_conditions_are_said_with_their_column(void **state)
{
	condition_must_fail_at("", 1, "expected a number, a term or '('");
	condition_must_fail_at("a b", 3, "expected an operator or the end, not 'b'");
	condition_must_fail_at("(a b)", 4, "expected an operator or the end, not 'b'");
	condition_must_fail_at("a and b", 3, "did you mean &&?");
	condition_must_fail_at("not a", 1, "did you mean !?");
	condition_must_fail_at("a.b-> == 1", 7, "expected a member's name after '->', not '='");
	condition_must_fail_at("a[1", 4, "expected ']', but the text ends");
	condition_must_fail_at("new.x", 4, "no such character");
	condition_must_fail_at("&(a.b)", 2, "expected the name of a symbol");
	condition_must_fail_at("(u32 *)new", 6, "a pointer type is possible in");
	condition_must_fail_at("a == *3", 7, "expected '(' and a type");
	condition_must_fail_at("ret < 0 && a == 3)", 18, "expected an operator or the end");
	condition_must_fail_at("a || ret == 1", 0, "cannot evaluate 'a || ret == 1'");
	condition_must_fail_at("a && (ret + 1 == 5)", 0, "cannot evaluate '(ret + 1 == 5)'");
	condition_must_fail_at("ret && (ret && (ret && (ret && (ret && (ret && (ret && (ret && ret)))))))",
			       0, "cannot evaluate 'ret'");
}

/* What variables, members, bit-fields and constants are in the language. */
static void names_become_loads(void **state)
{
	struct condition_names names = { .symbols = self };
	char plain[200];

	snprintf(plain, sizeof(plain), "*(s32 *)%#llx == 2 && *(s64 *)%#llx > -5",
		 (unsigned long long)(uintptr_t)&chosen, (unsigned long long)(uintptr_t)&plain_number);
	names.view.type = type_find(self, "enum mood");
	same_condition(&names, "chosen == ANGRY && plain_number > -5", plain);
	snprintf(plain, sizeof(plain), "*(u32 *)(*(u64 *)(*(u64 *)%#llx + %zu) + %zu)",
		 (unsigned long long)(uintptr_t)&first, offsetof(struct item, next),
		 offsetof(struct item, mood));
	same_condition(&names, "first->next->mood", plain);
	snprintf(plain, sizeof(plain), "*(u64 *)%#llx + %zu", (unsigned long long)(uintptr_t)&first,
		 offsetof(struct item, name));
	same_condition(&names, "first->name", plain);
	same_condition(&names, "&first->name", plain);
	snprintf(plain, sizeof(plain), "(*(u16 *)%#llx >> 3) & 0x3f",
		 (unsigned long long)(uintptr_t)&items[0] + offsetof(struct item, next) + 8);
	same_condition(&names, "items[0].six", plain);
}

/* A watched bit-field has its own bits, and writes to others do not count. */
static void a_bit_field_is_its_bits(void **state)
{
	struct expression_place place;

	assert_int_equal(resolve("first->six", &place, false), 0);
	const struct condition_names names = {
		.symbols = self,
		.len = 2,
		.view = { place.type, place.bit_offset, place.bit_size },
	};
	same_condition(&names, NULL, "((new ^ old) & 0x1f8) != 0 || new == old");
	same_condition(&names, "new > 3 || changed",
		       "(((new >> 3) & 0x3f) > 3 || ((new >> 3) & 0x3f) != ((old >> 3) & 0x3f)) && "
		       "(((new ^ old) & 0x1f8) != 0 || new == old)");
}

/* Parameters in registers, on the stack, behind a pointer, and one that the compiler knows. */
static void parameters_are_where_they_are(void **state)
{
	const struct type *item = type_find(self, "struct item");
	const struct type *number = type_find(self, "int");
	struct signature_value parameter[] = {
		{ .name = "in", .type = type_pointer_to(self, item), .reg = { 5 }, .regs = 1 },
		{ .name = "n", .type = number, .reg = { 4 }, .regs = 1 },
		{ .name = "deep", .type = type_pointer_to(self, item), .stack = 8 },
		{ .name = "old", .type = number, .stack = 16 },
		{ .name = "whole", .type = item, .reg = { 1 }, .regs = 1 },
		{ .name = "known", .type = number, .constant = 7 },
		{ .name = "gone", .type = number },
	};
	const enum signature_where where[] = {
		SIGNATURE_REGISTERS, SIGNATURE_REGISTERS, SIGNATURE_STACK, SIGNATURE_STACK,
		SIGNATURE_MEMORY, SIGNATURE_CONSTANT, SIGNATURE_GONE,
	};
	for (size_t i = 0; i < 7; i++)
		parameter[i].where = where[i];
	const struct signature signature = { .parameter = parameter, .count = 7 };
	const struct signature fewer = { .parameter = parameter + 1, .count = 6 };
	const struct condition_names names = { .symbols = self, .signature = &signature };
	const struct condition_names other = { .symbols = self, .signature = &fewer };
	struct condition_parts parts;
	struct expression_error error;

	same_condition(&names, "n < 0 && in->number == n",
		       "(s32)arg1 < 0 && *(s32 *)(arg0 + 0) == (s32)arg1");
	same_condition(&names, "deep->mood > 1 && old == 2",
		       "*(u32 *)(*(u64 *)(sp + 8) + 4) > 1 && *(s32 *)(sp + 16) == 2");
	same_condition(&names, "whole.mood == known", "*(u32 *)(rdx + 4) == (s32)7");
	assert_int_equal(condition_make(&names, "new == gone", &parts, &error), -EINVAL);
	assert_int_equal(error.column, 8);
	assert_int_equal(condition_make(&names, "&n->x", &parts, &error), -EINVAL);
	assert_int_equal(condition_compare(&names, &other, "n == 1"), 0);
	assert_int_equal(condition_compare(&names, &other, "in->mood == 1"), 1);
	assert_int_equal(condition_compare(&names, &other, "chosen == 1"), -1);
}

static bool result_is(const char *text, const char *type, uint64_t value, const char *rest)
{
	const struct condition_names names = { .symbols = self, .has_result = true };
	struct condition_parts parts = { 0 };
	struct expression_error error;

	if (condition_make(&names, text, &parts, &error))
		fail_msg("'%s': column %d: %s", text, error.column, error.text);
	assert_int_equal(parts.entry != NULL, rest != NULL);
	trapline_condition_free(parts.entry);
	if (rest)
		same_condition(&names, text, rest);
	assert_null(result_unknown(&parts.result, self, type_find(self, type)));
	return result_holds(&parts.result, self, type_find(self, type), value);
}

static void results_are_compared_by_their_type(void **state)
{
	assert_true(result_is("ret < 0", "int", 0xffffffff, NULL));
	assert_false(result_is("ret < 0", "unsigned int", 0xffffffff, NULL));
	assert_true(result_is("ret == ANGRY", "enum mood", 2, NULL));
	assert_false(result_is("(ret != NULL)", "long", 0, NULL));
	assert_true(result_is("ret >= -0x10 && arg0 == 3 && ret <= 3 && arg1", "long", 3,
			      "arg0 == 3 && arg1"));
	assert_false(result_is("new == 1 && (new == 2 && ret)", "long", 0, "new == 1 && new == 2"));
	assert_true(result_is("ret > 5", "u64", UINT64_MAX, NULL));
}

static void no_text_harms_a_condition(void **state)
{
	struct expression_place place;
	unsigned long taken = 0;
	char text[400];

	seed_set();
	assert_int_equal(resolve("first->six", &place, false), 0);
	for (int i = 0; i < 50000; i++) {
		const struct condition_names names = {
			.symbols = i % 64 ? NULL : self,
			.len = 2,
			.view = { place.type, place.bit_offset, place.bit_size },
			.has_result = i & 1,
		};
		struct expression_error error;
		struct condition_parts parts = { 0 };
		/* Names that resemble an unknown one are looked for in all of the program. */
		if (names.symbols)
			random_place(text, sizeof(text));
		else
			random_text(text, sizeof(text));
		if (condition_make(&names, text, &parts, &error)) {
			assert_in_range(error.column, 1, strlen(text) + 1);
			assert_true(error.text[0]);
			continue;
		}
		taken++;
		trapline_condition_free(parts.entry);
	}
	assert_in_range(taken, 1, 49999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_parsed),
		cmocka_unit_test(errors_say_the_column),
		cmocka_unit_test(long_texts_are_refused),
		cmocka_unit_test(places_are_found),
		cmocka_unit_test(a_path_leads_where_the_pointers_lead_later),
		cmocka_unit_test(a_value_of_a_hit_begins_a_path),
		cmocka_unit_test(what_is_no_value_of_a_hit_is_refused),
		cmocka_unit_test(a_null_pointer_is_said),
		cmocka_unit_test(values_read_as_their_type),
		cmocka_unit_test(no_text_harms_the_parser),
		cmocka_unit_test(no_place_harms_the_resolver),
		cmocka_unit_test(names_in_conditions_are_told_from_terms),
		cmocka_unit_test(wrong_conditions_are_said_with_their_column),
		cmocka_unit_test(names_become_loads),
		cmocka_unit_test(a_bit_field_is_its_bits),
		cmocka_unit_test(parameters_are_where_they_are),
		cmocka_unit_test(results_are_compared_by_their_type),
		cmocka_unit_test(no_text_harms_a_condition),
	};

	if (symbols_open(getpid(), &self))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	symbols_close(self);
	return failed;
}
