/* SPDX-License-Identifier: MIT */
/* unwinders.c - see unwinders.h. */
#include "report/code/unwinders.h"

#include "report/dwarf/instruction.h"
#include "report/dwarf/symbols_priv.h"

#include <string.h>

struct list {
	struct symbols *s;
	struct unwinder *out;
	size_t max;
	size_t count;
};

static const struct {
	const char *name;
	enum unwinder_kind kind;
} names[] = {
	{ "longjmp", UNWINDER_BEGINS },
	{ "_longjmp", UNWINDER_BEGINS },
	{ "siglongjmp", UNWINDER_BEGINS },
	{ "__longjmp_chk", UNWINDER_BEGINS },
	{ "pthread_exit", UNWINDER_BEGINS },
	{ "thrd_exit", UNWINDER_BEGINS },
	{ "_Unwind_RaiseException", UNWINDER_BEGINS },
	{ "_Unwind_Resume", UNWINDER_BEGINS },
	{ "_Unwind_Resume_or_Rethrow", UNWINDER_BEGINS },
	{ "_Unwind_ForcedUnwind", UNWINDER_BEGINS },
	{ "pthread_cancel", UNWINDER_OTHER },
	{ "__cxa_begin_catch", UNWINDER_CAUGHT },
};

static int unwinder_visit(Dwfl_Module *mod, const char *name, const GElf_Sym *sym, uint64_t address,
			  void *arg)
{
	struct list *l = arg;
	size_t len = strcspn(name, "@");
	size_t i = 0;

	(void)mod;
	if (GELF_ST_TYPE(sym->st_info) != STT_FUNC)
		return 0;
	while (i < sizeof(names) / sizeof(*names) &&
	       (strlen(names[i].name) != len || strncmp(names[i].name, name, len) != 0))
		i++;
	if (i == sizeof(names) / sizeof(*names))
		return 0;
	uint64_t entry = code_entry(l->s, address);
	for (size_t k = 0; k < l->count; k++)
		if (l->out[k].address == entry)
			return 0;
	l->out[l->count++] = (struct unwinder){ .address = entry, .kind = names[i].kind };
	return l->count == l->max;
}

size_t unwinders_find(struct symbols *s, struct unwinder *out, size_t max)
{
	struct list l = { .s = s, .out = out, .max = max };

	if (max)
		symbols_walk(s, NULL, unwinder_visit, &l);
	return l.count;
}
