/* SPDX-License-Identifier: MIT */
/* suppress_parse.c - suppressions from text, in ThreadSanitizer's syntax. */
#include "report/suppress/suppress_priv.h"

#include "base/grow.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (16u << 20)

struct parser {
	struct suppressions *s;
	const char *file;
	int line;
	char *error;
	size_t n;
};

static int wrong(struct parser *p, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int wrong(struct parser *p, int line, const char *format, ...)
{
	char what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	/* It comes from a file: nothing in it may move the cursor. */
	for (char *c = what; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
	snprintf(p->error, p->n, "%s:%d: %s", p->file, line, what);
	return -EINVAL;
}

static char *suppress_keep(struct suppressions *s, char *text)
{
	if (!text || grow_room(s->kept, s->kept_count, s->kept_capacity)) {
		free(text);
		return NULL;
	}
	s->kept[s->kept_count++] = text;
	return text;
}

static struct suppress_rule *rule_new(struct parser *p, enum suppress_kind kind, const char *text)
{
	struct suppress_rule *rule = calloc(1, sizeof(*rule));

	if (!rule)
		return NULL;
	rule->kind = kind;
	rule->told.file = p->file;
	rule->told.line = p->line;
	rule->told.text = suppress_keep(p->s, strdup(text));
	if (rule->told.text)
		return rule;
	free(rule);
	return NULL;
}

static int rule_add(struct parser *p, struct suppress_rule *rule)
{
	struct suppressions *s = p->s;

	if (grow_room(s->rules, s->count, s->capacity)) {
		free(rule->pattern);
		free(rule);
		return -ENOMEM;
	}
	s->rules[s->count++] = rule;
	return 0;
}

/* A pattern that may match anywhere gets stars: `^a*b$` is a*b, `a` is *a*. */
static char *whole_pattern(const char *text)
{
	bool from_start = text[0] == '^';
	size_t length = strlen(text) - from_start;
	char *pattern;

	text += from_start;
	bool to_end = length && text[length - 1] == '$';
	length -= to_end;
	if (!length || asprintf(&pattern, "%s%.*s%s", from_start ? "" : "*", (int)length, text,
				to_end ? "" : "*") < 0)
		return NULL;
	return pattern;
}

/* The kinds of ThreadSanitizer and of Trapline; -1: of errors that Trapline does not report. */
static const struct {
	const char *name;
	int kind;
	enum suppress_tool tool;
} line_kinds[] = {
	{ "race", SUPPRESS_ANY_FRAME, SUPPRESS_RACES },
	{ "race_top", SUPPRESS_TOP, SUPPRESS_RACES },
	{ "called_from_lib", SUPPRESS_LIBRARY, SUPPRESS_RACES },
	{ "heap", SUPPRESS_ANY_FRAME, SUPPRESS_HEAP },
	{ "heap_top", SUPPRESS_TOP, SUPPRESS_HEAP },
	{ "heap_from_lib", SUPPRESS_LIBRARY, SUPPRESS_HEAP },
	{ "flow", SUPPRESS_ANY_FRAME, SUPPRESS_FLOWS },
	{ "flow_top", SUPPRESS_TOP, SUPPRESS_FLOWS },
	{ "flow_from_lib", SUPPRESS_LIBRARY, SUPPRESS_FLOWS },
	{ "thread", -1, SUPPRESS_RACES },
	{ "mutex", -1, SUPPRESS_RACES },
	{ "signal", -1, SUPPRESS_RACES },
	{ "deadlock", -1, SUPPRESS_RACES },
};

static int read_line_rule(struct parser *p, const char *text)
{
	size_t length = strcspn(text, ":");
	size_t i = 0;

	if (!text[length])
		return wrong(p, p->line,
			     "invalid suppression '%s': expected race:PATTERN, heap:PATTERN or "
			     "flow:PATTERN (example: race:^get_count$)",
			     text);
	while (i < sizeof(line_kinds) / sizeof(line_kinds[0]) &&
	       (strlen(line_kinds[i].name) != length ||
		strncmp(line_kinds[i].name, text, length) != 0))
		i++;
	if (i == sizeof(line_kinds) / sizeof(line_kinds[0]))
		return wrong(p, p->line,
			     "unknown suppression '%.*s': expected race, heap, flow, their _top "
			     "or _from_lib, or called_from_lib",
			     (int)length, text);
	if (line_kinds[i].kind < 0) {
		p->s->passed_over++;
		return 0;
	}
	char *pattern = whole_pattern(text + length + 1);
	if (!pattern)
		return wrong(p, p->line, "no pattern after '%.*s:'", (int)length, text);
	struct suppress_rule *rule = rule_new(p, (enum suppress_kind)line_kinds[i].kind, text);
	if (!rule) {
		free(pattern);
		return -ENOMEM;
	}
	rule->pattern = pattern;
	rule->tool = line_kinds[i].tool;
	return rule_add(p, rule);
}

static int read_text_line(struct parser *p, const char *text)
{
	return *text && *text != '#' ? read_line_rule(p, text) : 0;
}

static int read_lines(struct parser *p, char *text)
{
	while (text) {
		char *next = strchr(text, '\n');
		char *end = next ? next : text + strlen(text);

		p->line++;
		while (text < end && isspace((unsigned char)*text))
			text++;
		while (end > text && isspace((unsigned char)end[-1]))
			end--;
		*end = '\0';
		int err = read_text_line(p, text);
		if (err)
			return err;
		text = next ? next + 1 : NULL;
	}
	return 0;
}

int suppressions_parse(struct suppressions *s, const char *file, const char *text, char *error,
		       size_t n)
{
	struct parser p = { .s = s, .error = error, .n = n };
	char *copy = strdup(text);
	int err = -ENOMEM;

	snprintf(error, n, "%s: out of memory", file);
	p.file = suppress_keep(s, strdup(file));
	if (copy && p.file)
		err = read_lines(&p, copy);
	free(copy);
	return err;
}

/* All of a file, NUL-terminated; *length without the NUL. NULL with errno. */
static char *suppress_read_all(FILE *f, size_t *length)
{
	char *text = NULL;
	size_t capacity = 0;

	*length = 0;
	for (;;) {
		if (*length + 4096 > capacity) {
			capacity = capacity ? 2 * capacity : 8192;
			char *more = capacity > FILE_MAX ? NULL : realloc(text, capacity);
			if (!more) {
				free(text);
				errno = EFBIG;
				return NULL;
			}
			text = more;
		}
		errno = 0;
		size_t got = fread(text + *length, 1, 4095, f);
		*length += got;
		text[*length] = '\0';
		if (ferror(f)) {
			free(text);
			errno = errno ? errno : EIO;
			return NULL;
		}
		if (!got)
			return text;
	}
}

static int wrong_bytes(const char *path, char *error, size_t n)
{
	snprintf(error, n, "%s: not a text file: it has NUL bytes", path);
	return -EINVAL;
}

int suppressions_read(struct suppressions *s, const char *path, char *error, size_t n)
{
	FILE *f = fopen(path, "re");
	size_t length = 0;
	char *text = f ? suppress_read_all(f, &length) : NULL;
	int err = text ? 0 : errno ? -errno : -EIO;

	if (f)
		fclose(f);
	if (!text)
		snprintf(error, n, "%s: %s", path, strerror(-err));
	else if (strlen(text) != length)
		err = wrong_bytes(path, error, n);
	else
		err = suppressions_parse(s, path, text, error, n);
	free(text);
	return err;
}
