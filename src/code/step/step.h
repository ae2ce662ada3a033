/* SPDX-License-Identifier: MIT */
/* step.h - how a thread gets past one instruction. */
#ifndef CODE_POKE_STEP_H
#define CODE_POKE_STEP_H

#include <stdint.h>

/*
 * How a thread gets past one instruction whose text is replaced. Made beforehand, so that the
 * handler decodes nothing.
 */
enum step_kind {
	STEP_NONE,	  /* not possible */
	STEP_JUMP,	  /* pc := target; a nop is a jump behind itself, a copy a jump to it */
	STEP_CALL,	  /* push next, pc := target */
	STEP_RETURN,	  /* pop the pc, drop imm bytes */
	STEP_CONDITIONAL, /* target if the condition is true, else next */
	STEP_LOOP,	  /* loop, loope, loopne, jrcxz: condition is the opcode */
	STEP_JUMP_REG,	  /* condition is the register's number in the instruction */
	STEP_CALL_REG,
	STEP_JUMP_MEMORY, /* as STEP_*_REG, but of the word that base, index and target name */
	STEP_CALL_MEMORY,
	STEP_AGAIN, /* an int3 of the new bytes: run the pc again and let it be what it is */
};

struct step {
	uint8_t kind;
	uint8_t condition;
	uint8_t is_copy; /* STEP_JUMP: to a copy of the instruction */
	uint8_t base;	 /* DWARF number or INSN_NO_REG */
	uint8_t index;
	uint8_t scale;
	uint8_t length; /* of the instruction */
	uint16_t imm;
	uint64_t target; /* or displacement */
};

#endif
