/* SPDX-License-Identifier: MIT */
/* race_target.c - see race_target.h. */
#include "race/stall/race_target.h"

#include <errno.h>

#include "base/aligned.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/insn/insn_stored.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/race_walk.h"
#include "race/sweep/race_call_targets.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_sites.h"
#include "record/race_region.h"

/* What lies so close above the stack pointer is most often the thread's own. */
#define OWN_STACK_BYTES 65536u
#define RED_ZONE_BYTES 256u

/* A naturally aligned piece of the access, by chance when it has several. */
TRAP_PATH void race_choose_part(struct race_target *t)
{
	uint64_t at = t->address;
	uint64_t end = t->address + t->size;
	uint32_t seen = 0;

	/* Vectors are long: begin anywhere in them. */
	if (t->size > 4 * ALIGNED_PART_MAX)
		at += race_random() % (t->size - 4 * ALIGNED_PART_MAX) & ~7ull;
	for (int n = 0; n < 8 && at < end; n++) {
		uint32_t len = aligned_part(at, end - at);

		if (race_random() % ++seen == 0) {
			t->part = at;
			t->part_len = len;
		}
		at += len;
	}
}

/* One step of a string instruction that continues: any of those that will come. */
TRAP_PATH static void choose_step(const struct insn *insn, const struct insn_memory *m,
				  const struct insn_regs *regs, struct race_target *t)
{
	uint64_t count = regs->r[INSN_RCX];
	int backwards = regs->flags >> 10 & 1;

	if (insn->kind != INSN_STRING || !(m->flags & INSN_MEM_REPEATS) || count < 2)
		return;
	/* repe and repne may end before: only the first step is sure (scas, cmps read). */
	if (insn->memory_count == 2 ? !(insn->memory[0].access & INSN_WRITE) &&
					      !(insn->memory[1].access & INSN_WRITE) :
				      !(m->access & INSN_WRITE))
		return;
	uint64_t bytes = count * m->size;
	if (bytes / m->size != count || bytes > 1u << 30)
		return;
	if (backwards)
		t->address -= bytes - m->size;
	t->size = (uint32_t)bytes;
}

/* The access that the instruction at hit->ip is about to make. */
TRAP_PATH static int find_target(const struct insn *insn, const uint8_t *code,
				 const struct insn_regs *regs, int is_escaped,
				 struct race_target *out)
{
	unsigned int chosen = INSN_MEMORY_MAX;
	uint32_t seen = 0;

	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (race_is_worth_it(insn, i, regs, is_escaped) && race_random() % ++seen == 0)
			chosen = i;
	if (chosen == INSN_MEMORY_MAX)
		return -ENOENT;
	const struct insn_memory *m = &insn->memory[chosen];
	int err = insn_address(insn, chosen, regs, &out->address);
	if (err)
		return err;
	out->size = m->size;
	out->access = m->access;
	out->flags = RACE_DECODED | (insn->flags & INSN_VECTOR && m->size > 8 ? RACE_VECTOR : 0);
	choose_step(insn, m, regs, out);
	race_choose_part(out);
	out->is_stored_known = !insn_stored_x86_64(insn, code, regs, &out->stored);
	return 0;
}

/* Own frames and constants are not worth a stall. Returns the counter, or -1. */
TRAP_PATH static int is_pointless(const struct trapline_hit *hit, int is_escaped,
				  const struct race_target *t)
{
	const struct race_module *m;

	if (!is_escaped && t->part - hit->sp + RED_ZONE_BYTES < OWN_STACK_BYTES + RED_ZONE_BYTES &&
	    race_random() % 8)
		return RACE_STALLS_STACK;
	m = race_module_of(t->part);
	if (m && (t->part < m->data_start || t->part >= m->data_end))
		return RACE_STALLS_CONSTANT;
	return -1;
}

TRAP_PATH int race_target_choose(const struct trapline_hit *hit, const struct race_code *code,
				 const struct race_spot *spot, struct race_target *target)
{
	enum race_call call = spot ? spot->call : RACE_CALL_NONE;
	uint64_t left = code->module->text_end - hit->ip;
	const uint8_t *bytes = race_code(code->module, hit->ip);
	int is_escaped = spot && spot->is_escaped;
	int is_by_free_rbp = spot && spot->is_by_free_rbp;
	struct insn_regs regs;
	struct insn insn;

	target->is_stored_known = 0;
	race_registers(hit, &regs);
	if (insn_decode(bytes, left < INSN_LENGTH_MAX ? (size_t)left : INSN_LENGTH_MAX, &insn) ||
	    (call ? race_find_call_target(call, &regs, target) :
		    find_target(&insn, bytes, &regs, is_escaped || is_by_free_rbp, target)))
		return -ENOENT;
	if (target->access & ~code->allowed)
		return -ENOENT;
	if (code->policy == RACE_CODE_LIBC &&
	    race_block_clip(hit->ip, &regs, target->address, &target->size)) {
		if (!target->size)
			return -ENOENT;
		race_choose_part(target);
	}
	target->length = insn.length;
	int pointless = is_pointless(hit, is_escaped, target);
	if (pointless < 0)
		return 0;
	race_count((enum race_counter)pointless);
	return -EFAULT;
}
