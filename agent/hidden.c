/* SPDX-License-Identifier: MIT */
/*
 * hidden.c - the run-time of a sanitizer ends a program whose first library is another one. A
 * preloaded object is that one. So it is left out of the list that the run-time asks for; in such a
 * program it does nothing (sanitizer.h).
 */
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "base/atomic.h"
#include "guest/sanitizer.h"

typedef int (*visitor)(struct dl_phdr_info *, size_t, void *);
typedef int (*iterate)(visitor, void *);

#define OURS "/libtrapline-"

struct visit {
	visitor visit;
	void *arg;
};

/* There may be two. */
static int visit_others(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct visit *v = arg;

	return info->dlpi_name && strstr(info->dlpi_name, OURS) ? 0 : v->visit(info, size, v->arg);
}

static int is_of_sanitizer(const void *code)
{
	Dl_info info;

	return dladdr(code, &info) && sanitizer_has_name(info.dli_fname);
}

__attribute__((visibility("default"))) int dl_iterate_phdr(visitor visit, void *arg)
{
	static iterate next;
	struct visit v = { visit, arg };

	if (!atomic_get(&next))
		atomic_set(&next, (iterate)dlsym(RTLD_NEXT, "dl_iterate_phdr"));
	if (is_of_sanitizer(__builtin_return_address(0)))
		return next(visit_others, &v);
	return next(visit, arg);
}
