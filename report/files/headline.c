/* SPDX-License-Identifier: MIT */
/* headline.c - see headline.h. */
#include "report/files/headline.h"

#include <string.h>

#define INLINED_MAX 16

static bool begins_with_one(const char *text, const char *const *beginnings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strncmp(text, beginnings[i], strlen(beginnings[i])))
			return true;
	return false;
}

/* Where toolchains install sources, and where they state that those were when they were built. */
static bool is_of_toolchain(const char *file)
{
	static const char *const folders[] = {
		"/usr/include/", "/usr/lib/gcc/",  "/usr/lib/llvm",	"/rustc/",
		"/usr/lib/go",	 "/usr/local/go/", "/usr/lib/rustlib/", "/usr/src/rustc",
	};
	static const char *const parts[] = { "/include/c++/", "/lib/rustlib/src/", "/lib/gcc/",
					     "/lib/clang/" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(file, parts[i]))
			return true;
	return begins_with_one(file, folders, sizeof(folders) / sizeof(folders[0]));
}

bool headline_is_written(const struct place *p)
{
	/* Without lines a name has to do: that of a template of the C++ library, in the program. */
	static const char *const names[] = { "std::", "__gnu_cxx::", "operator new",
					     "operator delete" };

	if (symbols_is_system(p->module))
		return false;
	if (p->file)
		return !is_of_toolchain(p->file);
	return !p->function ||
	       !begins_with_one(p->function, names, sizeof(names) / sizeof(names[0]));
}

void headline_find(struct file_places *p, const uint64_t *frames, size_t n, bool is_access,
		   struct headline *out)
{
	struct place places[INLINED_MAX];
	bool has_own = false;

	for (size_t i = 0; i < n; i++) {
		size_t count =
			file_places_frames(p, frames[i], !is_access || i > 0, places, INLINED_MAX);
		size_t k = 0;

		while (k < count && !headline_is_written(&places[k]))
			k++;
		bool is_written = k < count;
		if (!is_written)
			k = count - 1;
		bool is_own = !has_own && !symbols_is_system(places[k].module);
		if (is_written || is_own || !i)
			*out = (struct headline){ i, places[k], k > 0 };
		if (is_written)
			return;
		has_own |= is_own;
	}
}
