/* SPDX-License-Identifier: MIT */
/*
 * window_translate.c - a block of the thread's code becomes code in the cache: see window.h.
 *
 * A block begins with its budget, the check for a restartable sequence, and the comparison of its
 * bytes. These change no flag: comparisons are additions by lea, and jrcxz. Then come the copies,
 * and at the end the branch, whose targets are found by window_dispatch() and are then jumped to
 * directly.
 */
#include "code/window/window_translate.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>

#include "base/memory.h"
#include "base/sys.h"
#include "code/insn/relocate.h"
#include "code/poke/poke_view.h"
#include "code/poke/quiesce.h"
#include "code/poke/traps.h"
#include "code/probe/code_probe.h"
#include "code/window/window_emit.h"

#define POPULATE_WRITE 23  /* MADV_POPULATE_WRITE, Linux commit 4ca9b3859dac (v5.14) */
#define CODE_RESERVE 8192u /* a block is never longer */
#define TABLE_RESERVE 256u /* sites and marks of one block */

uint32_t window_site_add(struct window_build *b, enum window_site_kind kind, uint64_t guest,
			 uint32_t aux)
{
	struct window_area *a = b->area;

	a->sites[a->sites_used] = (struct window_site){
		.kind = kind,
		.block = b->number,
		.guest = guest,
		.aux = aux,
	};
	return a->sites_used++;
}

void window_mark_add(struct window_build *b, unsigned int saved, unsigned int other)
{
	struct window_area *a = b->area;

	a->marks[a->marks_used++] = (struct window_mark){
		.code = a->used,
		.offset = (uint8_t)b->bytes,
		.done = (uint8_t)b->insns,
		.saved = (uint8_t)saved,
		.other = (uint8_t)other,
	};
}

struct window_mark *window_mark_done(struct window_build *b, unsigned int length)
{
	window_mark_add(b, 0, 0);
	struct window_mark *mark = &b->area->marks[b->area->marks_used - 1];

	mark->offset = (uint8_t)(b->bytes + length);
	mark->done = (uint8_t)(b->insns + 1);
	return mark;
}

/* ---- before the first instruction ---- */

/* Where the cold parts are jumped to. */
struct cold {
	uint32_t budget;
	uint32_t restartable;
	uint32_t changed[WINDOW_BLOCK_BYTES / 4 + 2];
	uint32_t changed_count;
	uint32_t restartable_site;
	uint32_t insns_at; /* the number of instructions, known at the end */
	uint32_t left_at;
};

/* jrcxz over a jump; the offset of the jump's distance. */
static uint32_t emit_unless_zero(struct window_area *a)
{
	emit(a, "\xe3\x05", 2);
	return emit_jump(a, a->used);
}

static void emit_budget(struct window_area *a, struct cold *cold)
{
	emit_store(a, EMIT_RCX, &a->spill_rcx);
	emit_load(a, EMIT_RCX, &a->left);
	emit(a, "\x48\x8d\x89", 3); /* lea -insns(%rcx), %rcx */
	cold->insns_at = a->used;
	emit_4(a, 0);
	emit_store(a, EMIT_RCX, &a->left);
	emit(a, "\x8b\x0d", 2); /* mov left + 4, %ecx: 0 unless negative */
	emit_field(a, (char *)&a->left + 4, 0);
	cold->budget = emit_unless_zero(a);
}

static void emit_restartable(struct window_build *b, struct cold *cold)
{
	struct window_area *a = b->area;

	emit(a, "\x64\x48\x8b\x0c\x25", 5); /* mov %fs:offset, %rcx */
	emit_4(a, (uint32_t)a->rseq_offset);
	cold->restartable = emit_unless_zero(a);
	cold->restartable_site = window_site_add(b, WINDOW_SITE_RESTARTABLE, b->pc, 0);
	a->sites[cold->restartable_site].code = a->used;
}

