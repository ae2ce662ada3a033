/* SPDX-License-Identifier: MIT */
/*
 * jit_map.h - names of code that a runtime made while it ran. They come from the file that it
 * writes for perf(1), /tmp/perf-PID.map, with a line `START SIZE NAME` for each piece of code; or
 * from what it has for gdb.
 */
#ifndef REPORT_DWARF_JIT_MAP_H
#define REPORT_DWARF_JIT_MAP_H

#include "report/dwarf/symbols_priv.h"

/* Function and offset. False: the runtime has written no name for the address. */
bool jit_map_place(struct symbols *s, uint64_t address, struct place *out);

#endif
