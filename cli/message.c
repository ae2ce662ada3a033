/* SPDX-License-Identifier: MIT */
/* message.c - see message.h. */
#include "cli/message.h"
#include "cli/terminal.h"
#include "report/safe/clean.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static cli_listener listener;
static void *listener_arg;

void cli_set_listener(cli_listener to, void *arg)
{
	listener = to;
	listener_arg = arg;
}

static void say(const char *command, const char *kind, const char *format, va_list args)
{
	const char *color = !terminal_has_color(STDERR_FILENO) ? "" :
			    *kind			       ? "\033[1m" :
								 "\033[1;31m";
	char line[1024];

	vsnprintf(line, sizeof(line), format, args);
	/* Explanations come with line breaks; an error is one line. Names of a target come, too. */
	for (char *p = line; (p = strchr(p, '\n')) != NULL;)
		*p = ' ';
	clean_text(line);
	if (listener) {
		listener(listener_arg, *kind != 0, line);
		return;
	}
	terminal_clear_status();
	fprintf(stderr, "%strapline%s%s: %s%s%s\n", color, command ? " " : "",
		command ? command : "", kind, *color ? "\033[0m" : "", line);
}

static struct {
	bool is_on;
	char command[32];
	char line[1024];
} kept_wrong;

void cli_keep_wrong(bool keeps, bool is_told)
{
	kept_wrong.is_on = keeps;
	if (!keeps && is_told && kept_wrong.line[0])
		cli_wrong(kept_wrong.command, "%s", kept_wrong.line);
	kept_wrong.line[0] = '\0';
}

int cli_wrong(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (kept_wrong.is_on) {
		snprintf(kept_wrong.command, sizeof(kept_wrong.command), "%s",
			 command ? command : "");
		vsnprintf(kept_wrong.line, sizeof(kept_wrong.line), format, args);
	} else {
		say(command, "", format, args);
	}
	va_end(args);
	return CLI_USAGE;
}

void cli_note(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(command, "note: ", format, args);
	va_end(args);
}
