/* SPDX-License-Identifier: MIT */
/*
 * relocate.h - an instruction that does the same from another address.
 *
 * The copy falls through behind its own end where the original falls through, and branches to where
 * the original branches; what follows the copy (a jump back) is the caller's. A call leaves the
 * original's return address, not one behind the copy, so it becomes a push and a jump. Never use it
 * under a shadow stack, nor where the push would overwrite the target in memory. Signals and faults
 * in the copy report the copy's address, and a system call leaves it in rcx and is restarted there.
 * Code that runs copies maps them back.
 *
 * Usable in a signal handler: see insn.h.
 */
#ifndef CODE_INSN_RELOCATE_H
#define CODE_INSN_RELOCATE_H

#include "code/insn/insn.h"

#define INSN_COPY_MAX 32 /* no copy is longer */

enum insn_copy_kind {
	INSN_COPY_SAME,	     /* byte for byte */
	INSN_COPY_CORRECTED, /* same instruction, distance corrected */
	/* A wider branch, or several instructions: a signal may find a thread between them. */
	INSN_COPY_REPLACED,
};

struct insn_copy {
	uint8_t length;
	uint8_t kind; /* enum insn_copy_kind */
	uint8_t bytes[INSN_COPY_MAX];
};

/*
 * insn_relocate - the copy at address to of the instruction at address from.
 *
 * bytes are those that insn was decoded from. *reason, when reason is not NULL, is set on failure
 * to a text that lives for ever.
 * Errors: -ERANGE what it names is out of reach from there; -EOPNOTSUPP it cannot be moved.
 */
int insn_relocate_x86_64(const struct insn *insn, const void *bytes, uint64_t from, uint64_t to,
			 struct insn_copy *out, const char **reason);
int insn_relocate_arm64(const struct insn *insn, const void *bytes, uint64_t from, uint64_t to,
			struct insn_copy *out, const char **reason);

#if defined(__x86_64__)
#define insn_relocate insn_relocate_x86_64
#elif defined(__aarch64__)
#define insn_relocate insn_relocate_arm64
#endif

#endif
