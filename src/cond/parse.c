/* SPDX-License-Identifier: MIT */
/*
 * parse.c - recursive descent, one function for each level of C's grammar, writing steps as it
 * goes. Every function returns whether the number it leaves on the stack is signed.
 *
 * The first error wins; after it nothing more is written, so the functions need not check.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cond/parse.h"
#include "cond/terms.h"

#define DEPTH_MAX 64

struct parser {
	const char *text;
	const char *at;
	struct token now;
	const struct trapline_condition_opts *opts;
	struct trapline_condition_error *error;
	struct condition *out;
	uint32_t height;
	uint32_t depth;
	int err;
	struct cond_step nowhere; /* written to after an error */
};

static int parse_expression(struct parser *p);
static int parse_unary(struct parser *p);

__attribute__((format(printf, 4, 5))) static void
fail_at(struct parser *p, int err, const char *where, const char *format, ...)
{
	va_list args;

	if (p->err)
		return;
	p->err = err;
	p->now.kind = TOKEN_END;
	p->error->line = 1;
	p->error->column = 1;
	for (const char *c = p->text; c < where; c++) {
		p->error->column = *c == '\n' ? 1 : p->error->column + 1;
		p->error->line += *c == '\n';
	}
	va_start(args, format);
	vsnprintf(p->error->message, sizeof(p->error->message), format, args);
	va_end(args);
}

static void expected(struct parser *p, const char *what)
{
	const struct token *t = &p->now;

	if (t->kind == TOKEN_WRONG)
		fail_at(p, -EINVAL, t->start, "%s", t->wrong);
	else if (t->kind == TOKEN_END)
		fail_at(p, -EINVAL, t->start, "expected %s, but the condition ends", what);
	else
		fail_at(p, -EINVAL, t->start, "expected %s, not '%.*s'", what,
			(int)(p->at - t->start), t->start);
}

static void next(struct parser *p)
{
	if (!p->err)
		token_next(&p->at, &p->now);
}

static int is_sign(const struct parser *p, const char *sign)
{
	return p->now.kind == TOKEN_SIGN && !strcmp(p->now.text, sign);
}

static int take_sign(struct parser *p, const char *sign)
{
	if (!is_sign(p, sign))
		return 0;
	next(p);
	return 1;
}

static int is_word(const struct parser *p, const char *word)
{
	return p->now.kind == TOKEN_NAME && !strcmp(p->now.text, word);
}

static void need_sign(struct parser *p, const char *sign, const char *what)
{
	if (!take_sign(p, sign))
		expected(p, what);
}

/* Writes a step that takes some numbers and leaves some. */
static struct cond_step *emit(struct parser *p, enum cond_op op, uint32_t takes, uint32_t leaves)
{
	struct condition *c = p->out;

	if (c->count == COND_STEPS_MAX || p->height - takes + leaves > COND_HEIGHT_MAX)
		fail_at(p, -E2BIG, p->now.start, "the condition is too long or too deep");
	if (p->err)
		return &p->nowhere;
	struct cond_step *step = &c->steps[c->count++];

	memset(step, 0, sizeof(*step));
	step->op = (uint8_t)op;
	step->height = (uint8_t)p->height;
	p->height += leaves - takes;
	return step;
}

static void land(struct parser *p, struct cond_step *jump)
{
	jump->target = (uint16_t)p->out->count;
}

static void push_number(struct parser *p, uint64_t number)
{
	emit(p, COND_PUSH, 0, 1)->imm = number;
}

/* Keeps a string constant; returns its offset. */
static uint16_t keep_string(struct parser *p, const char *bytes, uint32_t len)
{
	struct condition *c = p->out;
	uint32_t at = c->strings_used;

	if (at + len > COND_STRINGS_BYTES) {
		fail_at(p, -E2BIG, p->now.start, "the strings have more than 512 bytes");
		return 0;
	}
	memcpy(c->strings + at, bytes, len);
	c->strings_used += len;
	return (uint16_t)at;
}

static void find_symbol(struct parser *p, uint64_t *address, uint64_t *bytes)
{
	int err = -ENOENT;

	*address = 0;
	*bytes = 0;
	/* In quotes: what is no plain name, as in "libc.so.6:malloc". */
	if (p->now.kind != TOKEN_NAME && p->now.kind != TOKEN_STRING) {
		expected(p, "the name of a symbol");
		return;
	}
	if (p->opts && p->opts->find_symbol)
		err = p->opts->find_symbol(p->opts->arg, p->now.text, address, bytes);
	if (err)
		fail_at(p, -EINVAL, p->now.start, "no symbol is named '%s'", p->now.text);
	next(p);
}

