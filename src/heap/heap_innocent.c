/* SPDX-License-Identifier: MIT */
/* heap_innocent.c - see heap_innocent.h. */
#include "heap/heap_innocent.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unwind.h>

#include "base/sys.h"
#include "heap/heap_copy.h"

#define LIBC_PARTS 2u
#define BACKWARDS 2u
#define LINE 64u
#define VECTOR_LEAST 16u
#define HALF 8u	    /* of the smallest vector */
#define UNROLLED 4u /* bytes at once, in libc's strspn() and strcspn() for a set of more than 16 */
#define OPCODE_BYTES 4u

/*
 * Code with string functions that read more than the string: libc's, and those of the dynamic
 * linker.
 */
static struct {
	uintptr_t start;
	uintptr_t end;
} libc[LIBC_PARTS];

/*
 * memrchr() reads the vector that ends where the memory does. strstr() reads at the string's end
 * what begins before it, and moves it.
 */
static const void *backwards[BACKWARDS];

static bool is_backwards(uint64_t pc)
{
	const void *function = _Unwind_FindEnclosingFunction((void *)(uintptr_t)pc);

	for (uint32_t i = 0; i < BACKWARDS; i++)
		if (function && backwards[i] == function)
			return true;
	return false;
}

static bool is_of_libc(uint64_t pc)
{
	for (uint32_t i = 0; i < LIBC_PARTS; i++)
		if (pc - libc[i].start < libc[i].end - libc[i].start)
			return true;
	return false;
}

bool heap_is_innocent_before(const struct insn_back_candidate *c, const struct heap_slot *slot)
{
	uint64_t line = slot->start & ~(uint64_t)(LINE - 1);

	if (c->access != INSN_READ || c->size < VECTOR_LEAST)
		return false;
	if (is_backwards(c->address))
		return true;
	if (!c->is_address_known)
		return line < slot->start;
	return !(c->touched & (c->size - 1)) && c->touched >= line && c->touched < line + LINE;
}

/*
 * strspn() and its kind read a word byte by byte, aligned, and inspect each only then. The string
 * had ended in that word.
 */
static bool is_in_last_word(const struct insn_back_candidate *c, const struct heap_slot *slot)
{
	const uint64_t end = slot->start + slot->bytes;
	const uint64_t word = c->touched & ~(uint64_t)(UNROLLED - 1);
	const uint64_t from = word > slot->start ? word : slot->start;
	char bytes[UNROLLED];

	if (!c->is_address_known || c->size != 1 || from >= end)
		return false;
	ssize_t n = sys_read_memory(sys_getpid(), from, bytes, end - from);
	return n > 0 && memchr(bytes, '\0', (size_t)n);
}

/* movhps or movhpd: they come behind an instruction that read the 8 bytes before. */
static bool is_upper_half(const struct insn_back_candidate *c, const struct heap_slot *slot)
{
	unsigned char code[OPCODE_BYTES];

	if (c->size != HALF || c->touched - HALF >= slot->start + slot->bytes ||
	    sys_read_memory(sys_getpid(), c->address, code, sizeof(code)) != sizeof(code))
		return false;
	for (uint32_t i = 0; i + 1 < sizeof(code); i++)
		if (code[i] == 0x0f && code[i + 1] == 0x16)
			return true;
	return false;
}

bool heap_is_innocent_behind(const struct insn_back_candidate *c, const struct heap_slot *slot)
{
	bool begins_in = !c->is_address_known || c->touched < slot->start + slot->bytes;

	if (c->access != INSN_READ || heap_copy_has(c->address))
		return false;
	if (c->size >= VECTOR_LEAST)
		return true;
	return is_of_libc(c->address) &&
	       (begins_in || is_in_last_word(c, slot) || is_upper_half(c, slot));
}

/* ---- begin ---- */

struct part {
	uintptr_t holds;
	uint32_t index;
};

static int libc_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct part *part = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD || part->holds - start >= segment->p_memsz)
			continue;
		libc[part->index].start = start;
		libc[part->index].end = start + segment->p_memsz;
		return 1;
	}
	return 0;
}

static void find_libc(void)
{
	static const char *const names[LIBC_PARTS] = { "strlen", "__tls_get_addr" };

	for (uint32_t i = 0; i < LIBC_PARTS; i++) {
		struct part part = { (uintptr_t)dlsym(RTLD_DEFAULT, names[i]), i };

		if (part.holds)
			dl_iterate_phdr(libc_visit, &part);
	}
}

void heap_innocent_start(void)
{
	static const char *const names[BACKWARDS] = { "memrchr", "strstr" };

	find_libc();
	for (uint32_t i = 0; i < BACKWARDS; i++)
		backwards[i] = dlsym(RTLD_DEFAULT, names[i]);
}
