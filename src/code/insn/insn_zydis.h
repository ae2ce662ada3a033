/* SPDX-License-Identifier: MIT */
/* insn_zydis.h - what the files that decode by Zydis share. */
#ifndef CODE_INSN_INSN_ZYDIS_H
#define CODE_INSN_INSN_ZYDIS_H

#include <Zydis/Zydis.h>

/* A mask may leave out lanes of what it reads or writes. */
int insn_is_masked(const ZydisDecodedInstruction *z);

#endif
