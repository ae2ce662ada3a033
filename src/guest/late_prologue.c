/* SPDX-License-Identifier: MIT */
/* late_prologue.c - see late_prologue.h. */
#include "guest/late_prologue.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/sys.h"
#include "code/insn/insn.h"
#include "code/poke/change.h"
#include "code/poke/text.h"

#define RSP_BIT (1u << 7)
/* rax, r10, r11: no argument, and not kept over calls. */
#define FREE_REGISTERS (1u << 0 | 1u << 10 | 1u << 11)
#define JUMP_BYTES 14u
#define CODE_BYTES 16384u
#define FUNCTION_MOST 65536u

/* 50+r, or 41 50+r: the number in the order of the machine. */
static int pushed_register(const uint8_t *text, const struct insn *insn)
{
	if (insn->length == 1 && text[0] >= 0x50 && text[0] <= 0x57)
		return text[0] - 0x50;
	if (insn->length == 2 && text[0] == 0x41 && text[1] >= 0x50 && text[1] <= 0x57)
		return text[1] - 0x50 + 8;
	return -1;
}

static bool undo_first(struct late_prologue *p, const uint8_t *insn, uint32_t n)
{
	if (p->undo_bytes + n > PROLOGUE_BYTES)
		return false;
	memmove(p->undo + n, p->undo, p->undo_bytes);
	memcpy(p->undo, insn, n);
	p->undo_bytes += n;
	return true;
}

static bool undo_push(struct late_prologue *p, const uint8_t *push, uint32_t n)
{
	if (!undo_first(p, push, n))
		return false;
	p->undo[n - 1] += 8; /* pop */
	return true;
}

/* sub $n, %rsp, of one byte; undone by lea n(%rsp), %rsp. */
static bool undo_sub(struct late_prologue *p, const uint8_t *text, const struct insn *insn)
{
	const uint8_t lea[] = { 0x48, 0x8d, 0x64, 0x24, text[3] };

	return insn->length == 4 && text[0] == 0x48 && text[1] == 0x83 && text[2] == 0xec &&
	       text[3] < 0x80 && undo_first(p, lea, sizeof(lea));
}

static bool is_plain(const struct late_prologue *p, const struct insn *insn)
{
	return (insn->kind == INSN_OTHER || insn->kind == INSN_NOP || insn->kind == INSN_LANDING) &&
	       !(insn->flags & (INSN_PC_RELATIVE | INSN_CHANGES_SP | INSN_VECTOR | INSN_PRIVILEGED |
				INSN_NOT_RELOCATABLE)) &&
	       !insn->memory_count &&
	       !(insn->writes & ~(uint64_t)(FREE_REGISTERS | (p->pushed & ~RSP_BIT)));
}

static size_t size_of_function(uint64_t entry)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!dladdr1((void *)(uintptr_t)entry, &info, (void **)&symbol, RTLD_DL_SYMENT) ||
	    !symbol || (uintptr_t)info.dli_saddr != entry)
		return 0;
	return symbol->st_size <= FUNCTION_MOST ? symbol->st_size : 0;
}

/* A loop in the function could come there with a stack that is another one. */
static bool is_branch_target(uint64_t entry, uint64_t at)
{
	size_t size = size_of_function(entry);
	const uint8_t *text = (const uint8_t *)(uintptr_t)entry;
	struct insn insn;

	for (size_t i = 0; i < size; i += insn.length) {
		if (insn_decode(text + i, size - i, &insn))
			return true;
		if ((insn.kind == INSN_JUMP || insn.kind == INSN_JUMP_CONDITIONAL) &&
		    entry + i + (uint64_t)insn.target == at)
			return true;
	}
	return !size;
}

bool late_prologue_step(struct late_prologue *p)
{
	/* DWARF numbers in the order of the machine. */
	static const uint8_t numbers[] = { 0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15 };
	const uint8_t *text = (const uint8_t *)(uintptr_t)p->entry + p->bytes;
	struct insn insn;

	if (insn_decode(text, INSN_LENGTH_MAX, &insn) || p->bytes + insn.length > PROLOGUE_BYTES)
		return false;
	int pushed = pushed_register(text, &insn);
	if (pushed >= 0) {
		if (!undo_push(p, text, insn.length))
			return false;
		p->pushed |= 1u << numbers[pushed];
	} else if (!is_plain(p, &insn) && !undo_sub(p, text, &insn)) {
		return false;
	}
	memcpy(p->copy + p->bytes, text, insn.length);
	p->bytes += insn.length;
	return !is_branch_target(p->entry, p->entry + p->bytes);
}

/* jmp *0(%rip), and where to. */
static uint32_t put(uint8_t *out, const uint8_t *bytes, uint32_t n, uint64_t to)
{
	static const uint8_t jump[] = { 0xff, 0x25, 0, 0, 0, 0 };

	memcpy(out, bytes, n);
	memcpy(out + n, jump, sizeof(jump));
	memcpy(out + n + sizeof(jump), &to, sizeof(to));
	return n + JUMP_BYTES;
}

int late_prologue_code(const struct late_prologue *p, uint64_t guard, uint64_t resume,
		       uint64_t *to_guard, uint64_t *original)
{
	static uint64_t memory;
	static uint32_t used;
	uint8_t code[2 * (PROLOGUE_BYTES + JUMP_BYTES)];
	uint32_t first = put(code, p->undo, p->undo_bytes, guard);
	uint32_t n = first + put(code + first, p->copy, p->bytes, resume);
	struct code_problem problem;

	if (!memory) {
		void *at = (void *)sys6(SYS_mmap, 0, CODE_BYTES, PROT_READ | PROT_EXEC,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory_failed(at))
			return memory_error(at);
		memory = (uintptr_t)at;
	}
	if (used + n > CODE_BYTES)
		return -ENOSPC;
	int err = poke_lock_take(&problem);
	if (err)
		return err;
	err = text_write_fresh(memory + used, code, n);
	poke_lock_give();
	if (err)
		return err;
	*to_guard = memory + used;
	*original = memory + used + first;
	used += (n + 15) & ~15u;
	return 0;
}
