/* SPDX-License-Identifier: MIT */
/*
 * test_insn_oracle.c - x86-64 decoding against two others: objdump's text and Zydis' own formatter.
 *
 * All instructions of libc's text and random bytes: length, whether it is an instruction, what kind
 * of branch and where to, and the formula of the operand in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <Zydis/Zydis.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>

#include "insn_text.h"
#include "objdump.h"
#include "random.h"

#define RANDOM_TRIES 1000000

struct counts {
	unsigned long compared;
	unsigned long memory;
	unsigned long branches;
	unsigned long wrong;
};

static int starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void complain(struct counts *c, const uint8_t *bytes, const struct insn *insn,
		     const char *other, const char *what)
{
	char text[256];
	char hex[64] = "";

	if (c->wrong++ >= 20)
		return;
	text_insn(insn, text, sizeof(text));
	for (unsigned int i = 0; i < insn->length && i < 15; i++)
		sprintf(hex + 2 * i, "%02x", bytes[i]);
	printf("# %s \"%s\" %s: decoded as \"%s\"\n", hex, other, what, text);
}

/* ---- AT&T operands: "fs:-0x8(%rax,%rcx,4)" ---- */

static const char *const names_64[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi",
					"rbp", "rsp", "r8",  "r9",  "r10", "r11",
					"r12", "r13", "r14", "r15", "rip" };
static const char *const names_32[] = { "eax",	"edx",	"ecx",	"ebx",	"esi",	"edi",
					"ebp",	"esp",	"r8d",	"r9d",	"r10d", "r11d",
					"r12d", "r13d", "r14d", "r15d", "eip" };

/* "%rax" up to one of ",)": its number; 0xff: none or a pseudo-register (eiz, riz). */
static uint8_t att_register(const char *text, int *is_32)
{
	const size_t n = strcspn(text, ",)");

	for (uint8_t i = 0; i < 17; i++) {
		if (strlen(names_64[i]) + 1 == n &&
		    !strncmp(text + 1, names_64[i], n - 1))
			return i;
		if (strlen(names_32[i]) + 1 == n &&
		    !strncmp(text + 1, names_32[i], n - 1)) {
			*is_32 = 1;
			return i;
		}
	}
	return INSN_NO_REG;
}

/* What the text says of an operand: the same members as the decoder fills. 0: not understood. */
static int att_operand(const char *operands, unsigned int length, struct insn_memory *out)
{
	const char *open = strchr(operands, '(');
	const char *start = open;
	int is_32 = 0;

	*out = (struct insn_memory){ .index = INSN_NO_REG, .base = INSN_NO_REG };
	/* None, two of them, or a register of the x87. */
	if (!open || strchr(open + 1, '(') || (open > operands && open[-1] == 't'))
		return 0;
	while (start > operands && start[-1] != ',' && start[-1] != '*' &&
	       start[-1] != ' ')
		start--;
	if (starts(start, "%fs:"))
		out->segment = INSN_SEGMENT_FS;
	else if (starts(start, "%gs:"))
		out->segment = INSN_SEGMENT_GS;
	if (start[0] == '%' && strchr(start, ':') && strchr(start, ':') < open)
		start = strchr(start, ':') + 1;
	const int is_negative = *start == '-';
	out->displacement = (int64_t)strtoull(start + is_negative, NULL, 16);
	if (is_negative)
		out->displacement = -out->displacement;
	if (open[1] == '%')
		out->base = att_register(open + 1, &is_32);
	const char *comma = strchr(open, ',');
	if (comma && comma < strchr(open, ')') && comma[1] == '%') {
		if (comma[2] == 'x' || comma[2] == 'y' || comma[2] == 'z')
			return 0; /* gathers; eiz and riz are no registers */
		out->index = att_register(comma + 1, &is_32);
		const char *scale = strchr(comma + 1, ',');
		if (out->index == INSN_NO_REG)
			return 0;
		out->scale =
			scale && scale < strchr(open, ')') ? (uint8_t)atoi(scale + 1) : 1;
	}
	if (out->base == INSN_RIP)
		out->displacement += length;
	out->flags = is_32 ? INSN_MEM_ADDRESS_32 : 0;
	return 1;
}

/* The operand that the text shows is one of those decoded, but for adjustments of pop. */
static int has_operand(const struct insn *insn, const struct insn_memory *expected,
		       int is_pop)
{
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];
		int64_t displacement = m->displacement;

		if (is_pop && m->base == INSN_RSP && !(m->flags & INSN_MEM_IMPLICIT))
			displacement -= m->size;
		if (m->base == expected->base && m->index == expected->index &&
		    m->scale == expected->scale && m->segment == expected->segment &&
		    displacement == expected->displacement &&
		    !((m->flags ^ expected->flags) & INSN_MEM_ADDRESS_32))
			return 1;
	}
	return 0;
}

