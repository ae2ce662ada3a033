/* SPDX-License-Identifier: MIT */
/*
 * outside_functions.c - see outside_functions.h.
 *
 * Functions of dynamic objects are those of the unwind table. A program that has its runtime in one
 * file is listed by its symbols, since names alone show what is the runtime's.
 */
#include "outside/outside_functions.h"

#include "base/maps.h"
#include "base/sys.h"
#include "outside/outside_elf.h"
#include "record/race_runtimes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MODULES_MAX 512u
#define FUNCTIONS_MAX (1u << 20)

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static enum outside_policy policy_of(const char *path)
{
	switch (race_runtime_of(path)) {
	case RACE_RUNTIME_NONE:
		return OUTSIDE_INCLUDED;
	case RACE_RUNTIME_LIBC:
		return OUTSIDE_LIBC;
	default:
		return OUTSIDE_RUNTIME;
	}
}

static int grow(void **rows, uint32_t count, size_t bytes)
{
	if (count & (count - 1))
		return 0;
	void *more = realloc(*rows, (count ? 2 * (size_t)count : 1) * bytes);

	if (!more)
		return -ENOMEM;
	*rows = more;
	return 0;
}

static int add_module(struct outside_code *c, const struct maps_row *row)
{
	if (c->module_count == MODULES_MAX)
		return 0;
	int err = grow((void **)&c->modules, c->module_count, sizeof(*c->modules));
	if (err)
		return err;
	struct outside_module *m = &c->modules[c->module_count];
	memset(m, 0, sizeof(*m));
	if (code_file_find(c->pid, row->start, &m->file))
		return 0;
	size_t length = strlen(row->name);
	static const char deleted[] = " (deleted)";
	if (length > sizeof(deleted) &&
	    !strcmp(row->name + length - (sizeof(deleted) - 1), deleted))
		length -= sizeof(deleted) - 1;
	length = length < sizeof(m->path) ? length : sizeof(m->path) - 1;
	memcpy(m->path, row->name, length);
	m->policy = (uint8_t)policy_of(file_name(m->path));
	c->module_count++;
	return 0;
}

static int find_modules(struct outside_code *c)
{
	static char name[MAPS_NAME];
	struct maps maps;
	int err = 0;

	maps_open(&maps, c->pid, name, sizeof(name));
	for (const struct maps_row *row; !err && (row = maps_next(&maps));) {
		if (row->mode[2] != 'x')
			continue;
		if (row->inode)
			err = add_module(c, row);
		else
			c->unmapped += *row->name != '[';
	}
	int of_maps = maps_close(&maps);
	return err ? err : of_maps;
}

struct adding {
	struct outside_code *code;
	uint32_t module;
	int err;
};

static void add_function(void *arg, uint64_t start, uint64_t end, enum outside_policy policy)
{
	struct adding *a = arg;
	struct outside_code *c = a->code;
	const struct outside_module *m = &c->modules[a->module];

	if (a->err || c->function_count == FUNCTIONS_MAX || start < m->file.start ||
	    end > m->file.end || end <= start)
		return;
	a->err = grow((void **)&c->functions, c->function_count, sizeof(*c->functions));
	if (a->err)
		return;
	c->functions[c->function_count++] = (struct outside_function){
		.start = start, .end = end, .module = a->module, .policy = (uint8_t)policy
	};
}

static int functions_compare(const void *a, const void *b)
{
	const struct outside_function *x = a;
	const struct outside_function *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (y->policy > x->policy) - (y->policy < x->policy); /* what is left out goes first */
}

/* Sorted; of those that overlap the first one stays. */
static void sort_functions(struct outside_code *c)
{
	uint32_t kept = 0;

	if (!c->function_count)
		return;
	qsort(c->functions, c->function_count, sizeof(*c->functions), functions_compare);
	for (uint32_t i = 1; i < c->function_count; i++) {
		if (c->functions[i].start < c->functions[kept].end)
			continue;
		c->functions[++kept] = c->functions[i];
	}
	c->function_count = kept + 1;
}

static void count_functions(struct outside_code *c)
{
	for (uint32_t i = 0; i < c->function_count; i++) {
		if (c->functions[i].policy == OUTSIDE_INCLUDED)
			c->included++;
		else
			c->left_out++;
	}
}

int outside_code_open(pid_t pid, struct outside_code *out)
{
	memset(out, 0, sizeof(*out));
	out->pid = pid;
	int err = find_modules(out);
	for (uint32_t i = 0; !err && i < out->module_count; i++) {
		struct adding a = { out, i, 0 };
		struct outside_module *m = &out->modules[i];

		err = outside_elf_read(m, add_function, &a);
		err = err == -ENOMEM || a.err ? -ENOMEM : 0; /* another one is left alone */
		out->is_go |= m->is_go;
		out->nameless += m->is_nameless;
		out->critical += m->is_critical;
	}
	sort_functions(out);
	count_functions(out);
	return err;
}

void outside_code_close(struct outside_code *code)
{
	for (uint32_t i = 0; i < code->module_count; i++)
		free(code->modules[i].text);
	free(code->modules);
	free(code->functions);
	memset(code, 0, sizeof(*code));
}

const struct outside_module *outside_module_at(const struct outside_code *code, uint64_t address)
{
	for (uint32_t i = 0; i < code->module_count; i++) {
		const struct outside_module *m = &code->modules[i];

		if (address - m->file.start < m->file.end - m->file.start)
			return m;
	}
	return NULL;
}

const struct outside_function *outside_function_at(const struct outside_code *code,
						   uint64_t address)
{
	uint32_t low = 0;
	uint32_t high = code->function_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (code->functions[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < code->functions[low - 1].end ? &code->functions[low - 1] : NULL;
}

enum outside_policy outside_policy_at(const struct outside_code *code, uint64_t address)
{
	const struct outside_module *m = outside_module_at(code, address);

	if (!m)
		return OUTSIDE_RUNTIME;
	if (!m->by_names)
		return (enum outside_policy)m->policy;
	const struct outside_function *f = outside_function_at(code, address);
	return f ? (enum outside_policy)f->policy : OUTSIDE_RUNTIME;
}

static bool adds_range(struct outside_range *out, uint32_t *n, uint32_t max, uint64_t start,
		       uint64_t end)
{
	if (*n && out[*n - 1].end == start) {
		out[*n - 1].end = end;
		return true;
	}
	if (*n == max)
		return false;
	out[(*n)++] = (struct outside_range){ start, end };
	return true;
}

/* Functions of a runtime that follow each other are one range. */
static void ranges_by_names(const struct outside_code *code, uint32_t module,
			    struct outside_range *out, uint32_t *n, uint32_t max)
{
	uint64_t start = 0;

	for (uint32_t i = 0; i < code->function_count; i++) {
		const struct outside_function *f = &code->functions[i];
		bool is_runtime = f->module == module && f->policy == OUTSIDE_RUNTIME;

		if (is_runtime && !start)
			start = f->start;
		if (!is_runtime && start) {
			if (f->start > start && !adds_range(out, n, max, start, f->start))
				return;
			start = 0;
		}
	}
	if (start)
		adds_range(out, n, max, start, code->modules[module].file.end);
}

uint32_t outside_runtimes(const struct outside_code *code, struct outside_range *out, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < code->module_count; i++) {
		const struct outside_module *m = &code->modules[i];

		if (m->by_names)
			ranges_by_names(code, i, out, &n, max);
		else if (m->policy == OUTSIDE_RUNTIME)
			adds_range(out, &n, max, m->file.start, m->file.end);
	}
	return n;
}
