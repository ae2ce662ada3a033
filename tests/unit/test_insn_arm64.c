/* SPDX-License-Identifier: MIT */
/*
 * test_insn_arm64.c - arm64 instructions against objdump: kinds, targets, operands in memory.
 *
 * The words are random ones, most of them loads, stores and branches, and all of the cross libc's
 * where it is installed. objdump's text is taken apart here and compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "insn_text.h"
#include "objdump.h"
#include "random.h"

#define OBJDUMP "aarch64-linux-gnu-objdump"
#define CROSS_LIBC "/usr/aarch64-linux-gnu/lib/libc.so.6"
#define RANDOM_WORDS 400000

struct counts {
	unsigned int compared;
	unsigned int memory;
	unsigned int branches;
	unsigned int undefined;
	unsigned int wrong;
};

static const struct {
	uint32_t word;
	const char *text;
} golden[] = {
	{ 0xd503201f, "4 nop" },
	{ 0xd503245f, "4 landing" },
	{ 0xd65f03c0, "4 ret" },
	{ 0x14000001, "4 jump -> +4" },
	{ 0x97ffffff, "4 call -> -4" },
	{ 0x54000041, "4 jcc -> +8" },
	{ 0xb4ffffe0, "4 jcc -> -4" },
	{ 0x37f80060, "4 jcc -> +12" },
	{ 0xd61f0200, "4 ijump" },
	{ 0xd63f0200, "4 icall" },
	{ 0xd4200000, "4 trap" },
	{ 0x00000000, "4 trap" },
	{ 0xd4000001, "4 syscall" },
	{ 0xd5033bbf, "4 fence" },
	{ 0xf9400820, "4 other; r8 [x1+16]" },
	{ 0xf81f0fe0, "4 other sp-16; w8 [sp-16] wb-16" },
	{ 0xf84107e0, "4 other sp+16; r8 [sp] wb+16" },
	{ 0xa9bf7bfd, "4 other sp-16; w16 [sp-16] wb-16" },
	{ 0xb8627820, "4 other; r4 [x1+x2*4]" },
	{ 0xb862d820, "4 other; r4 [x1+s32:x2*4]" },
	{ 0xb8624820, "4 other; r4 [x1+u32:x2*1]" },
	{ 0x58000040, "4 other pcrel; r8 [pc+8]" },
	{ 0x885f7c20, "4 other exclusive; r4 [x1]" },
	{ 0x8802fc20, "4 other exclusive release; w4 [x1] c" },
	{ 0xc8dffc20, "4 other acquire; r8 [x1]" },
	{ 0xf8e20020, "4 other atomic acquire release; rw8 [x1]" },
	{ 0xc8e2fc20, "4 other atomic acquire release; rw8 [x1] c" },
	{ 0x4c402020, "4 other; r64 [x1]" },
	{ 0xf98000a0, "4 other hint" },
	{ 0xd50b7420, "4 other; w0 [x0] ? line" },
	{ 0x10000040, "4 other pcrel" },
};

static struct insn decode(uint32_t word)
{
	struct insn insn;

	assert_int_equal(insn_decode_arm64(&word, sizeof(word), &insn), 0);
	return insn;
}

static void known_words_decode_as_they_should(void **state)
{
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		const struct insn insn = decode(golden[i].word);
		char text[256];

		text_insn(&insn, text, sizeof(text));
		if (strcmp(text, golden[i].text))
			fail_msg("%08x: is \"%s\", should be \"%s\"", golden[i].word,
				 text, golden[i].text);
	}
}

static void short_and_senseless_words_are_refused(void **state)
{
	const uint32_t unallocated = 0x06000000;
	struct insn insn = { .length = 77 };

	assert_int_equal(insn_decode_arm64(&golden[0].word, 3, &insn), -ENODATA);
	assert_int_equal(insn_decode_arm64(&golden[0].word, 0, &insn), -ENODATA);
	assert_int_equal(insn_decode_arm64(&unallocated, 4, &insn), -EILSEQ);
	assert_int_equal(insn.length, 77);
}

static void addresses_and_branches_follow_the_registers(void **state)
{
	struct insn_regs regs = { .known = INSN_KNOWS_ARM64 | INSN_KNOWS_FLAGS };
	struct insn insn = decode(0xb862d820); /* ldr w0, [x1, w2, sxtw #2] */
	uint64_t address;

	regs.r[1] = 0x10000;
	regs.r[2] = 0xffffffff;
	assert_int_equal(insn_address(&insn, 0, &regs, &address), 0);
	assert_int_equal(address, 0x10000 - 4);
	insn = decode(0xb8624820); /* ldr w0, [x1, w2, uxtw] */
	assert_int_equal(insn_address(&insn, 0, &regs, &address), 0);
	assert_int_equal(address, 0x10000ull + 0xffffffff);

	insn = decode(0x54000041); /* b.ne */
	regs.flags = 1u << 30;
	assert_int_equal(insn_branch_taken(&insn, &regs), 0);
	regs.flags = 0;
	assert_int_equal(insn_branch_taken(&insn, &regs), 1);
	insn = decode(0x37f80060); /* tbnz w0, #31 */
	regs.r[0] = 1u << 31;
	assert_int_equal(insn_branch_taken(&insn, &regs), 1);
	insn = decode(0x34000040); /* cbz w0: the upper half does not count */
	regs.r[0] = 1ull << 32;
	assert_int_equal(insn_branch_taken(&insn, &regs), 1);
	regs.known = 0;
	assert_int_equal(insn_branch_taken(&insn, &regs), -ENODATA);
}

