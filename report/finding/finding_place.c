/* SPDX-License-Identifier: MIT */
/* finding_place.c - see finding_place.h. */
#include "report/finding/finding_place.h"

#include "record/file_table.h"
#include "report/files/files.h"
#include "report/files/headline.h"
#include "report/suppress/suppress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INLINED_MAX 16

/* The outermost function of a library that a headline does not name. */
static void find_via(struct file_places *places, const uint64_t *frames, size_t n, bool is_access,
		     struct finding_place *out)
{
	struct place p;

	for (size_t i = 0; i < n; i++) {
		file_places_find(places, frames[i], !is_access || i > 0, &p);
		if (!symbols_is_system(p.module))
			return;
		snprintf(out->via, sizeof(out->via), "%s", p.function ? p.function : p.module);
	}
	out->via[0] = '\0';
}

void finding_place_find(struct file_places *places, const uint64_t *frames, size_t n,
			bool is_access, struct finding_place *out)
{
	struct headline h;

	if (!n)
		return;
	headline_find(places, frames, n, is_access, &h);
	find_via(places, frames, n, is_access, out);
	out->at = frames[h.frame];
	out->is_after = !is_access || h.frame > 0;
	out->is_call = h.is_call;
	out->place = h.place;
	snprintf(out->function, sizeof(out->function), "%.*s",
		 h.place.function ? (int)suppress_plain_length(h.place.function) : 0,
		 h.place.function ? h.place.function : "");
}

void finding_place_source(struct file_places *places, const struct finding_place *p, char *path,
			  size_t n)
{
	uint64_t address;
	struct symbols *s = p->at ? file_places_symbols(places, p->at, &address) : NULL;

	*path = '\0';
	if (s && !p->is_call && files_source(s, address - p->is_after, path, n))
		return;
	snprintf(path, n, "%s", p->place.file ? p->place.file : "");
}

bool finding_is_of_trapline(const char *module)
{
	return symbols_is_agent(module) || (module && !strcmp(module, "libtrapline-guard.so"));
}

size_t finding_frames(struct file_places *places, const uint64_t *frames, size_t n, bool is_access,
		      struct run_frame *out, size_t most)
{
	struct place found[INLINED_MAX];
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		const size_t count = file_places_frames(places, frames[i], !is_access || i > 0,
							found, INLINED_MAX);

		if (finding_is_of_trapline(found[0].module))
			continue;
		for (size_t k = 0; k < count && used < most; k++)
			out[used++] = (struct run_frame){
				.ip = frames[i] & FILE_PLACE_MASK,
				.place = found[k],
				.is_inlined = k + 1 < count,
			};
	}
	return used;
}

uint64_t finding_hash(uint64_t hash, const char *text)
{
	return hash_add(hash_text(hash, text), 0);
}

/* The name ends before one of these. */
static size_t without_end(const char *name, size_t n)
{
	static const char *const ends[] = { " const", " volatile", " &&", " &" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t bytes = strlen(ends[i]);
		if (n > bytes && !strncmp(name + n - bytes, ends[i], bytes))
			return without_end(name, n - bytes);
	}
	return n;
}

/*
 * A name of C++ as the debug information of an inlined function has it too: without the result,
 * the parameters and what is behind them. Other names are as they are: those of Go have no
 * parenthesis at the end.
 */
static void plain_name(const char *name, const char **from, size_t *bytes)
{
	size_t n = without_end(name, strlen(name));
	size_t depth = 0;
	size_t end;

	*from = name;
	*bytes = strlen(name);
	if (!n || name[n - 1] != ')')
		return;
	for (end = n; end; end--) {
		depth += name[end - 1] == ')';
		depth -= name[end - 1] == '(';
		if (!depth)
			break;
	}
	if (end < 2)
		return;
	*bytes = end - 1;
	/* The result of a template is before the name; `operator long` has a space of its own. */
	for (size_t i = 0; i < *bytes; i++) {
		depth += name[i] == '(' || name[i] == '<' || name[i] == '{';
		depth -= depth && (name[i] == ')' || name[i] == '>' || name[i] == '}');
		if (!depth && name[i] == ' ' && !strstr(name, "operator")) {
			*from = name + i + 1;
			*bytes = end - 1 - i - 1;
			return;
		}
	}
}

uint64_t finding_hash_place(uint64_t hash, const struct finding_place *p)
{
	const struct place *at = &p->place;
	const char *module = at->module ? at->module : "?";
	const char *name;
	size_t bytes;
	char text[384];

	plain_name(p->function, &name, &bytes);
	if (p->function[0])
		snprintf(text, sizeof(text), "%s:%.*s:%d", module, (int)bytes, name,
			 at->function_line && at->line ? at->line - at->function_line : 0);
	else
		snprintf(text, sizeof(text), "%s:@%" PRIx64, module, at->module_offset);
	return finding_hash(hash, text);
}

void finding_fingerprint(uint64_t hash, char out[20])
{
	snprintf(out, 20, "%016" PRIx64, hash);
}
