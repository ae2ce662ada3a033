/* SPDX-License-Identifier: MIT */
/* terminal.c - see terminal.h. */
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_dumb(void)
{
	const char *term = getenv("TERM");

	return term && !strcmp(term, "dumb");
}

bool terminal_has_color(int fd)
{
	const char *no = getenv("NO_COLOR");

	return isatty(fd) && !(no && *no) && getenv("TERM") && !is_dumb();
}

bool terminal_has_status(int fd)
{
	return isatty(fd) && !is_dumb();
}

static bool has_status_line;

void terminal_set_status(bool is_shown)
{
	has_status_line = is_shown;
}

void terminal_clear_status(void)
{
	if (has_status_line)
		fputs("\r\033[K", stderr);
	has_status_line = false;
}

/* The cursor is in `column`; further lines begin at `indent`. */
static void wrap(FILE *f, const char *text, int length, int column, int indent)
{
	int width = TERMINAL_COLUMNS - column;

	while (length > width) {
		int cut = width;

		while (cut > 0 && text[cut] != ' ')
			cut--;
		if (!cut)
			cut = width;
		fprintf(f, "%.*s\n%*s", cut, text, indent, "");
		int used = cut + (int)strspn(text + cut, " ");
		text += used;
		length -= used;
		width = TERMINAL_COLUMNS - indent;
	}
	fprintf(f, "%.*s\n", length, text);
}

void terminal_wrap(FILE *f, const char *text, int indent)
{
	wrap(f, text, (int)strlen(text), indent, indent);
}

/* The length of the heading that a line begins with; 0: it has none. */
static int heading_length(const char *line, int length)
{
	int n = (int)strcspn(line, ": \n") + 1;

	if (n > length || n < 2 || line[n - 1] != ':')
		return 0;
	return n == length || !strncmp(line, "usage:", 6) ? n : 0;
}

void terminal_print(FILE *f, const char *text, bool has_color)
{
	while (*text) {
		int length = (int)strcspn(text, "\n");
		int heading = heading_length(text, length);
		int indent = heading ? heading + 1 : (int)strspn(text, " ");

		fprintf(f, has_color && heading ? "\033[1m%.*s\033[0m" : "%.*s", heading, text);
		wrap(f, text + heading, length - heading, heading, indent);
		text += length + (text[length] == '\n');
	}
}
