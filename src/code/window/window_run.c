/* SPDX-License-Identifier: MIT */
/*
 * window_run.c - what the code in a window's cache calls us for: see window.h.
 *
 * The vector registers contain the program's values: this file is compiled without them
 * (meson.build), and saves them around what may use them.
 */
#include "base/general_regs.h"

#include <errno.h>
#include <signal.h>
#include <sys/rseq.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "code/window/window.h"
#include "code/window/window_call.h"
#include "code/window/window_translate.h"

#define ALIGNMENT_FLAG 0x40000u /* Trapline's would fault, too */

/* ---- reading the program's text and data ---- */

/*
 * window_read(). A fault at window_read_at makes the handler continue at window_read_failed: see
 * window_fault.c. rcx counts down, so it states how much could not be read.
 */
__asm__(".text\n"
	".globl window_read, window_read_at, window_read_failed\n"
	".hidden window_read, window_read_at, window_read_failed\n"
	".type window_read, @function\n"
	"window_read:\n\t"
	"cld\n\t"
	"movq %rdx, %rcx\n"
	"window_read_at:\n\t"
	"rep movsb\n"
	"window_read_failed:\n\t"
	"movq %rdx, %rax\n\t"
	"subq %rcx, %rax\n\t"
	"ret\n"
	".size window_read, . - window_read\n");

/* ---- the end ---- */

static uint64_t executed(const struct window_area *a)
{
	return a->result.instructions + (uint64_t)(a->slice - a->left);
}

void window_finish(struct window_area *a, uint64_t pc, enum window_reason reason)
{
	a->result.instructions = executed(a);
	a->slice = a->left = 0;
	a->result.pc = pc;
	a->result.reason = reason;
}

/*
 * To the pad, whose fault sets pc and signal mask at once: see window_fault.c. The kernel makes its
 * frame on Trapline's stack: that of the program may be a coroutine's. But a thread does not leave
 * an alternate stack, whose next signal would begin at its top.
 */
static void go_to_pad(struct window_area *a)
{
	const uint64_t sp = a->regs.r[INSN_RSP];
	stack_t alternate;

	a->leave_sp = sp;
	if (!sys2(SYS_sigaltstack, NULL, &alternate) &&
	    sp - (uint64_t)(uintptr_t)alternate.ss_sp > alternate.ss_size)
		a->leave_sp = a->stack_top;
	a->resume = (uint64_t)(uintptr_t)a->code + a->pad;
}

static void leave(struct window_area *a, uint64_t pc, enum window_reason reason)
{
	window_finish(a, pc, reason);
	go_to_pad(a);
}

/* ---- blocks ---- */

static uint64_t code_at(const struct window_area *a, uint32_t offset)
{
	return (uint64_t)(uintptr_t)a->code + offset;
}

static uint32_t translate(struct window_area *a, uint64_t pc, unsigned int most, int is_kept)
{
	window_vectors_save(a);
	const int number = window_translate(a, pc, most, is_kept);
	window_vectors_restore(a);
	return (uint32_t)number;
}

static uint32_t find(struct window_area *a, uint64_t pc)
{
	uint32_t number = a->hash[window_hash(pc)];

	while (number && a->blocks[number].guest != pc)
		number = a->blocks[number].next;
	return number ? number : translate(a, pc, WINDOW_BLOCK_INSNS, 1);
}

static void go_to(struct window_area *a, uint64_t pc)
{
	a->resume = code_at(a, a->blocks[find(a, pc)].code);
}

static void patch(struct window_area *a, uint32_t at, uint32_t to)
{
	*(volatile uint32_t *)(void *)(a->writable + at) = to - (at + 4);
}

static void take_exit(struct window_area *a, const struct window_site *site)
{
	const uint32_t epoch = a->epoch;
	const uint32_t at = site->code;
	const uint64_t pc = site->guest;
	const struct window_block *block = &a->blocks[find(a, pc)];

	if (a->epoch == epoch)
		patch(a, at, block->code);
	a->resume = code_at(a, block->code);
}

/* Behind a system call that the thread executed natively, one instruction ran natively too. */
static void take_step(struct window_area *a)
{
	const struct window_hooks *hooks = &a->request.hooks;
	const uint64_t next = a->step_next;

	a->step_next = 0;
	if (!next || next == a->target)
		return;
	a->left--;
	if (!hooks->block)
		return;
	if (!hooks->keeps_vectors)
		window_vectors_save(a);
	hooks->block(a, next, 1);
	if (!hooks->keeps_vectors)
		window_vectors_restore(a);
}

static void take_indirect(struct window_area *a)
{
	take_step(a);
	const uint64_t pc = a->target;
	const struct window_block *block = &a->blocks[find(a, pc)];
	struct window_jump *jump = &a->jumps[pc & (WINDOW_JUMPS - 1)];

	jump->negative = -pc;
	jump->code = code_at(a, block->code);
	a->resume = jump->code;
}

