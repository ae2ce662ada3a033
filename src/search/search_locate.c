/* SPDX-License-Identifier: MIT */
/* search_locate.c - see search_locate.h. */
#include "search/search_locate.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>

#include "base/sys.h"
#include "trap/stack.h"

static char program_path[496];

void search_locate_start(void)
{
	long n = sys4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program_path,
		      sizeof(program_path) - 1);

	program_path[n > 0 ? n : 0] = '\0';
	stack_warm_up();
}

uint64_t search_locate(struct file_row *rows, uint32_t count, uint64_t address)
{
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)address, &object))
		return address & FILE_PLACE_MASK;
	const struct link_map *map = object.dlfo_link_map;
	const char *path = map->l_name && *map->l_name ? map->l_name : program_path;
	int file = file_table_add(rows, count, path);

	if (file <= 0)
		return address & FILE_PLACE_MASK;
	return (uint64_t)file << FILE_PLACE_BITS | ((address - map->l_addr) & FILE_PLACE_MASK);
}