/* u8, uint8_t ... s64: 1 and the type when the name is one. */
static int type_of(const char *name, uint32_t *size, int *is_signed)
{
	char digits[4] = "";
	char c;

	if (sscanf(name, "uint%2[0-9]_%c", digits, &c) == 2 ||
	    sscanf(name, "u%2[0-9]", digits) == 1)
		*is_signed = 0;
	else if (sscanf(name, "int%2[0-9]_%c", digits, &c) == 2 ||
		 sscanf(name, "s%2[0-9]", digits) == 1)
		*is_signed = 1;
	else
		return 0;
	*size = !strcmp(digits, "8")  ? 1 :
		!strcmp(digits, "16") ? 2 :
		!strcmp(digits, "32") ? 4 :
		!strcmp(digits, "64") ? 8 :
					0;
	return *size != 0;
}

/* Behind an opening parenthesis: is this a cast? Then the type is taken. */
static int take_type(struct parser *p, uint32_t *size, int *is_signed)
{
	if (p->now.kind != TOKEN_NAME || !type_of(p->now.text, size, is_signed))
		return 0;
	next(p);
	return 1;
}

static int parse_cast(struct parser *p, uint32_t size, int is_signed)
{
	if (is_sign(p, "*")) {
		expected(p, "')': a pointer type is possible in *(type *)address only");
		return 0;
	}
	need_sign(p, ")", "')' after the type");
	parse_unary(p);
	struct cond_step *step = emit(p, COND_CAST, 1, 1);

	step->size = (uint8_t)size;
	step->is_signed = (uint8_t)is_signed;
	/* As in C: what is narrower than 64 bits is a number that a signed one can hold. */
	return is_signed || size < 8;
}

/* *(type *)address */
static int parse_load(struct parser *p)
{
	uint32_t size = 0;
	int is_signed = 0;

	need_sign(p, "(", "'(' and a type, as in *(u32 *)address");
	if (!take_type(p, &size, &is_signed))
		expected(p, "a type: u8 u16 u32 u64 s8 s16 s32 s64");
	need_sign(p, "*", "'*' after the type of a load");
	need_sign(p, ")", "')' after the type of a load");
	parse_unary(p);
	struct cond_step *step = emit(p, COND_LOAD, 1, 1);

	step->size = (uint8_t)size;
	step->is_signed = (uint8_t)is_signed;
	return is_signed || size < 8;
}

/* == or != of what compares with a string; 1 when it is !=. */
static int take_equality(struct parser *p)
{
	int is_not = is_sign(p, "!=");

	if (!take_sign(p, "==") && !take_sign(p, "!="))
		expected(p, "== or != and a string");
	if (p->now.kind != TOKEN_STRING)
		expected(p, "a string in double quotes");
	return is_not;
}

static int parse_thread(struct parser *p)
{
	char name[COND_THREAD_NAME] = "";
	int is_not = take_equality(p);

	if (p->now.len >= COND_THREAD_NAME) {
		fail_at(p, -EINVAL, p->now.start, "a thread's name has at most 15 bytes");
		return 1;
	}
	memcpy(name, p->now.text, p->now.len);
	uint16_t at = keep_string(p, name, sizeof(name));

	emit(p, COND_THREAD, 0, 1)->arg = at;
	if (is_not)
		emit(p, COND_NOT, 1, 1);
	next(p);
	return 1;
}

static int parse_string(struct parser *p)
{
	need_sign(p, "(", "'(' after str");
	parse_expression(p);
	need_sign(p, ")", "')' after the pointer");
	int is_not = take_equality(p);

	if (!p->err && !p->now.len)
		fail_at(p, -EINVAL, p->now.start, "cannot compare with an empty string");
	uint16_t at = keep_string(p, p->now.text, p->now.len);
	struct cond_step *step = emit(p, COND_STRING, 1, 1);

	step->arg = at;
	step->size = (uint8_t)p->now.len;
	if (is_not)
		emit(p, COND_NOT, 1, 1);
	next(p);
	return 1;
}

