/* SPDX-License-Identifier: MIT */
/*
 * race_runtimes.c - see race_runtimes.h.
 *
 * Runtimes that build locks from plain loads and stores are left out: nothing in their code
 * distinguishes such a load from a race.
 */
#include "record/race_runtimes.h"

#include <stddef.h>

#include "base/trap_path.h"

/* Beginnings of file names. */
static const char *const runtimes[] = {
	"ld-linux",    "ld-musl",     "linux-vdso", "libpthread", "librt.so",	 "libgomp",
	"libomp.so",   "libomp-",     "libiomp",    "libtbb",	  "libjemalloc", "libtcmalloc",
	"libmimalloc", "libtrapline", "libZydis",   "libgcc_s",	  "libatomic",	 "libtsan",
	"libjvm.so",   "libpython",   "python2",    "python3",	  "libruby",	 "libcoreclr",
	"libmonosgen", "libasan",     "libubsan",   "liburcu",	  "libgo.so",
};
static const char *const libcs[] = { "libc.so", "libc-", "libc.musl" };

TRAP_PATH static int runtimes_begins_with(const char *text, const char *beginning)
{
	while (*beginning && *text == *beginning) {
		text++;
		beginning++;
	}
	return !*beginning;
}

TRAP_PATH enum race_runtime race_runtime_of(const char *path)
{
	const char *name = path;

	for (const char *p = path; *p; p++)
		if (*p == '/')
			name = p + 1;
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (runtimes_begins_with(name, runtimes[i]))
			return RACE_RUNTIME_OTHER;
	for (size_t i = 0; i < sizeof(libcs) / sizeof(libcs[0]); i++)
		if (runtimes_begins_with(name, libcs[i]))
			return RACE_RUNTIME_LIBC;
	return RACE_RUNTIME_NONE;
}