static int names_without_access(const char *mnemonic)
{
	return strstr(mnemonic, "lea") || strstr(mnemonic, "nop") ||
	       strstr(mnemonic, "prefetch") || starts(mnemonic, "cldemote") ||
	       strstr(mnemonic, "bnd") || strstr(mnemonic, "xlat");
}

/* ---- objdump over libc ---- */

static void compare_branch(struct counts *c, const struct objdump_line *line,
			   const struct insn *insn)
{
	const uint64_t target = strtoull(line->operands, NULL, 16);

	c->branches++;
	if (line->address + (uint64_t)insn->target != target)
		complain(c, line->bytes, insn, line->operands, "target");
}

/* The mnemonic behind prefixes that objdump prints as words of their own. */
static void skip_prefixes(struct objdump_line *line)
{
	static const char *const prefixes[] = { "lock",	    "rep",	"repz",
						"repnz",    "bnd",	"notrack",
						"data16",   "addr32",	"cs",
						"ds",	    "es",	"ss",
						"xacquire", "xrelease", "rex" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strcmp(line->mnemonic, prefixes[i]) &&
		    !starts(line->mnemonic, "rex."))
			continue;
		sscanf(line->operands, "%63s", line->mnemonic);
		char *rest = line->operands + strcspn(line->operands, " ");
		memmove(line->operands, rest + strspn(rest, " "), strlen(rest) + 1);
		i = (size_t)-1;
	}
}

static enum insn_kind kind_in_text(const struct objdump_line *line)
{
	const char *m = line->mnemonic;
	const int is_indirect = line->operands[0] == '*';

	if (starts(m, "call"))
		return is_indirect ? INSN_CALL_INDIRECT : INSN_CALL;
	if (starts(m, "jmp"))
		return is_indirect ? INSN_JUMP_INDIRECT : INSN_JUMP;
	if (m[0] == 'j' || starts(m, "loop"))
		return INSN_JUMP_CONDITIONAL;
	if (starts(m, "ret"))
		return INSN_RETURN;
	if (starts(m, "nop") || starts(m, "xchg   %ax,%ax") || !strcmp(m, "pause"))
		return INSN_NOP;
	if (starts(m, "endbr"))
		return INSN_LANDING;
	return INSN_OTHER;
}

static void compare_line(const struct objdump_line *given, void *context)
{
	struct objdump_line own = *given;
	struct objdump_line *line = &own;
	struct counts *c = context;
	struct insn insn = { 0 };
	struct insn_memory expected;

	line->operands[strcspn(line->operands, "<#")] = 0;
	skip_prefixes(line);
	/* Continuation of a long instruction on a second line. */
	if (!line->mnemonic[0])
		return;
	if (insn_decode_x86_64(line->bytes, line->length, &insn)) {
		/* objdump cuts the bytes of long instructions at 7. */
		if (line->length != 7)
			complain(c, line->bytes, &insn, line->mnemonic, "refused");
		return;
	}
	c->compared++;
	if (insn.length != line->length)
		complain(c, line->bytes, &insn, line->mnemonic, "length");
	const enum insn_kind kind = kind_in_text(line);
	if (kind != INSN_OTHER ? insn.kind != kind :
				 insn.kind >= INSN_JUMP && insn.kind <= INSN_RETURN)
		complain(c, line->bytes, &insn, line->mnemonic, "kind");
	if (insn.flags & INSN_RELATIVE_BRANCH)
		compare_branch(c, line, &insn);
	if (names_without_access(line->mnemonic) ||
	    !att_operand(line->operands, insn.length, &expected))
		return;
	c->memory++;
	if (!has_operand(&insn, &expected, starts(line->mnemonic, "pop")))
		complain(c, line->bytes, &insn, line->operands, "operand");
}

static void all_of_libc_agrees_with_objdump(void **state)
{
	struct counts c = { 0 };
	char command[512];
	Dl_info info;

	if (system("objdump --version >/dev/null 2>&1")) {
		printf("# no objdump\n");
		skip();
	}
	assert_true(dladdr((void *)(uintptr_t)&qsort, &info));
	snprintf(command, sizeof(command), "objdump -d --insn-width=15 -j .text '%s'",
		 info.dli_fname);
	const long lines = objdump_each(command, compare_line, &c);
	printf("# %ld lines of %s, %lu compared, %lu operands, %lu branches, %lu wrong\n",
	       lines, info.dli_fname, c.compared, c.memory, c.branches, c.wrong);
	assert_true(c.memory > 50000 && c.branches > 10000);
	assert_int_equal(c.wrong, 0);
}

