/* SPDX-License-Identifier: MIT */
/*
 * preloadable.c - see preloadable.h.
 *
 * A program that is started for observation must run as without. So it is inspected first: a loader
 * that is not glibc's refuses the agent, and the run-time of a sanitizer refuses to come second.
 */
#include "cli/launch/preloadable.h"

#include "cli/launch/program.h"
#include "report/safe/target_file.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADERS_MAX 64
#define DYNAMIC_MAX 512
#define STRINGS_MAX (1u << 20)
#define LOADER "ld-linux"

static const char other_loader[] = "its loader is not that of glibc";
static const char has_sanitizer[] = "it has a sanitizer";

struct headers {
	int fd;
	size_t count;
	Elf64_Phdr row[HEADERS_MAX];
};

static bool read_at(int fd, uint64_t at, void *out, size_t n)
{
	return pread(fd, out, n, (off_t)at) == (ssize_t)n;
}

static bool read_headers(int fd, struct headers *h)
{
	Elf64_Ehdr ehdr;

	h->fd = fd;
	if (!read_at(fd, 0, &ehdr, sizeof(ehdr)) || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	h->count = ehdr.e_phnum < HEADERS_MAX ? ehdr.e_phnum : HEADERS_MAX;
	return read_at(fd, ehdr.e_phoff, h->row, h->count * sizeof(h->row[0]));
}

static const Elf64_Phdr *find_header(const struct headers *h, uint32_t type)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->row[i].p_type == type)
			return &h->row[i];
	return NULL;
}

static bool has_known_loader(const struct headers *h)
{
	const Elf64_Phdr *ph = find_header(h, PT_INTERP);
	char name[256] = "";

	if (!ph || ph->p_filesz >= sizeof(name) ||
	    !read_at(h->fd, ph->p_offset, name, ph->p_filesz))
		return false;
	return strstr(name, LOADER) != NULL;
}

static uint64_t offset_of(const struct headers *h, uint64_t address)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->row[i].p_type == PT_LOAD && address - h->row[i].p_vaddr < h->row[i].p_filesz)
			return address - h->row[i].p_vaddr + h->row[i].p_offset;
	return 0;
}

static bool is_sanitizer(const char *library)
{
	static const char *const names[] = { "libasan", "libtsan", "libhwasan", "liblsan",
					     "libclang_rt." };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(library, names[i], strlen(names[i])))
			return true;
	return false;
}

/*
 * In the names that the program has for its libraries, whether it is one of these or the program's
 * own part.
 */
static bool has_start(const char *strings, size_t bytes)
{
	static const char *const starts[] = { "__asan_init", "__tsan_init", "__msan_init",
					      "__hwasan_init" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (memmem(strings, bytes, starts[i], strlen(starts[i]) + 1))
			return true;
	return false;
}

static bool needs_sanitizer(const struct headers *h)
{
	const Elf64_Phdr *ph = find_header(h, PT_DYNAMIC);
	Elf64_Dyn dyn[DYNAMIC_MAX];
	uint64_t table = 0;
	uint64_t bytes = 0;
	bool found = false;
	size_t n = ph ? ph->p_filesz / sizeof(dyn[0]) : 0;

	n = n < DYNAMIC_MAX ? n : DYNAMIC_MAX;
	if (!n || !read_at(h->fd, ph->p_offset, dyn, n * sizeof(dyn[0])))
		return false;
	for (size_t i = 0; i < n; i++) {
		table = dyn[i].d_tag == DT_STRTAB ? offset_of(h, dyn[i].d_un.d_ptr) : table;
		bytes = dyn[i].d_tag == DT_STRSZ ? dyn[i].d_un.d_val : bytes;
	}
	if (!table || !bytes || bytes > STRINGS_MAX)
		return false;
	char *strings = calloc(1, bytes + 1);
	if (strings && read_at(h->fd, table, strings, bytes)) {
		found = has_start(strings, bytes);
		for (size_t i = 0; i < n && !found; i++)
			found = dyn[i].d_tag == DT_NEEDED && dyn[i].d_un.d_val < bytes &&
				is_sanitizer(strings + dyn[i].d_un.d_val);
	}
	free(strings);
	return found;
}

static const char *problem_in(int fd)
{
	struct headers h;

	if (!read_headers(fd, &h))
		return "it is a script";
	if (!has_known_loader(&h))
		return other_loader;
	return needs_sanitizer(&h) ? has_sanitizer : NULL;
}

const char *preloadable_problem(const char *path)
{
	if (program_is_32_bit(path))
		return "it is a 32-bit program";
	if (program_is_secure(path))
		return "it is setuid or setgid, or has capabilities";
	int fd = target_file_open(path);
	if (fd < 0)
		return "its file cannot be read";
	const char *problem = program_is_static(path) ? "it is linked statically" : problem_in(fd);
	close(fd);
	return problem;
}

/* "#! PROGRAM ARGUMENT" */
static bool read_interpreter(const char *path, char *out, size_t n)
{
	char line[256] = "";
	int fd = target_file_open(path);
	ssize_t got = fd < 0 ? -1 : pread(fd, line, sizeof(line) - 1, 0);

	if (fd >= 0)
		close(fd);
	if (got < 3 || strncmp(line, "#!", 2) != 0)
		return false;
	const char *name = line + 2 + strspn(line + 2, " \t");
	snprintf(out, n, "%.*s", (int)strcspn(name, " \t\n"), name);
	return *out != '\0';
}

const char *preloadable_hindrance(const char *path)
{
	char interpreter[256];
	const char *problem = preloadable_problem(
		read_interpreter(path, interpreter, sizeof(interpreter)) ? interpreter : path);

	return problem == other_loader || problem == has_sanitizer ? problem : NULL;
}