static int parse_count(struct parser *p)
{
	struct condition *c = p->out;
	struct trapline_event *event = NULL;
	uint32_t at = 0;

	need_sign(p, "(", "'(' after count");
	if (p->now.kind != TOKEN_NAME)
		expected(p, "the name of an event");
	if (!p->err && p->opts && p->opts->find_event)
		event = p->opts->find_event(p->opts->arg, p->now.text);
	if (!event)
		fail_at(p, -EINVAL, p->now.start, "no event is named '%s'", p->now.text);
	while (at < c->event_count && c->events[at] != event)
		at++;
	if (at == COND_EVENTS_MAX)
		fail_at(p, -E2BIG, p->now.start, "more than 8 events are counted");
	next(p);
	need_sign(p, ")", "')' after the event");
	if (p->err)
		return 0;
	c->events[at] = event;
	c->event_count += at == c->event_count;
	emit(p, COND_COUNT, 0, 1)->arg = (uint16_t)at;
	return 0;
}

static int push_term(struct parser *p, const struct cond_name *name)
{
	if (name->is_register) {
		emit(p, COND_REG, 0, 1)->arg = name->number;
		return 0;
	}
	p->out->terms |= 1u << name->number;
	emit(p, COND_TERM, 0, 1)->arg = name->number;
	return name->number == COND_TID || name->number == COND_PID || name->number == COND_CPU ||
	       name->number == COND_CHANGED;
}

static int parse_name(struct parser *p)
{
	const struct cond_name *name = cond_name_find(p->now.text);
	struct token word = p->now;

	next(p);
	if (name)
		return push_term(p, name);
	if (!strcmp(word.text, "thread"))
		return parse_thread(p);
	if (!strcmp(word.text, "str"))
		return parse_string(p);
	if (!strcmp(word.text, "count"))
		return parse_count(p);
	fail_at(p, -EINVAL, word.start,
		"unknown term '%s'; &%s is the address of a symbol, see trapline-condition(7)",
		word.text, word.text);
	return 0;
}

static int parse_primary(struct parser *p)
{
	uint32_t size;
	int is_signed;

	if (p->now.kind == TOKEN_NUMBER) {
		is_signed = !p->now.is_unsigned;
		push_number(p, p->now.number);
		next(p);
		return is_signed;
	}
	if (p->now.kind == TOKEN_NAME)
		return parse_name(p);
	if (!take_sign(p, "(")) {
		expected(p, "a number, a term or '('");
		return 0;
	}
	if (take_type(p, &size, &is_signed))
		return parse_cast(p, size, is_signed);
	is_signed = parse_expression(p);
	need_sign(p, ")", "')'");
	return is_signed;
}

static int parse_unary_sign(struct parser *p)
{
	uint64_t address;
	uint64_t bytes;
	int is_signed;

	if (take_sign(p, "&")) {
		find_symbol(p, &address, &bytes);
		push_number(p, address);
		return 0;
	}
	if (take_sign(p, "*"))
		return parse_load(p);
	if (take_sign(p, "+"))
		return parse_unary(p);
	if (take_sign(p, "!")) {
		parse_unary(p);
		emit(p, COND_NOT, 1, 1);
		return 1;
	}
	enum cond_op op = is_sign(p, "-") ? COND_NEG : COND_INV;

	next(p);
	is_signed = parse_unary(p);
	emit(p, op, 1, 1);
	return is_signed;
}

static int parse_unary(struct parser *p)
{
	int is_signed;

	if (++p->depth > DEPTH_MAX)
		fail_at(p, -E2BIG, p->now.start, "the condition is nested too deep");
	if (is_sign(p, "&") || is_sign(p, "*") || is_sign(p, "+") || is_sign(p, "-") ||
	    is_sign(p, "!") || is_sign(p, "~"))
		is_signed = parse_unary_sign(p);
	else
		is_signed = parse_primary(p);
	p->depth--;
	return is_signed;
}

