/* SPDX-License-Identifier: MIT */
/*
 * dap_evaluate.c - see dap_evaluate.h.
 *
 * A command of the console is a run of trapline beside the session, on the same process. What it
 * prints goes to the client as it is.
 */
#include "cli/dap/dap_evaluate.h"

#include "base/clock.h"
#include "cli/dap/dap_arm.h"
#include "cli/dap/dap_child.h"
#include "cli/dap/dap_point.h"
#include "cli/dap/dap_tree.h"
#include "report/lang/expression.h"
#include "report/run/run.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 64
#define ANSWER_BYTES 8192
#define HELP                                                                               \
	"watch EXPR [OPTION...]: print each access to a variable; see trapline-watch(1)\n" \
	"break LOCATION [OPTION...]: print each call; see trapline-break(1)\n"             \
	"race [SECONDS]: look for data races; see trapline-race(1)\n"                      \
	"globals: all of them, by object and file\n"                                       \
	"balance: where the hits of each breakpoint went\n"                                \
	"stop: end the commands that run\n"                                                \
	"another text: the value of a variable now"

static void answer_branch(struct dap *d, const json_t *request, const char *text, int branch,
			  uint64_t elements)
{
	json_t *body = json_pack("{s:o, s:i}", "result", run_json_text(text), "variablesReference",
				 branch);

	if (elements)
		json_object_set_new(body, "indexedVariables", json_integer((json_int_t)elements));
	dap_send_response(&d->out, request, body);
}

static void answer(struct dap *d, const json_t *request, const char *text)
{
	answer_branch(d, request, text, 0, 0);
}

/*
 * In place, as a shell splits: blanks part words, quotes keep them together. Returns how many, -1:
 * a quote is open.
 */
static int split(char *text, char **words, int max)
{
	int count = 0;
	char *to = text;
	char *p = text;

	while (*p && count < max) {
		char quote = 0;

		p += strspn(p, " \t\n");
		if (!*p)
			break;
		words[count++] = to;
		for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
			if (quote && *p == quote)
				quote = 0;
			else if (!quote && (*p == '\'' || *p == '"'))
				quote = *p;
			else
				*to++ = *p;
		}
		if (quote)
			return -1;
		if (*p)
			p++;
		*to++ = 0;
	}
	words[count] = NULL;
	return count;
}

static bool is_command(const char *word)
{
	return !strcmp(word, "watch") || !strcmp(word, "break") || !strcmp(word, "race");
}

/* The client wants another form than lines with locations. */
static bool wants_form(char **words, int count)
{
	static const char *const forms[] = { "-j", "--json", "--as", "--sarif", "-o", "--output" };

	for (int i = 1; i < count; i++)
		for (size_t k = 0; k < sizeof(forms) / sizeof(forms[0]); k++)
			if (!strncmp(words[i], forms[k], strlen(forms[k])))
				return true;
	return false;
}

/* `race 10` is `race --for 10`, and `race` is that too: the races come at the end. */
static void run_command(struct dap *d, const json_t *request, char **words, int count)
{
	char self[] = "/proc/self/exe";
	char pid_option[] = "-p";
	char follow_option[] = "--follow";
	char for_option[] = "--for";
	char for_default[] = "10";
	char json_option[] = "--json";
	char pid[16];
	char *argv[WORDS_MAX + 8];
	char why[DAP_WHY];
	char text[DAP_WHY];
	int n = 0;

	snprintf(pid, sizeof(pid), "%d", d->pid);
	argv[n++] = self;
	argv[n++] = words[0];
	argv[n++] = pid_option;
	argv[n++] = pid;
	if (d->follows && !strcmp(words[0], "break"))
		argv[n++] = follow_option;
	bool is_race = !strcmp(words[0], "race");
	bool gives_races = is_race && !wants_form(words, count);
	if (gives_races)
		argv[n++] = json_option;
	if (is_race && (count == 1 || isdigit((unsigned char)words[1][0])))
		argv[n++] = for_option;
	if (is_race && count == 1)
		argv[n++] = for_default;
	for (int i = 1; i < count; i++)
		argv[n++] = words[i];
	argv[n] = NULL;
	if (!dap_child_command(d, argv, gives_races, why, sizeof(why))) {
		dap_send_refusal(&d->out, request, why);
		return;
	}
	if (gives_races)
		snprintf(text, sizeof(text),
			 "trapline race -p %s runs; the races come at its end, and stop ends it",
			 pid);
	else
		snprintf(text, sizeof(text),
			 "trapline %s -p %s runs until the session ends; stop ends it", words[0],
			 pid);
	answer(d, request, text);
}

