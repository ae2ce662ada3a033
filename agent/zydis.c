/* SPDX-License-Identifier: MIT */
/*
 * zydis.c - the decoder's library, opened privately.
 *
 * The agent needs only libc, so that it can be preloaded into any program, and the
 * program sees no symbol of a library that it did not load. Opened in the constructor,
 * used in handlers. Where it is not there, nothing is decoded, and so nothing is changed.
 */
#include "agent/zydis.h"
#include "decoder_name.h"

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <stddef.h>

static ZyanStatus (*init)(ZydisDecoder *, ZydisMachineMode, ZydisStackWidth);
static ZyanStatus (*decode_instruction)(const ZydisDecoder *, ZydisDecoderContext *, const void *,
					ZyanUSize, ZydisDecodedInstruction *);
static ZyanStatus (*decode_operands)(const ZydisDecoder *, const ZydisDecoderContext *,
				     const ZydisDecodedInstruction *, ZydisDecodedOperand *,
				     ZyanU8);

ZyanStatus ZydisDecoderInit(ZydisDecoder *decoder, ZydisMachineMode machine_mode,
			    ZydisStackWidth stack_width)
{
	return init ? init(decoder, machine_mode, stack_width) : ZYAN_STATUS_FAILED;
}

ZyanStatus ZydisDecoderDecodeInstruction(const ZydisDecoder *decoder, ZydisDecoderContext *context,
					 const void *buffer, ZyanUSize length,
					 ZydisDecodedInstruction *instruction)
{
	return decode_instruction ?
		       decode_instruction(decoder, context, buffer, length, instruction) :
		       ZYAN_STATUS_FAILED;
}

ZyanStatus ZydisDecoderDecodeOperands(const ZydisDecoder *decoder,
				      const ZydisDecoderContext *context,
				      const ZydisDecodedInstruction *instruction,
				      ZydisDecodedOperand *operands, ZyanU8 operand_count)
{
	return decode_operands ?
		       decode_operands(decoder, context, instruction, operands, operand_count) :
		       ZYAN_STATUS_FAILED;
}

int zydis_open(void)
{
	void *lib = decode_operands ? NULL :
				      dlopen(DECODER_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

	if (!lib)
		return decode_operands ? 0 : -1;
	init = (ZyanStatus(*)(ZydisDecoder *, ZydisMachineMode,
			      ZydisStackWidth))dlsym(lib, "ZydisDecoderInit");
	decode_instruction =
		(ZyanStatus(*)(const ZydisDecoder *, ZydisDecoderContext *, const void *, ZyanUSize,
			       ZydisDecodedInstruction *))dlsym(lib,
								"ZydisDecoderDecodeInstruction");
	decode_operands = (ZyanStatus(*)(const ZydisDecoder *, const ZydisDecoderContext *,
					 const ZydisDecodedInstruction *, ZydisDecodedOperand *,
					 ZyanU8))dlsym(lib, "ZydisDecoderDecodeOperands");
	return init && decode_instruction && decode_operands ? 0 : -1;
}
