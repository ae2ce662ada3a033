/* SPDX-License-Identifier: MIT */
/*
 * languages.h - codes of DW_AT_language that <dwarf.h> of elfutils 0.188 does not have; from the
 * list at https://dwarfstd.org/languages.html.
 */
#ifndef REPORT_DWARF_LANGUAGES_H
#define REPORT_DWARF_LANGUAGES_H

#include <dwarf.h>
#include <stdbool.h>

#define LANG_C_PLUS_PLUS_17 0x2a
#define LANG_C_PLUS_PLUS_20 0x2b
#define LANG_C17 0x2c
#define LANG_FORTRAN18 0x2d
#define LANG_ADA2005 0x2e
#define LANG_ADA2012 0x2f
#define LANG_C_PLUS_PLUS_23 0x3a
#define LANG_C23 0x3e
#define LANG_FORTRAN23 0x3f

/* Any version of C. */
static inline bool language_is_c(int language)
{
	switch (language) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case LANG_C17:
	case LANG_C23:
		return true;
	default:
		return false;
	}
}

/* Any version of Ada. */
static inline bool language_is_ada(int language)
{
	return language == DW_LANG_Ada83 || language == DW_LANG_Ada95 || language == LANG_ADA2005 ||
	       language == LANG_ADA2012;
}

#endif