/* False: the first word is not one of the console's. */
static bool run_words(struct dap *d, const json_t *request, const char *expression)
{
	char *text = strdup(expression);
	char *words[WORDS_MAX + 1];
	char said[64];
	bool is_known = true;

	if (!text)
		return false;
	int count = split(text, words, WORDS_MAX);
	if (count < 0 && is_command(expression)) {
		dap_send_refusal(&d->out, request, "a quote is open: close it");
	} else if (count <= 0) {
		is_known = false;
	} else if (is_command(words[0]) && d->is_terminated) {
		dap_send_refusal(&d->out, request, DAP_HAS_ENDED);
	} else if (is_command(words[0])) {
		run_command(d, request, words, count);
	} else if (count > 1) {
		is_known = false;
	} else if (!strcmp(words[0], "help")) {
		answer(d, request, HELP);
	} else if (!strcmp(words[0], "stop")) {
		size_t n = dap_child_stop(d);
		snprintf(said, sizeof(said), "%zu command%s asked to end", n,
			 n == 1 ? " was" : "s were");
		answer(d, request, said);
	} else if (!strcmp(words[0], "globals")) {
		answer_branch(d, request, "globals, by object and file", DAP_TREE_ROOT, 0);
	} else if (!strcmp(words[0], "balance")) {
		dap_balance_say(d);
		answer(d, request, "");
	} else {
		is_known = false;
	}
	free(text);
	return is_known;
}

/* The last values that a data breakpoint saw, the newest first. */
static void history_text(const struct dap_point *p, char *buf, size_t n)
{
	uint64_t now = clock_now_ns();
	uint64_t first = p->seen_count > DAP_HISTORY ? p->seen_count - DAP_HISTORY : 0;
	size_t used = strlen(buf);

	for (uint64_t i = p->seen_count; i > first && used < n; i--) {
		const struct dap_seen *seen = &p->seen[(i - 1) % DAP_HISTORY];
		used += (size_t)snprintf(buf + used, n - used, "\n%.3f s ago  %s  %s",
					 (double)(now - seen->time_ns) / 1e9, seen->text, seen->by);
	}
	if (!p->seen_count)
		snprintf(buf + used, n - used, "\nno hit yet");
	else if (first && used < n)
		snprintf(buf + used, n - used, "\nand %" PRIu64 " before", first);
}

/* The value as it is now. False with why. */
static bool value_now(struct dap *d, const char *text, struct expression_place *place, char *buf,
		      size_t n, char *why, size_t room)
{
	const struct expression_options options = { 0 };
	struct expression_error error = { 0 };
	struct expression *e = NULL;
	int err = expression_parse(text, &e, &error);
	const char *no_value = err ? NULL : expression_no_value(e);

	if (no_value) {
		snprintf(error.text, sizeof(error.text), "%s", no_value);
		err = -EINVAL;
	}
	if (!err)
		err = expression_resolve(d->symbols, e, &options, place, &error);
	if (!err)
		hit_place_text(d->symbols, place, place->address, buf, n);
	else
		snprintf(why, room, "%s", error.text[0] ? error.text : "out of memory");
	expression_free(e);
	return !err;
}

static const struct dap_point *data_named(const struct dap *d, const char *name)
{
	for (const struct dap_point *p = d->points; p; p = p->next)
		if (p->kind == DAP_DATA && p->is_verified && !strcmp(p->name, name))
			return p;
	return NULL;
}

void dap_evaluate(struct dap *d, const json_t *request)
{
	const json_t *arguments = json_object_get(request, "arguments");
	const char *expression = json_string_value(json_object_get(arguments, "expression"));
	const char *context = json_string_value(json_object_get(arguments, "context"));
	static char text[ANSWER_BYTES];
	struct expression_place place;
	uint64_t elements;
	char why[DAP_WHY];

	if (!expression || strlen(expression) > ANSWER_BYTES / 2) {
		dap_send_refusal(&d->out, request, "evaluate needs expression, a short text");
		return;
	}
	if ((!context || !strcmp(context, "repl")) && run_words(d, request, expression))
		return;
	if (d->is_terminated) {
		dap_send_refusal(&d->out, request, DAP_HAS_ENDED);
		return;
	}
	if (!value_now(d, expression, &place, text, sizeof(text), why, sizeof(why))) {
		dap_send_refusal(&d->out, request, why);
		return;
	}
	const struct dap_point *p = data_named(d, expression);
	if (p)
		history_text(p, text, sizeof(text));
	int branch = dap_tree_branch(d, &place, expression, &elements);
	answer_branch(d, request, text, branch, elements);
}
