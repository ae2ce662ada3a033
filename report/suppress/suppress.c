/* SPDX-License-Identifier: MIT */
/* suppress.c - does a suppression match a finding? See suppress.h. */
#include "report/suppress/suppress_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int suppressions_new(struct suppressions **out)
{
	struct suppressions *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*out = s;
	return 0;
}

void suppressions_free(struct suppressions *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++) {
		free(s->rules[i]->pattern);
		free(s->rules[i]);
	}
	for (size_t i = 0; i < s->kept_count; i++)
		free(s->kept[i]);
	free(s->rules);
	free(s->kept);
	free(s);
}

size_t suppressions_count(const struct suppressions *s)
{
	return s ? s->count : 0;
}

const struct suppression *suppressions_at(const struct suppressions *s, size_t i)
{
	return &s->rules[i]->told;
}

size_t suppressions_passed_over(const struct suppressions *s)
{
	return s ? s->passed_over : 0;
}

size_t suppress_plain_length(const char *name)
{
	static const char *const suffixes[] = { ".constprop.", ".isra.",     ".part.",
						".cold",       ".lto_priv.", ".llvm." };
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		const char *at = strstr(name, suffixes[i]);

		if (at && (size_t)(at - name) < length)
			length = (size_t)(at - name);
	}
	return length;
}

/* The whole text, with `*`. One step back is enough: to the last star. */
static bool is_like(const char *pattern, const char *text, size_t length)
{
	const char *end = text + length;
	const char *star = NULL;
	const char *star_text = NULL;

	while (text < end) {
		if (*pattern == '*') {
			star = ++pattern;
			star_text = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++star_text;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* A name as it is, or without what the compiler added to it. */
static bool is_like_name(const char *pattern, const char *name)
{
	return name && *name &&
	       (is_like(pattern, name, strlen(name)) ||
		is_like(pattern, name, suppress_plain_length(name)));
}

static bool is_like_text(const char *pattern, const char *text)
{
	return text && *text && is_like(pattern, text, strlen(text));
}

static bool is_like_module(const char *pattern, const struct suppress_frame *f)
{
	return is_like_text(pattern, f->module) || is_like_text(pattern, f->path);
}

static bool is_like_frame(const char *pattern, const struct suppress_frame *f)
{
	return is_like_name(pattern, f->function) || is_like_name(pattern, f->symbol) ||
	       is_like_text(pattern, f->source) || is_like_module(pattern, f);
}

static bool matches_any_frame(const char *pattern, const struct suppress_finding *finding)
{
	for (size_t stack = 0; stack < finding->stack_count; stack++)
		for (size_t i = 0; i < finding->stacks[stack].count; i++)
			if (is_like_frame(pattern, &finding->stacks[stack].frames[i]))
				return true;
	return is_like_text(pattern, finding->names[0]) || is_like_text(pattern, finding->names[1]);
}

/* The function that makes the access, those put into it included: where compilers inline varies. */
static bool matches_top(const char *pattern, const struct suppress_stack *stack)
{
	for (size_t i = stack->top; i < stack->count; i++) {
		if (is_like_frame(pattern, &stack->frames[i]))
			return true;
		if (!stack->frames[i].is_inlined)
			break;
	}
	return false;
}

static bool matches_library(const char *pattern, const struct suppress_stack *stack)
{
	return stack->top < stack->count && is_like_module(pattern, &stack->frames[stack->top]);
}

static bool matches_stack(const struct suppress_rule *rule, const struct suppress_stack *stack)
{
	return rule->kind == SUPPRESS_TOP ? matches_top(rule->pattern, stack) :
					    matches_library(rule->pattern, stack);
}

static bool matches(const struct suppress_rule *rule, const struct suppress_finding *finding)
{
	if (rule->kind == SUPPRESS_ANY_FRAME)
		return matches_any_frame(rule->pattern, finding);
	for (size_t i = 0; i < finding->stack_count; i++)
		if (matches_stack(rule, &finding->stacks[i]))
			return true;
	return false;
}

const struct suppression *suppressions_match(struct suppressions *s,
					     const struct suppress_finding *finding)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->rules[i]->tool != finding->tool || !matches(s->rules[i], finding))
			continue;
		s->rules[i]->told.matches++;
		return &s->rules[i]->told;
	}
	return NULL;
}
