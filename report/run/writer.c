/* SPDX-License-Identifier: MIT */
/* writer.c - see writer.h. */
#include "report/run/writer.h"

#include <string.h>

static const char *const names[] = { "memcpy",	"memmove", "memset",  "mempcpy",
				     "memccpy", "bcopy",   "bzero",   "strcpy",
				     "strncpy", "stpcpy",  "stpncpy", "strcat",
				     "strncat", "wmemcpy", "wmemset", "wmemmove" };

/*
 * In a static program the module is the program, and only names of the implementation are certain.
 */
static bool is_in_libc(const struct place *p)
{
	const char *module = p->module ? p->module : "";

	return !strncmp(module, "libc.", 5) || !strncmp(module, "libc-", 5) ||
	       !strncmp(module, "ld-musl", 7) || !strncmp(p->function, "__", 2);
}

/* `memmove` for __memmove_avx512_unaligned_erms in libc.so.6; NULL: it is another function. */
static const char *run_memory_function(const struct place *p)
{
	if (!p->function || !is_in_libc(p))
		return NULL;
	const char *name = p->function + strspn(p->function, "_");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (!strncmp(name, names[i], n) && (!name[n] || name[n] == '_' || name[n] == '@'))
			return names[i];
	}
	return NULL;
}

void run_hit_set_writer(struct run_hit *hit)
{
	const char *via = NULL;
	const char *name;
	size_t i = 0;

	if (hit->is_by_kernel || hit->call)
		return;
	/* One may be entered by another, such as memset by bzero. */
	while (i + 1 < hit->frame_count && (name = run_memory_function(&hit->frames[i].place))) {
		via = name;
		i++;
	}
	if (!via)
		return;
	hit->via = via;
	hit->ip = hit->frames[i].ip;
	hit->place = hit->frames[i].place;
}
