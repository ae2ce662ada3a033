/* SPDX-License-Identifier: MIT */
/*
 * jit_gdb.h - names of code that a runtime made, by the interface of gdb: the variable
 * __jit_debug_descriptor leads to a list of ELF files in the memory of the process. LLVM keeps one
 * for each module that it compiles. The layout is in gdb's manual, "JIT Compilation Interface".
 */
#ifndef REPORT_DWARF_JIT_GDB_H
#define REPORT_DWARF_JIT_GDB_H

#include "report/dwarf/symbols_priv.h"

/* What was found the last time; all 0 before. */
struct jit_gdb {
	uint64_t descriptor; /* 0: not found */
	uint64_t looked_ns;
	uint64_t state; /* of the list, as a number that differs when the list does */
};

/* Whether the list is another one than the last time. */
bool jit_gdb_has_changed(struct symbols *s, struct jit_gdb *jit);

/* Calls visit for each function of the list, until it returns false. */
void jit_gdb_read(struct symbols *s, const struct jit_gdb *jit,
		  bool (*visit)(void *arg, uint64_t start, uint64_t size, const char *name),
		  void *arg);

#endif
