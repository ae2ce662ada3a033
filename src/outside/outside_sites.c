/* SPDX-License-Identifier: MIT */
/*
 * outside_sites.c - see outside_sites.h.
 *
 * Only what control flow leads to is an instruction (code/reach/reach.h): a probe in data would
 * change it. What the kernel would refuse or execute wrongly under a probe is left out. So is what
 * threads cannot share: thread-local variables, constants, and the own frame unless its address is
 * given away.
 */
#include "outside/outside_sites.h"

#include "base/sys.h"
#include "code/insn/insn.h"
#include "code/insn/insn_stall.h"
#include "code/insn/insn_uprobe.h"
#include "code/reach/back.h"
#include "code/reach/code_calls.h"
#include "code/reach/reach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define GIVEN_MAX 64u
#define PART_MAX 8u

struct outside_lister {
	const struct outside_code *code;
	struct code_calls *calls;
	struct reach reach;
	const struct outside_module *module;
	const struct outside_function *function;
	bool has_frame;
	int loads_last;
	int is_early;
	uint32_t given_count;
	struct {
		uint8_t base;
		int64_t displacement;
	} given[GIVEN_MAX];
};

uint64_t outside_random(void)
{
	static uint64_t state;

	if (!state && getrandom(&state, sizeof(state), GRND_NONBLOCK) != sizeof(state))
		state = (uintptr_t)&state;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static const uint8_t *text_at(const struct outside_module *m, uint64_t address)
{
	return m->text + (address - m->file.start);
}

static bool is_in_text(const struct outside_module *m, uint64_t address)
{
	return address - m->file.start < m->text_bytes;
}

static bool is_constant(const struct outside_module *m, uint64_t address)
{
	for (uint32_t i = 0; i < m->constants; i++)
		if (address - m->constant[i].start < m->constant[i].end - m->constant[i].start)
			return true;
	return false;
}

/* ---- what is code ---- */

static int lister_returns(void *arg, uint64_t pc, const struct insn *insn)
{
	struct outside_lister *l = arg;
	int is_by_register = back_is_by_register(insn);

	if (l->module->is_go) /* there is no data in its text */
		return 1;
	if (is_by_register && l->loads_last)
		return 0;
	l->is_early |= is_by_register;
	return l->calls && back_call(code_calls_back(l->calls), pc, insn) == BACK_YES;
}

static int lister_read(void *arg, uint64_t address, void *to, uint64_t bytes)
{
	const struct outside_lister *l = arg;

	return is_constant(l->module, address) && is_constant(l->module, address + bytes - 1) &&
	       sys_read_memory(l->code->pid, address, to, bytes) == (ssize_t)bytes;
}

static int lister_is_text(void *arg, uint64_t address)
{
	return is_in_text(((const struct outside_lister *)arg)->module, address);
}

/* lea with a frame register and no index: the variable's address is given away. */
static void note_given(struct outside_lister *l, const uint8_t *code, const struct insn *insn)
{
	int32_t displacement = 0;

	if (insn->opcode_bytes != 1 || code[insn->opcode_at] != 0x8d || !insn->modrm_at ||
	    insn->rex & 1 || l->given_count == GIVEN_MAX)
		return;
	uint8_t modrm = code[insn->modrm_at];
	bool is_rsp = (modrm & 7) == 4 && code[insn->modrm_at + 1] == 0x24 && !(insn->rex & 2);
	bool is_rbp = (modrm & 7) == 5 && modrm >> 6;
	if (modrm >> 6 == 3 || (!is_rsp && !is_rbp))
		return;
	if (insn->displacement_bytes == 1)
		displacement = (int8_t)code[insn->displacement_at];
	else if (insn->displacement_bytes == 4)
		memcpy(&displacement, code + insn->displacement_at, sizeof(displacement));
	l->given[l->given_count].base = is_rsp ? INSN_RSP : INSN_RBP;
	l->given[l->given_count++].displacement = displacement;
}

static void lister_on_insn(void *arg, uint64_t pc, const uint8_t *code, const struct insn *insn)
{
	struct outside_lister *l = arg;

	note_given(l, code, insn);
	if (!l->loads_last && l->calls && !l->module->is_go)
		l->loads_last = back_loads_last(code_calls_back(l->calls), pc, code, insn);
}

static void lister_on_leave(void *arg, uint64_t target)
{
	(void)arg;
	(void)target;
}

static bool reach_once(struct outside_lister *l)
{
	const struct reach_ops ops = {
		l, lister_returns, lister_read, lister_is_text, lister_on_insn, lister_on_leave
	};
	const struct outside_function *f = l->function;

	l->given_count = 0;
	if (reach_begin(&l->reach, text_at(l->module, f->start), f->start, f->end, &ops))
		return false;
	reach_root(&l->reach, f->start);
	reach_run(&l->reach);
	return true;
}

/* ---- sites ---- */

static bool has_frame(const uint8_t *code, uint64_t bytes)
{
	static const uint8_t landing[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const uint8_t prologue[] = { 0x55, 0x48, 0x89, 0xe5 };

	if (bytes > sizeof(landing) && !memcmp(code, landing, sizeof(landing))) {
		code += sizeof(landing);
		bytes -= sizeof(landing);
	}
	return bytes > sizeof(prologue) && !memcmp(code, prologue, sizeof(prologue));
}

static bool is_given(const struct outside_lister *l, const struct insn_memory *m)
{
	for (uint32_t i = 0; i < l->given_count; i++)
		if (l->given[i].base == m->base && l->given[i].displacement == m->displacement)
			return true;
	return false;
}

/* The address can be computed by the program in the kernel. */
static bool is_simple(const struct insn_memory *m)
{
	bool has_index = m->index != INSN_NO_REG;

	return !(m->flags & INSN_MEM_ADDRESS_32) && (m->base == INSN_NO_REG || m->base < 17) &&
	       (!has_index || (m->index < 16 && m->index_bits == 64 && m->scale));
}

static bool is_site(const struct outside_lister *l, const struct insn *insn, unsigned int i,
		    uint64_t pc)
{
	const struct insn_memory *m = &insn->memory[i];

	if (!insn_can_stall(insn, i) || !is_simple(m))
		return false;
	if (m->base == INSN_RIP)
		return !is_constant(l->module, pc + (uint64_t)m->displacement);
	if (m->base == INSN_RSP || (m->base == INSN_RBP && l->has_frame))
		return is_given(l, m);
	return true;
}

static uint64_t shift_of(uint8_t scale)
{
	return scale > 1 ? (uint64_t)__builtin_ctz(scale) : 0;
}

static void fill_site(const struct outside_lister *l, const struct insn_memory *m, uint64_t pc,
		      struct outside_trap *out)
{
	uint64_t words = m->size > PART_MAX ? m->size / PART_MAX : 1;

	*out = (struct outside_trap){
		.place = pc,
		.base = m->base == INSN_NO_REG || m->base == INSN_RIP ? OUTSIDE_NO_REG : m->base,
		.index = m->index == INSN_NO_REG ? OUTSIDE_NO_REG : m->index,
		.shift = shift_of(m->scale),
		.displacement = m->displacement,
		.size = m->size,
		.skew = outside_random() % words * PART_MAX,
		.writes = (m->access & INSN_WRITE) != 0,
		.is_escaped = is_given(l, m),
		.calm = 1,
	};
	if (m->base == INSN_RIP)
		out->displacement += (int64_t)pc;
}

/* 1: the instruction at pc has one. */
static uint32_t take_site(const struct outside_lister *l, uint64_t pc, struct outside_trap *out)
{
	const uint8_t *code = text_at(l->module, pc);
	uint64_t left = l->function->end - pc;
	size_t available = left < INSN_LENGTH_MAX ? (size_t)left : INSN_LENGTH_MAX;
	unsigned int chosen = INSN_MEMORY_MAX;
	uint32_t seen = 0;
	struct insn insn;

	if (insn_decode(code, available, &insn) || insn.flags & INSN_NOT_RELOCATABLE ||
	    !reach_has(&l->reach, pc, insn.length) || insn_uprobe_refusal_x86_64(code, available))
		return 0;
	for (unsigned int i = 0; i < insn.memory_count; i++)
		if (is_site(l, &insn, i, pc) && outside_random() % ++seen == 0)
			chosen = i;
	if (chosen == INSN_MEMORY_MAX)
		return 0;
	fill_site(l, &insn.memory[chosen], pc, out);
	return 1;
}

uint32_t outside_list(struct outside_lister *l, const struct outside_function *f,
		      struct outside_trap *out, uint32_t max, uint32_t *more)
{
	uint32_t n = 0;

	*more = 0;
	l->module = &l->code->modules[f->module];
	l->function = f;
	if (!l->module->text || !is_in_text(l->module, f->end - 1))
		return 0;
	l->has_frame = has_frame(text_at(l->module, f->start), f->end - f->start);
	l->loads_last = l->is_early = 0;
	if (!reach_once(l) || (l->loads_last && l->is_early && !reach_once(l)))
		return 0;
	for (uint64_t pc = f->start; pc < f->end; pc++) {
		struct outside_trap site;

		if (!reach_bit(l->reach.first, pc - f->start) || !take_site(l, pc, &site))
			continue;
		if (n < max)
			out[n++] = site;
		else
			(*more)++;
	}
	return n;
}

struct outside_lister *outside_lister_open(const struct outside_code *code)
{
	struct outside_lister *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->code = code;
	if (!code->is_go && code_calls_open(code->pid, &l->calls))
		l->calls = NULL; /* then what follows a call is code where it looks like it */
	return l;
}

void outside_lister_close(struct outside_lister *l)
{
	if (!l)
		return;
	code_calls_close(l->calls);
	free(l);
}
