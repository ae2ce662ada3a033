/* SPDX-License-Identifier: MIT */
/* condition_random.c - see condition_random.h. */
#include "condition_random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum kind { NUMBER, NAMED, LOAD, CAST, UNARY, BINARY, CHOICE, STRING, THREAD, IN, KINDS };

struct node {
	enum kind kind;
	uint64_t number;
	int is_unsigned;   /* NUMBER: has a suffix */
	int base;	   /* NUMBER: 8, 10, 16 */
	uint32_t which;	   /* NAMED, UNARY, BINARY: row of the table */
	uint32_t bytes;	   /* LOAD, CAST */
	int is_signed;	   /* LOAD, CAST */
	int is_not;	   /* STRING, THREAD */
	char text[16];	   /* STRING, THREAD */
	struct node *child[3];
};

static uint64_t random_state;

void random_seed(uint64_t seed)
{
	random_state = seed * 0x9e3779b97f4a7c15ull + 1;
}

uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

uint64_t random_below(uint64_t n)
{
	return random_next() % n;
}

/* Around powers of two, where width and sign go wrong. */
uint64_t random_interesting(void)
{
	switch (random_below(4)) {
	case 0:
		return random_below(16);
	case 1:
		return (1ull << random_below(64)) + random_below(3) - 1;
	case 2:
		return 0 - random_below(16);
	default:
		return random_next() >> random_below(64);
	}
}

static const struct {
	const char *name;
	int is_signed;
} names[] = {
	{"new", 0}, {"old", 0}, {"changed", 1}, {"addr", 0}, {"ip", 0}, {"tid", 1}, {"pid", 1},
	{"cpu", 1}, {"hits", 0}, {"hits_in_thread", 0}, {"caller", 0}, {"count(other)", 0},
	{"rax", 0}, {"rdx", 0}, {"rcx", 0}, {"rbx", 0}, {"rsi", 0}, {"rdi", 0}, {"rbp", 0},
	{"rsp", 0}, {"r8", 0}, {"r9", 0}, {"r10", 0}, {"r11", 0}, {"r12", 0}, {"r13", 0},
	{"r14", 0}, {"r15", 0}, {"rip", 0}, {"arg0", 0}, {"arg1", 0}, {"arg2", 0}, {"arg3", 0},
	{"arg4", 0}, {"arg5", 0}, {"ret", 0}, {"sp", 0},
};
#define NAMES (sizeof(names) / sizeof(names[0]))
#define FIRST_REGISTER 12
static const uint8_t arg_register[] = {5, 4, 1, 2, 8, 9, 0, 7};

static const struct {
	const char *sign;
	int level; /* binds stronger */
} binaries[] = {
	{"||", 1}, {"&&", 2}, {"|", 3},	 {"^", 4},  {"&", 5},  {"==", 6}, {"!=", 6},
	{"<", 7},  {"<=", 7}, {">", 7},	 {">=", 7}, {"<<", 8}, {">>", 8}, {"+", 9},
	{"-", 9},  {"*", 10}, {"/", 10}, {"%", 10},
};
#define BINARIES (sizeof(binaries) / sizeof(binaries[0]))
static const char unaries[] = "-~!+";

static struct node *node_new(enum kind kind)
{
	struct node *n = calloc(1, sizeof(*n));

	n->kind = kind;
	return n;
}

static struct node *number_node(uint64_t number)
{
	struct node *n = node_new(NUMBER);

	n->number = number;
	n->is_unsigned = random_below(4) == 0;
	n->base = random_below(2) ? 10 : random_below(2) ? 16 : 8;
	return n;
}

static struct node *binary_node(const char *sign, struct node *a, struct node *b)
{
	struct node *n = node_new(BINARY);

	while (strcmp(binaries[n->which].sign, sign))
		n->which++;
	n->child[0] = a;
	n->child[1] = b;
	return n;
}

/* Mostly an address that can be read: arena + (x & mask). */
static struct node *address_node(uint32_t size, const uint8_t *arena)
{
	struct node *x = node_random(size, arena);

