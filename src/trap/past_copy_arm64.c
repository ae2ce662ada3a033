/* SPDX-License-Identifier: MIT */
/*
 * past_copy_arm64.c - see past_copy_arm64.h.
 *
 * A copy loads the registers that its instruction uses from the context, runs it, and stores what
 * it wrote. Three registers that it does not use have the context, the way back, and what stands
 * for the stack pointer. A copy is found again by the word, and stays for the life of the process:
 * another thread may be in it.
 */
#include "trap/past_copy_arm64.h"
#include "base/trap_path.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/memory_file.h"
#include "base/sys.h"
#include "code/insn/insn_arm64.h"
#include "event/event.h"

#define COPIES 512u
#define COPY_WORDS 40u
#define COPY_BYTES (COPY_WORDS * 4)
#define HALF_BYTES (COPIES * COPY_BYTES)
#define REGS_MAX 12
#define SP_BIT (1ull << INSN_ARM64_SP)
#define HWCAP_POINTER_SIGNATURES (1ul << 30) /* HWCAP_PACA */
#define NOP 0xd503201fu

/* The state of a word in the table: its copy is being written, or is there. */
#define IS_BEGUN 1u
#define IS_THERE 2u

static uint64_t words[2][COPIES]; /* word << 8 | one of these; 0: free */
static uint8_t *alias;		  /* the same memory, to be written */
static uint8_t *copies;
static pid_t owner; /* a forked child shares the file, so it needs one of its own */
static int has_signatures;

/* Instructions with an operand that has no field, as those that name it. sp is the modifier. */
static const struct {
	uint32_t word, named;
} implicit[] = {
	{ 0xd503233f, 0xdac1001e }, /* paciasp: pacia x30, xn */
	{ 0xd503237f, 0xdac1041e }, /* pacibsp */
	{ 0xd50323bf, 0xdac1101e }, /* autiasp */
	{ 0xd50323ff, 0xdac1141e }, /* autibsp */
};