/* ---- objdump's text ---- */

static int starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int is_one_of(const char *name, const char *const names[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return 1;
	return 0;
}

#define ONE_OF(name, ...)                                     \
	is_one_of(name, (const char *const[]){ __VA_ARGS__ }, \
		  sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static enum insn_kind expected_kind(const struct objdump_line *line)
{
	const char *m = line->mnemonic;

	if (ONE_OF(m, "nop", "yield"))
		return INSN_NOP;
	if (!strcmp(m, "bti"))
		return INSN_LANDING;
	if (!strcmp(m, "b"))
		return INSN_JUMP;
	if (!strcmp(m, "bl"))
		return INSN_CALL;
	if (starts(m, "b.") || starts(m, "bc.") ||
	    ONE_OF(m, "cbz", "cbnz", "tbz", "tbnz"))
		return INSN_JUMP_CONDITIONAL;
	if (ONE_OF(m, "br", "braa", "brab", "braaz", "brabz"))
		return INSN_JUMP_INDIRECT;
	if (ONE_OF(m, "blr", "blraa", "blrab", "blraaz", "blrabz"))
		return INSN_CALL_INDIRECT;
	if (ONE_OF(m, "ret", "retaa", "retab", "eret", "eretaa", "eretab", "drps"))
		return INSN_RETURN;
	if (ONE_OF(m, "brk", "hlt", "udf"))
		return INSN_TRAP;
	if (!strcmp(m, "svc"))
		return INSN_SYSCALL;
	if (ONE_OF(m, "dmb", "dsb", "isb", "sb", "ssbb", "pssbb", "dfb"))
		return INSN_FENCE;
	if (starts(m, "cpy") || starts(m, "set"))
		return line->operands[0] == '[' ? INSN_STRING : INSN_OTHER;
	return INSN_OTHER;
}

/* The data register of a load or store: its first operand, after the status of an stxr. */
static const char *data_operand(const struct objdump_line *line)
{
	const char *m = line->mnemonic;
	const char *o = line->operands;

	if (starts(m, "stxr") || starts(m, "stlxr") || starts(m, "stxp") ||
	    starts(m, "stlxp"))
		return strchr(o, ' ') + 1;
	return o;
}

/* "{v1.16b, v2.16b}" or "{v1.b, v2.b}[3]" or "{v1.b - v4.b}[3]": bytes of memory. */
static unsigned int structure_bytes(const struct objdump_line *line)
{
	const char *o = line->operands;
	const char *dot = strchr(o, '.') + 1;
	const char *close = strchr(o, '}');
	const int replicates = line->mnemonic[strlen(line->mnemonic) - 1] == 'r';
	const unsigned int lanes = (unsigned int)strtoul(dot, (char **)&dot, 10);
	const unsigned int element = *dot == 'b' ? 1 :
				     *dot == 'h' ? 2 :
				     *dot == 's' ? 4 :
						   8;
	unsigned int registers = 1;

	for (const char *p = o; p < close; p++) {
		if (*p == ',')
			registers++;
		if (*p == '-')
			registers = (unsigned int)(strtoul(strchr(p, 'v') + 1, NULL, 10) -
						   strtoul(o + 2, NULL, 10) + 32) %
					    32 +
				    1;
	}
	return registers * element * (lanes && !replicates ? lanes : 1);
}

static int ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text);
	const size_t m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

static unsigned int expected_bytes(const struct objdump_line *line)
{
	const char *m = line->mnemonic;
	const char *data = data_operand(line);
	unsigned int bytes;

	if (*data == '{')
		return structure_bytes(line);
	if (ONE_OF(m, "ld64b", "st64b", "st64bv", "st64bv0"))
		return 64;
	if (ONE_OF(m, "stg", "stzg", "ldg", "stgp"))
		return 16;
	if (ONE_OF(m, "st2g", "stz2g"))
		return 32;
	if (ONE_OF(m, "st64bv", "st64bv0"))
		return 64;
	switch (*data) {
	case 'b':
		bytes = 1;
		break;
	case 'h':
		bytes = 2;
		break;
	case 's':
	case 'w':
		bytes = 4;
		break;
	case 'q':
		bytes = 16;
		break;
	default:
		bytes = 8;
		break;
	}
	if (*data == 's' && data[1] == 'p')
		bytes = 8;
	if (*data == 'w' || *data == 'x') {
		if (ends_with(m, "b") && !ONE_OF(m, "ldraab", "ldrab"))
			bytes = 1;
		else if (ends_with(m, "h"))
			bytes = 2;
		else if (ends_with(m, "sw"))
			bytes = 4;
	}
	if (starts(m, "ldp") || starts(m, "stp") || starts(m, "ldnp") ||
	    starts(m, "stnp") || starts(m, "ldxp") || starts(m, "stxp") ||
	    starts(m, "ldaxp") || starts(m, "stlxp") || starts(m, "casp"))
		bytes *= 2;
	return bytes;
}

static int is_atomic(const char *m)
{
	static const char *const operations[] = { "add",  "clr",  "eor",  "set",
						  "smax", "smin", "umax", "umin" };

	if (starts(m, "cas") || starts(m, "swp"))
		return 1;
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if ((starts(m, "ld") || starts(m, "st")) && starts(m + 2, operations[i]))
			return 1;
	return 0;
}

static unsigned int expected_access(const struct objdump_line *line)
{
	if (is_atomic(line->mnemonic))
		return INSN_READ_WRITE;
	return starts(line->mnemonic, "st") ? INSN_WRITE : INSN_READ;
}

static unsigned int reg_number(const char *text)
{
	if (starts(text, "sp"))
		return 31;
	if (starts(text, "xzr") || starts(text, "wzr"))
		return INSN_NO_REG;
	return (unsigned int)strtoul(text + 1, NULL, 10);
}

/* ", w2, sxtw #2" behind the base. */
static void expect_index(const char *text, struct insn_memory *m)
{
	const char *extend = strchr(text, ',');

	m->index = (uint8_t)reg_number(text);
	if (m->index == INSN_NO_REG)
		return;
	m->index_bits = *text == 'w' ? 32 : 64;
	m->scale = 1;
	if (!extend)
		return;
	m->index_signed = starts(extend + 2, "sxt");
	const char *shift = strchr(extend, '#');
	if (shift)
		m->scale = (uint8_t)(1u << strtoul(shift + 1, NULL, 0));
}

/* "[x1, #16]!" and the like, from the bracket on. */
static void expect_address(const char *bracket, struct insn_memory *m)
{
	const char *close = strchr(bracket, ']');
	char inside[96];

	snprintf(inside, sizeof(inside), "%.*s", (int)(close - bracket - 1), bracket + 1);
	m->base = (uint8_t)reg_number(inside);
	const char *comma = strchr(inside, ',');
	if (comma && comma[2] == '#')
		m->displacement = strtoll(comma + 3, NULL, 0);
	else if (comma)
		expect_index(comma + 2, m);
	if (close[1] == '!') {
		m->flags |= INSN_MEM_WRITEBACK;
		m->writeback = m->displacement;
	} else if (close[1] == ',') {
		m->flags |= INSN_MEM_WRITEBACK;
		if (close[3] == '#')
			m->writeback = strtoll(close + 4, NULL, 0);
		else
			m->bit_reg = (uint8_t)reg_number(close + 3);
	}
}

static int same_operand(const struct insn_memory *a, const struct insn_memory *b)
{
	return a->access == b->access && a->base == b->base && a->index == b->index &&
	       a->scale == b->scale && a->index_bits == b->index_bits &&
	       a->index_signed == b->index_signed && a->bit_reg == b->bit_reg &&
	       a->size == b->size && a->displacement == b->displacement &&
	       a->writeback == b->writeback &&
	       !((a->flags ^ b->flags) & INSN_MEM_WRITEBACK);
}

static void complain(struct counts *c, const struct objdump_line *line, uint32_t word,
		     const struct insn *insn, const char *what)
{
	char text[256];

	text_insn(insn, text, sizeof(text));
	if (c->wrong++ < 20)
		printf("# %08x %s %s: %s: decoded as \"%s\"\n", word, line->mnemonic,
		       line->operands, what, text);
}

/* Scalable vectors, tags in bulk and copies are told as not computable: nothing to compare. */
static int is_beyond(const struct insn *insn)
{
	return insn->memory_count && (insn->memory[0].flags &
				      (INSN_MEM_NOT_COMPUTABLE | INSN_MEM_SIZE_UNKNOWN));
}

static void compare_memory(struct counts *c, const struct objdump_line *line,
			   uint32_t word, const struct insn *insn)
{
	struct insn_memory expected = {
		.index = INSN_NO_REG,
		.bit_reg = INSN_NO_REG,
		.access = (uint8_t)expected_access(line),
	};
	const char *bracket = strchr(line->operands, '[');
	const char *brace = strchr(line->operands, '}');

	/* "{v1.b}[3], [x0]": the first bracket is a lane. */
	if (bracket && brace && bracket == brace + 1)
		bracket = strchr(bracket + 1, '[');
	if (starts(line->mnemonic, "prfm") || starts(line->mnemonic, "prfum")) {
		if (insn->memory_count || !(insn->flags & INSN_HINT))
			complain(c, line, word, insn, "a prefetch");
		return;
	}
	if (is_beyond(insn))
		return;
	expected.size = expected_bytes(line);
	expect_address(bracket, &expected);
	c->memory++;
	if (insn->memory_count != 1 || !same_operand(&insn->memory[0], &expected))
		complain(c, line, word, insn, "operand");
	if (is_atomic(line->mnemonic) != !!(insn->flags & INSN_ATOMIC))
		complain(c, line, word, insn, "atomic");
}

/* The target is the last operand; objdump prints it as an address. */
static void compare_branch(struct counts *c, const struct objdump_line *line,
			   uint32_t word, const struct insn *insn)
{
	const char *last = strrchr(line->operands, ',');
	const uint64_t target = strtoull(last ? last + 1 : line->operands, NULL, 16);

	c->branches++;
	if (line->address + (uint64_t)insn->target != target)
		complain(c, line, word, insn, "target");
}

/* In which groups every word is either right or refused. */
static int is_strict(uint32_t word)
{
	const unsigned int group = word >> 25 & 15;

	/* Exclusives have fields that should be ones, and ldpsw registers that should differ:
	 * objdump minds only some of that. */
	if ((word & 0x3f000000) == 0x08000000 || (word & 0xfe400000) == 0x68400000)
		return 0;
	return (group & 5) == 4 || (group & 14) == 10;
}

static int has_memory_operand(const struct objdump_line *line)
{
	const char *m = line->mnemonic;
	const char *bracket = strchr(line->operands, '[');

	if (!bracket ||
	    (bracket[1] != 'x' && bracket[1] != 's' && !strstr(bracket, ", [")))
		return 0;
	return starts(m, "ld") || starts(m, "st") || starts(m, "cas") ||
	       starts(m, "swp") || starts(m, "prf");
}

/* Newer releases of objdump know instructions of Armv8.9 and later, which are refused. */
static int is_newer(const struct objdump_line *line)
{
	static const char *const families[] = { "rcw",    "gcs",  "ldiapp", "stilp", "ldclrp",
						"ldsetp", "swpp", "ldap1",  "stl1",  "mrrs",
						"msrr",   "sysp", "tlbip",
						"ldtp",   "ldtnp", "sttp", "sttnp",
						"ldbf",   "ldf",  "stbf",  "stf",
						"ldtadd", "ldtclr", "ldtset", "sttadd",
						"sttclr", "sttset", "swpt", "ldtxr",
						"ldatxr", "sttxr", "stltxr", "stlp",
						"ldapp",  "retaasppc", "retabsppc", "setgo",
						"tchange", "tenter", "texit" };
	const char *m = line->mnemonic;

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (starts(m, families[i]))
			return 1;
	/* Compares and branches in one. */
	if ((starts(m, "cb") && !ONE_OF(m, "cbz", "cbnz")) || ONE_OF(m, "ldap"))
		return 1;
	/* Without the rights of the kernel. */
	if (starts(m, "cas") && m[strlen(m) - 1] == 't')
		return 1;
	/* Those with order had general registers, and no way to change the base. */
	if (ONE_OF(m, "ldapur", "stlur"))
		return strchr("bhsdq", line->operands[0]) != NULL;
	return ONE_OF(m, "ldapr", "stlr") &&
	       (strstr(line->operands, "], #") || strstr(line->operands, "]!"));
}

static void compare_line(const struct objdump_line *line, void *context)
{
	struct counts *c = context;
	const uint32_t word = (uint32_t)line->bytes[0] << 24 |
			      (uint32_t)line->bytes[1] << 16 |
			      (uint32_t)line->bytes[2] << 8 | line->bytes[3];
	struct insn insn = { 0 };
	const int err = insn_decode_arm64(&word, sizeof(word), &insn);

	if (line->length != 4)
		return;
	c->compared++;
	if (starts(line->mnemonic, ".inst")) {
		c->undefined++;
		if (!err && is_strict(word))
			complain(c, line, word, &insn,
				 "objdump knows no such instruction");
		return;
	}
	/* Not allocated, but objdump gives it a name; and it takes odd registers here. */
	if (strstr(line->operands, "s0_") || (err && strstr(line->mnemonic, "64b")))
		return;
	if (err && is_newer(line))
		return;
	if (err) {
		if (c->wrong++ < 20)
			printf("# %08x %s %s: refused\n", word, line->mnemonic,
			       line->operands);
		return;
	}
	if (insn.kind != expected_kind(line))
		complain(c, line, word, &insn, "kind");
	if (insn.flags & INSN_RELATIVE_BRANCH)
		compare_branch(c, line, word, &insn);
	if ((word >> 25 & 5) == 4 && has_memory_operand(line))
		compare_memory(c, line, word, &insn);
	else if (is_strict(word) && insn.memory_count && !is_beyond(&insn) &&
		 !(insn.flags & INSN_PC_RELATIVE))
		complain(c, line, word, &insn, "no operand in memory");
}

static int has_objdump(void)
{
	return system(OBJDUMP " --version >/dev/null 2>&1") == 0;
}

static uint32_t random_word(void)
{
	uint32_t word = (uint32_t)random_next();

	switch (random_below(8)) {
	case 0:
		return word;
	case 1: /* branches and system */
		return (word & ~0x1c000000u) | 0x14000000u;
	case 2: /* hints, barriers, registers of the system */
		return (word & 0x003fffffu) | 0xd5000000u;
	case 3: /* data processing with immediates */
		return (word & ~0x1c000000u) | 0x10000000u;
	default: /* loads and stores */
		return (word & ~0x0a000000u) | 0x08000000u;
	}
}

static void random_words_agree_with_objdump(void **state)
{
	static uint32_t words[RANDOM_WORDS];
	struct counts c = { 0 };
	char path[64];
	char command[256];

	if (!has_objdump()) {
		printf("# no " OBJDUMP "\n");
		skip();
	}
	for (size_t i = 0; i < RANDOM_WORDS; i++)
		words[i] = random_word();
	assert_int_equal(objdump_file(path, words, sizeof(words)), 0);
	snprintf(command, sizeof(command), OBJDUMP " -D -z -b binary -m aarch64 %s",
		 path);
	const long lines = objdump_each(command, compare_line, &c);
	unlink(path);
	printf("# %ld lines, %u compared, %u operands, %u branches, %u undefined, %u wrong\n",
	       lines, c.compared, c.memory, c.branches, c.undefined, c.wrong);
	assert_true(lines > RANDOM_WORDS / 2 && c.memory > RANDOM_WORDS / 20);
	assert_int_equal(c.wrong, 0);
}

static void all_of_libc_agrees_with_objdump(void **state)
{
	struct counts c = { 0 };

	if (!has_objdump() || access(CROSS_LIBC, R_OK)) {
		printf("# no " OBJDUMP " or no " CROSS_LIBC "\n");
		skip();
	}
	const long lines = objdump_each(OBJDUMP " -d " CROSS_LIBC, compare_line, &c);
	printf("# %ld lines, %u compared, %u operands, %u branches, %u undefined, %u wrong\n",
	       lines, c.compared, c.memory, c.branches, c.undefined, c.wrong);
	assert_true(c.memory > 10000 && c.branches > 10000);
	assert_int_equal(c.wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_words_decode_as_they_should),
		cmocka_unit_test(short_and_senseless_words_are_refused),
		cmocka_unit_test(addresses_and_branches_follow_the_registers),
		cmocka_unit_test(random_words_agree_with_objdump),
		cmocka_unit_test(all_of_libc_agrees_with_objdump),
	};

	random_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
