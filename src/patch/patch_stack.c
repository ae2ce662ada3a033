/* SPDX-License-Identifier: MIT */
/*
 * patch_stack.c - is a stack inside of a function that is being left?
 *
 * The own stack is unwound. Where that does not reach its end, and for other threads, each word
 * from the stack pointer up counts as a return address that may be one. That is more than is there,
 * but never less. A handler on an alternate stack is found by its frame, and the interrupted
 * stack from there.
 */
#include "base/general_regs.h"

#include <errno.h>
#include <unwind.h>

#include "base/sys.h"
#include "base/trap_path.h"
#include "code/poke/slot_origin.h"
#include "patch/patch_code.h"
#include "patch/patch_gate.h"
#include "trap/arch.h"

#define WORDS_AT_ONCE 256u
#define STACKS_MAX 8
#define CONTEXT_REGS 2 /* sp, pc */

extern char __start_trap_path[] __attribute__((visibility("hidden")));
extern char __stop_trap_path[] __attribute__((visibility("hidden")));

TRAP_PATH static int is_trap_path(uint64_t pc)
{
	return pc - (uintptr_t)__start_trap_path <=
	       (uintptr_t)(__stop_trap_path - __start_trap_path);
}

TRAP_PATH int patch_is_on_the_way(const struct trapline_patch *patch, uint64_t pc)
{
	if (is_trap_path(pc))
		return 1;
	for (size_t i = 0; i < patch->count; i++)
		if (pc - patch->sites[i]->stub < patch->sites[i]->stub_end - patch->sites[i]->stub)
			return 1;
	return 0;
}

TRAP_PATH static int function_at(const struct patch_side *side, uint64_t address, int is_pc)
{
	for (size_t i = 0; i < side->count; i++) {
		const struct patch_range *range = &side->ranges[i];

		if ((address > range->from && address <= range->to) ||
		    (is_pc && address && address == range->entry))
			return (int)range->function;
	}
	return PATCH_OUTSIDE;
}

struct patch_walk {
	const struct trapline_patch *patch;
	const struct patch_side *side;
	uint64_t from; /* skip the own frames until this pc; 0: skip nothing */
	uint64_t last;
	int is_found;
	int result;
};

TRAP_PATH static _Unwind_Reason_Code patch_step(struct _Unwind_Context *context, void *arg)
{
	struct patch_walk *walk = arg;
	uint64_t ip = _Unwind_GetIP(context);

	walk->last = ip;
	if (!walk->is_found && walk->from && ip != walk->from)
		return _URC_NO_REASON;
	uint64_t origin = slot_origin(ip);

	walk->is_found = 1;
	walk->result = function_at(walk->side, origin ? origin : ip, 1);
	/* At the jump itself, or behind the way in: it has not entered. */
	if (walk->result == PATCH_OUTSIDE && walk->from && patch_is_on_the_way(walk->patch, ip))
		walk->result = PATCH_UNSURE;
	return walk->result == PATCH_OUTSIDE ? _URC_NO_REASON : _URC_END_OF_STACK;
}

TRAP_PATH int patch_look_at_self(const struct trapline_patch *patch, uint32_t phase,
				 const ucontext_t *context)
{
	uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	struct patch_walk walk = { .patch = patch,
				   .side = patch_left(patch, phase),
				   .from = context ? arch_pc(context) : 0,
				   .result = PATCH_OUTSIDE };

	_Unwind_Backtrace(patch_step, &walk);
	if (walk.is_found && (walk.result != PATCH_OUTSIDE || !walk.last))
		return walk.result;
	if (context) {
		int inside = function_at(walk.side, patch_return(patch_link(context)), 0);

		if (inside >= 0)
			return inside;
		sp = arch_sp(context);
	}
	return patch_scan(patch, phase, sp, patch->maps);
}

TRAP_PATH int patch_function_at(const struct trapline_patch *patch, uint32_t phase, uint64_t pc)
{
	return function_at(patch_left(patch, phase), pc, 1);
}

TRAP_PATH static uint64_t end_of_stack(const struct patch_maps *maps, uint64_t sp)
{
	for (size_t i = 0; i < maps->count; i++)
		if (sp - maps->rows[i].start < maps->rows[i].end - maps->rows[i].start)
			return maps->rows[i].end;
	return 0;
}

struct patch_scan {
	const struct trapline_patch *patch;
	const struct patch_side *side;
	uint64_t at;
	uint64_t end;
	uint64_t interrupted; /* a stack pointer elsewhere; 0: none was found */
	uint64_t words[WORDS_AT_ONCE];
};

/* The word is in the frame of a signal: what it interrupted. */
TRAP_PATH static int find_interrupted(struct patch_scan *scan, uint64_t word_at)
{
	uint64_t regs[CONTEXT_REGS];

	if (sys_read_memory(scan->patch->pid, word_at + PATCH_CONTEXT_SP, regs, sizeof(regs)) !=
	    sizeof(regs))
		return PATCH_OUTSIDE;
	if (regs[0] < scan->at || regs[0] >= scan->end)
		scan->interrupted = regs[0];
	return function_at(scan->side, regs[1], 1);
}

TRAP_PATH static int scan_words(struct patch_scan *scan, uint64_t from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const uint64_t address = patch_return(scan->words[i]);
		int inside = function_at(scan->side, address, 0);

		if (inside >= 0)
			return inside;
		if (patch_is_on_the_way(scan->patch, address) || slot_origin(address))
			return PATCH_UNSURE;
		if (patch_is_context(scan->words[i], scan->patch->restorer))
			inside = find_interrupted(scan, from + i * sizeof(uint64_t));
		if (inside >= 0)
			return inside;
	}
	return PATCH_OUTSIDE;
}

/*
 * A page that cannot be read ends the stack. From glibc 2.42 on, stacks of threads are one mapping,
 * with guard pages between them that the map does not show (MADV_GUARD_INSTALL).
 */
TRAP_PATH static int scan_one(struct patch_scan *scan)
{
	int result = PATCH_OUTSIDE;

	for (uint64_t at = scan->at; at < scan->end && result == PATCH_OUTSIDE;) {
		const uint64_t left = scan->end - at;
		const uint64_t bytes = left < sizeof(scan->words) ? left : sizeof(scan->words);
		const ssize_t got = sys_read_memory(scan->patch->pid, at, scan->words, bytes);

		if (got <= 0)
			return got == -EFAULT && at > scan->at ? PATCH_OUTSIDE : PATCH_UNSURE;
		result = scan_words(scan, at, (size_t)got / sizeof(uint64_t));
		at += (uint64_t)got;
	}
	return result;
}

TRAP_PATH int patch_scan(const struct trapline_patch *patch, uint32_t phase, uint64_t sp,
			 const struct patch_maps *maps)
{
	struct patch_scan scan = { .patch = patch,
				   .side = patch_left(patch, phase),
				   .interrupted = sp };

	for (int i = 0; i < STACKS_MAX && scan.interrupted; i++) {
		scan.at = scan.interrupted & ~7ull;
		scan.end = end_of_stack(maps, scan.at);
		scan.interrupted = 0;
		int result = scan.end ? scan_one(&scan) : PATCH_UNSURE;

		if (result != PATCH_OUTSIDE)
			return result;
	}
	return scan.interrupted ? PATCH_UNSURE : PATCH_OUTSIDE;
}