	if (random_below(8) == 0)
		return x;
	uint64_t mask = random_below(8) ? ARENA_BYTES - 128 : 2 * ARENA_BYTES - 1;
	struct node *offset = binary_node("&", x, number_node(mask));
	struct node *start = number_node((uintptr_t)arena);

	return binary_node("+", start, offset);
}

static struct node *leaf(void)
{
	struct node *n;

	if (random_below(3) == 0)
		return number_node(random_interesting());
	if (random_below(20) == 0) {
		n = node_new(THREAD);
		n->is_not = (int)random_below(2);
		strcpy(n->text, random_below(2) ? "fuzzed" : "fuzz");
		return n;
	}
	n = node_new(NAMED);
	n->which = (uint32_t)random_below(NAMES);
	return n;
}

static struct node *string_node(uint32_t size, const uint8_t *arena)
{
	struct node *n = node_new(STRING);
	uint64_t len = 1 + random_below(sizeof(n->text) - 1);
	uint64_t at = random_below(ARENA_BYTES - 16);

	n->is_not = (int)random_below(2);
	/* Often what is there; letters only, so that it prints as it is. */
	for (uint64_t i = 0; i < len; i++)
		n->text[i] = (char)('a' + (arena[at + i] + random_below(16) / 15) % 26);
	n->child[0] = random_below(2) ? number_node((uintptr_t)arena + at) :
					address_node(size, arena);
	return n;
}

static struct node *typed_node(uint32_t size, const uint8_t *arena)
{
	struct node *n = node_new(random_below(2) ? LOAD : CAST);

	n->bytes = 1u << random_below(4);
	n->is_signed = (int)random_below(2);
	n->child[0] = n->kind == LOAD ? address_node(size, arena) : node_random(size, arena);
	return n;
}

static struct node *choice_node(uint32_t size, const uint8_t *arena)
{
	struct node *n = node_new(CHOICE);

	for (int i = 0; i < 3; i++)
		n->child[i] = node_random(size / 3, arena);
	return n;
}

struct node *node_random(uint32_t size, const uint8_t *arena)
{
	struct node *n;

	if (!size)
		return leaf();
	switch (random_below(12)) {
	case 0:
	case 1:
		return typed_node(size - 1, arena);
	case 2:
	case 3:
		n = node_new(UNARY);
		n->which = (uint32_t)random_below(4);
		n->child[0] = node_random(size - 1, arena);
		return n;
	case 4:
		return choice_node(size - 1, arena);
	case 5:
		return string_node((size - 1) / 2, arena);
	case 6:
		n = node_new(IN);
		n->child[0] = node_random(size - 1, arena);
		return n;
	default:
		n = node_new(BINARY);
		n->which = (uint32_t)random_below(BINARIES);
		uint32_t left = (uint32_t)random_below(size);
		n->child[0] = node_random(left, arena);
		n->child[1] = node_random(size - 1 - left, arena);
		return n;
	}
}

void node_free(struct node *n)
{
	for (int i = 0; i < 3; i++)
		if (n->child[i])
			node_free(n->child[i]);
	free(n);
}

/* Level of the grammar a node is printed at; 11 unary, 12 primary. */
static int level_of(const struct node *n)
{
	switch (n->kind) {
	case CHOICE:
		return 0;
	case BINARY:
		return binaries[n->which].level;
	case IN:
		return 7;
	case LOAD:
	case CAST:
	case UNARY:
		return 11;
	default:
		return n->kind == STRING || n->kind == THREAD ? 6 : 12;
	}
}

static void print_at(const struct node *n, int level, FILE *out);

static void print_number(const struct node *n, FILE *out)
{
	fprintf(out, n->base == 10 ? "%lu" : n->base == 16 ? "0x%lx" : "0%lo", n->number);
	if (n->is_unsigned)
		fputc('u', out);
}

