/* SPDX-License-Identifier: MIT */
/* terms.h - the names a condition may use, by architecture where they are registers. */
#ifndef COND_TERMS_H
#define COND_TERMS_H

#include <stdint.h>

struct cond_name {
	const char *name;
	uint8_t is_register;
	uint8_t number; /* DWARF register, or enum cond_term */
};

/* NULL when there is no such term. */
const struct cond_name *cond_name_find(const char *name);

/* The architecture's own name of a register, or NULL. */
const char *cond_register_name(uint32_t dwarf_number);

#endif