/* ---- the budget ---- */

static void next_slice(struct window_area *a)
{
	const uint64_t more = a->budget < WINDOW_SLICE ? a->budget : WINDOW_SLICE;

	a->result.instructions = executed(a);
	a->budget -= more;
	a->left += (int64_t)more;
	a->slice = a->left;
}

/* A signal waits that the program has not blocked. */
int window_signal_waits(const struct window_area *a)
{
	uint64_t pending = 0;

	if (a->held_count)
		return 1;
	sys2(SYS_rt_sigpending, &pending, sizeof(pending));
	return (pending & ~a->guest_mask) != 0;
}

/* The block has taken its instructions although the slice has fewer. */
static void take_budget(struct window_area *a, const struct window_site *site)
{
	const struct window_block *block = &a->blocks[site->block];
	const uint64_t pc = block->guest;

	a->left += block->insns;
	if (a->budget) {
		window_vectors_save(a);
		window_faults_renew();
		window_vectors_restore(a);
		if (window_signal_waits(a)) {
			leave(a, pc, WINDOW_SIGNAL);
			return;
		}
		if (a->request.deadline_ns && clock_ns(CLOCK_MONOTONIC) >= a->request.deadline_ns) {
			leave(a, pc, WINDOW_TIME);
			return;
		}
		next_slice(a);
	}
	if (a->left >= block->insns)
		a->resume = code_at(a, block->code);
	else if (a->left > 0)
		a->resume = code_at(a, a->blocks[translate(a, pc, (unsigned int)a->left, 0)].code);
	else
		leave(a, pc, WINDOW_BUDGET);
}

/* ---- code that changed ---- */

static void forget(struct window_area *a, uint32_t number)
{
	struct window_block *block = &a->blocks[number];
	uint32_t *row = &a->hash[window_hash(block->guest)];

	while (*row && *row != number)
		row = &a->blocks[*row].next;
	if (*row)
		*row = block->next;
}

static void note_page(struct window_area *a, uint64_t pc)
{
	for (uint32_t i = 0; i < a->pages_used; i++)
		if (a->pages[i] == pc >> 12)
			return;
	if (a->pages_used < WINDOW_PAGES)
		a->pages[a->pages_used++] = pc >> 12;
}

void window_forget(struct window_area *a, uint32_t number)
{
	const uint64_t pc = a->blocks[number].guest;

	forget(a, number);
	note_page(a, pc);
	note_page(a, pc + a->blocks[number].bytes - 1);
}

/* What jumps to the old block continues to the new one. */
static void take_change(struct window_area *a, const struct window_site *site)
{
	const uint32_t epoch = a->epoch;
	const uint32_t number = site->block;
	const uint64_t pc = site->guest;
	const uint32_t old = a->blocks[number].code;

	a->left += a->blocks[number].insns;
	a->result.changed++;
	window_forget(a, number);
	const uint32_t to = a->blocks[find(a, pc)].code;
	if (a->epoch == epoch) {
		patch(a, old + 1, to);
		*(volatile uint8_t *)(a->writable + old) = 0xe9;
	}
	a->jumps[pc & (WINDOW_JUMPS - 1)].negative = 1;
	a->jumps[pc & (WINDOW_JUMPS - 1)].code = 0;
	a->resume = code_at(a, to);
}

/* ---- restartable sequences ---- */

static void take_restartable(struct window_area *a, const struct window_site *site)
{
	struct {
		uint32_t version;
		uint32_t flags;
		uint64_t start;
		uint64_t bytes;
		uint64_t abort;
	} sequence;
	const struct window_block *block = &a->blocks[site->block];
	const uint64_t at = *(const uint64_t *)(a->regs.fs_base + a->rseq_offset);

	if (window_read(&sequence, at, sizeof(sequence)) == sizeof(sequence) &&
	    (block->guest - sequence.start < sequence.bytes ||
	     sequence.start - block->guest < block->bytes)) {
		a->left += block->insns;
		leave(a, block->guest, WINDOW_RESTARTABLE);
		return;
	}
	a->resume = code_at(a, site->code);
}

/* ---- hooks ---- */

static void take_hook(struct window_area *a, const struct window_site *site)
{
	const struct window_hooks *hooks = &a->request.hooks;
	const struct window_block *block = &a->blocks[site->block];
	const int is_block = site->kind == WINDOW_SITE_BLOCK;
	int ends;

	a->regs.r[INSN_RIP] = site->guest;
	if (!hooks->keeps_vectors)
		window_vectors_save(a);
	ends = is_block ? hooks->block(a, site->guest, site->aux) :
			  hooks->before(a, site->guest, site->aux);
	if (!hooks->keeps_vectors)
		window_vectors_restore(a);
	if (!ends) {
		a->resume = code_at(a, site->code);
		return;
	}
	/* The instructions of the block from here on do not run. */
	uint32_t mark = block->mark;
	while (a->marks[mark + 1].code <= site->code && mark + 1 < a->marks_used)
		mark++;
	a->left += block->insns - a->marks[mark].done;
	leave(a, site->guest, WINDOW_CALLBACK);
}

