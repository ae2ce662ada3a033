/* SPDX-License-Identifier: MIT */
/* sanitizer.c - see sanitizer.h. */
#include "guest/sanitizer.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

int sanitizer_has_name(const char *object)
{
	static const char *const names[] = { "/libasan.so", "/libtsan.so", "/libhwasan.so",
					     "/liblsan.so", "/libclang_rt." };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (object && strstr(object, names[i]))
			return 1;
	return 0;
}

/* Not by dl_iterate_phdr(), which a run-time that has not begun has put its own one before. */
int sanitizer_is_loaded(void)
{
	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next)
		if (sanitizer_has_name(map->l_name))
			return 1;
	return 0;
}

int sanitizer_is_here(void)
{
	static const char *const starts[] = { "__asan_init", "__tsan_init", "__msan_init",
					      "__hwasan_init" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (dlsym(RTLD_DEFAULT, starts[i]))
			return 1;
	return sanitizer_is_loaded();
}
