/* SPDX-License-Identifier: MIT */
/*
 * symbols_mapped.c - the symbols of a process that has ended, from the list of files that it had mapped.
 *
 * Where an object was loaded follows from one of its mappings and the program header that asked for it.
 */
#include "report/dwarf/debuginfod.h"
#include "report/dwarf/symbols_priv.h"
#include "report/safe/busy.h"
#include "report/safe/target_file.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_MASK (~4095ull)

/* All files are given. */
static int find_none(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		     char **file_name, Elf **elf)
{
	return -1;
}

/* How far the addresses of the process are from those in the file. false: it is no mapping of its code. */
static bool read_bias(int fd, const struct symbols_mapping *m, uint64_t *bias)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	bool is_found = false;
	size_t count = 0;
	GElf_Phdr header;

	if (elf && elf_getphdrnum(elf, &count))
		count = 0;
	for (size_t i = 0; i < count && !is_found; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    !(header.p_flags & PF_X) || m->offset < (header.p_offset & PAGE_MASK) ||
		    m->offset >= header.p_offset + header.p_filesz)
			continue;
		*bias = m->start - m->offset + header.p_offset - header.p_vaddr;
		is_found = true;
	}
	elf_end(elf);
	return is_found;
}

/* Its name may lead to another file by now, or lead elsewhere for the process. */
static bool is_the_file(int fd, const struct symbols_mapping *m)
{
	struct stat st;

	return !fstat(fd, &st) && (uint64_t)st.st_ino == m->inode;
}

static void add_mapping(struct symbols *s, const struct symbols_mapping *m)
{
	void **userdata;
	uint64_t bias;
	int fd = target_file_open(m->path);

	if (fd < 0)
		return;
	Dwfl_Module *mod = is_the_file(fd, m) && read_bias(fd, m, &bias) ?
				   dwfl_report_elf(s->dwfl, m->path, m->path, fd, bias, true) :
				   NULL;
	if (!mod) {
		close(fd);
		return;
	}
	dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = s;
	if (!s->exe[0])
		snprintf(s->exe, sizeof(s->exe), "%s", m->path);
}

int symbols_open_mapped(const struct symbols_mapping *mappings, size_t n, struct symbols **out)
{
	BUSY;
	struct symbols *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->callbacks.find_elf = find_none;
	s->callbacks.find_debuginfo = debuginfod_find;
	s->callbacks.debuginfo_path = &s->debug_path;
	s->dwfl = dwfl_begin(&s->callbacks);
	if (!s->dwfl) {
		free(s);
		return -ENOMEM;
	}
	dwfl_report_begin(s->dwfl);
	for (size_t i = 0; i < n; i++)
		add_mapping(s, &mappings[i]);
	dwfl_report_end(s->dwfl, NULL, NULL);
	symbols_unwind_attach(s);
	*out = s;
	return 0;
}
