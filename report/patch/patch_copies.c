/* SPDX-License-Identifier: MIT */
/* patch_copies.c - see patch_copies.h. */
#include "report/patch/patch_copies.h"

#include "report/dwarf/symbols_priv.h"

#include <stdio.h>
#include <string.h>

#define COPIES_NAMED 5
#define COPIES_FRAMES 16

static void copies_add(char *list, size_t size, size_t *count, const char *text)
{
	size_t used = strlen(list);

	if (strstr(list, text))
		return; /* a loop that was unrolled has several copies of one call */
	if ((*count)++ < COPIES_NAMED)
		snprintf(list + used, size - used, "%s%s", used ? ", " : "", text);
}

static void copies_end(char *list, size_t size, size_t count)
{
	size_t used = strlen(list);

	if (count > COPIES_NAMED)
		snprintf(list + used, size - used, " and %zu more", count - COPIES_NAMED);
}

/* `main at x.c:12`: the function around a copy, and the line of the call. */
static void copies_place(struct symbols *s, const struct code_site *site, char *text, size_t n)
{
	struct place frames[COPIES_FRAMES];
	size_t count = symbols_frames(s, site->address, frames, COPIES_FRAMES);
	const struct place *around = &frames[count > 1 ? 1 : 0];
	const char *slash = around->file ? strrchr(around->file, '/') : NULL;

	/* What was inlined into a copy: the frame of this one is further out. */
	for (size_t i = 0; i + 1 < count; i++)
		if (frames[i].function && !strcmp(frames[i].function, site->name))
			around = &frames[i + 1];
	snprintf(text, n, "%s", around->function ? around->function : "a function without a name");
	size_t used = strlen(text);
	if (around->file && around->line)
		snprintf(text + used, n - used, " at %s:%d", slash ? slash + 1 : around->file,
			 around->line);
}

size_t patch_copies_inlined(struct symbols *s, const struct code_sites *sites, char *list,
			    size_t size)
{
	char text[300];
	size_t count = 0;

	for (size_t i = 0; i < sites->count; i++) {
		if (sites->site[i].kind != CODE_SITE_INLINED)
			continue;
		copies_place(s, &sites->site[i], text, sizeof(text));
		copies_add(list, size, &count, text);
	}
	copies_end(list, size, count);
	return count;
}

struct pieces {
	const char *name; /* of the function */
	char *list;
	size_t size;
	size_t count;
};

/* `answer.part.0`: callers have the begin of the function inlined, and call the rest. */
static int copies_visit(Dwfl_Module *mod, const char *symbol, const GElf_Sym *sym, uint64_t address,
			void *arg)
{
	struct pieces *p = arg;
	size_t n = strlen(p->name);

	if (GELF_ST_TYPE(sym->st_info) == STT_FUNC && !strncmp(symbol, p->name, n) &&
	    !strncmp(symbol + n, ".part", 5))
		copies_add(p->list, p->size, &p->count, symbol);
	return 0;
}

size_t patch_copies(struct symbols *s, const struct code_sites *sites,
		    const struct code_site *function, char *list, size_t size)
{
	struct pieces pieces = { .name = function->name, .list = list, .size = size };
	size_t count = patch_copies_inlined(s, sites, list, size);

	for (size_t i = 0; i < sites->count; i++)
		if (sites->site[i].kind == CODE_SITE_FUNCTION && sites->site[i].is_clone &&
		    &sites->site[i] != function)
			copies_add(list, size, &pieces.count, sites->site[i].name);
	if (function->module)
		symbols_walk(s, function->module, copies_visit, &pieces);
	return count + pieces.count;
}