static void print_type(const struct node *n, FILE *out)
{
	if (n->number % 2)
		fprintf(out, "%sint%u_t", n->is_signed ? "" : "u", 8 * n->bytes);
	else
		fprintf(out, "%c%u", n->is_signed ? 's' : 'u', 8 * n->bytes);
}

static void print_bare(const struct node *n, FILE *out)
{
	switch (n->kind) {
	case NUMBER:
		print_number(n, out);
		break;
	case NAMED:
		fputs(names[n->which].name, out);
		break;
	case LOAD:
	case CAST:
		fputs(n->kind == LOAD ? "*(" : "(", out);
		print_type(n, out);
		fputs(n->kind == LOAD ? " *)" : ")", out);
		print_at(n->child[0], 11, out);
		break;
	case UNARY:
		fputc(unaries[n->which], out);
		print_at(n->child[0], 11, out);
		break;
	case BINARY:
		print_at(n->child[0], binaries[n->which].level, out);
		fprintf(out, " %s ", binaries[n->which].sign);
		print_at(n->child[1], binaries[n->which].level + 1, out);
		break;
	case CHOICE:
		print_at(n->child[0], 1, out);
		fputs(" ? ", out);
		print_at(n->child[1], 0, out);
		fputs(" : ", out);
		print_at(n->child[2], 0, out);
		break;
	case STRING:
		fputs("str(", out);
		print_at(n->child[0], 0, out);
		fprintf(out, ") %s \"%s\"", n->is_not ? "!=" : "==", n->text);
		break;
	case THREAD:
		fprintf(out, "thread %s \"%s\"", n->is_not ? "!=" : "==", n->text);
		break;
	default:
		print_at(n->child[0], 7, out);
		fputs(" in somewhere", out);
	}
}

static void print_at(const struct node *n, int level, FILE *out)
{
	/* A string's == binds to it alone, whatever stands around. */
	int bare = level_of(n) >= level && (n->kind != STRING && n->kind != THREAD);

	if (bare) {
		print_bare(n, out);
		return;
	}
	fputc('(', out);
	print_bare(n, out);
	fputc(')', out);
}

void node_print(const struct node *n, char *text, size_t size)
{
	FILE *out = fmemopen(text, size, "w");

	setbuf(out, NULL);
	print_at(n, 0, out);
	fputc('\0', out);
	fclose(out);
	text[size - 1] = '\0';
}

static struct value fault(void)
{
	return (struct value){.fault = 1};
}

static struct value number_of(uint64_t number, int is_signed)
{
	return (struct value){number, is_signed, 0};
}

/* A random address may be the test's own memory, which nobody holds still for a comparison. */
static int strayed;

int node_strayed(void)
{
	int did = strayed;

	strayed = 0;
	return did;
}

struct range {
	uint64_t from;
	uint64_t to;
};

static int read_ranges(struct range *ranges, int max)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (maps && n < max && fgets(line, sizeof(line), maps)) {
		char may_read = '-';

		sscanf(line, "%lx-%lx %c", &ranges[n].from, &ranges[n].to, &may_read);
		n += may_read == 'r';
	}
	if (maps)
		fclose(maps);
	return n;
}

/* vvar and the like are read by the kernel's program, but not by process_vm_readv(2). */
static int is_readable(const struct world *w, uint64_t address, size_t n)
{
	static struct range ranges[512];
	static int count;

	if (!count)
		count = read_ranges(ranges, 512);
	for (int i = 0; i < count; i++)
		if (address + n > ranges[i].from && address < ranges[i].to &&
		    ranges[i].from != (uintptr_t)w->arena)
			return 1;
	return 0;
}

static int read_arena(const struct world *w, uint64_t address, void *to, size_t n)
{
	uint64_t at = address - (uintptr_t)w->arena;
	struct iovec here = {to, n};
	struct iovec there = {(void *)(uintptr_t)address, n};

	if (at <= ARENA_BYTES && n <= ARENA_BYTES - at) {
		memcpy(to, w->arena + at, n);
		return 0;
	}
	strayed |= is_readable(w, address, n) ||
		   process_vm_readv(w->pid, &here, 1, &there, 1, 0) == (ssize_t)n;
	return -1;
}

