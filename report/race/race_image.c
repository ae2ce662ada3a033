/* SPDX-License-Identifier: MIT */
/*
 * race_image.c - how many accesses could have been stalled, in the objects whose code
 * threads ran?
 *
 * The count comes from the files after the run, by decoding their code from the start;
 * the target does none of this. A sweep lists fewer sites, because it excludes accesses
 * that it proves to be in the own frame. Here accesses through the stack and frame
 * pointers are excluded. Large code is sampled by evenly spaced pages, so the number is
 * approximate.
 */
#include "report/race/race_report.h"
#include "report/race/race_totals.h"

#include "report/dwarf/sections.h"
#include "report/safe/busy.h"
#include "report/safe/target_file.h"

#include "base/memory.h"
#include "code/insn/insn.h"

#include <gelf.h>
#include <string.h>
#include <unistd.h>

#define PAGES_MAX 256u /* decoded in one object */
/* A target can name more objects than any program has: later ones are sampled by fewer pages. */
#define PAGES_LATER 8u
#define OBJECTS_FIRST 32u

static bool is_access(const struct insn *insn)
{
	if (insn->flags & (INSN_ATOMIC | INSN_HINT | INSN_PRIVILEGED) ||
	    (insn->kind != INSN_OTHER && insn->kind != INSN_STRING))
		return false;
	for (unsigned int i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];

		if (m->access && m->size && !m->segment && m->base != INSN_RSP &&
		    m->base != INSN_RBP &&
		    !(m->flags & (INSN_MEM_LANES | INSN_MEM_NOT_COMPUTABLE)) &&
		    (!(m->flags & INSN_MEM_IMPLICIT) || insn->kind == INSN_STRING))
			return true;
	}
	return false;
}

/* A decoding that began in the middle of an instruction finds its way after some of them. */
static uint64_t count_bytes(const unsigned char *code, size_t n)
{
	uint64_t count = 0;

	for (size_t at = 0; at < n;) {
		struct insn insn;
		size_t left = n - at;

		if (insn_decode(code + at, left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX,
				&insn)) {
			at++;
			continue;
		}
		count += is_access(&insn);
		at += insn.length;
	}
	return count;
}

/* Decodes at most so many pages, which it subtracts from *left. */
static uint64_t count_section(const unsigned char *code, size_t n, size_t *left)
{
	size_t pages = (n + PAGE_BYTES - 1) / PAGE_BYTES;
	size_t taken = pages < *left ? pages : *left;
	uint64_t bytes = 0;
	uint64_t count = 0;

	for (size_t i = 0; i < taken; i++) {
		size_t from = pages * i / taken * PAGE_BYTES;
		size_t length = n - from < PAGE_BYTES ? n - from : PAGE_BYTES;

		count += count_bytes(code + from, length);
		bytes += length;
	}
	*left -= taken;
	return bytes ? (uint64_t)((double)count * (double)n / (double)bytes) : 0;
}

static uint64_t count_object(Elf *elf, size_t pages)
{
	uint64_t count = 0;
	Elf_Scn *scn = NULL;
	const char *name;
	GElf_Shdr sh;

	while (pages && (name = section_next(elf, &scn, &sh))) {
		if (strcmp(name, ".text") != 0 || sh.sh_type != SHT_PROGBITS)
			continue;
		Elf_Data *data = elf_rawdata(scn, NULL);
		if (data && data->d_buf)
			count += count_section(data->d_buf, data->d_size, &pages);
	}
	return count;
}

static uint64_t count_file(const char *path, size_t pages)
{
	BUSY;
	int fd = target_file_open(path);
	uint64_t count = 0;

	if (fd < 0)
		return 0;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (elf && gelf_getclass(elf) == ELFCLASS64)
		count = count_object(elf, pages);
	elf_end(elf);
	close(fd);
	return count;
}

void race_count_sites(const struct race_region *region, pid_t root, struct race_totals *out)
{
	char name[sizeof(region->files[0].path)];
	char path[sizeof(name) + 32];

	if (out->is_sweep || out->is_replay)
		return;
	for (uint32_t i = 1; i < RACE_FILES; i++) {
		const struct race_file *file = &region->files[i];

		if (!file->ready || !file->is_included)
			continue;
		memcpy(name, file->path, sizeof(name));
		name[sizeof(name) - 1] = '\0';
		target_file_name(root, name, path, sizeof(path));
		bool is_first = out->objects + out->objects_unread < OBJECTS_FIRST;
		uint64_t count = count_file(path, is_first ? PAGES_MAX : PAGES_LATER);
		out->sites_there += count;
		out->objects += count != 0;
		out->objects_unread += count == 0;
	}
}
