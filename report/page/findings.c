/* SPDX-License-Identifier: MIT */
/*
 * findings.c - see findings.h. findings.js reads what is made here.
 *
 * The lines may come from a stranger: an object that is not built as a race or error ends the file
 * there. The page gets lines of source, as they are now, of files that are named like source only.
 */
#include "report/page/findings.h"

#include "report/code/source.h"
#include "report/page/page.h"
#include "report/run/run.h"
#include "report/safe/line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_FOUND_MAX 2000u
#define PAGE_LINE_BYTES (4u << 20)
#define PAGE_BYTES_MAX (32u << 20)
#define SOURCE_AROUND 4
#define SOURCE_LINE_BYTES 300

struct findings {
	char kind[8]; /* the type of the lines: race or heap; empty: none so far */
	json_t *found;
	json_t *sources;
	json_t *summary; /* NULL: the report has no summary */
	size_t total;
	size_t bytes;
	size_t lines;
	size_t bad_line; /* 0: none */
	char name[256];
};

bool findings_is_for(const char *path)
{
	char first = 0;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return false;
	bool is_json = !fstat(fd, &st) && S_ISREG(st.st_mode) && pread(fd, &first, 1, 0) == 1 &&
		       first == '{';
	close(fd);
	return is_json;
}

static bool is_stack(const json_t *stack)
{
	for (size_t i = 0; i < json_array_size(stack); i++)
		if (!json_is_object(json_array_get(stack, i)))
			return false;
	return json_is_array(stack);
}

static bool is_side(const json_t *race, const char *name, bool may_miss)
{
	const json_t *side = json_object_get(race, name);

	if (may_miss && (!side || json_is_null(side)))
		return true;
	return json_is_object(side) && is_stack(json_object_get(side, "stack"));
}

/* Files before they had this member are read too. */
static bool is_also(const json_t *also)
{
	for (size_t i = 0; i < json_array_size(also); i++) {
		const json_t *j = json_array_get(also, i);

		if (!json_is_object(json_object_get(j, "first")) ||
		    !json_is_object(json_object_get(j, "second")))
			return false;
	}
	return !also || json_is_array(also);
}

static bool is_block(const json_t *block)
{
	return !block || json_is_null(block) ||
	       (json_is_object(block) && is_side(block, "allocated", true) &&
		is_side(block, "freed", true));
}

/* As findings.js takes it: a race, or an error of the heap. */
static bool is_finding(const json_t *j)
{
	return json_is_string(json_object_get(j, "grade")) &&
	       json_is_string(json_object_get(j, "kind")) && is_side(j, "first", false) &&
	       is_side(j, "second", true) && is_block(json_object_get(j, "block")) &&
	       is_also(json_object_get(j, "also"));
}

static bool is_named_as_source(const char *file)
{
	static const char *const ends[] = { ".c",  ".cc",  ".cpp", ".cxx", ".C",  ".h",
					    ".hh", ".hpp", ".hxx", ".inc", ".rs", ".go",
					    ".s",  ".S",   ".d",   ".f90", ".m",  ".tcc" };
	const char *dot = strrchr(file, '.');

	for (size_t i = 0; dot && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(dot, ends[i]))
			return true;
	return false;
}

/* {"first": 9, "lines": [...]}; NULL: the file does not have the line. */
static json_t *lines_around(FILE *source, json_int_t line)
{
	json_int_t first = line > SOURCE_AROUND ? line - SOURCE_AROUND : 1;
	json_t *lines = json_array();
	json_int_t at = 1;
	char *text = NULL;
	size_t size = 0;

	for (; at <= line + SOURCE_AROUND && getline(&text, &size, source) > 0; at++) {
		if (at < first)
			continue;
		text[strcspn(text, "\r\n")] = 0;
		if (strlen(text) > SOURCE_LINE_BYTES)
			text[SOURCE_LINE_BYTES] = 0;
		json_array_append_new(lines, run_json_text(text));
	}
	free(text);
	if (at <= line) {
		json_decref(lines);
		return NULL;
	}
	json_t *j = json_object();
	json_object_set_new(j, "first", json_integer(first));
	json_object_set_new(j, "lines", lines);
	return j;
}

