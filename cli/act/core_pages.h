/* SPDX-License-Identifier: MIT */
/*
 * core_pages.h - which pages of a process may have other bytes than zeros.
 *
 * Programs reserve terabytes and use little of it. To read a page that was never used takes as long
 * as to read another one, and gives zeros.
 */
#ifndef CLI_ACT_CORE_PAGES_H
#define CLI_ACT_CORE_PAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct core_pages {
	int pagemap; /* -1: it cannot be read, and each page may have something */
	int file;    /* of the mapping that is inspected; -1: none */
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	bool has_file;
	bool is_shared;
};

void core_pages_open(struct core_pages *p, pid_t pid);
void core_pages_close(struct core_pages *p);

/*
 * The mapping to be inspected from now on; has_file: there is a file behind it, which begins at
 * offset.
 */
void core_pages_map(struct core_pages *p, pid_t pid, uint64_t start, uint64_t end, uint64_t offset,
		    bool has_file, bool is_shared);

/* The first such page of the mapping from an address on; its end if no page is left. */
uint64_t core_pages_next(const struct core_pages *p, uint64_t from);

#endif
