/* SPDX-License-Identifier: MIT */
/*
 * code_calls.c - see code_calls.h.
 *
 * Code is read from the files, where it is without breakpoints. All else is read from the memory of
 * the process.
 */
#include "code/reach/code_calls.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/grow.h"
#include "base/sys.h"
#include "code/reach/back.h"
#include "code/reach/code_file.h"
#include "code/reach/linkage.h"

#define HEADERS_MAX 64u
#define NOT_OPEN (-1)
#define NOT_THERE (-2)

/* A mapping with code. */
struct code_map {
	struct code_file file;
	int fd;
};

struct code_calls {
	pid_t pid;
	struct back *back;
	size_t count;
	size_t capacity;
	struct code_map *maps;
};

static int calls_copy(void *arg, uint64_t address, void *to, size_t n)
{
	const struct code_calls *c = arg;

	return sys_read_memory(c->pid, address, to, n) == (ssize_t)n;
}

static struct code_map *map_at(const struct code_calls *c, uint64_t address)
{
	for (size_t i = 0; i < c->count; i++)
		if (address - c->maps[i].file.start < c->maps[i].file.end - c->maps[i].file.start)
			return &c->maps[i];
	return NULL;
}

static size_t calls_code(void *arg, uint64_t address, void *to, size_t n)
{
	const struct code_calls *c = arg;
	struct code_map *m = map_at(c, address);

	if (!m)
		return 0;
	if (n > m->file.end - address)
		n = m->file.end - address;
	if (m->fd == NOT_OPEN)
		m->fd = open(m->file.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (m->fd < 0)
		m->fd = NOT_THERE;
	const off_t at = (off_t)(m->file.offset + (address - m->file.start));
	ssize_t got = m->fd >= 0 ? pread(m->fd, to, n, at) :
				   sys_read_memory(c->pid, address, to, n);
	return got > 0 ? (size_t)got : 0;
}

static int add_map(struct code_calls *c, const struct code_file *file)
{
	if (grow_room(c->maps, c->count, c->capacity))
		return -ENOMEM;
	c->maps[c->count++] = (struct code_map){ *file, NOT_OPEN };
	return 0;
}

/* The mapping begins with the headers of an object, which describe the rest. */
static void look_for_object(struct code_calls *c, struct linkage *objects, uint64_t start)
{
	struct linkage_object o = { .start = start };
	Elf64_Phdr p[HEADERS_MAX];
	Elf64_Ehdr head;

	if (!calls_copy(c, start, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(p[0]) || head.e_phnum > HEADERS_MAX ||
	    !calls_copy(c, start + head.e_phoff, p, head.e_phnum * sizeof(p[0])))
		return;
	unsigned int i = 0;
	while (i < head.e_phnum && (p[i].p_type != PT_LOAD || p[i].p_offset & ~4095ull))
		i++;
	if (i == head.e_phnum)
		return;
	o.bias = start - (p[i].p_vaddr - p[i].p_offset);
	for (i = 0; i < head.e_phnum; i++)
		linkage_header(&o, &p[i]);
	linkage_add(objects, &o);
}

struct look {
	struct code_calls *calls;
	struct linkage *objects;
};

/* What has no file and has code is the vdso, or was made at run time. */
static int on_mapping(void *arg, const struct code_file *file, int is_code)
{
	const struct look *l = arg;

	if (!file->offset && (file->inode || is_code) && !linkage_at(l->objects, file->start))
		look_for_object(l->calls, l->objects, file->start);
	return is_code ? add_map(l->calls, file) : 0;
}

int code_calls_open(pid_t pid, struct code_calls **out)
{
	struct code_calls *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->pid = pid;
	c->back = back_open(&(struct back_ops){ c, calls_code, calls_copy });
	struct look l = { c, c->back ? back_objects(c->back) : NULL };
	int err = c->back ? code_file_each(pid, on_mapping, &l) : -ENOMEM;
	if (err)
		code_calls_close(c);
	else
		*out = c;
	return err;
}

void code_calls_close(struct code_calls *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		if (c->maps[i].fd >= 0)
			close(c->maps[i].fd);
	back_close(c->back);
	free(c->maps);
	free(c);
}

struct back *code_calls_back(struct code_calls *c)
{
	return c->back;
}