static struct value caller_of(const struct world *w)
{
	uint64_t word;

	/* As in a break on a function's first instruction: at rsp. */
	return read_arena(w, w->state->regs[7], &word, 8) ? fault() : number_of(word, 0);
}

static uint64_t named_number(uint32_t which, const struct world *w)
{
	const struct state *s = w->state;

	switch (which) {
	case 0:
		return s->new_value;
	case 1:
		return s->old_value;
	case 2:
		return s->new_value != s->old_value;
	case 3:
		return s->addr;
	case 4:
		return s->regs[16];
	case 5:
		return (uint64_t)w->tid;
	case 6:
		return (uint64_t)w->pid;
	case 7:
		return (uint64_t)w->cpu;
	case 8:
		return s->hits;
	case 9:
		return s->hits_in_thread;
	case 11:
		return s->count;
	default:
		which -= FIRST_REGISTER;
		return s->regs[which < REGISTERS ? which : arg_register[which - REGISTERS]];
	}
}

/* The low bytes of a number, as C converts to a type. */
static uint64_t narrowed(uint64_t number, uint32_t bytes, int is_signed)
{
	switch (bytes) {
	case 1:
		return is_signed ? (uint64_t)(int8_t)number : (uint8_t)number;
	case 2:
		return is_signed ? (uint64_t)(int16_t)number : (uint16_t)number;
	case 4:
		return is_signed ? (uint64_t)(int32_t)number : (uint32_t)number;
	default:
		return number;
	}
}

static struct value load_value(const struct node *n, const struct world *w)
{
	struct value address = node_value(n->child[0], w);
	uint64_t number = 0;

	if (address.fault || read_arena(w, address.number, &number, n->bytes))
		return fault();
	return number_of(narrowed(number, n->bytes, n->is_signed), n->is_signed || n->bytes < 8);
}

static struct value unary_value(const struct node *n, const struct world *w)
{
	struct value v = node_value(n->child[0], w);

	switch (unaries[n->which]) {
	case '-':
		v.number = -v.number;
		break;
	case '~':
		v.number = ~v.number;
		break;
	case '!':
		v.number = !v.number;
		v.is_signed = 1;
		break;
	}
	return v;
}

static struct value divided(char sign, struct value a, struct value b, int is_signed)
{
	if (!b.number)
		return fault();
	if (!is_signed)
		return number_of(sign == '/' ? a.number / b.number : a.number % b.number, 0);
	/* In 128 bits nothing overflows. */
	__int128 x = (int64_t)a.number;
	__int128 y = (int64_t)b.number;

	return number_of((uint64_t)(sign == '/' ? x / y : x % y), 1);
}

static int is_less(struct value a, struct value b, int is_signed)
{
	return is_signed ? (int64_t)a.number < (int64_t)b.number : a.number < b.number;
}

static struct value compared(const char *sign, struct value a, struct value b, int is_signed)
{
	int less = is_less(a, b, is_signed);
	int equal = a.number == b.number;
	int truth = !strcmp(sign, "==") ? equal :
		    !strcmp(sign, "!=") ? !equal :
		    !strcmp(sign, "<")  ? less :
		    !strcmp(sign, "<=") ? less || equal :
		    !strcmp(sign, ">")  ? !less && !equal :
					  !less;

	return number_of((uint64_t)truth, 1);
}

static struct value logic_value(const struct node *n, const struct world *w)
{
	int is_and = binaries[n->which].sign[0] == '&';
	struct value a = node_value(n->child[0], w);

	if (a.fault)
		return a;
	if (is_and ? !a.number : a.number != 0)
		return number_of(!is_and, 1);
	struct value b = node_value(n->child[1], w);

	return b.fault ? b : number_of(b.number != 0, 1);
}

static struct value binary_value(const struct node *n, const struct world *w)
{
	const char *sign = binaries[n->which].sign;

