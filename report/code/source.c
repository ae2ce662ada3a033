/* SPDX-License-Identifier: MIT */
/*
 * source.c - the statement of an access, in the source text.
 *
 * Lines are joined to statements by how they end: enough to see that the head of a call with its
 * arguments below is __atomic_load_n(). Nothing else of the language is understood.
 */
#include "report/code/source.h"

#include "report/dwarf/symbols_priv.h"
#include "report/files/files.h"
#include "report/safe/busy.h"
#include "report/safe/target_file.h"

#include <ctype.h>
#include <elfutils/libdwfl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define STATEMENT_LINES_MAX 12
#define LINE_BYTES_MAX 65536u
#define TEXT_BYTES_MAX (16u << 20)

/* A longer line was not written by people: there the text ends. */
static ssize_t source_read_line(FILE *stream, char **line, size_t *size)
{
	ssize_t n = getline(line, size, stream);

	return n > (ssize_t)LINE_BYTES_MAX ? -1 : n;
}

/* Blanks what is in comments; returns whether one continues in the next line. */
static bool blank_comments(char *line, bool is_inside)
{
	for (char *c = line; *c; c++) {
		if (!is_inside && c[0] == '/' && c[1] == '/') {
			*c = '\0';
			return false;
		}
		bool opens = !is_inside && c[0] == '/' && c[1] == '*';
		bool closes = is_inside && c[0] == '*' && c[1] == '/';

		if (is_inside || opens)
			*c = ' ';
		if (opens || closes) {
			*++c = ' ';
			is_inside = opens;
		}
	}
	return is_inside;
}

/* asm volatile and __asm__ __volatile__ state nothing of what else the statement does. */
static bool names_volatile(const char *text)
{
	for (const char *c = text; (c = strstr(c, "volatile")); c++) {
		const char *end = c;

		while (end > text && (isspace((unsigned char)end[-1]) || end[-1] == '_'))
			end--;
		if (!(end - text >= 3 && !strncmp(end - 3, "asm", 3)))
			return true;
	}
	return false;
}

static bool source_names_atomic(const char *text)
{
	static const char *const words[] = { "atomic",	      "__sync_",     "READ_ONCE",
					     "WRITE_ONCE",    "ACCESS_ONCE", "load_acquire",
					     "store_release", "rcu_" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasestr(text, words[i]))
			return true;
	return names_volatile(text);
}

/* The first character that is not a space, and the last; '\0' in an empty line. */
static void ends_of(const char *line, char *first, char *last)
{
	*first = '\0';
	*last = '\0';
	for (const char *c = line; *c; c++) {
		if (isspace((unsigned char)*c))
			continue;
		*first = *first ? *first : *c;
		*last = *c;
	}
}

/* A line of the preprocessor is a statement of its own, but a #pragma is part of what follows. */
static bool ends_statement(const char *line)
{
	char first;
	char last;

	ends_of(line, &first, &last);
	if (first == '#')
		return !strstr(line, "pragma");
	return !last || strchr(";{}", last);
}

char *source_statement_in(FILE *stream, int line)
{
	bool is_comment = false;
	bool begins = true;
	bool was_reached = false;
	char *text = NULL;
	char *statement = NULL;
	size_t size = 0;
	size_t bytes = 0;
	FILE *out = open_memstream(&statement, &bytes);

	for (int n = 1;
	     out && n - line < STATEMENT_LINES_MAX && source_read_line(stream, &text, &size) > 0;
	     n++) {
		is_comment = blank_comments(text, is_comment);
		if (begins)
			rewind(out);
		if (fputs(text, out) == EOF || ftell(out) > (long)LINE_BYTES_MAX)
			break;
		begins = ends_statement(text);
		was_reached |= n == line;
		if (n >= line && begins)
			break;
	}
	free(text);
	if (out) {
		fputc('\0', out); /* what was there of a longer one before ends here */
		fclose(out);
	}
	if (was_reached)
		return statement;
	free(statement);
	return NULL;
}