/* Loads n (4, 2 or 1) bytes of the program's text into %ecx. */
static void emit_text_load(struct window_area *a, uint64_t from, unsigned int n)
{
	const char *opcode = n == 4 ? "\x8b" : n == 2 ? "\x0f\xb7" : "\x0f\xb6";
	const unsigned int opcode_bytes = n == 4 ? 1 : 2;
	const int64_t distance = (int64_t)(from - (emit_pc(a) + opcode_bytes + 5));

	if (distance == (int32_t)distance) {
		emit(a, opcode, opcode_bytes);
		emit_1(a, 0x0d);
		emit_4(a, (uint32_t)distance);
	} else {
		emit_constant(a, EMIT_RCX, from);
		emit(a, opcode, opcode_bytes);
		emit_1(a, 0x09);
	}
}

static void emit_compare_at(struct window_build *b, unsigned int at, unsigned int n,
			    struct cold *cold)
{
	struct window_area *a = b->area;
	uint32_t expected = 0;

	memcpy(&expected, b->found + at, n);
	emit_text_load(a, b->pc + at, n);
	emit(a, "\x8d\x89", 2); /* lea -expected(%rcx), %ecx */
	emit_4(a, -expected);
	cold->changed[cold->changed_count++] = emit_unless_zero(a);
}

static void emit_compare(struct window_build *b, unsigned int bytes, struct cold *cold)
{
	unsigned int at = 0;

	for (; at + 4 <= bytes; at += 4)
		emit_compare_at(b, at, 4, cold);
	if (at == bytes)
		return;
	if (bytes >= 4)
		emit_compare_at(b, bytes - 4, 4, cold);
	else if (bytes == 3)
		emit_compare_at(b, 0, 2, cold);
	if (bytes == 3)
		emit_compare_at(b, 2, 1, cold);
	else if (bytes < 3)
		emit_compare_at(b, 0, bytes, cold);
}

/* By a store, or by the kernel in a system call. */
static int may_write(const struct insn *insn)
{
	for (unsigned int i = 0; i < insn->memory_count; i++)
		if (insn->memory[i].access & INSN_WRITE)
			return 1;
	return insn->kind == INSN_SYSCALL || insn->flags & INSN_MORE_MEMORY;
}

/*
 * Text of an object that the loader knows changes only where it can be written to. The kernel shows
 * this: MADV_POPULATE_WRITE of Linux 5.14 fails elsewhere. Before, it is taken for text that
 * cannot. All other text is made by a runtime, which may write to it by another mapping.
 */
static int own_text_changes(uint64_t pc)
{
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)pc, &object))
		return 1;
	return !sys3(SYS_madvise, pc & ~(uint64_t)(PAGE_BYTES - 1), PAGE_BYTES, POPULATE_WRITE);
}

static int page_changes(struct window_area *a, uint64_t pc)
{
	const uint64_t page = pc / PAGE_BYTES;

	if (a->page_asked != page) {
		a->page_changes = (uint32_t)(a->request.changes	  ? a->request.changes(a, pc) :
					     a->request.read_text ? 0 :
								    own_text_changes(pc));
		a->page_asked = page;
	}
	return (int)a->page_changes;
}

/* The bytes of the block end in the same page mostly. */
static int text_changes(struct window_build *b, unsigned int bytes)
{
	return page_changes(b->area, b->pc + bytes - 1) ||
	       (b->pc / PAGE_BYTES != (b->pc + bytes - 1) / PAGE_BYTES &&
		page_changes(b->area, b->pc));
}

/* Up to its first store. */
static void cut(struct window_build *b)
{
	unsigned int at = 0;

	for (unsigned int i = 0; i + 1 < b->planned; i++) {
		at += b->decoded[i].length;
		if (!may_write(&b->decoded[i]))
			continue;
		b->most = b->planned = i + 1;
		b->planned_bytes = at;
		return;
	}
}