/* ---- Zydis' formatter over random bytes ---- */

struct formatter {
	ZydisDecoder decoder;
	ZydisFormatter att;
};

/* Random bytes with the prefixes and maps that matter more often than by chance. */
static void random_bytes(uint8_t bytes[INSN_LENGTH_MAX])
{
	static const uint8_t likely[] = { 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x64, 0x65, 0x48,
					  0x4c, 0x41, 0x0f, 0xc4, 0xc5, 0x62, 0x8f };
	const unsigned int prefixes = (unsigned int)random_below(4);

	for (unsigned int i = 0; i < INSN_LENGTH_MAX; i++)
		bytes[i] = (uint8_t)random_next();
	for (unsigned int i = 0; i < prefixes; i++)
		bytes[i] = likely[random_below(sizeof(likely))];
}

static void compare_with_formatter(struct counts *c, const struct formatter *f,
				   const uint8_t bytes[INSN_LENGTH_MAX])
{
	ZydisDecodedInstruction z;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	char text[256];
	struct insn insn = { 0 };
	struct insn_memory expected;
	const ZyanStatus status =
		ZydisDecoderDecodeFull(&f->decoder, bytes, INSN_LENGTH_MAX, &z, operands);
	const int err = insn_decode_x86_64(bytes, INSN_LENGTH_MAX, &insn);

	c->compared++;
	if (!ZYAN_SUCCESS(status)) {
		if (!err)
			complain(c, bytes, &insn, "no instruction", "decoded");
		return;
	}
	ZydisFormatterFormatInstruction(&f->att, &z, operands, z.operand_count_visible,
					text, sizeof(text), 0, NULL);
	if (err) {
		/* The coprocessor's encodings are refused. */
		if (!starts(ZydisISAExtGetString(z.meta.isa_ext), "KNC"))
			complain(c, bytes, &insn, text, "refused");
		return;
	}
	if (insn.length != z.length ||
	    insn_length_x86_64(bytes, INSN_LENGTH_MAX) != z.length)
		complain(c, bytes, &insn, text, "length");
	char *first = text + strcspn(text, " ");
	if (names_without_access(text) || z.meta.category == ZYDIS_CATEGORY_WIDENOP ||
	    insn.flags & INSN_HINT || !att_operand(first, insn.length, &expected))
		return;
	if (strstr(first, "%riz") || strstr(first, "%eiz"))
		return;
	c->memory++;
	/* The formatter prints an operand relative to the pc as an address: from 0. */
	if (expected.base == INSN_RIP)
		expected.displacement = insn.target;
	if (!has_operand(&insn, &expected, z.meta.category == ZYDIS_CATEGORY_POP))
		complain(c, bytes, &insn, text, "operand");
}

static void random_bytes_agree_with_the_formatter(void **state)
{
	struct formatter f;
	struct counts c = { 0 };

	ZydisDecoderInit(&f.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisFormatterInit(&f.att, ZYDIS_FORMATTER_STYLE_ATT);
	for (unsigned int i = 0; i < RANDOM_TRIES; i++) {
		uint8_t bytes[INSN_LENGTH_MAX];

		random_bytes(bytes);
		compare_with_formatter(&c, &f, bytes);
	}
	printf("# %lu compared, %lu operands, %lu wrong\n", c.compared, c.memory,
	       c.wrong);
	assert_true(c.memory > RANDOM_TRIES / 10);
	assert_int_equal(c.wrong, 0);
}

/* Nothing behind what is available is read: the bytes end where a page does. */
static void decoding_stays_within_the_bytes_given(void **state)
{
	uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	for (unsigned int i = 0; i < 100000; i++) {
		uint8_t bytes[INSN_LENGTH_MAX];
		struct insn insn;
		const size_t n = random_below(INSN_LENGTH_MAX + 1);

		random_bytes(bytes);
		memcpy(pages + 4096 - n, bytes, n);
		const int cut = insn_decode_x86_64(pages + 4096 - n, n, &insn);
		const int length = insn_length_x86_64(pages + 4096 - n, n);
		if (cut == 0)
			assert_true(insn.length <= n && length == insn.length);
	}
	munmap(pages, 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_libc_agrees_with_objdump),
		cmocka_unit_test(random_bytes_agree_with_the_formatter),
		cmocka_unit_test(decoding_stays_within_the_bytes_given),
	};

	random_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
