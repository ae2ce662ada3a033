/* SPDX-License-Identifier: MIT */
/*
 * race_modules.c - the object that an address belongs to, and whether its code is
 * searched.
 *
 * glibc's _dl_find_object() (2.35) answers without a lock. Addresses that it does not
 * know (code made at run time, memory of the program) have no object.
 */
#include "race/race_modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/own_code.h"
#include "base/sys.h"
#include "base/table_size.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "race/race_state.h"
#include "record/race_region.h"
#include "record/race_runtimes.h"

#define MODULES TABLE_SIZE(256u, 6u)
#define HEADERS_MAX 64u

static struct race_module modules[MODULES];

char race_program_path[496];
struct race_function race_functions[RACE_FUNCTIONS];
int race_function_count;

TRAP_PATH static enum race_policy policy_of_path(const char *path)
{
	switch (race_runtime_of(path)) {
	case RACE_RUNTIME_NONE:
		return RACE_CODE_INCLUDED;
	case RACE_RUNTIME_LIBC:
		return RACE_CODE_LIBC;
	default:
		return RACE_CODE_EXCLUDED;
	}
}

TRAP_PATH int race_copy(uint64_t address, void *to, size_t n)
{
	return sys_read_memory(race.pid, address, to, n) == (ssize_t)n;
}

/* The largest stretch of code: what lies between two need not be mapped. All that is writable. */
TRAP_PATH static void take_segment(struct race_module *m, const ElfW(Phdr) * ph)
{
	uint64_t from = m->bias + ph->p_vaddr;

	if (ph->p_type == PT_GNU_RELRO) {
		m->relro_start = from;
		m->relro_end = from + ph->p_memsz;
		return;
	}
	if (ph->p_flags & PF_X && ph->p_flags & PF_R &&
	    ph->p_filesz > m->text_end - m->text_start) {
		m->text_start = from;
		m->text_end = from + ph->p_filesz;
	}
	if (!(ph->p_flags & PF_W))
		return;
	if (!m->data_end || from < m->data_start)
		m->data_start = from;
	if (from + ph->p_memsz > m->data_end)
		m->data_end = from + ph->p_memsz;
}

/* Objects are looked up without a row of the process too. */
TRAP_PATH static void count_lost(void)
{
	if (race.process)
		race_count(RACE_LOST_TABLES);
}

/* The headers are at the beginning of an object. Copied by the kernel: it cannot fault. */
TRAP_PATH static void read_segments(struct race_module *m)
{
	ElfW(Ehdr) ehdr;
	ElfW(Phdr) ph;

	if (!race_copy(m->start, &ehdr, sizeof(ehdr)) || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0)
		return;
	/*
	 * Without the later ones its calls have no names, and what is behind them need not be code.
	 */
	if (ehdr.e_phnum > HEADERS_MAX) {
		count_lost();
		return;
	}
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		if (!race_copy(m->start + ehdr.e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return;
		if (ph.p_type == PT_DYNAMIC)
			m->dynamic = m->bias + ph.p_vaddr;
		if (ph.p_type == PT_LOAD || ph.p_type == PT_GNU_RELRO)
			take_segment(m, &ph);
	}
}

TRAP_PATH static void modules_fill(struct race_module *m, const struct dl_find_object *object)
{
	const struct link_map *map = object->dlfo_link_map;
	const char *path = map->l_name && *map->l_name ? map->l_name : race_program_path;
	int file = race_add_file(race.region, path);

	m->start = (uintptr_t)object->dlfo_map_start;
	m->end = (uintptr_t)object->dlfo_map_end;
	m->bias = map->l_addr;
	m->eh_frame = object->dlfo_eh_frame;
	m->policy = policy_of_path(path);
	m->file = file > 0 ? (uint64_t)file : 0;
	if (file > 0 && m->policy == RACE_CODE_INCLUDED)
		atomic_set(&race.region->files[file].is_included, 1u);
	if (file <= 0)
		count_lost();
	read_segments(m);
	m->has_own_code = (uintptr_t)modules_fill - m->text_start < m->text_end - m->text_start;
	m->code = (const uint8_t *)(uintptr_t)m->text_start;
	atomic_set(&m->ready, 1u);
}

/* may_add: it gets a row if it has none. */
TRAP_PATH static const struct race_module *module_at(uint64_t address, int may_add)
{
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)address, &object))
		return NULL;
	/* An object that was closed, and another one at its address, differ in one of these. */
	uint64_t key = ((uintptr_t)object.dlfo_link_map << 1) ^ (uintptr_t)object.dlfo_map_start ^
		       (uint64_t)(uintptr_t)object.dlfo_map_end << 20 ^
		       (uint64_t)(uintptr_t)object.dlfo_eh_frame * HASH_MIX;
	uint64_t hash = key * HASH_MIX >> 32;

	for (uint32_t n = 0; n < MODULES; n++) {
		struct race_module *m = &modules[(hash + n) % MODULES];
		uint64_t held = atomic_get(&m->key);

		if (!held && !may_add)
			return NULL;
		if (!held && atomic_cas(&m->key, &held, key))
			modules_fill(m, &object);
		if (held && held != key)
			continue;
		return atomic_get(&m->ready) ? m : NULL;
	}
	if (may_add)
		count_lost();
	return NULL;
}

