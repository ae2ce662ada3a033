/* SPDX-License-Identifier: MIT */
/* suppress.c - does a suppression match a race? suppress.h describes both syntaxes. */
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

/* The whole text, with `*`, and `?` where asked. One step back is enough: to the last star. */
static bool is_like(const char *pattern, const char *text, size_t length, bool has_any_one)
{
	const char *end = text + length;
	const char *star = NULL;
	const char *star_text = NULL;

	while (text < end) {
		if (*pattern == '*') {
			star = ++pattern;
			star_text = text;
		} else if (*pattern == *text || (has_any_one && *pattern == '?')) {
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
static bool is_like_name(const char *pattern, const char *name, bool has_any_one)
{
	return name && *name &&
	       (is_like(pattern, name, strlen(name), has_any_one) ||
		is_like(pattern, name, suppress_plain_length(name), has_any_one));
}

static bool is_like_text(const char *pattern, const char *text)
{
	return text && *text && is_like(pattern, text, strlen(text), false);
}

static bool is_like_module(const char *pattern, const struct suppress_frame *f)
{
	return is_like_text(pattern, f->module) || is_like_text(pattern, f->path);
}

static bool is_like_frame(const char *pattern, const struct suppress_frame *f)
{
	return is_like_name(pattern, f->function, false) ||
	       is_like_name(pattern, f->symbol, false) || is_like_text(pattern, f->source) ||
	       is_like_module(pattern, f);
}

static bool matches_any_frame(const char *pattern, const struct suppress_race *race)
{
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < race->stacks[side].count; i++)
			if (is_like_frame(pattern, &race->stacks[side].frames[i]))
				return true;
	return is_like_text(pattern, race->variable);
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

static bool is_like_source(const char *pattern, const struct suppress_frame *f)
{
	char text[4200];

	if (!f->source)
		return false;
	const char *name = basename(f->source);
	int n = snprintf(text, sizeof(text), "%s:%d", name, f->line);
	return is_like(pattern, name, strlen(name), true) ||
	       is_like(pattern, f->source, strlen(f->source), true) ||
	       (n < (int)sizeof(text) && is_like(pattern, text, (size_t)n, true));
}

static bool is_like_step(const struct suppress_step *step, const struct suppress_frame *f)
{
	const char *path = f->path ? f->path : "";

	switch (step->kind) {
	case SUPPRESS_FUNCTION:
		return is_like_name(step->pattern, f->symbol, true) ||
		       is_like_name(step->pattern, f->function, true) ||
		       (!f->function && is_like(step->pattern, "", 0, true));
	case SUPPRESS_OBJECT:
		return is_like(step->pattern, path, strlen(path), true);
	case SUPPRESS_SOURCE:
		return is_like_source(step->pattern, f);
	case SUPPRESS_FRAMES:
		return true;
	}
	return false;
}

/* The steps from the innermost frame on; what is further out does not matter. As is_like(). */
static bool matches_frames(const struct suppress_rule *rule, const struct suppress_frame **frames,
			   size_t count)
{
	size_t any = SUPPRESS_STEPS; /* the step after the last `...` */
	size_t any_frame = 0;
	size_t step = 0;
	size_t frame = 0;

	while (step < rule->step_count) {
		if (rule->steps[step].kind == SUPPRESS_FRAMES) {
			any = ++step;
			any_frame = frame;
		} else if (frame < count && is_like_step(&rule->steps[step], frames[frame])) {
			step++;
			frame++;
		} else if (any < SUPPRESS_STEPS && any_frame < count) {
			step = any;
			frame = ++any_frame;
		} else {
			return false;
		}
	}
	return true;
}

#define FRAMES_MAX 512

/* With inlined functions as separate frames, or without: tools print one or the other. */
static bool matches_stack(const struct suppress_rule *rule, const struct suppress_stack *stack,
			  size_t from, bool has_inlined)
{
	const struct suppress_frame *frames[FRAMES_MAX];
	size_t count = 0;

	for (size_t i = from; i < stack->count && count < FRAMES_MAX; i++)
		if (has_inlined || !stack->frames[i].is_inlined)
			frames[count++] = &stack->frames[i];
	return matches_frames(rule, frames, count);
}

/* From the memory function on, or from its caller, as in a report. */
static bool matches_block(const struct suppress_rule *rule, const struct suppress_stack *stack)
{
	return stack->count && (matches_stack(rule, stack, stack->top, true) ||
				matches_stack(rule, stack, stack->top, false) ||
				(stack->top && (matches_stack(rule, stack, 0, true) ||
						matches_stack(rule, stack, 0, false))));
}

static bool matches_library(const char *pattern, const struct suppress_stack *stack)
{
	return stack->top < stack->count && is_like_module(pattern, &stack->frames[stack->top]);
}

static bool matches(const struct suppress_rule *rule, const struct suppress_race *race)
{
	const struct suppress_stack *one = &race->stacks[0];
	const struct suppress_stack *two = &race->stacks[1];

	switch (rule->kind) {
	case SUPPRESS_ANY_FRAME:
		return matches_any_frame(rule->pattern, race);
	case SUPPRESS_TOP:
		return matches_top(rule->pattern, one) || matches_top(rule->pattern, two);
	case SUPPRESS_LIBRARY:
		return matches_library(rule->pattern, one) || matches_library(rule->pattern, two);
	case SUPPRESS_STACK:
		return matches_block(rule, one) || matches_block(rule, two);
	}
	return false;
}

const struct suppression *suppressions_match(struct suppressions *s,
					     const struct suppress_race *race)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->rules[i]->is_heap != race->is_heap || !matches(s->rules[i], race))
			continue;
		s->rules[i]->told.matches++;
		return &s->rules[i]->told;
	}
	return NULL;
}
