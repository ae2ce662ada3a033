/* SPDX-License-Identifier: MIT */
/* inline.c - the functions that a compiler put into another, at one address. */
#include "report/dwarf/ada.h"
#include "report/dwarf/dies.h"
#include "report/dwarf/languages.h"
#include "report/dwarf/types_priv.h"
#include "report/dwarf/unit.h"
#include "report/safe/busy.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 16

/* Looked up once for each address: a hot location is in every stack. */
struct cached_frames {
	uint64_t address;
	size_t count;
	struct place frames[FRAMES_MAX];
};

static int cached_compare(const void *a, const void *b)
{
	const struct cached_frames *x = a;
	const struct cached_frames *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static void frames_free(struct symbols *s)
{
	tdestroy(s->frame_cache, free);
}

static const char *inlined_name(struct symbols *s, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die origin;
	char name[256];
	char ada[256];

	if (!dwarf_attr(die, DW_AT_abstract_origin, &attr) || !dwarf_formref_die(&attr, &origin))
		return clean_die_name(die);
	/* A method's declaration knows its class. */
	if (dwarf_attr(&origin, DW_AT_specification, &attr))
		dwarf_formref_die(&attr, &origin);
	die_qualified(&origin, name, sizeof(name));
	if (language_is_ada(die_language(die)) && ada_decode(name, ada, sizeof(ada)))
		return clean_keep(ada);
	struct types *types = types_of(s);
	return types && name[0] ? types_keep_name(types, name) : clean_die_name(die);
}

static int begin_line(Dwarf_Die *function)
{
	int line = 0;

	dwarf_decl_line(function, &line);
	return line;
}

static const char *folder_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die unit;

	return dwarf_diecu(die, &unit, NULL, NULL) && dwarf_attr(&unit, DW_AT_comp_dir, &attr) ?
		       clean_attribute(&attr) :
		       NULL;
}

/* Where a function is called that was inlined: that is the line of the one around it. */
static void call_place(Dwarf_Die *die, struct place *around)
{
	uint64_t number;

	if (die_number(die, DW_AT_call_line, &number))
		around->line = (int)number;
	if (die_number(die, DW_AT_call_file, &number))
		around->file = unit_whole_path(die_file_by_number(die, number), folder_of(die));
}

static void frames_fill(struct symbols *s, struct cached_frames *c)
{
	BUSY;
	Dwfl_Module *mod = symbols_module_of(s, c->address);
	Dwarf_Addr bias;
	Dwarf_Die scopes[DIE_SCOPES_MAX];
	struct place at;

	symbols_place(s, c->address, &at);
	Dwarf_Die *cu = unit_at(mod, c->address, &bias);
	int n = cu ? die_scopes(cu, c->address - bias, scopes) : 0;
	for (int i = n - 1; i >= 0 && c->count < FRAMES_MAX - 1; i--) {
		if (dwarf_tag(&scopes[i]) == DW_TAG_subprogram) {
			at.function_line = begin_line(&scopes[i]);
			break;
		}
		if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine)
			continue;
		struct place *inlined = &c->frames[c->count++];
		*inlined = at;
		inlined->function = inlined_name(s, &scopes[i]);
		inlined->symbol = NULL;
		inlined->same_code = NULL;
		inlined->offset = 0;
		inlined->function_line = begin_line(&scopes[i]);
		call_place(&scopes[i], &at);
	}
	c->frames[c->count++] = at;
}

static size_t frames_moved(struct symbols *s, uint64_t address, struct place *out, size_t n)
{
	uint64_t to;

	symbols_place(s, address, out);
	return out->module && symbols_moved(s, address, &to) ? symbols_frames(s->like, to, out, n) :
							       1;
}

size_t symbols_frames(struct symbols *s, uint64_t address, struct place *out, size_t n)
{
	if (s->like)
		return frames_moved(s, address, out, n);

	struct cached_frames key = { .address = address };
	struct cached_frames **found = tfind(&key, &s->frame_cache, cached_compare);
	struct cached_frames *c = found ? *found : calloc(1, sizeof(*c));

	if (!c) {
		symbols_place(s, address, out);
		return 1;
	}
	if (!found) {
		c->address = address;
		frames_fill(s, c);
		/* A location that is not known yet may be later: not remembered. */
		if (!c->frames[0].module || !tsearch(c, &s->frame_cache, cached_compare)) {
			*out = c->frames[0];
			free(c);
			return 1;
		}
		symbols_on_close(s, frames_free);
	}
	size_t count = c->count < n ? c->count : n;
	memcpy(out, c->frames, count * sizeof(*out));
	return count;
}