/* How many bytes and instructions the block will have, so that the comparison can come first. */
static void measure(struct window_build *b)
{
	int (*const refuses)(const struct insn *, const uint8_t *) = b->area->request.refuses;
	unsigned int at = 0;

	b->planned = 0;
	while (b->planned < b->most && at < WINDOW_BLOCK_BYTES - INSN_LENGTH_MAX) {
		struct insn *insn = &b->decoded[b->planned];

		if (insn_decode_x86_64(b->text + at, b->readable - at, insn) ||
		    window_form_refuses(insn, b->text + at) || b->pc + at == b->end_pc ||
		    (refuses && refuses(insn, b->text + at)))
			break;
		b->planned++;
		at += insn->length;
		if (window_form_ends(insn, b->text + at - insn->length))
			break;
	}
	b->planned_bytes = at;
	if (b->planned > 1 && text_changes(b, at))
		cut(b);
}

/* Ends the window before the instruction at pc, or states why there is no code at it. */
static void emit_leave(struct window_build *b, uint64_t pc)
{
	const unsigned int at = b->bytes;
	struct insn insn;
	uint32_t reason = WINDOW_INSTRUCTION;
	const int err = insn_decode_x86_64(b->text + at, b->readable - at, &insn);

	if (pc == b->end_pc)
		reason = WINDOW_ENDED;
	else if (err == -ENODATA)
		reason = WINDOW_UNREADABLE;
	emit_site(b->area, window_site_add(b, WINDOW_SITE_LEAVE, pc, reason));
}

void window_emit_exit(struct window_build *b, uint32_t distance_at, uint64_t target)
{
	struct window_area *a = b->area;

	emit_patch(a, distance_at, a->used);
	const uint32_t site = window_site_add(b, WINDOW_SITE_EXIT, target, 0);
	a->sites[site].code = distance_at;
	emit_site(a, site);
}

static void emit_hook(struct window_build *b, enum window_site_kind kind, uint64_t pc,
		      uint32_t number)
{
	struct window_area *a = b->area;
	const uint32_t site = window_site_add(b, kind, pc, number);

	emit_site(a, site);
	a->sites[site].code = a->used;
}

static void emit_insns(struct window_build *b)
{
	struct window_area *a = b->area;
	const struct window_hooks *hooks = &a->request.hooks;

	if (hooks->block && b->planned)
		emit_hook(b, WINDOW_SITE_BLOCK, b->pc, b->planned);
	for (unsigned int i = 0; i < b->planned; i++) {
		const struct insn *insn = &b->decoded[i];
		const uint64_t pc = b->pc + b->bytes;
		const uint32_t number =
			hooks->choose ? hooks->choose(a, pc, insn, b->text + b->bytes) : 0;

		window_mark_add(b, 0, 0);
		if (number)
			emit_hook(b, WINDOW_SITE_HOOK, pc, number);
		window_form_emit(b, insn, b->text + b->bytes);
		b->bytes += insn->length;
		b->insns++;
	}
	if (b->is_ended)
		return;
	const uint64_t next = b->pc + b->bytes;
	window_mark_add(b, 0, 0);
	if (b->planned == b->most || b->bytes >= WINDOW_BLOCK_BYTES - INSN_LENGTH_MAX)
		window_emit_exit(b, emit_jump(a, a->used), next);
	else
		emit_leave(b, next);
}

static void emit_cold(struct window_build *b, struct cold *cold)
{
	struct window_area *a = b->area;

	if (b->push_at) {
		emit_patch(a, b->push_at, a->used);
		emit_8(a, b->push_value);
	}
	emit_patch(a, cold->budget, a->used);
	emit_load(a, EMIT_RCX, &a->spill_rcx);
	emit_site(a, window_site_add(b, WINDOW_SITE_BUDGET, b->pc, b->planned));
	if (a->rseq_offset) {
		emit_patch(a, cold->restartable, a->used);
		emit_load(a, EMIT_RCX, &a->spill_rcx);
		emit_site(a, cold->restartable_site);
	}
	for (uint32_t i = 0; i < cold->changed_count; i++)
		emit_patch(a, cold->changed[i], a->used);
	if (!cold->changed_count)
		return;
	emit_load(a, EMIT_RCX, &a->spill_rcx);
	emit_site(a, window_site_add(b, WINDOW_SITE_CHANGED, b->pc, b->planned));
}

