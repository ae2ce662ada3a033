/* SPDX-License-Identifier: MIT */
/* suppress_parse.c - suppressions from text: lines of ThreadSanitizer's, blocks of valgrind's. */
#include "report/suppress/suppress_priv.h"

#include "report/dwarf/symbols_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (16u << 20)

/* Where the parser is: in no block, at a block's name, at its kind, at its frames. */
enum block_state {
	BLOCK_NONE,
	BLOCK_NAME,
	BLOCK_KIND,
	BLOCK_FRAMES,
	BLOCK_OTHER
};

struct parser {
	struct suppressions *s;
	const char *file;
	int line;
	enum block_state state;
	int block_line;
	struct suppress_rule *rule; /* the block that is being read */
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

/* An array that is full becomes twice as long. */
static int make_room(void **items, size_t count, size_t *capacity)
{
	if (count < *capacity)
		return 0;
	size_t more = *capacity ? 2 * *capacity : 16;
	void *new = reallocarray(*items, more, sizeof(void *));
	if (!new)
		return -ENOMEM;
	*items = new;
	*capacity = more;
	return 0;
}

static char *suppress_keep(struct suppressions *s, char *text)
{
	if (!text || make_room((void **)&s->kept, s->kept_count, &s->kept_capacity)) {
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

	if (make_room((void **)&s->rules, s->count, &s->capacity)) {
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

/* The kinds of ThreadSanitizer; -1: of errors that are not races. */
static const struct {
	const char *name;
	int kind;
	bool is_heap;
} line_kinds[] = {
	{ "race", SUPPRESS_ANY_FRAME, false },
	{ "race_top", SUPPRESS_TOP, false },
	{ "called_from_lib", SUPPRESS_LIBRARY, false },
	{ "heap", SUPPRESS_ANY_FRAME, true },
	{ "heap_top", SUPPRESS_TOP, true },
	{ "heap_from_lib", SUPPRESS_LIBRARY, true },
	{ "thread", -1, false },
	{ "mutex", -1, false },
	{ "signal", -1, false },
	{ "deadlock", -1, false },
};

static int read_line_rule(struct parser *p, const char *text)
{
	size_t length = strcspn(text, ":");
	size_t i = 0;

	if (!text[length])
		return wrong(p, p->line,
			     "invalid suppression '%s': expected race:PATTERN, "
			     "race_top:PATTERN, called_from_lib:PATTERN or a block in braces",
			     text);
	while (i < sizeof(line_kinds) / sizeof(line_kinds[0]) &&
	       (strlen(line_kinds[i].name) != length ||
		strncmp(line_kinds[i].name, text, length) != 0))
		i++;
	if (i == sizeof(line_kinds) / sizeof(line_kinds[0]))
		return wrong(p, p->line,
			     "unknown suppression '%.*s': expected race, race_top or "
			     "called_from_lib",
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
	rule->is_heap = line_kinds[i].is_heap;
	return rule_add(p, rule);
}

static bool suppress_is_one_of(const char *text, size_t length, const char *const *words)
{
	for (; *words; words++)
		if (strlen(*words) == length && !strncasecmp(*words, text, length))
			return true;
	return false;
}

/* "Helgrind:Race", "Helgrind,drd:Race": an error of these kinds, by one of these tools? */
static bool is_kind(const char *text, size_t colon, const char *const *tools,
		    const char *const *kinds)
{
	const char *kind = text + colon + 1;

	if (!suppress_is_one_of(kind, strlen(kind), kinds))
		return false;
	for (size_t at = 0; at < colon;) {
		size_t length = strcspn(text + at, ",:");

		if (suppress_is_one_of(text + at, length, tools))
			return true;
		at += length + 1;
	}
	return false;
}

static bool is_race_kind(const char *text, size_t colon)
{
	static const char *const tools[] = { "Helgrind", "drd", "Trapline", "*", NULL };
	static const char *const kinds[] = { "Race", "ConflictingAccess", "*", NULL };

	return is_kind(text, colon, tools, kinds);
}

static bool is_heap_kind(const char *text, size_t colon)
{
	static const char *const tools[] = { "Memcheck", "Trapline", NULL };
	static const char *const kinds[] = { "Addr1", "Addr2", "Addr4", "Addr8", "Addr16", "Addr32",
					     "Jump",  "Free",  "Heap",	"*",	 NULL };

	return is_kind(text, colon, tools, kinds);
}

static int read_block_kind(struct parser *p, const char *text)
{
	size_t colon = strcspn(text, ":");

	if (!colon || !text[colon] || !text[colon + 1])
		return wrong(p, p->line,
			     "invalid kind of error '%s': expected TOOL:KIND after the "
			     "name (example: Helgrind:Race)",
			     text);
	bool is_race = is_race_kind(text, colon);
	bool is_heap = !is_race && is_heap_kind(text, colon);

	p->rule->is_heap = is_heap;
	p->state = is_race || is_heap ? BLOCK_FRAMES : BLOCK_OTHER;
	return 0;
}

/* A mangled name without wildcards reads like those in reports once it is taken apart. */
static const char *function_pattern(struct parser *p, const char *text)
{
	char *readable = strpbrk(text, "*?") ? NULL : symbols_demangle(text);

	return suppress_keep(p->s, readable ? readable : strdup(text));
}

static int read_block_frame(struct parser *p, const char *text)
{
	struct suppress_rule *rule = p->rule;
	struct suppress_step *step = &rule->steps[rule->step_count];

	if (rule->step_count == SUPPRESS_STEPS)
		return wrong(p, p->line, "more than %d frames", SUPPRESS_STEPS);
	if (!strcmp(text, "..."))
		step->kind = SUPPRESS_FRAMES;
	else if (!strncmp(text, "fun:", 4))
		step->kind = SUPPRESS_FUNCTION;
	else if (!strncmp(text, "obj:", 4))
		step->kind = SUPPRESS_OBJECT;
	else if (!strncmp(text, "src:", 4))
		step->kind = SUPPRESS_SOURCE;
	else
		return wrong(p, p->line, "invalid frame '%s': expected fun:, obj:, src:, ... or }",
			     text);
	if (step->kind != SUPPRESS_FRAMES && !text[4])
		return wrong(p, p->line, "no pattern after '%s'", text);
	if (step->kind == SUPPRESS_FUNCTION)
		step->pattern = function_pattern(p, text + 4);
	else if (step->kind != SUPPRESS_FRAMES)
		step->pattern = suppress_keep(p->s, strdup(text + 4));
	if (step->kind != SUPPRESS_FRAMES && !step->pattern)
		return -ENOMEM;
	rule->step_count++;
	return 0;
}

static int close_block(struct parser *p)
{
	enum block_state state = p->state;
	struct suppress_rule *rule = p->rule;
	bool has_frame = false;

	if (state == BLOCK_NAME || state == BLOCK_KIND)
		return wrong(p, p->line, "the block from line %d ends before its %s", p->block_line,
			     state == BLOCK_NAME ? "name" : "kind of error");
	for (size_t i = 0; i < rule->step_count; i++)
		has_frame = has_frame || rule->steps[i].kind != SUPPRESS_FRAMES;
	if (state == BLOCK_FRAMES && !has_frame)
		return wrong(p, p->line,
			     "the block from line %d has no fun:, obj: or src:, so it "
			     "would match everything",
			     p->block_line);
	p->state = BLOCK_NONE;
	p->rule = NULL;
	if (state == BLOCK_FRAMES)
		return rule_add(p, rule);
	free(rule);
	p->s->passed_over++;
	return 0;
}

static int read_block_line(struct parser *p, const char *text)
{
	if (!strcmp(text, "}"))
		return close_block(p);
	if (!strcmp(text, "{"))
		return wrong(p, p->line, "{ in the block from line %d: its } is missing",
			     p->block_line);
	switch (p->state) {
	case BLOCK_NAME:
		p->rule = rule_new(p, SUPPRESS_STACK, text);
		if (!p->rule)
			return -ENOMEM;
		p->rule->told.line = p->block_line;
		p->state = BLOCK_KIND;
		return 0;
	case BLOCK_KIND:
		return read_block_kind(p, text);
	case BLOCK_FRAMES:
		return read_block_frame(p, text);
	default: /* a line of another error */
		return 0;
	}
}

static int read_text_line(struct parser *p, const char *text)
{
	if (!*text || *text == '#')
		return 0;
	if (p->state != BLOCK_NONE)
		return read_block_line(p, text);
	if (strcmp(text, "{") != 0)
		return read_line_rule(p, text);
	p->state = BLOCK_NAME;
	p->block_line = p->line;
	return 0;
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
	if (p->state != BLOCK_NONE)
		return wrong(p, p->block_line, "the block that begins here has no }");
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
	free(p.rule);
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
