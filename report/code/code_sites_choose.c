/* SPDX-License-Identifier: MIT */
/* code_sites_choose.c - of what was found, each location once. */
#include "report/code/code_sites_priv.h"

#include "report/dwarf/dynamic.h"
#include "report/dwarf/instruction.h"

#include <stdlib.h>
#include <string.h>

#define MAPPINGS_MAX 16 /* of one file */

static int by_address(const void *a, const void *b)
{
	const struct code_site *x = a;
	const struct code_site *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->kind - y->kind;
}

/* The file is mapped several times, by dlmopen(): a uprobe is in the file, and sees all of them. */
static bool is_merged(struct symbols *s, struct code_sites *sites, const struct code_site *site)
{
	uint64_t at[MAPPINGS_MAX];
	size_t count = dynamic_copies(s, site->address, at, MAPPINGS_MAX);

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; at[i] < site->address && k < sites->count; k++)
			if (sites->site[k].address == at[i]) {
				sites->merged++;
				if (!strstr(sites->merged_names, site->module ? site->module : ""))
					code_sites_note(sites->merged_names, site->module);
				return true;
			}
	return false;
}

/* Those that one uprobe serves become one. */
static void merge_mappings(struct symbols *s, struct code_sites *sites)
{
	size_t kept = 0;

	if (!dynamic_has_copies(s))
		return;
	for (size_t i = 0; i < sites->count; i++) {
		const struct code_site site = sites->site[i];
		const size_t count = sites->count;
		sites->count = kept;
		bool drops = is_merged(s, sites, &site);
		sites->count = count;
		if (drops)
			free(site.name);
		else
			sites->site[kept++] = site;
	}
	sites->count = kept;
}

/* From functions to their instructions; each once. A copy that is a whole function is that. */
void code_sites_choose(struct symbols *s, struct code_sites *sites)
{
	size_t kept = 0;

	for (size_t i = 0; i < sites->count; i++) {
		struct code_site *site = &sites->site[i];
		if (site->kind == CODE_SITE_FUNCTION)
			site->address = code_entry(s, site->function);
	}
	if (sites->count)
		qsort(sites->site, sites->count, sizeof(*sites->site), by_address);
	for (size_t i = 0; i < sites->count; i++) {
		if (kept && sites->site[kept - 1].address == sites->site[i].address) {
			free(sites->site[i].name);
			continue;
		}
		sites->site[kept] = sites->site[i];
		sites->site[kept].is_emulated = code_is_emulated(s, sites->site[kept].address);
		sites->site[kept].refusal = code_uprobe_refusal(s, sites->site[kept].address);
		kept++;
	}
	sites->count = kept;
	merge_mappings(s, sites);
}
