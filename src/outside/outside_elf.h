/* SPDX-License-Identifier: MIT */
/* outside_elf.h - the functions of an object, by its file. */
#ifndef OUTSIDE_ELF_H
#define OUTSIDE_ELF_H

#include "outside/outside_functions.h"

/* Calls add() for each, with addresses of the process; fills the module. 0 or -errno. */
int outside_elf_read(struct outside_module *m,
		     void (*add)(void *arg, uint64_t start, uint64_t end,
				 enum outside_policy policy),
		     void *arg);

#endif
