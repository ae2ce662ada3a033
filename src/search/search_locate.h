/* SPDX-License-Identifier: MIT */
/*
 * search_locate.h - addresses of code become locations, which mean something after the process has
 * ended (record/file_table.h). AS-Safe.
 */
#ifndef SEARCH_SEARCH_LOCATE_H
#define SEARCH_SEARCH_LOCATE_H

#include <stdint.h>

#include "record/file_table.h"

/* Once, before the first location. Warms up what stacks are made by, too. */
void search_locate_start(void);
/* rows: the table of the run. An address in no object is a location without a file. */
uint64_t search_locate(struct file_row *rows, uint32_t count, uint64_t address);

#endif