static int is_changing(const struct window_area *a, uint64_t pc)
{
	for (uint32_t i = 0; i < a->pages_used; i++)
		if (a->pages[i] == pc >> 12)
			return 1;
	return a->pages_used == WINDOW_PAGES;
}

static int has_room(const struct window_area *a)
{
	return a->used + CODE_RESERVE <= WINDOW_CODE_BYTES && a->blocks_used < WINDOW_BLOCKS_MAX &&
	       a->sites_used + TABLE_RESERVE <= WINDOW_SITES_MAX &&
	       a->marks_used + TABLE_RESERVE <= WINDOW_MARKS_MAX &&
	       a->operands_used + TABLE_RESERVE <= WINDOW_OPERANDS_MAX;
}

static void keep(struct window_area *a, int number, uint64_t pc)
{
	uint32_t *row = &a->hash[window_hash(pc)];

	a->blocks[number].next = *row;
	*row = (uint32_t)number;
}

/* Under an int3 of Trapline is an instruction of the program. */
static void read_under_traps(struct window_build *b)
{
	const struct quiesce_ticket inside = quiesce_enter();
	const struct trap_table *table = atomic_get(&poke_view.traps);

	for (unsigned int i = 0; table && i < b->readable; i++) {
		const struct trap_row *row = NULL;

		if (b->found[i] == INT3)
			row = traps_find(table, b->pc + i);
		if (row)
			b->text[i] = row->bytes[0];
	}
	quiesce_leave(inside);
}

static void read_text(struct window_build *b)
{
	const struct window_request *request = &b->area->request;

	if (request->read_text) {
		b->readable =
			(unsigned int)request->read_text(b->area, b->text, b->pc, sizeof(b->text));
		memcpy(b->found, b->text, b->readable);
		return;
	}
	b->readable = (unsigned int)window_read(b->text, b->pc, sizeof(b->text));
	memcpy(b->found, b->text, b->readable);
	read_under_traps(b);
	code_probe_read_under(b->pc, b->text, b->readable);
	for (uint32_t i = 0; i < request->text_bytes; i++)
		if (request->text_at + i - b->pc < b->readable)
			b->text[request->text_at + i - b->pc] = request->text[i];
}

int window_translate(struct window_area *a, uint64_t pc, unsigned int most, int is_kept)
{
	struct window_build build;
	struct window_build *b = &build;
	struct cold cold;

	if (!has_room(a)) {
		window_flush(a);
		a->result.flushes++;
	}
	b->area = a;
	b->pc = pc;
	b->end_pc = a->request.read_text ? UINT64_MAX : (uint64_t)(uintptr_t)window_end;
	b->number = a->blocks_used++;
	b->bytes = 0;
	b->insns = 0;
	b->is_ended = 0;
	b->push_at = 0;
	b->most = most < WINDOW_BLOCK_INSNS ? most : WINDOW_BLOCK_INSNS;
	if (b->most > 1 && is_changing(a, pc))
		b->most = 1;
	read_text(b);
	measure(b);
	a->blocks[b->number] = (struct window_block){
		.guest = pc,
		.code = a->used,
		.mark = a->marks_used,
		.insns = (uint16_t)b->planned,
		.bytes = (uint16_t)b->planned_bytes,
	};
	cold.changed_count = 0;
	window_mark_add(b, 0, 0);
	emit_budget(a, &cold);
	window_mark_add(b, WINDOW_SAVED_RCX, 0);
	emit_patch(a, cold.insns_at, 0);
	const uint32_t minus = -b->planned;
	memcpy(a->writable + cold.insns_at, &minus, 4);
	if (a->rseq_offset)
		emit_restartable(b, &cold);
	emit_compare(b, b->planned_bytes, &cold);
	emit_load(a, EMIT_RCX, &a->spill_rcx);
	emit_insns(b);
	emit_cold(b, &cold);
	a->result.translated += b->planned;
	a->result.blocks++;
	if (is_kept)
		keep(a, (int)b->number, pc);
	return (int)b->number;
}
