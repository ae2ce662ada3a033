/* SPDX-License-Identifier: MIT */
/* ada.h - names of Ada: GNAT's symbol `ring__push__2` is ring.push. */
#ifndef REPORT_DWARF_ADA_H
#define REPORT_DWARF_ADA_H

#include "report/dwarf/symbols_priv.h"

/*
 * The name as the source has it, in buf. NULL: the object or the code at the address is of another
 * language, or the name is one of the compiler's own.
 */
const char *ada_name(struct symbols *s, Dwfl_Module *mod, uint64_t address, const char *symbol,
		     char *buf, size_t n);
/* The same of a name that is known to be Ada's. */
const char *ada_decode(const char *symbol, char *buf, size_t n);

#endif
