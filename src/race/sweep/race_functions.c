/* SPDX-License-Identifier: MIT */
/*
 * race_functions.c - the addresses of libc's memory functions, in the variants for this
 * processor. Found once, at the start: the dynamic linker must not be called in a handler.
 */
#include "race/sweep/race_functions.h"

#include <dlfcn.h>
#include <stddef.h>

#include "base/sys.h"
#include "race/race_modules.h"
#include "record/race_region.h"

/* libc's functions that touch just the bytes they are given, as compiled code would. */
static const char *const exact_names[] = {
	"memcpy",	"memmove",	 "mempcpy",	  "memset",  "bcopy",	 "bzero",
	"__memcpy_chk", "__memmove_chk", "__mempcpy_chk", "wmemcpy", "wmemmove", "wmemset",
	"__memset_chk", "memccpy",	 "__bcopy",	  NULL,
};

/* The same except for race_block_clip(). */
static const char *const comparing_names[] = { "memcmp", "bcmp", NULL };

/* These read whole vectors, past the end of a string too: only their writes are exact. */
static const char *const writing_names[] = {
	"strcpy",	"stpcpy",	"strncpy",	 "stpncpy",	  "strcat",	  "strncat",
	"__strcpy_chk", "__stpcpy_chk", "__strncpy_chk", "__stpncpy_chk", "__strcat_chk", NULL,
};

/*
 * Where a function ends: where the next one begins, by the sorted table of .eh_frame_hdr. The
 * symbols of libc's variants for each processor are not in its dynamic table.
 */
static uint64_t function_end(uint64_t start)
{
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)start, &object) || !object.dlfo_eh_frame)
		return 0;
	const struct unwind_index *h = object.dlfo_eh_frame;
	if (!unwind_index_is_sorted(h))
		return 0;
	const uint32_t next = unwind_rows_until(h->rows, h->count, (int64_t)(start - (uintptr_t)h));
	return next < h->count ? unwind_row_start(h, &h->rows[next]) : 0;
}

static void add_functions(void *libc, const char *const *names, uint32_t access, int compares)
{
	for (; *names; names++) {
		/* An address that the loader has chosen for this processor. */
		uint64_t start = (uintptr_t)dlsym(libc, *names);
		uint64_t end = start ? function_end(start) : 0;

		if (end <= start || race_function_count == RACE_FUNCTIONS)
			continue;
		race_functions[race_function_count++] =
			(struct race_function){ start, end, (uint8_t)access, (uint8_t)compares };
	}
}

void race_functions_prepare(void)
{
	ssize_t n = sys3(SYS_readlink, "/proc/self/exe", race_program_path,
			 sizeof(race_program_path) - 1);

	race_program_path[n > 0 ? n : 0] = '\0';
	if (race_function_count)
		return;
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	if (!libc)
		return;
	add_functions(libc, exact_names, RACE_READ_WRITE, 0);
	add_functions(libc, comparing_names, RACE_READ_WRITE, 1);
	add_functions(libc, writing_names, RACE_WRITE, 0);
	dlclose(libc);
}