static void take_popf(struct window_area *a, const struct window_site *site)
{
	uint32_t flags = 0;

	if (window_read(&flags, a->regs.r[INSN_RSP], sizeof(flags)) == sizeof(flags) &&
	    flags & (WINDOW_TRAP_FLAG | ALIGNMENT_FLAG)) {
		a->left += a->blocks[site->block].insns - site->aux;
		leave(a, site->guest, WINDOW_INSTRUCTION);
		return;
	}
	a->resume = code_at(a, site->code);
}

/* The kernel's own result, and what it does to rcx and r11. */
static void take_result(struct window_area *a, const struct window_site *after, long result)
{
	a->regs.r[INSN_RAX] = (uint64_t)result;
	a->regs.r[INSN_RCX] = after->guest;
	a->regs.r[INSN_R11] = a->regs.flags;
	if (window_signal_waits(a))
		leave(a, after->guest, WINDOW_SIGNAL);
	else
		a->resume = code_at(a, after->code);
}

static void take_call(struct window_area *a, const struct window_site *site)
{
	enum window_reason reason;
	long result = 0;

	if (window_call_instead(a, &result)) {
		a->result.system_calls++;
		take_result(a, site + 1, result);
		return;
	}
	if (site->aux & WINDOW_CAN_STEP && window_call_steps(a) && !window_signal_waits(a)) {
		a->result.system_calls++;
		a->step_pc = site->guest;
		a->step_next = site[1].guest;
		go_to_pad(a);
		return;
	}
	reason = window_call_before(a);
	if (reason == WINDOW_RUNS) {
		a->result.system_calls++;
		a->resume = code_at(a, site->code);
		return;
	}
	a->left += a->blocks[site->block].insns - (site->aux & 0xffff);
	leave(a, site->guest, reason);
}

static void take_called(struct window_area *a, const struct window_site *site)
{
	window_call_after(a);
	a->resume = code_at(a, site->code);
}

static void take_leave(struct window_area *a, const struct window_site *site)
{
	if (site->aux == WINDOW_INSTRUCTION)
		window_read(a->result.bytes, site->guest, INSN_LENGTH_MAX);
	leave(a, site->guest, (enum window_reason)site->aux);
}

void window_dispatch(struct window_area *a)
{
	const struct window_site *site = &a->sites[a->site];

	switch (a->site ? site->kind : WINDOW_SITE_INDIRECT) {
	case WINDOW_SITE_EXIT:
		take_exit(a, site);
		break;
	case WINDOW_SITE_BUDGET:
		take_budget(a, site);
		break;
	case WINDOW_SITE_CHANGED:
		take_change(a, site);
		break;
	case WINDOW_SITE_RESTARTABLE:
		take_restartable(a, site);
		break;
	case WINDOW_SITE_LEAVE:
		take_leave(a, site);
		break;
	case WINDOW_SITE_CALL:
		take_call(a, site);
		break;
	case WINDOW_SITE_CALLED:
		take_called(a, site);
		break;
	case WINDOW_SITE_POPF:
		take_popf(a, site);
		break;
	case WINDOW_SITE_HOOK:
	case WINDOW_SITE_BLOCK:
		take_hook(a, site);
		break;
	default:
		take_indirect(a);
		break;
	}
}

/* ---- the begin ---- */

static int is_same_choice(const struct window_hooks *a, const struct window_hooks *b)
{
	return a->choose == b->choose && a->block == b->block;
}

void window_begin(struct window_area *a, const struct window_request *request)
{
	if (!is_same_choice(&a->request.hooks, &request->hooks))
		window_flush(a);
	a->request = *request;
	a->result = (struct window_result){ 0 };
	a->budget = request->instructions ? request->instructions : UINT64_MAX / 2;
	a->left = a->slice = 0;
	a->page_asked = 0;
	a->is_unmasked = 0;
	a->step_pc = a->step_next = 0;
	a->held_count = 0;
	a->regs.fs_base = (uint64_t)(uintptr_t)__builtin_thread_pointer();
	a->regs.gs_base = 0;
	a->regs.known = INSN_KNOWS_X86 | INSN_KNOWS_FLAGS | INSN_KNOWS_FS;
	next_slice(a);
	a->is_active = WINDOW_ACTIVE;
	go_to(a, a->regs.r[INSN_RIP]);
}
