/* SPDX-License-Identifier: MIT */
/* break_print.c - see break_print.h. */
#include "cli/break/break_print.h"

#include "cli/message.h"
#include "report/run/groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 2000

static int begin_line(struct break_print *p, const struct observe_settings *set)
{
	char why[300] = "out of memory";

	if (!set->print || !hit_template_parse(set->print, &p->line.template, why, sizeof(why)))
		return 0;
	return cli_wrong(set->name, "invalid --print '%.100s': %s", set->print, why);
}

static int begin_key(struct break_print *p, const struct observe_settings *set)
{
	char why[300] = "out of memory";
	char text[500];

	if (!set->by || run_groups_is_word(set->by))
		return 0;
	snprintf(text, sizeof(text), "{%.400s}", set->by);
	if (!strpbrk(set->by, "{}\\") &&
	    !hit_template_parse(text, &p->key.template, why, sizeof(why)))
		return 0;
	return cli_wrong(set->name,
			 "invalid --by '%.100s': expected " RUN_GROUPS_WORDS
			 ", or a variable or a member (example: conn->state)",
			 set->by);
}

int break_print_begin(struct break_print *p, const struct observe_settings *set)
{
	int status = begin_line(p, set);

	return status ? status : begin_key(p, set);
}

bool break_print_is_wanted(const struct break_print *p)
{
	return p->line.template || p->key.template;
}

static int bind(struct break_text *t, const char *option, const struct observe_settings *set,
		struct symbols *s, const struct code_sites *sites, size_t index,
		const struct signature *signature)
{
	char why[500] = "out of memory";

	if (!t->template)
		return 0;
	if (!t->bound)
		t->bound = calloc(sites->count, sizeof(*t->bound));
	if (t->bound && !hit_template_bind(t->template, s, &sites->site[index], signature,
					   &t->bound[index], why, sizeof(why))) {
		hit_bound_redact(t->bound[index], t->template, &set->redact);
		return 0;
	}
	return cli_wrong(set->name, "invalid %s in %s: %s", option, sites->site[index].name, why);
}

int break_print_bind(struct break_print *p, const struct observe_settings *set, struct symbols *s,
		     const struct code_sites *sites, size_t index,
		     const struct signature *signature)
{
	p->count = sites->count;
	int status = bind(&p->line, "--print", set, s, sites, index, signature);

	return status ? status : bind(&p->key, "--by", set, s, sites, index, signature);
}

static void needs_of(const struct break_text *t, size_t index, struct hit_copies *c,
		     uint32_t *texts, bool *wants_stack)
{
	if (!t->bound || !t->bound[index])
		return;
	hit_bound_copies(t->bound[index], c);
	*texts |= hit_bound_texts(t->bound[index]);
	*wants_stack = *wants_stack || hit_bound_wants_stack(t->bound[index]);
}

void break_print_needs(const struct break_print *p, size_t index, struct hit_copies *c,
		       uint32_t *texts, bool *wants_stack)
{
	needs_of(&p->line, index, c, texts, wants_stack);
	needs_of(&p->key, index, c, texts, wants_stack);
}

uint32_t break_print_vectors(const struct break_print *p, size_t index)
{
	uint32_t line = p->line.bound ? hit_bound_vectors(p->line.bound[index]) : 0;
	uint32_t key = p->key.bound ? hit_bound_vectors(p->key.bound[index]) : 0;

	return line > key ? line : key;
}

static char *text_of(const struct break_text *t, struct symbols *s, const struct trapline_hit *hit,
		     struct break_call *call)
{
	char text[TEXT_BYTES];

	if (!t->bound)
		return NULL;
	hit_template_text(t->template, t->bound[call->site], s, hit, text, sizeof(text),
			  &call->args_later);
	return strdup(text);
}

void break_print_call(const struct break_print *p, struct symbols *s,
		      const struct trapline_hit *hit, struct break_call *call)
{
	call->printed = text_of(&p->line, s, hit, call);
	call->key = text_of(&p->key, s, hit, call);
}

static void text_free(struct break_text *t, size_t count)
{
	for (size_t i = 0; t->bound && i < count; i++)
		hit_bound_free(t->bound[i]);
	free(t->bound);
	hit_template_free(t->template);
}

void break_print_free(struct break_print *p)
{
	text_free(&p->line, p->count);
	text_free(&p->key, p->count);
}
