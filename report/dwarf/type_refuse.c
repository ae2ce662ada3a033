/* SPDX-License-Identifier: MIT */
/*
 * type_refuse.c - attributes by which the bytes of a type mean something that is not understood
 * here.
 *
 * The table in CONTRIBUTING.md has all attributes that change what bytes mean. Those that other
 * files read are not here. The others refuse a type by their name, since a wrong value is worse
 * than none.
 */
#include "report/dwarf/dies.h"
#include "report/dwarf/languages.h"
#include "report/dwarf/types_priv.h"

#include <dwarf.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FOREIGN_ORDER DW_END_big
#define ORDER_TEXT "big-endian, DW_AT_endianity"
#else
#define FOREIGN_ORDER DW_END_little
#define ORDER_TEXT "little-endian, DW_AT_endianity"
#endif

const char *type_refusal_of_order(Dwarf_Die *die)
{
	uint64_t order = 0;

	if (!dwarf_hasattr(die, DW_AT_endianity) || !die_number(die, DW_AT_endianity, &order) ||
	    order == DW_END_default)
		return NULL;
	return order == FOREIGN_ORDER ? ORDER_TEXT :
	       order > DW_END_little  ? "DW_AT_endianity" :
					NULL;
}

static const char *refusal_of_encoding(uint64_t encoding)
{
	switch (encoding) {
	case DW_ATE_boolean:
	case DW_ATE_float:
	case DW_ATE_complex_float:
	case DW_ATE_signed:
	case DW_ATE_signed_char:
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_char:
	case DW_ATE_UTF:
	case DW_ATE_address:
	case DW_ATE_void:
		return NULL;
	case DW_ATE_decimal_float:
		return "decimal, DW_ATE_decimal_float";
	case DW_ATE_signed_fixed:
	case DW_ATE_unsigned_fixed:
		return "fixed point, DW_ATE_signed_fixed";
	case DW_ATE_imaginary_float:
		return "imaginary, DW_ATE_imaginary_float";
	case DW_ATE_packed_decimal:
	case DW_ATE_numeric_string:
	case DW_ATE_edited:
		return "decimal digits, DW_AT_encoding";
	default:
		return "DW_AT_encoding";
	}
}

const char *type_refusal_of_base(Dwarf_Die *die, uint64_t encoding, uint64_t size)
{
	const char *order = type_refusal_of_order(die);
	uint64_t bits;

	if (order && size > 1)
		return order;
	if (dwarf_hasattr(die, DW_AT_binary_scale))
		return "scaled, DW_AT_binary_scale";
	if (dwarf_hasattr(die, DW_AT_decimal_scale))
		return "scaled, DW_AT_decimal_scale";
	if (dwarf_hasattr(die, DW_AT_small))
		return "scaled, DW_AT_small";
	if (die_number(die, DW_AT_bit_size, &bits) && bits != size * 8)
		return "of some bits, DW_AT_bit_size";
	if (dwarf_hasattr(die, DW_AT_data_bit_offset))
		return "of some bits, DW_AT_data_bit_offset";
	return refusal_of_encoding(encoding);
}

const char *type_refusal_of_array(Dwarf_Die *die, size_t dimensions)
{
	uint64_t order = DW_ORD_row_major;

	if (dwarf_hasattr(die, DW_AT_data_location))
		return "a descriptor, DW_AT_data_location";
	if (dwarf_hasattr(die, DW_AT_allocated))
		return "a descriptor, DW_AT_allocated";
	if (dwarf_hasattr(die, DW_AT_associated))
		return "a descriptor, DW_AT_associated";
	if (dwarf_hasattr(die, DW_AT_rank))
		return "a descriptor, DW_AT_rank";
	if (dwarf_hasattr(die, DW_AT_bit_stride) || dwarf_hasattr(die, DW_AT_byte_stride))
		return "packed, DW_AT_bit_stride or DW_AT_byte_stride";
	die_number(die, DW_AT_ordering, &order);
	return order != DW_ORD_row_major && dimensions > 1 ? "by column, DW_AT_ordering" : NULL;
}

const char *type_refusal_of_range(Dwarf_Die *die)
{
	if (dwarf_hasattr(die, DW_AT_bit_stride) || dwarf_hasattr(die, DW_AT_byte_stride))
		return "packed, DW_AT_bit_stride or DW_AT_byte_stride";
	if (dwarf_hasattr(die, DW_AT_GNU_bias))
		return "biased, DW_AT_GNU_bias";
	return NULL;
}

const char *type_refusal_of_tag(Dwarf_Die *die)
{
	if (dwarf_hasattr(die, DW_AT_string_length))
		return "a string, DW_AT_string_length";
	switch (dwarf_tag(die)) {
	case DW_TAG_set_type:
		return "a set, DW_TAG_set_type";
	case DW_TAG_file_type:
		return "a file, DW_TAG_file_type";
	case DW_TAG_string_type:
		return "a string, DW_TAG_string_type";
	case DW_TAG_shared_type:
		return "shared, DW_TAG_shared_type";
	case DW_TAG_coarray_type:
		return "a coarray, DW_TAG_coarray_type";
	case DW_TAG_dynamic_type:
		return "a descriptor, DW_TAG_dynamic_type";
	default:
		return NULL;
	}
}

int64_t type_default_lower(Dwarf_Die *die)
{
	switch (die_language(die)) {
	case DW_LANG_Ada83:
	case DW_LANG_Ada95:
	case LANG_ADA2005:
	case LANG_ADA2012:
	case DW_LANG_Cobol74:
	case DW_LANG_Cobol85:
	case DW_LANG_Fortran77:
	case DW_LANG_Fortran90:
	case DW_LANG_Fortran95:
	case DW_LANG_Fortran03:
	case DW_LANG_Fortran08:
	case LANG_FORTRAN18:
	case LANG_FORTRAN23:
	case DW_LANG_Modula2:
	case DW_LANG_Pascal83:
	case DW_LANG_PLI:
	case DW_LANG_Julia:
		return 1;
	default:
		return 0;
	}
}
