// SPDX-License-Identifier: MIT
/*
 * source.c - the statement of an access, in the source text.
 *
 * Lines are joined to statements by how they end: enough to see that the head of a call with its
 * arguments below is __atomic_load_n(). Nothing else of the language is understood.
 */
#include "report/source.h"

#include "report/files.h"
#include "report/symbols_priv.h"

#include <ctype.h>
#include <elfutils/libdwfl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define STATEMENT_LINES_MAX 12

/* Blanks what stands in comments; returns whether one goes on in the next line. */
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

static bool names_atomic(const char *line)
{
	static const char *const words[] = { "atomic", "volatile", "__sync_", "READ_ONCE",
					     "WRITE_ONCE", "ACCESS_ONCE" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasestr(line, words[i]))
			return true;
	return false;
}

/* The first character that is none of space, and the last; '\0' in an empty line. */
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

enum source_says source_says_in(FILE *stream, int line)
{
	bool is_comment = false;
	bool begins = true;
	bool is_atomic = false;
	bool was_reached = false;
	char *text = NULL;
	size_t size = 0;

	for (int n = 1; n < line + STATEMENT_LINES_MAX && getline(&text, &size, stream) > 0;
	     n++) {
		is_comment = blank_comments(text, is_comment);
		if (begins)
			is_atomic = false;
		is_atomic |= names_atomic(text);
		begins = ends_statement(text);
		was_reached |= n == line;
		if (n >= line && begins)
			break;
	}
	free(text);
	if (!was_reached)
		return SOURCE_UNKNOWN;
	return is_atomic ? SOURCE_ATOMIC : SOURCE_PLAIN;
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
			FILE *f = fopen(path, "re");
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

static FILE *open_source(struct symbols *s, uint64_t address)
{
	Dwfl_Module *module = dwfl_addrmodule(s->dwfl, address);
	const char *object = NULL;
	char path[PATH_MAX];

	if (!files_source(s, address, path, sizeof(path)))
		return NULL;
	FILE *f = fopen(path, "re");
	if (f || !module)
		return f;
	dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, &object, NULL);
	return object && *object == '/' ? open_moved(object, path) : NULL;
}

enum source_says source_says(struct symbols *s, uint64_t address, int line)
{
	if (line < 1)
		return SOURCE_UNKNOWN;
	FILE *f = open_source(s, address);
	if (!f)
		return SOURCE_UNKNOWN;
	enum source_says says = source_says_in(f, line);
	fclose(f);
	return says;
}