/* Binary operators, weakest first; a level's operators bind alike, from the left. */
static const struct {
	const char *sign;
	uint8_t op;
	uint8_t level;
} binaries[] = {
	{ "|", COND_OR, 0 },  { "^", COND_XOR, 1 },  { "&", COND_AND, 2 },  { "==", COND_EQ, 3 },
	{ "!=", COND_NE, 3 }, { "<", COND_LT, 4 },   { "<=", COND_LE, 4 },  { ">", COND_GT, 4 },
	{ ">=", COND_GE, 4 }, { "<<", COND_SHL, 5 }, { ">>", COND_SHR, 5 }, { "+", COND_ADD, 6 },
	{ "-", COND_SUB, 6 }, { "*", COND_MUL, 7 },  { "/", COND_DIV, 7 },  { "%", COND_MOD, 7 },
};
#define LEVEL_RELATION 4
#define LEVELS 8

static int binary_at(const struct parser *p, uint32_t level)
{
	for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++)
		if (binaries[i].level == level && is_sign(p, binaries[i].sign))
			return (int)i;
	return -1;
}

/* value in NAME: inside the symbol. */
static void parse_in(struct parser *p)
{
	uint64_t address;
	uint64_t bytes;

	next(p);
	find_symbol(p, &address, &bytes);
	struct cond_step *step = emit(p, COND_IN, 1, 1);

	step->imm = address;
	step->imm2 = address + (bytes ? bytes : 1);
}

static int parse_binary(struct parser *p, uint32_t level)
{
	if (level == LEVELS)
		return parse_unary(p);
	int is_signed = parse_binary(p, level + 1);

	for (;;) {
		int found = binary_at(p, level);

		if (found < 0 && level == LEVEL_RELATION && is_word(p, "in")) {
			parse_in(p);
			is_signed = 1;
			continue;
		}
		if (found < 0 || p->err)
			return is_signed;
		uint8_t op = binaries[found].op;

		next(p);
		int right = parse_binary(p, level + 1);
		/* C: unsigned if either is; a shift is what its left side is. */
		if (op != COND_SHL && op != COND_SHR)
			is_signed &= right;
		emit(p, (enum cond_op)op, 2, 1)->is_signed = (uint8_t)is_signed;
		if (op >= COND_EQ && op <= COND_GE)
			is_signed = 1;
	}
}

static void parse_and(struct parser *p, int *is_signed)
{
	*is_signed = parse_binary(p, 0);
	while (take_sign(p, "&&")) {
		emit(p, COND_BOOL, 1, 1);
		struct cond_step *jump = emit(p, COND_JUMP_IF_0_KEEP, 1, 1);

		emit(p, COND_POP, 1, 0);
		parse_binary(p, 0);
		emit(p, COND_BOOL, 1, 1);
		land(p, jump);
		*is_signed = 1;
	}
}

static void parse_or(struct parser *p, int *is_signed)
{
	int unused;

	parse_and(p, is_signed);
	while (take_sign(p, "||")) {
		emit(p, COND_BOOL, 1, 1);
		struct cond_step *jump = emit(p, COND_JUMP_IF_1_KEEP, 1, 1);

		emit(p, COND_POP, 1, 0);
		parse_and(p, &unused);
		emit(p, COND_BOOL, 1, 1);
		land(p, jump);
		*is_signed = 1;
	}
}

static int parse_expression(struct parser *p)
{
	int is_signed;

	if (++p->depth > DEPTH_MAX)
		fail_at(p, -E2BIG, p->now.start, "the condition is nested too deep");
	parse_or(p, &is_signed);
	if (take_sign(p, "?")) {
		struct cond_step *otherwise = emit(p, COND_JUMP_IF_0, 1, 0);

		is_signed = parse_expression(p);
		struct cond_step *end = emit(p, COND_JUMP, 0, 0);

		need_sign(p, ":", "':' of ?:");
		p->height -= !p->err; /* the other branch leaves its number in the same place */
		land(p, otherwise);
		is_signed &= parse_expression(p);
		land(p, end);
	}
	p->depth--;
	return is_signed;
}

int cond_parse(const char *text, const struct trapline_condition_opts *opts, struct condition *out,
	       struct trapline_condition_error *error)
{
	struct parser p = { .text = text, .at = text, .opts = opts, .error = error, .out = out };

	memset(out, 0, sizeof(*out));
	memset(error, 0, sizeof(*error));
	if (strlen(text) > COND_TEXT_MAX) {
		fail_at(&p, -E2BIG, text, "the condition has more than 4096 characters");
		return p.err;
	}
	next(&p);
	parse_expression(&p);
	if (p.now.kind != TOKEN_END)
		expected(&p, "an operator or the end");
	return p.err;
}