	if (binaries[n->which].level <= 2)
		return logic_value(n, w);
	struct value a = node_value(n->child[0], w);
	if (a.fault)
		return a;
	struct value b = node_value(n->child[1], w);
	if (b.fault)
		return b;
	int is_signed = a.is_signed && b.is_signed;

	if (!strcmp(sign, "<<"))
		return number_of(a.number << (b.number & 63), a.is_signed);
	if (!strcmp(sign, ">>"))
		return number_of(a.is_signed ? (uint64_t)((int64_t)a.number >> (b.number & 63)) :
					       a.number >> (b.number & 63),
				 a.is_signed);
	switch (sign[1] ? 0 : sign[0]) {
	case '+':
		return number_of(a.number + b.number, is_signed);
	case '-':
		return number_of(a.number - b.number, is_signed);
	case '*':
		return number_of(a.number * b.number, is_signed);
	case '/':
	case '%':
		return divided(sign[0], a, b, is_signed);
	case '&':
		return number_of(a.number & b.number, is_signed);
	case '|':
		return number_of(a.number | b.number, is_signed);
	case '^':
		return number_of(a.number ^ b.number, is_signed);
	default:
		return compared(sign, a, b, is_signed);
	}
}

/* Whether a number that is not computed would be signed: the type does not depend on the state. */
static int type_of(const struct node *n, const struct world *w)
{
	switch (n->kind) {
	case NUMBER:
		return !n->is_unsigned && n->number <= INT64_MAX;
	case NAMED:
		return names[n->which].is_signed;
	case LOAD:
	case CAST:
		return n->is_signed || n->bytes < 8;
	case UNARY:
		return unaries[n->which] == '!' || type_of(n->child[0], w);
	case CHOICE:
		return type_of(n->child[1], w) && type_of(n->child[2], w);
	case BINARY:
		if (binaries[n->which].level <= 2 ||
		    (binaries[n->which].level >= 6 && binaries[n->which].level <= 7))
			return 1;
		if (binaries[n->which].level == 8)
			return type_of(n->child[0], w);
		return type_of(n->child[0], w) && type_of(n->child[1], w);
	default:
		return 1;
	}
}

static struct value string_value(const struct node *n, const struct world *w)
{
	struct value pointer = node_value(n->child[0], w);
	char there[sizeof(n->text)];
	size_t len = strlen(n->text);

	if (pointer.fault || read_arena(w, pointer.number, there, len))
		return fault();
	return number_of((memcmp(there, n->text, len) == 0) != n->is_not, 1);
}

static struct value in_value(const struct node *n, const struct world *w)
{
	struct value v = node_value(n->child[0], w);
	uint64_t start = (uintptr_t)w->arena + 100;

	/* `somewhere` is 50 bytes there. */
	return v.fault ? v : number_of(v.number >= start && v.number < start + 50, 1);
}

static struct value choice_value(const struct node *n, const struct world *w)
{
	struct value v = node_value(n->child[0], w);

	if (v.fault)
		return v;
	v = node_value(n->child[v.number ? 1 : 2], w);
	v.is_signed = type_of(n, w);
	return v;
}

struct value node_value(const struct node *n, const struct world *w)
{
	struct value v;

	switch (n->kind) {
	case NUMBER:
		return number_of(n->number, type_of(n, w));
	case NAMED:
		if (n->which == 10)
			return caller_of(w);
		return number_of(named_number(n->which, w), names[n->which].is_signed);
	case LOAD:
		return load_value(n, w);
	case CAST:
		v = node_value(n->child[0], w);
		v.number = narrowed(v.number, n->bytes, n->is_signed);
		v.is_signed = type_of(n, w);
		return v;
	case UNARY:
		return unary_value(n, w);
	case BINARY:
		return binary_value(n, w);
	case CHOICE:
		return choice_value(n, w);
	case STRING:
		return string_value(n, w);
	case THREAD:
		return number_of((strcmp(w->thread, n->text) == 0) != n->is_not, 1);
	default:
		return in_value(n, w);
	}
}
