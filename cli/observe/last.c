/* SPDX-License-Identifier: MIT */
/* last.c - see last.h. */
#include "cli/observe/last.h"

#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "report/code/code_sites.h"
#include "report/safe/stream_fd.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE_MAX 1024

int last_begin(struct last *l, const char *command, uint64_t max)
{
	if (!max)
		return CLI_OK;
	l->lines = calloc(max, sizeof(*l->lines));
	if (!l->lines)
		return cli_wrong(command, "out of memory");
	l->max = max;
	return CLI_OK;
}

static int arm_sites(struct last *l, const char *command, struct trapline *target,
		     const struct code_sites *sites, void *arg)
{
	TRAPLINE_OPTS(event, opts);
	uint64_t *addresses = calloc(sites->count, sizeof(*addresses));
	char why[600];

	if (!addresses)
		return cli_wrong(command, "out of memory");
	for (size_t i = 0; i < sites->count; i++)
		addresses[i] = sites->site[i].address;
	opts.limit = 1;
	opts.arg = arg;
	opts.condition = l->condition;
	int err = trapline_break_sites(target, addresses, sites->count, &opts, &l->until);
	free(addresses);
	if (err >= 0)
		return CLI_OK;
	trapline_explain(err, why, sizeof(why));
	return cli_wrong(command, "cannot use --until-hit: %s", why);
}

int last_arm_until(struct last *l, const char *command, struct symbols *s, struct trapline *target,
		   const char *place, void *arg)
{
	const struct condition_names names = { .symbols = s };
	const char *condition = strstr(place, " if ");
	struct condition_parts parts = { 0 };
	struct code_sites sites = { 0 };
	char location[PLACE_MAX];
	char why[400];
	int status = CLI_OK;

	snprintf(location, sizeof(location), "%.*s",
		 condition ? (int)(condition - place) : (int)strlen(place), place);
	if (condition)
		status = cli_condition(command, condition + 4, &names, &parts);
	l->condition = parts.entry;
	if (status)
		return status;
	status = code_sites_find(s, location, &sites, why, sizeof(why)) ?
			 cli_wrong(command, "%s", why) :
			 arm_sites(l, command, target, &sites, arg);
	code_sites_free(&sites);
	return status;
}

void last_open(struct last *l, struct output *to)
{
	l->text = to->text.f;
	l->json = to->json;
	l->now = (struct last_lines){ 0 };
	if (to->text.f)
		to->text.f = open_memstream(&l->now.text, &l->now.text_size);
	if (to->json)
		to->json = open_memstream(&l->now.json, &l->now.json_size);
}

static void drop(struct last *l, struct last_lines *lines)
{
	l->bytes -= lines->text_size + lines->json_size;
	free(lines->text);
	free(lines->json);
	*lines = (struct last_lines){ 0 };
}

static void drop_oldest(struct last *l)
{
	drop(l, &l->lines[l->first]);
	l->first = (l->first + 1) % l->max;
	l->count--;
}

void last_keep(struct last *l, struct output *to)
{
	if (to->text.f)
		fclose(to->text.f);
	if (to->json)
		fclose(to->json);
	to->text.f = l->text;
	to->json = l->json;
	if (l->count == l->max)
		drop_oldest(l);
	l->lines[(l->first + l->count++) % l->max] = l->now;
	l->bytes += l->now.text_size + l->now.json_size;
	while (l->bytes > LAST_BYTES_MAX && l->count > 1)
		drop_oldest(l);
}

/* A terminal acts on some of what is not ASCII, and a value may be any text. */
static void put_json(FILE *f, char *json, size_t n)
{
	for (size_t i = 0; isatty(stream_fd(f)) && i < n; i++)
		if ((unsigned char)json[i] >= 0x80)
			json[i] = '?';
	fwrite(json, n, 1, f);
}

void last_print(const struct last *l, struct output *to)
{
	output_clear_status(to);
	for (size_t i = 0; i < l->count; i++) {
		const struct last_lines *lines = &l->lines[(l->first + i) % l->max];

		if (to->text.f && lines->text)
			fwrite(lines->text, lines->text_size, 1, to->text.f);
		if (to->json && lines->json)
			put_json(to->json, lines->json, lines->json_size);
	}
}

void last_free(struct last *l)
{
	while (l->count)
		drop_oldest(l);
	free(l->lines);
	l->lines = NULL;
	trapline_condition_free(l->condition);
}
