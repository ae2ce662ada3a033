/* SPDX-License-Identifier: MIT */
/* insn_stored.c - see insn_stored.h. Tested by tests/unit/test_insn_stored.c. */
#include <errno.h>
#include <string.h>

#include "code/insn/insn_stored.h"
#include "code/insn/insn_x86_64.h"

static uint64_t insn_stored_mask_of(unsigned int size)
{
	return size == 8 ? ~0ull : (1ull << size * 8) - 1;
}

/*
 * The register in the middle of the ModRM byte: without REX the byte registers 4 to 7 are ah to bh.
 */
static uint64_t register_stored(const struct insn *insn, const uint8_t *bytes,
				const struct insn_regs *regs, unsigned int size)
{
	const unsigned int encoding = (bytes[insn->modrm_at] >> 3 & 7) | (insn->rex & 4) << 1;

	if (size == 1 && !insn->rex && encoding >= 4)
		return regs->r[insn_x86_64_reg(encoding - 4)] >> 8 & 0xff;
	return regs->r[insn_x86_64_reg(encoding)] & insn_stored_mask_of(size);
}

/* Immediates are sign-extended: 4 bytes are stored as 8. */
static uint64_t immediate_stored(const struct insn *insn, const uint8_t *bytes, unsigned int size)
{
	const unsigned int unused = 64 - insn->immediate_bytes * 8;
	uint64_t value = 0;

	memcpy(&value, bytes + insn->immediate_at, insn->immediate_bytes);
	return (uint64_t)((int64_t)(value << unused) >> unused) & insn_stored_mask_of(size);
}

int insn_stored_x86_64(const struct insn *insn, const void *bytes, const struct insn_regs *regs,
		       uint64_t *out)
{
	const unsigned int size = insn->memory[0].size;

	if (insn->opcode_bytes != 1 || insn->memory_count != 1 ||
	    insn->memory[0].access != INSN_WRITE || insn->kind != INSN_OTHER)
		return -EOPNOTSUPP;
	if (insn->reads & ~regs->known)
		return -ENODATA;
	switch (((const uint8_t *)bytes)[insn->opcode_at]) {
	case 0x88:
	case 0x89:
		*out = register_stored(insn, bytes, regs, size);
		return 0;
	case 0xc6:
	case 0xc7:
		*out = immediate_stored(insn, bytes, size);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}
