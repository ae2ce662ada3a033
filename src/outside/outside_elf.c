/* SPDX-License-Identifier: MIT */
/*
 * outside_elf.c - see outside_elf.h.
 *
 * The file may have any content: each number from it is checked before it is an offset. It is read
 * into memory at once, because a file that is mapped can become shorter.
 */
#include "outside/outside_elf.h"

#include "outside/outside_names.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MOST (512u << 20)
#define FRAME_DUMMY "frame_dummy" /* of crtbegin.o, which lies before the program's objects */

struct image {
	uint8_t *bytes;
	uint64_t size;
	const Elf64_Ehdr *head;
	const Elf64_Phdr *segments;
	uint32_t segment_count;
	const Elf64_Shdr *sections; /* NULL: none */
	uint32_t section_count;
	struct outside_module *module;
	void (*add)(void *arg, uint64_t start, uint64_t end, enum outside_policy policy);
	void *arg;
};

/* NULL: not all of it is in the file. */
static const void *in_file(const struct image *f, uint64_t at, uint64_t n)
{
	return at <= f->size && n <= f->size - at ? f->bytes + at : NULL;
}

/* The same by the address in the headers. */
static const void *in_memory(const struct image *f, uint64_t address, uint64_t n)
{
	for (uint32_t i = 0; i < f->segment_count; i++) {
		const Elf64_Phdr *ph = &f->segments[i];

		if (ph->p_type == PT_LOAD && address - ph->p_vaddr < ph->p_filesz &&
		    n <= ph->p_filesz - (address - ph->p_vaddr))
			return in_file(f, ph->p_offset + (address - ph->p_vaddr), n);
	}
	return NULL;
}

static int read_all(const char *path, struct image *f)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	int err = fstat(fd, &st) ? -errno : st.st_size > (off_t)FILE_MOST ? -EFBIG : 0;
	f->bytes = err ? NULL : malloc((size_t)st.st_size + 1);
	if (!err && !f->bytes)
		err = -ENOMEM;
	while (!err && f->size < (uint64_t)st.st_size) {
		ssize_t n =
			pread(fd, f->bytes + f->size, (size_t)st.st_size - f->size, (off_t)f->size);
		if (n <= 0)
			err = n ? -errno : -EIO;
		else
			f->size += (uint64_t)n;
	}
	close(fd);
	return err;
}

