/* SPDX-License-Identifier: MIT */
/*
 * insn_stored.h - what a plain store will leave in memory, before it runs.
 *
 * Usable in a signal handler: see insn.h. x86-64 only, as its one user is.
 */
#ifndef INSN_STORED_H
#define INSN_STORED_H

#include "code/insn/insn.h"

/*
 * insn_stored_x86_64 - the value that mov from a general register or an immediate will store.
 *
 * bytes are those that insn was decoded from. *out is untouched on failure.
 * Errors: -EOPNOTSUPP another instruction; -ENODATA a register that it reads is not known.
 */
int insn_stored_x86_64(const struct insn *insn, const void *bytes, const struct insn_regs *regs,
		       uint64_t *out);

#endif