enum source_says source_statement_says(const char *statement)
{
	if (!statement)
		return SOURCE_UNKNOWN;
	return source_names_atomic(statement) ? SOURCE_ATOMIC : SOURCE_PLAIN;
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

const char *source_next_name(const char *text, size_t *n)
{
	for (; *text; text += *n) {
		for (*n = 0; is_name(text[*n]); (*n)++)
			;
		if (*n && !isdigit((unsigned char)*text))
			return text;
		*n += !*n;
	}
	return NULL;
}

static bool is_keyword(const char *name, size_t n)
{
	static const char *const words[] = { "if", "while", "for", "switch", "return", "sizeof" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (n == strlen(words[i]) && !strncmp(name, words[i], n))
			return true;
	return false;
}

/* From behind an opening bracket to the closing one: is there a name? */
static bool has_named_arguments(const char *c)
{
	for (int depth = 1; *c; c++) {
		depth += *c == '(';
		depth -= *c == ')';
		if (!depth)
			return false;
		if (is_name(*c) && !isdigit((unsigned char)*c))
			return true;
	}
	return true;
}

bool source_may_hide_access(const char *statement)
{
	size_t n;

	for (const char *c = statement; (c = source_next_name(c, &n)); c += n) {
		const char *next = c + n + strspn(c + n, " \t\n");

		if (*next == '(' && !is_keyword(c, n) && has_named_arguments(next + 1))
			return true;
	}
	return false;
}

/* The = of an assignment, or the ++ or -- of one, and where its value begins: NULL, none. */
static const char *find_assignment(const char *text, const char **value)
{
	for (const char *c = text; *c; c++) {
		char before = c > text ? c[-1] : ' ';

		*value = c + 1;
		if ((c[0] == '+' || c[0] == '-') && c[1] == c[0])
			return c;
		if (c[0] != '=')
			continue;
		bool is_shift = c - text > 1 && strchr("<>", before) && c[-2] == before;
		if (c[1] == '=')
			c++;
		else if (is_shift || !strchr("<>!=[", before))
			return c;
	}
	return NULL;
}

/* 0, -1, NULL, true, UNLOCKED: what is the same whenever it is stored. */
static bool source_is_constant(const char *value)
{
	static const char *const words[] = { "true", "false", "nullptr" };
	size_t n = 0;

	value += strspn(value, " \t\n-+(");
	while (is_name(value[n]))
		n++;
	if (!strchr(";,)", value[n + strspn(value + n, " \t\n)")]))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (n == strlen(words[i]) && !strncmp(value, words[i], n))
			return true;
	if (isdigit((unsigned char)*value))
		return true;
	for (size_t i = 0; i < n; i++)
		if (islower((unsigned char)value[i]))
			return false;
	return n > 1;
}

/* From the operator backwards: p->count, table[i], (*p). */
static void copy_name_before(const char *text, const char *end, char *name, size_t n)
{
	int depth = 0;

	while (end > text && (depth || !is_name(end[-1]))) {
		depth += end[-1] == ']';
		depth -= end[-1] == '[' && depth;
		end--;
	}
	const char *start = end;
	while (start > text && is_name(start[-1]))
		start--;
	snprintf(name, n, "%.*s", (int)(end - start), start);
}

void source_store_in(const char *statement, struct source_store *out)
{
	const char *value;
	const char *at = find_assignment(statement, &value);
	bool is_step = at && *at != '=';

	memset(out, 0, sizeof(*out));
	if (!at || strstr(statement, "asm"))
		return;
	out->is_assignment = true;
	out->is_constant = !is_step && at > statement && !strchr("+-*/%&|^<>", at[-1]) &&
			   source_is_constant(value);
	copy_name_before(statement, at, out->name, sizeof(out->name));
	/* ++n, and in n = ++m it is m that counts, too: the first one is as good as any. */
	if (is_step && !out->name[0])
		snprintf(out->name, sizeof(out->name), "%.*s",
			 (int)strspn(at + 2, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789_"),
			 at + 2);
}

/* From the folder of the object upwards: does name lie there? */
static FILE *open_above(const char *object, const char *name)
{
	char path[PATH_MAX];
	size_t n = strlen(object);

	while (n) {
		while (n && object[n - 1] != '/')
			n--;
		if (snprintf(path, sizeof(path), "%.*s%s", (int)n, object, name) <
		    (int)sizeof(path)) {
			FILE *f = target_file_text(path, TEXT_BYTES_MAX);
			if (f)
				return f;
		}
		n -= n != 0;
	}
	return NULL;
}

/* The tree was moved: by the end of the name, with one folder at least. */
static FILE *open_moved(const char *object, const char *file)
{
	FILE *f = NULL;

	/* A folder up again: what is below it is named from there. */
	for (const char *up; (up = strstr(file, "/../"));)
		file = up + strlen("/../");
	while (*file == '/' || !strncmp(file, "../", 3))
		file += strcspn(file, "/") + 1;
	for (const char *slash; !f && (slash = strchr(file, '/')); file = slash + 1)
		f = open_above(object, file);
	return f;
}

FILE *source_open(const char *object, const char *file)
{
	FILE *f = *file == '/' ? target_file_text(file, TEXT_BYTES_MAX) : NULL;

	return f || !object || *object != '/' ? f : open_moved(object, file);
}

static FILE *open_source(struct symbols *s, uint64_t address)
{
	Dwfl_Module *module = dwfl_addrmodule(s->dwfl, address);
	const char *object = NULL;
	char name[PATH_MAX];
	char path[PATH_MAX + 32];

	if (!files_source(s, address, name, sizeof(name)))
		return NULL;
	target_file_name(s->root, name, path, sizeof(path));
	FILE *f = target_file_text(path, TEXT_BYTES_MAX);
	if (f || !module)
		return f;
	dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, &object, NULL);
	return object && *object == '/' ? open_moved(object, name) : NULL;
}

/* The name that a #define in this line is of; NULL: there is none. */
static const char *defined_name(const char *line, size_t *n)
{
	line += strspn(line, " \t");
	if (*line++ != '#')
		return NULL;
	line += strspn(line, " \t");
	if (strncmp(line, "define", 6) != 0 || !isspace((unsigned char)line[6]))
		return NULL;
	line += 6 + strspn(line + 6, " \t");
	for (*n = 0; is_name(line[*n]); (*n)++)
		;
	return *n ? line : NULL;
}

static bool uses_name(const char *text, const char *name, size_t n)
{
	for (const char *c = text; (c = memmem(c, strlen(c), name, n)); c++)
		if ((c == text || !is_name(c[-1])) && !is_name(c[n]))
			return true;
	return false;
}

bool source_uses_atomic_macro(FILE *stream, const char *statement)
{
	bool is_its = false; /* the line is part of the definition of a macro that is used */
	bool is_atomic = false;
	char *text = NULL;
	size_t size = 0;
	ssize_t length;
	size_t n;

	while (!is_atomic && (length = source_read_line(stream, &text, &size)) > 0) {
		const char *name = defined_name(text, &n);

		if (name)
			is_its = uses_name(statement, name, n);
		is_atomic = is_its && source_names_atomic(text);
		is_its = is_its && length > 1 && text[length - 2] == '\\';
	}
	free(text);
	return is_atomic;
}

char *source_statement(struct symbols *s, uint64_t address, int line)
{
	BUSY;
	FILE *f = line < 1 ? NULL : open_source(s, address);
	if (!f)
		return NULL;
	char *statement = source_statement_in(f, line);
	fclose(f);
	return statement;
}

enum source_says source_says(struct symbols *s, uint64_t address, int line)
{
	BUSY;
	char *statement = source_statement(s, address, line);
	enum source_says says = source_statement_says(statement);
	FILE *f = says == SOURCE_PLAIN ? open_source(s, address) : NULL;

	if (f && source_uses_atomic_macro(f, statement))
		says = SOURCE_ATOMIC;
	if (f)
		fclose(f);
	free(statement);
	return says;
}