static int read_headers(struct image *f)
{
	f->head = in_file(f, 0, sizeof(*f->head));
	if (!f->head || memcmp(f->head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    f->head->e_ident[EI_CLASS] != ELFCLASS64 || f->head->e_machine != EM_X86_64)
		return -ENOEXEC;
	f->segment_count = f->head->e_phnum;
	f->segments = in_file(f, f->head->e_phoff, f->segment_count * sizeof(*f->segments));
	f->section_count = f->head->e_shnum;
	f->sections = in_file(f, f->head->e_shoff, f->section_count * sizeof(*f->sections));
	return f->segments ? 0 : -ENOEXEC;
}

static const char *text_in(const struct image *f, const Elf64_Shdr *strings, uint64_t at)
{
	const char *table = in_file(f, strings->sh_offset, strings->sh_size);

	if (!table || at >= strings->sh_size || table[strings->sh_size - 1])
		return "";
	return table + at;
}

static const Elf64_Shdr *section_named(const struct image *f, const char *name)
{
	if (!f->sections || f->head->e_shstrndx >= f->section_count)
		return NULL;
	for (uint32_t i = 0; i < f->section_count; i++)
		if (!strcmp(text_in(f, &f->sections[f->head->e_shstrndx], f->sections[i].sh_name),
			    name))
			return &f->sections[i];
	return NULL;
}

/* ---- the object ---- */

static void take_segment(struct outside_module *m, const Elf64_Phdr *ph)
{
	uint64_t start = m->bias + ph->p_vaddr;
	bool is_constant = ph->p_type == PT_GNU_RELRO || !(ph->p_flags & PF_W);

	if (ph->p_type == PT_LOAD) {
		if (!m->end || start < m->start)
			m->start = start;
		if (start + ph->p_memsz > m->end)
			m->end = start + ph->p_memsz;
	}
	if (is_constant && m->constants < sizeof(m->constant) / sizeof(m->constant[0]))
		m->constant[m->constants++] = (struct outside_range){ start, start + ph->p_memsz };
}

static int take_segments(struct image *f)
{
	struct outside_module *m = f->module;
	const Elf64_Phdr *text = NULL;

	for (uint32_t i = 0; i < f->segment_count && !text; i++) {
		const Elf64_Phdr *ph = &f->segments[i];

		if (ph->p_type == PT_LOAD && ph->p_flags & PF_X &&
		    m->file.offset + 4096 > ph->p_offset &&
		    m->file.offset < ph->p_offset + ph->p_filesz)
			text = ph;
	}
	if (!text)
		return -ENOEXEC;
	m->bias = m->file.start - m->file.offset + text->p_offset - text->p_vaddr;
	for (uint32_t i = 0; i < f->segment_count; i++)
		if (f->segments[i].p_type == PT_LOAD || f->segments[i].p_type == PT_GNU_RELRO)
			take_segment(m, &f->segments[i]);
	return 0;
}

static int copy_text(struct image *f)
{
	struct outside_module *m = f->module;
	uint64_t bytes = m->file.end - m->file.start;

	if (m->file.offset >= f->size)
		return -ENOEXEC;
	if (bytes > f->size - m->file.offset)
		bytes = f->size - m->file.offset;
	m->text = malloc(bytes);
	if (!m->text)
		return -ENOMEM;
	memcpy(m->text, f->bytes + m->file.offset, bytes);
	m->text_bytes = bytes;
	return 0;
}

static bool has_segment(const struct image *f, uint32_t type)
{
	for (uint32_t i = 0; i < f->segment_count; i++)
		if (f->segments[i].p_type == type)
			return true;
	return false;
}

/* A program, and not a library, that no loader runs. */
static bool is_static(const struct image *f)
{
	const Elf64_Shdr *dynamic = section_named(f, ".dynamic");

	if (has_segment(f, PT_INTERP))
		return false;
	if (f->head->e_type == ET_EXEC)
		return true;
	const Elf64_Dyn *d = dynamic ? in_file(f, dynamic->sh_offset, dynamic->sh_size) : NULL;
	for (uint64_t i = 0; d && i < dynamic->sh_size / sizeof(*d); i++)
		if (d[i].d_tag == DT_FLAGS_1 && d[i].d_un.d_val & DF_1_PIE)
			return true;
	return false;
}

/* ---- by the unwind table ---- */

static void add_row(const struct image *f, uint64_t index, const int32_t row[2])
{
	struct {
		uint32_t length;
		uint32_t cie;
		int32_t start; /* from here: as all compilers write it */
		uint32_t bytes;
	} fde;
	uint64_t start = index + (uint64_t)(int64_t)row[0];
	uint64_t at = index + (uint64_t)(int64_t)row[1];
	const void *found = in_memory(f, at, sizeof(fde));

	if (!found)
		return;
	memcpy(&fde, found, sizeof(fde));
	if (fde.length == UINT32_MAX || at + 8 + (uint64_t)(int64_t)fde.start != start)
		return;
	start += f->module->bias;
	f->add(f->arg, start, start + fde.bytes, (enum outside_policy)f->module->policy);
}

static int add_by_table(const struct image *f)
{
	for (uint32_t i = 0; i < f->segment_count; i++) {
		const Elf64_Phdr *ph = &f->segments[i];
		const uint8_t *head = in_memory(f, ph->p_vaddr, 12);
		uint32_t count;

		if (ph->p_type != PT_GNU_EH_FRAME || !head)
			continue;
		if (head[0] != 1 || (head[1] & 0x0f) != 0x0b || head[2] != 3 || head[3] != 0x3b)
			return -ENOENT;
		memcpy(&count, head + 8, sizeof(count));
		const uint8_t *rows = in_memory(f, ph->p_vaddr + 12, 8ull * count);
		for (uint32_t n = 0; rows && n < count; n++) {
			int32_t row[2];

			memcpy(row, rows + 8ull * n, sizeof(row));
			add_row(f, ph->p_vaddr, row);
		}
		return rows ? 0 : -ENOENT;
	}
	return -ENOENT;
}

/* ---- by symbols ---- */

typedef void (*symbol_fn)(struct image *f, const Elf64_Sym *symbol, const char *name, void *arg);

static int each_symbol(struct image *f, symbol_fn each, void *arg)
{
	const Elf64_Shdr *table = section_named(f, ".symtab");

	if (!table || table->sh_link >= f->section_count)
		return -ENOENT;
	const Elf64_Sym *symbols = in_file(f, table->sh_offset, table->sh_size);
	if (!symbols)
		return -ENOENT;
	for (uint64_t i = 0; i < table->sh_size / sizeof(*symbols); i++)
		if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_value)
			each(f, &symbols[i],
			     text_in(f, &f->sections[table->sh_link], symbols[i].st_name), arg);
	return 0;
}

