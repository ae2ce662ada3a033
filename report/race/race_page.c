/* SPDX-License-Identifier: MIT */
/*
 * race_page.c - see race_page.h. races.js reads what is made here.
 *
 * The lines may come from a stranger: an object that is not built as a race ends the file there. The
 * page gets lines of source, as they are now, of files that are named like source only.
 */
#include "report/race/race_page.h"

#include "report/code/source.h"
#include "report/page/page.h"
#include "report/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_RACES_MAX 2000u
#define PAGE_LINE_BYTES (4u << 20)
#define PAGE_BYTES_MAX (32u << 20)
#define SOURCE_AROUND 4
#define SOURCE_LINE_BYTES 300

struct race_page {
	json_t *races;
	json_t *sources;
	json_t *summary; /* NULL: the report has no summary */
	size_t total;
	size_t bytes;
	size_t lines;
	size_t bad_line; /* 0: none */
	char name[256];
};

bool race_page_is_for(const char *path)
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

/* As races.js takes it. */
static bool is_race(const json_t *j)
{
	return json_is_string(json_object_get(j, "grade")) && is_side(j, "first", false) &&
	       is_side(j, "second", true) && is_side(j, "heap", true) &&
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

static void add_source(struct race_page *p, const json_t *side)
{
	const char *file = json_string_value(json_object_get(side, "file"));
	const char *object = json_string_value(json_object_get(side, "path"));
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

static void add_race(struct race_page *p, json_t *race, size_t bytes)
{
	p->total++;
	p->bytes += bytes;
	if (json_array_size(p->races) >= PAGE_RACES_MAX || p->bytes > PAGE_BYTES_MAX) {
		json_decref(race);
		return;
	}
	add_source(p, json_object_get(race, "first"));
	add_source(p, json_object_get(race, "second"));
	json_array_append_new(p->races, race);
}

/* False: the line is damaged. A line of another type is left out. */
static bool add_line(struct race_page *p, const char *text, size_t bytes)
{
	json_t *j = bytes <= PAGE_LINE_BYTES ? json_loadb(text, bytes, JSON_ALLOW_NUL, NULL) : NULL;
	const char *type = json_string_value(json_object_get(j, "type"));

	if (type && !strcmp(type, "race") && is_race(j)) {
		add_race(p, j, bytes);
		return true;
	}
	if (type && !strcmp(type, "summary")) {
		json_decref(p->summary);
		p->summary = j;
		return true;
	}
	bool is_other = type && strcmp(type, "race") != 0;
	json_decref(j);
	return is_other;
}

static int read_lines(struct race_page *p, const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	ssize_t n;

	if (!f)
		return -errno;
	while (!p->bad_line && (n = getline(&text, &size, f)) > 0) {
		p->lines++;
		if (text[strspn(text, " \t\r\n")] && !add_line(p, text, (size_t)n))
			p->bad_line = p->lines;
	}
	free(text);
	int err = ferror(f) ? -EIO : 0;
	fclose(f);
	return err;
}

int race_page_read(const char *path, struct race_page **out, char *why, size_t n)
{
	struct race_page *p = calloc(1, sizeof(*p));
	const char *slash = strrchr(path, '/');

	if (!p) {
		snprintf(why, n, "out of memory");
		return -ENOMEM;
	}
	p->races = json_array();
	p->sources = json_object();
	snprintf(p->name, sizeof(p->name), "%s", slash ? slash + 1 : path);
	int err = read_lines(p, path);
	/* Lines of a watch are JSON too. */
	if (!err && !p->total && (p->bad_line || !json_object_get(p->summary, "stalls")))
		err = -EBADMSG;
	if (err) {
		snprintf(why, n, "%s",
			 err == -EBADMSG ? "neither a recording nor JSON lines of trapline race" :
					   strerror(-err));
		race_page_free(p);
		return err;
	}
	*out = p;
	return 0;
}

size_t race_page_bad_line(const struct race_page *p)
{
	return p->bad_line;
}

void race_page_print(FILE *f, struct race_page *p)
{
	json_t *j = json_object();

	json_object_set_new(j, "kind", json_string("race"));
	json_object_set_new(j, "name", run_json_text(p->name));
	json_object_set_new(j, "total", json_integer((json_int_t)p->total));
	json_object_set(j, "races", p->races);
	json_object_set(j, "sources", p->sources);
	json_object_set(j, "summary", p->summary ? p->summary : json_null());
	page_write(f, j);
}

void race_page_free(struct race_page *p)
{
	if (!p)
		return;
	json_decref(p->races);
	json_decref(p->sources);
	json_decref(p->summary);
	free(p);
}
