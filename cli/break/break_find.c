/* SPDX-License-Identifier: MIT */
/* break_find.c - from what the user names to sites in code, and which of them are left out. */
#include "cli/break/break_find.h"

#include "cli/message.h"
#include "cli/observe/hit_frames.h"
#include "cli/observe/session.h"
#include "report/code/code_folded.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

int break_check(const struct observe_settings *set)
{
	char why[400];

	for (size_t i = 0; i < set->operand_count; i++)
		if (code_sites_check(set->operands[i], why, sizeof(why)))
			return cli_wrong(set->name, "%s", why);
	return 0;
}

int break_find(struct symbols *s, const struct observe_settings *set, struct output *o,
	       struct code_sites *sites)
{
	char why[500];

	sites->all_copies = set->inlined;
	for (size_t i = 0; i < set->operand_count; i++) {
		const char *where = set->operands[i];
		output_progress(o, "looking for %s", where);
		int err = code_sites_find(s, where, sites, why, sizeof(why));
		output_clear_status(o);
		int status = err == -ENOENT ?
				     session_not_found(set->name, set->command, where, true) :
				     0;
		if (err)
			return status ? status :
					cli_wrong(set->name, "%s%s", why,
						  sites->is_unloaded ?
							  ", or let --pending wait for it" :
							  "");
		if (sites->elsewhere[0])
			cli_note(set->name,
				 "only the program's own %s is chosen; object:%s is one of %s",
				 where, where, sites->elsewhere);
		if (sites->other_line)
			cli_note(set->name, "%s has no code: line %d is used, the next with code",
				 where, sites->other_line);
		sites->elsewhere[0] = 0;
		sites->other_line = 0;
	}
	if (code_folded_label(s, sites))
		return cli_wrong(set->name, "out of memory");
	if (sites->merged)
		cli_note(set->name,
			 "%s is loaded several times: a uprobe sees the calls of all copies, a "
			 "hardware breakpoint those of the first",
			 sites->merged_names);
	if (sites->copies_left_out)
		cli_note(set->name,
			 "%zu inlined copies of matching functions are left out; --inlined "
			 "includes them",
			 sites->copies_left_out);
	if (sites->unresolved)
		cli_note(set->name,
			 "left out %zu function%s with several implementations (ifunc), because "
			 "the one in use is not known: %s",
			 sites->unresolved, sites->unresolved == 1 ? "" : "s",
			 sites->unresolved_names);
	return 0;
}

bool break_has(const struct observe_settings *set, struct symbols *s)
{
	struct code_sites sites = { .all_copies = set->inlined };
	bool has = true;
	char why[1]; /* no words are wanted */

	for (size_t i = 0; has && i < set->operand_count; i++)
		has = !code_sites_find(s, set->operands[i], &sites, why, 0);
	code_sites_free(&sites);
	return has;
}

void break_describe(const struct code_sites *sites, const bool *left_out, char *buf, size_t n)
{
	static const char *const one[] = { "function", "inlined copy", "line", "address" };
	static const char *const many[] = { "functions", "inlined copies", "sites of a line",
					    "addresses" };
	size_t counts[4] = { 0 };
	size_t used = 0;

	for (size_t i = 0; i < sites->count; i++)
		counts[sites->site[i].kind] += !left_out || !left_out[i];
	buf[0] = 0;
	for (size_t k = 0; k < 4 && used < n; k++)
		if (counts[k])
			used += (size_t)snprintf(buf + used, n - used, "%s%zu %s", used ? ", " : "",
						 counts[k], counts[k] == 1 ? one[k] : many[k]);
}

static void list_json(struct symbols *s, const struct code_site *site, struct output *o)
{
	static const char *const kinds[] = { "function", "inlined", "line", "address" };
	struct place p;
	json_t *j = json_object();

	symbols_place(s, site->address, &p);
	json_object_set_new(j, "type", json_string("site"));
	json_object_set_new(j, "name", run_json_text(site->name));
	json_object_set_new(j, "kind", json_string(kinds[site->kind]));
	json_object_set_new(j, "ip", run_json_hex(site->address));
	run_json_place(j, &p);
	json_object_set_new(j, "emulated", json_boolean(site->is_emulated));
	run_jsonl_line(o->json, j);
}

void break_print_list(struct symbols *s, const struct code_sites *sites, struct output *o)
{
	char what[200];

	for (size_t i = 0; i < sites->count; i++) {
		const struct code_site *site = &sites->site[i];
		struct place p;
		char text[400];
		if (o->json)
			list_json(s, site, o);
		if (!o->text.f)
			continue;
		/* A function is its own location: to look up thousands takes long. */
		if (site->kind != CODE_SITE_FUNCTION) {
			symbols_place(s, site->address, &p);
			run_place_text_with_line(&p, site->address, text, sizeof(text));
		}
		fprintf(o->text.f, "0x%012" PRIx64 "  %-11s  %s%s%s%s%s\n", site->address,
			site->is_emulated ? "emulated" : "single-step", site->name,
			site->kind == CODE_SITE_FUNCTION ? "" : "  in ",
			site->kind == CODE_SITE_FUNCTION ? "" : text, site->module ? "  in " : "",
			site->module ? site->module : "");
	}
	break_describe(sites, NULL, what, sizeof(what));
	if (o->text.f)
		fprintf(o->text.f, "%s\n", what);
}

const char *break_needs_64bit(const struct observe_settings *set)
{
	if (set->args || set->ret)
		return set->args ? "--args" : "--ret";
	if (set->stack)
		return set->record ? "call stacks (add --no-stack)" : "--stack";
	return set->condition && strstr(set->condition, "arg") ? "arguments in --if" : NULL;
}

bool break_names_argument(const char *condition)
{
	for (const char *p = condition; p && (p = strstr(p, "arg")); p += 3)
		if (p[3] >= '0' && p[3] <= '5' && !isalnum((unsigned char)p[4]) &&
		    (p == condition || (!isalnum((unsigned char)p[-1]) && p[-1] != '_')))
			return true;
	return false;
}