static void add_symbol(const struct image *f, const Elf64_Sym *symbol, enum outside_policy policy)
{
	uint64_t start = f->module->bias + symbol->st_value;

	f->add(f->arg, start, start + symbol->st_size, policy);
}

static void add_go(struct image *f, const Elf64_Sym *symbol, const char *name, void *arg)
{
	(void)arg;
	add_symbol(f, symbol, outside_policy_of_go(name));
}

static void add_any(struct image *f, const Elf64_Sym *symbol, const char *name, void *arg)
{
	(void)name;
	(void)arg;
	add_symbol(f, symbol, (enum outside_policy)f->module->policy);
}

static void add_rust_runtime(struct image *f, const Elf64_Sym *symbol, const char *name, void *arg)
{
	(void)arg;
	if (!outside_is_rust_runtime(name))
		return;
	f->module->by_names = 1;
	add_symbol(f, symbol, OUTSIDE_RUNTIME);
}

/*
 * A linker writes objects in the order in which they are given: that with frame_dummy(), the
 * program's own, then those of libraries. The first global name of a C library shows where these
 * begin.
 */
struct bounds {
	uint64_t first;
	uint64_t end;
};

static void find_first(struct image *f, const Elf64_Sym *symbol, const char *name, void *arg)
{
	struct bounds *b = arg;
	(void)f;

	if (!strcmp(name, FRAME_DUMMY))
		b->first = symbol->st_value;
}

static void find_end(struct image *f, const Elf64_Sym *symbol, const char *name, void *arg)
{
	struct bounds *b = arg;
	(void)f;

	if (symbol->st_value > b->first && symbol->st_value < b->end &&
	    ELF64_ST_BIND(symbol->st_info) != STB_LOCAL && outside_is_libc_name(name))
		b->end = symbol->st_value;
}

static void add_static(struct image *f, const Elf64_Sym *symbol, const char *name, void *arg)
{
	const struct bounds *b = arg;
	bool is_own = !strcmp(name, "main") ||
		      (symbol->st_value > b->first && symbol->st_value < b->end);
	bool is_runtime = outside_is_rust_runtime(name);

	add_symbol(f, symbol,
		   is_runtime ? OUTSIDE_RUNTIME :
		   is_own     ? OUTSIDE_INCLUDED :
				OUTSIDE_LIBC);
}

static int add_all_in_one(struct image *f)
{
	struct bounds b = { 0, UINT64_MAX };

	f->module->by_names = 1;
	if (f->module->is_go)
		return each_symbol(f, add_go, NULL);
	int err = each_symbol(f, find_first, &b);
	if (!err && !b.first)
		err = -ENOENT;
	if (!err)
		err = each_symbol(f, find_end, &b);
	return err ? err : each_symbol(f, add_static, &b);
}

static int list(struct image *f)
{
	struct outside_module *m = f->module;

	m->is_go = section_named(f, ".gopclntab") || section_named(f, ".note.go.buildid");
	m->is_critical = section_named(f, "__rseq_cs") || section_named(f, "__rseq_cs_ptr_array");
	if (m->is_critical)
		m->policy = OUTSIDE_RUNTIME;
	if (m->policy != OUTSIDE_INCLUDED)
		return 0;
	if (m->is_go || is_static(f)) {
		m->is_nameless = add_all_in_one(f) != 0;
		return 0;
	}
	each_symbol(f, add_rust_runtime, NULL);
	return add_by_table(f) ? each_symbol(f, add_any, NULL) : 0;
}

int outside_elf_read(struct outside_module *m,
		     void (*add)(void *arg, uint64_t start, uint64_t end,
				 enum outside_policy policy),
		     void *arg)
{
	struct image f = { .module = m, .add = add, .arg = arg };
	int err = read_all(m->file.path, &f);

	if (!err)
		err = read_headers(&f);
	if (!err)
		err = take_segments(&f);
	if (!err)
		err = copy_text(&f);
	if (!err)
		err = list(&f);
	free(f.bytes);
	return err;
}