static void add_source(struct findings *p, const json_t *side)
{
	const char *file = json_string_value(json_object_get(side, "file"));
	const char *object = json_string_value(json_object_get(side, "module_path"));
	json_int_t line = json_integer_value(json_object_get(side, "line"));
	char key[4200];

	if (!file || line < 1 || line > INT32_MAX || !is_named_as_source(file) ||
	    snprintf(key, sizeof(key), "%s:%lld", file, (long long)line) >= (int)sizeof(key) ||
	    json_object_get(p->sources, key))
		return;
	FILE *source = source_open(object, file);
	json_t *lines = source ? lines_around(source, line) : NULL;
	if (source)
		fclose(source);
	if (lines)
		json_object_set_new(p->sources, key, lines);
}

static void add_found(struct findings *p, json_t *j, size_t bytes)
{
	const json_t *block = json_object_get(j, "block");

	p->total++;
	p->bytes += bytes;
	if (json_array_size(p->found) >= PAGE_FOUND_MAX || p->bytes > PAGE_BYTES_MAX) {
		json_decref(j);
		return;
	}
	add_source(p, json_object_get(j, "first"));
	add_source(p, json_object_get(j, "second"));
	add_source(p, json_object_get(block, "allocated"));
	add_source(p, json_object_get(block, "freed"));
	json_array_append_new(p->found, j);
}

/* False: the line is damaged. A line of another type is left out. */
static bool add_line(struct findings *p, const char *text, size_t bytes)
{
	json_t *j = bytes <= PAGE_LINE_BYTES ? json_loadb(text, bytes, JSON_ALLOW_NUL, NULL) : NULL;
	const char *type = json_string_value(json_object_get(j, "type"));

	bool is_found = type && (!strcmp(type, "race") || !strcmp(type, "heap"));

	/* One file is of one search. */
	if (is_found && !p->kind[0])
		snprintf(p->kind, sizeof(p->kind), "%s", type);
	if (is_found && !strcmp(type, p->kind) && is_finding(j)) {
		add_found(p, j, bytes);
		return true;
	}
	if (type && !strcmp(type, "summary")) {
		json_decref(p->summary);
		p->summary = j;
		return true;
	}
	bool is_other = type && !is_found;

	json_decref(j);
	return is_other;
}

static int read_lines(struct findings *p, const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	ssize_t n;

	if (!f)
		return -errno;
	while (!p->bad_line && (n = line_read(&text, &size, f, PAGE_LINE_BYTES)) > 0) {
		p->lines++;
		if (text[strspn(text, " \t\r\n")] && !add_line(p, text, (size_t)n))
			p->bad_line = p->lines;
	}
	free(text);
	int err = ferror(f) ? -EIO : 0;
	fclose(f);
	return err;
}

int findings_read(const char *path, struct findings **out, char *why, size_t n)
{
	struct findings *p = calloc(1, sizeof(*p));
	const char *slash = strrchr(path, '/');

	if (!p) {
		snprintf(why, n, "out of memory");
		return -ENOMEM;
	}
	p->found = json_array();
	p->sources = json_object();
	snprintf(p->name, sizeof(p->name), "%s", slash ? slash + 1 : path);
	int err = read_lines(p, path);
	if (!err && !p->kind[0])
		snprintf(p->kind, sizeof(p->kind), "%s",
			 json_object_get(p->summary, "pool_bytes") ? "heap" : "race");
	/* Lines of a watch are JSON too. */
	if (!err && !p->total &&
	    (p->bad_line ||
	     !json_object_get(p->summary, p->kind[0] == 'h' ? "pool_bytes" : "stalls")))
		err = -EBADMSG;
	if (err) {
		snprintf(why, n, "%s",
			 err == -EBADMSG ?
				 "neither a recording nor JSON lines of trapline race or heap" :
				 strerror(-err));
		findings_free(p);
		return err;
	}
	*out = p;
	return 0;
}

size_t findings_bad_line(const struct findings *p)
{
	return p->bad_line;
}

void findings_print(FILE *f, struct findings *p)
{
	json_t *j = json_object();

	json_object_set_new(j, "kind", json_string(p->kind));
	json_object_set_new(j, "name", run_json_text(p->name));
	json_object_set_new(j, "total", json_integer((json_int_t)p->total));
	json_object_set(j, "found", p->found);
	json_object_set(j, "sources", p->sources);
	json_object_set(j, "summary", p->summary ? p->summary : json_null());
	page_write(f, j);
}

void findings_free(struct findings *p)
{
	if (!p)
		return;
	json_decref(p->found);
	json_decref(p->sources);
	json_decref(p->summary);
	free(p);
}
