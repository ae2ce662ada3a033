/* SPDX-License-Identifier: MIT */
/*
 * pad_file.h - the memory of jumps' landings, and the file behind it.
 *
 * A fork copies each mapping, and the page tables of memory that the process has written. Landings
 * are far from each other. So they are in a file as large as the address space, each at the offset
 * that is its address, with holes between. The kernel keeps the neighbours of one file as one
 * mapping, and fills a child's tables when it comes there. All of it needs poke_lock.
 */
#ifndef CODE_PROBE_PAD_FILE_H
#define CODE_PROBE_PAD_FILE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A page of the file with these bytes. 0; -EEXIST: the address is taken; another -errno: it cannot
 * be from a file.
 */
int pad_file_map(uint64_t start, const uint8_t *page);
/* A page of its own that is to be written; 0 or -errno. */
int pad_page_map(uint64_t start);
/* A page that no jump leads to. */
void pad_page_unmap(uint64_t start);

/*
 * Bytes inside a page, which is fresh if nothing jumps there yet. Else threads may execute others
 * of them. 0; -errno: they are not there, since the page is not the file's, or no longer.
 */
int pad_file_write(uint64_t address, const uint8_t *bytes, size_t n, int is_fresh);

/* The page becomes one mapping with those near to it, if what lies between is free. */
void pad_file_join(uint64_t start);

#endif
