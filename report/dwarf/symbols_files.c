/* SPDX-License-Identifier: MIT */
/*
 * symbols_files.c - the symbols of files that any processes have mapped, each file once.
 *
 * Where a process has loaded an object follows from one of its mappings and the program header that
 * asked for it. A program that is not relocatable keeps its addresses.
 */
#include "report/dwarf/debuginfod.h"
#include "report/dwarf/symbols_priv.h"
#include "report/safe/busy.h"
#include "report/safe/kept_files.h"
#include "report/safe/target_file.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_MASK (~4095ull)
#define FILES_MAX 256u
#define FIRST_ADDRESS (1ull << 40)
#define GAP (1ull << 20)

struct added_file {
	char *path;
	uint64_t inode;
	Dwfl_Module *mod; /* NULL: it cannot be read */
};

struct symbols_files {
	struct symbols *symbols;
	uint64_t next;	/* no file has this address or a higher one */
	bool has_fixed; /* a program that is not relocatable */
	size_t count;
	struct added_file files[FILES_MAX];
};

/* All files are given. */
static int find_none(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		     char **file_name, Elf **elf)
{
	return -1;
}

int symbols_files_open(const struct symbols *first, struct symbols_files **out)
{
	struct symbols_files *f = calloc(1, sizeof(*f));
	struct symbols *s = calloc(1, sizeof(*s));

	if (s) {
		s->callbacks.find_elf = find_none;
		s->callbacks.find_debuginfo = debuginfod_find;
		s->callbacks.debuginfo_path = &s->debug_path;
		s->dwfl = dwfl_begin(&s->callbacks);
	}
	if (!f || !s || !s->dwfl) {
		free(f);
		free(s);
		return -ENOMEM;
	}
	if (first) {
		memcpy(s->exe, first->exe, sizeof(s->exe));
		memcpy(s->alias, first->alias, sizeof(s->alias));
	}
	f->symbols = s;
	f->next = FIRST_ADDRESS;
	*out = f;
	return 0;
}

void symbols_files_close(struct symbols_files *f)
{
	if (!f)
		return;
	symbols_close(f->symbols);
	for (size_t i = 0; i < f->count; i++)
		free(f->files[i].path);
	free(f);
}

struct symbols *symbols_files_symbols(const struct symbols_files *f)
{
	return f->symbols;
}

/*
 * How far the addresses of the process are from those in the file. false: it is not a mapping of
 * its code.
 */
static bool read_bias(Elf *elf, const struct symbols_mapping *m, uint64_t *bias)
{
	size_t count = 0;
	GElf_Phdr header;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    !(header.p_flags & PF_X) || m->offset < (header.p_offset & PAGE_MASK) ||
		    m->offset >= header.p_offset + header.p_filesz)
			continue;
		*bias = m->start - m->offset + header.p_offset - header.p_vaddr;
		return true;
	}
	return false;
}

/* Its name may lead to another file by now, or lead elsewhere for the process. */
static int file_of(const struct symbols_mapping *m, const struct kept_files *kept)
{
	struct stat st;
	int fd = kept ? kept_files_fd_of(kept, m->path, m->inode) : -1;

	if (fd < 0)
		fd = target_file_open(m->path);
	if (fd >= 0 && (fstat(fd, &st) || (uint64_t)st.st_ino != m->inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/*
 * libdwfl finds no frames in a mixture of architectures, and fixed addresses are for one program.
 */
static bool is_possible(struct symbols_files *f, int fd)
{
	Elf64_Ehdr header;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || (header.e_type == ET_EXEC && f->has_fixed))
		return false;
	f->has_fixed |= header.e_type == ET_EXEC;
	return true;
}

static Dwfl_Module *report_file(struct symbols_files *f, const char *path, int fd)
{
	struct symbols *s = f->symbols;
	Dwarf_Addr end = 0;
	void **userdata;

	dwfl_report_begin_add(s->dwfl);
	Dwfl_Module *mod = dwfl_report_elf(s->dwfl, path, path, fd, f->next, true);
	dwfl_report_end(s->dwfl, NULL, NULL);
	if (!mod)
		return NULL;
	dwfl_module_info(mod, &userdata, NULL, &end, NULL, NULL, NULL, NULL);
	*userdata = s;
	if (end > f->next)
		f->next = (end + GAP) & PAGE_MASK;
	if (!s->can_unwind)
		symbols_unwind_attach(s);
	return mod;
}

/* NULL: it cannot be read, or there are too many. */
static Dwfl_Module *module_of(struct symbols_files *f, const struct symbols_mapping *m,
			      const struct kept_files *kept)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->files[i].inode == m->inode && !strcmp(f->files[i].path, m->path))
			return f->files[i].mod;
	if (f->count == FILES_MAX)
		return NULL;
	int fd = file_of(m, kept);
	struct added_file added = { .path = strdup(m->path), .inode = m->inode };
	if (added.path && fd >= 0 && is_possible(f, fd))
		added.mod = report_file(f, m->path, fd);
	if (!added.mod && fd >= 0)
		close(fd);
	if (added.path)
		f->files[f->count++] = added;
	return added.mod;
}

int symbols_files_move(struct symbols_files *f, const struct symbols_mapping *m,
		       const struct kept_files *kept, struct symbols_move *out)
{
	BUSY;
	Dwfl_Module *mod = module_of(f, m, kept);
	uint64_t bias;
	GElf_Addr here;
	Elf *elf = mod ? dwfl_module_getelf(mod, &here) : NULL;

	if (!elf || !read_bias(elf, m, &bias))
		return -ENOENT;
	*out = (struct symbols_move){ .start = m->start, .end = m->end, .shift = here - bias };
	return 0;
}