int past_copies_map(void)
{
	const pid_t pid = sys_getpid();

	if (owner == pid)
		return 0;
	int fd = memory_file("trapline-copies", 2 * HALF_BYTES);
	if (fd < 0)
		return fd;
	void *write = memory_map_shared(2 * HALF_BYTES, 1, fd, 0);
	void *run = (void *)sys_mmap(0, 2 * HALF_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	sys_close(fd);
	if (memory_failed(write) || memory_failed(run)) {
		int err = memory_error(memory_failed(run) ? run : write);

		if (!memory_failed(write))
			memory_unmap(write, 2 * HALF_BYTES);
		if (!memory_failed(run))
			memory_unmap(run, 2 * HALF_BYTES);
		return err;
	}
	for (uint32_t i = 0; i < 2 * COPIES; i++)
		words[i / COPIES][i % COPIES] = 0;
	has_signatures = (getauxval(AT_HWCAP) & HWCAP_POINTER_SIGNATURES) != 0;
	alias = write;
	copies = run;
	event_steps = (struct event_steps){ (uintptr_t)run, HALF_BYTES };
	owner = pid;
	return 0;
}

/* The instruction as it is in the copy, and its registers. */
struct form {
	uint32_t word;
	uint64_t loads;
	uint64_t stores;
	uint64_t flags;
	int from_spare; /* the base is what PAST_SPARE has */
	uint32_t context, back, base;
};

TRAP_PATH static int take_free(struct form *f)
{
	uint32_t *const wanted[] = { &f->context, &f->back, &f->base };
	uint32_t n = 0;

	for (uint32_t reg = 9; reg <= 17 && n < 3; reg++)
		if (!((f->loads | f->stores) >> reg & 1))
			*wanted[n++] = reg;
	return n == 3;
}

/* ldr with a distance from the pc becomes ldr of a register; 0: unknown. */
TRAP_PATH static uint32_t without_literal(uint32_t word)
{
	static const uint32_t general[] = { 0xb9400000, 0xf9400000, 0xb9800000, 0 };
	static const uint32_t vector[] = { 0xbd400000, 0xfd400000, 0x3dc00000, 0 };
	const uint32_t at = (word >> 26 & 1 ? vector : general)[word >> 30];

	return at ? at | (word & 31) : 0;
}

/* Another register stands for sp in the fields that name it. 1; 0: it is used without a field. */
TRAP_PATH static int move_sp(struct form *f, const struct insn *insn)
{
	const int is_memory = insn->memory_count > 0;

	for (uint32_t i = 0; i < sizeof(implicit) / sizeof(implicit[0]); i++) {
		if (f->word != implicit[i].word)
			continue;
		f->word = has_signatures ? implicit[i].named | f->base << 5 : NOP;
		return 1;
	}
	if (arm64_is(f->word, 0xfffff01f, 0xd503201f))
		return 0;
	if ((insn->reads | (is_memory ? insn->writes : 0)) & SP_BIT) {
		if (arm64_bits(f->word, 5, 5) != INSN_ARM64_SP)
			return 0;
		f->word = (f->word & ~(31u << 5)) | f->base << 5;
	}
	if (!is_memory && insn->writes & SP_BIT) {
		if (arm64_bits(f->word, 0, 5) != INSN_ARM64_SP)
			return 0;
		f->word = (f->word & ~31u) | f->base;
	}
	return 1;
}

TRAP_PATH static int make_form(uint32_t word, const struct insn *insn, struct form *f)
{
	const uint64_t regs = ~(1ull << INSN_ARM64_PC);

	*f = (struct form){
		.word = word,
		.loads = (insn->reads | insn->writes) & regs,
		.stores = insn->writes & regs,
		.flags = insn->flags,
	};
	if (__builtin_popcountll(f->loads) > REGS_MAX || !take_free(f))
		return 0;
	if (insn->flags & INSN_PC_RELATIVE) {
		f->word = without_literal(word) | f->base << 5;
		f->from_spare = 1;
		return without_literal(word) != 0;
	}
	return !(f->loads & SP_BIT) || move_sp(f, insn);
}

TRAP_PATH static uint32_t load(uint32_t reg, uint32_t from, uint32_t at)
{
	return 0xf9400000u | at << 10 | from << 5 | reg;
}

TRAP_PATH static uint32_t store(uint32_t reg, uint32_t to, uint32_t at)
{
	return 0xf9000000u | at << 10 | to << 5 | reg;
}

TRAP_PATH static void emit(const struct form *f, uint32_t *code)
{
	*code++ = 0xaa0003e0u | f->context; /* mov context, x0 */
	*code++ = 0xaa1e03e0u | f->back;    /* mov back, x30 */
	*code++ = load(f->base, f->context, PAST_PSTATE);
	*code++ = 0xd51b4200u | f->base; /* msr nzcv, base */
	*code++ = load(f->base, f->context, f->from_spare ? PAST_SPARE : PAST_SP);
	for (uint32_t reg = 0; reg < INSN_ARM64_SP; reg++)
		if (f->loads >> reg & 1)
			*code++ = load(reg, f->context, reg);
	*code++ = f->word;
	for (uint32_t reg = 0; reg < INSN_ARM64_SP; reg++)
		if (f->stores >> reg & 1)
			*code++ = store(reg, f->context, reg);
	if (f->stores & SP_BIT)
		*code++ = store(f->base, f->context, PAST_SP);
	*code++ = 0xd53b4200u | f->base; /* mrs base, nzcv */
	*code++ = store(f->base, f->context, PAST_SPARE);
	*code++ = 0xd61f0000u | f->back << 5; /* br back */
}

/* Data caches of arm64 are by physical address, so either of the two mappings serves. */
TRAP_PATH static void publish(uint64_t code)
{
	for (uint64_t at = code & ~15ull; at < code + COPY_BYTES; at += 16)
		__asm__ volatile("dc cvau, %0" : : "r"(at) : "memory");
	__asm__ volatile("dsb ish" : : : "memory");
	for (uint64_t at = code & ~15ull; at < code + COPY_BYTES; at += 16)
		__asm__ volatile("ic ivau, %0" : : "r"(at) : "memory");
	__asm__ volatile("dsb ish" : : : "memory");
}

TRAP_PATH static const void *write_copy(const struct form *f, uint32_t half, uint32_t at)
{
	const uint64_t offset = half * HALF_BYTES + at * COPY_BYTES;

	emit(f, (uint32_t *)(void *)(alias + offset));
	publish((uintptr_t)copies + offset);
	return copies + offset;
}

TRAP_PATH const void *past_copy(uint32_t word, const struct insn *insn, int is_breakpoint)
{
	const uint32_t half = is_breakpoint != 0;
	const uint64_t there = (uint64_t)word << 8 | IS_THERE;
	uint32_t at = (word * 2654435761u >> 16) % COPIES;
	struct form form;

	if (owner != sys_getpid() || !make_form(word, insn, &form))
		return NULL;
	for (uint32_t n = 0; n < COPIES; n++, at = (at + 1) % COPIES) {
		uint64_t held = atomic_get(&words[half][at]);

		if (!held && atomic_cas(&words[half][at], &held, (uint64_t)word << 8 | IS_BEGUN)) {
			const void *copy = write_copy(&form, half, at);

			atomic_set(&words[half][at], there);
			return copy;
		}
		if (held == there)
			return copies + half * HALF_BYTES + at * COPY_BYTES;
	}
	return NULL;
}