TRAP_PATH const struct race_module *race_module_of(uint64_t address)
{
	return module_at(address, 1);
}

void race_modules_forget(void)
{
	memset(modules, 0, sizeof(modules));
}

int race_module_keep_code(const struct race_module *module)
{
	struct race_module *m = &modules[module - modules];
	size_t bytes = m->text_end - m->text_start;
	uint8_t *copy_of = memory_map(bytes ? bytes : 1);

	if (memory_failed(copy_of))
		return memory_error(copy_of);
	if (!race_copy(m->text_start, copy_of, bytes)) {
		memory_unmap(copy_of, bytes);
		return -EFAULT;
	}
	atomic_set(&m->code, copy_of);
	return 0;
}

const uint8_t *race_kept_code(uint64_t address, uint64_t *bytes)
{
	const struct race_module *m = module_at(address, 0);

	if (!m || address - m->text_start >= m->text_end - m->text_start ||
	    m->code == (const uint8_t *)(uintptr_t)m->text_start)
		return NULL;
	*bytes = m->text_end - address;
	return race_code(m, address);
}

TRAP_PATH uint64_t race_place_in(const struct race_module *module, uint64_t address)
{
	if (!module || !module->file)
		return address & RACE_PLACE_MASK;
	return module->file << RACE_PLACE_BITS | ((address - module->bias) & RACE_PLACE_MASK);
}

TRAP_PATH uint64_t race_place_of(uint64_t address)
{
	return race_place_in(race_module_of(address), address);
}

TRAP_PATH void race_note_atomic(uint64_t place)
{
	struct race_site *site;

	if (place <= RACE_PLACE_MASK) /* of no file: a heap block, which will be another one */
		return;
	site = race_add_site(race.region, place);
	if (!site)
		race_count(RACE_LOST_TABLES);
	else if (!counter_get(&site->is_atomic))
		atomic_set(&site->is_atomic, 1u);
}

TRAP_PATH static const struct race_function *function_at(uint64_t pc)
{
	for (int i = 0; i < race_function_count; i++) {
		const struct race_function *f = &race_functions[i];
		if (pc - f->start < f->end - f->start)
			return f;
	}
	return NULL;
}

TRAP_PATH unsigned int race_block_access(uint64_t pc)
{
	const struct race_function *f = function_at(pc);

	return f ? f->access : 0;
}

/*
 * glibc's variants for AVX2, where the arguments are still where they came, unless a page ends near
 * (sysdeps/x86_64/multiarch/memcmp-avx2-movbe.S, L(less_vec)). Those of more are exact.
 */
TRAP_PATH int race_block_clip(uint64_t pc, const struct insn_regs *regs, uint64_t address,
			      uint32_t *size)
{
	const struct race_function *f = function_at(pc);
	uint64_t given = regs->r[INSN_RDX];

	if (!f || !f->compares || given >= *size ||
	    (address != regs->r[INSN_RDI] && address != regs->r[INSN_RSI]))
		return 0;
	*size = (uint32_t)given;
	return 1;
}

TRAP_PATH int race_is_own_code(const struct race_module *module, uint64_t pc)
{
	return module->has_own_code && own_code_has(pc);
}

TRAP_PATH enum race_policy race_policy_of(uint64_t pc, const struct race_module **module)
{
	*module = race_module_of(pc);
	if (!*module || pc < (*module)->text_start || pc >= (*module)->text_end)
		return RACE_CODE_EXCLUDED;
	return race_is_own_code(*module, pc) ? RACE_CODE_EXCLUDED : (*module)->policy;
}

TRAP_PATH void race_code_at(uint64_t pc, struct race_code *out)
{
	out->policy = race_policy_of(pc, &out->module);
	out->place = race_place_in(out->module, pc);
	out->allowed = out->policy == RACE_CODE_LIBC ? race_block_access(pc) : RACE_READ_WRITE;
}
