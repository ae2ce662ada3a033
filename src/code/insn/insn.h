/* SPDX-License-Identifier: MIT */
/*
 * insn.h - what one instruction is and which memory it touches.
 *
 * Everything here may run inside a signal handler. There is no allocation, no lock, no libc call
 * beyond memcpy and memset, less than 4 KB of stack, and never a read outside the bytes given.
 * Nothing of the decoding library shows: x86-64 is decoded by Zydis in insn_x86_64.c alone, arm64
 * by hand in insn_arm64.c. Both decoders have a name of their own, so that arm64's is tested
 * anywhere; insn_decode() is the host's.
 *
 * Registers have their DWARF numbers, as in the rest of the project.
 */
#ifndef CODE_INSN_INSN_H
#define CODE_INSN_INSN_H

#include <stddef.h>
#include <stdint.h>

#define INSN_LENGTH_MAX 15 /* x86-64; arm64 has always 4 */
#define INSN_MEMORY_MAX 4

/* DWARF numbers, x86-64. */
enum {
	INSN_RAX,
	INSN_RDX,
	INSN_RCX,
	INSN_RBX,
	INSN_RSI,
	INSN_RDI,
	INSN_RBP,
	INSN_RSP,
	INSN_R8,
	INSN_R9,
	INSN_R10,
	INSN_R11,
	INSN_R12,
	INSN_R13,
	INSN_R14,
	INSN_R15,
	INSN_RIP,
};

/* arm64: x0 to x30 are 0 to 30. */
enum {
	INSN_ARM64_LR = 30,
	INSN_ARM64_SP = 31,
	INSN_ARM64_PC = 32,
};

#define INSN_REGS 33
#define INSN_NO_REG 0xff

/*
 * A register set: of a thread at one moment. r[] is by DWARF number; x86-64 uses r[0] to r[16]. The
 * pc in it is the address of the instruction that is asked about, also for operands relative to the
 * pc. known states which members are valid; what is not known is not guessed.
 */
struct insn_regs {
	uint64_t r[INSN_REGS];
	uint64_t flags; /* x86-64: RFLAGS; arm64: NZCV as in PSTATE */
	uint64_t fs_base;
	uint64_t gs_base;
	uint64_t known; /* bit n: r[n]; and these: */
};
#define INSN_KNOWS_FLAGS (1ull << 40)
#define INSN_KNOWS_FS (1ull << 41)
#define INSN_KNOWS_GS (1ull << 42)
#define INSN_KNOWS_X86 0x1ffffull	/* r[0] to r[16] */
#define INSN_KNOWS_ARM64 0x1ffffffffull /* r[0] to r[32] */

enum insn_arch {
	INSN_X86_64,
	INSN_ARM64,
};

enum insn_kind {
	INSN_OTHER,
	INSN_NOP,	       /* nop of any length, pause, yield: nothing but the pc changes */
	INSN_LANDING,	       /* endbr64, endbr32, bti: as a nop, but indirect branches need it */
	INSN_JUMP,	       /* to a location the instruction names */
	INSN_JUMP_CONDITIONAL, /* also loop, jrcxz, cbz, tbz */
	INSN_JUMP_INDIRECT,    /* to a location in a register or in memory */
	INSN_CALL,
	INSN_CALL_INDIRECT,
	INSN_RETURN,
	INSN_TRAP,    /* int3, int1, int n, ud2, brk, hlt #n, udf: raises a signal */
	INSN_SYSCALL, /* syscall, sysenter, int $0x80, svc */
	INSN_FENCE,   /* mfence, lfence, sfence, serialize, dmb, dsb, isb */
	INSN_STRING,  /* movs, stos, cmps, scas, lods, ins, outs; arm64: cpy*, set* */
};

/* Bits of access. CONDITIONAL is beside them: masked lanes, a failed compare and exchange, ... */
enum insn_access {
	INSN_READ = 1,
	INSN_WRITE = 2,
	INSN_READ_WRITE = 3,
};

/* Bits of insn_memory.flags. */
enum insn_memory_flag {
	/* Not written in the text: push, pop, call, ret, string instructions. */
	INSN_MEM_IMPLICIT = 1 << 0,
	/*
	 * Some or all of the bytes may stay untouched. Causes are lanes masked off, cmpxchg that
	 * fails, rep with a count of zero, or a processor whose maker takes fewer (movsxd with
	 * prefix 66, far pointers with REX.W). A debug register may hit all the same.
	 */
	INSN_MEM_CONDITIONAL = 1 << 1,
	/* size is 0 because only the machine's state knows it: xsave, xrstor, SVE. */
	INSN_MEM_SIZE_UNKNOWN = 1 << 2,
	/* Gather or scatter: one address a lane, index is a vector register: see lanes. */
	INSN_MEM_LANES = 1 << 3,
	/* The formula does not state the address: AMX tiles, MPX tables, SVE. */
	INSN_MEM_NOT_COMPUTABLE = 1 << 4,
	/* The address is cut to 32 bits before a segment is added (prefix 67). */
	INSN_MEM_ADDRESS_32 = 1 << 5,
	/* A string instruction with a rep prefix: size is that of one step. */
	INSN_MEM_REPEATS = 1 << 6,
	/* bt, bts, btr, btc with a register: it may reach far beyond base, see bit_reg. */
	INSN_MEM_BIT_INDEX = 1 << 7,
	/* The base register is written back: base + writeback (arm64 pre- and post-index). */
	INSN_MEM_WRITEBACK = 1 << 8,
	/* The low bits of the sum are dropped: cache line operations, aligned down to size. */
	INSN_MEM_ALIGNED_DOWN = 1 << 9,
};

enum insn_segment {
	INSN_SEGMENT_NONE, /* or one whose base is 0 */
	INSN_SEGMENT_FS,
	INSN_SEGMENT_GS,
};

/*
 * One memory operand:
 *
 *	address = segment base + r[base] + extend(r[index]) * scale + displacement
 *
 * from the registers *before* the instruction. All adjustments are in the displacement: a push has
 * -8, pop (%rsp) has +8. An operand relative to the pc has base = the pc and counts from the
 * instruction's own address.
 */
struct insn_memory {
	uint8_t access;	      /* enum insn_access */
	uint8_t base;	      /* DWARF number or INSN_NO_REG */
	uint8_t index;	      /* the same; with INSN_MEM_LANES the number of a vector register */
	uint8_t scale;	      /* 1, 2, 4, 8, 16; 0 without index */
	uint8_t index_bits;   /* how much of the index counts: 8 (xlat), 32 or 64 */
	uint8_t index_signed; /* the index is sign-extended from index_bits */
	uint8_t segment;      /* enum insn_segment */
	uint8_t bit_reg;    /* INSN_MEM_BIT_INDEX: contains the bit number, bit_bits wide, signed */
	uint8_t bit_bits;   /* 16, 32 or 64: also the granule in which memory is touched */
	uint8_t lanes;	    /* elements of a vector operand with a mask; of a gather; else 0 */
	uint8_t lane_bytes; /* bytes of one element */
	uint8_t unused;
	uint16_t flags; /* enum insn_memory_flag */
	uint32_t size;	/* bytes; 0 with INSN_MEM_SIZE_UNKNOWN */
	int64_t displacement;
	int64_t writeback; /* INSN_MEM_WRITEBACK: what is added to the base afterwards */
};

/* Bits of insn.flags. */
enum insn_flag {
	/* Reads, changes and writes memory in one step: LOCK, xchg with memory, LSE. */
	INSN_ATOMIC = 1 << 0,
	/* arm64: load-exclusive or store-exclusive; a pair of them is atomic. */
	INSN_EXCLUSIVE = 1 << 1,
	/* arm64: ldar, ldapr, casa, ...: orders what follows. */
	INSN_ACQUIRE = 1 << 2,
	/* arm64: stlr, casl, ...: orders what came before. */
	INSN_RELEASE = 1 << 3,
	INSN_READS_FLAGS = 1 << 4,
	INSN_WRITES_FLAGS = 1 << 5,
	/* A branch with its distance in the instruction: target is set, the copy elsewhere needs
	 * the distance corrected. */
	INSN_RELATIVE_BRANCH = 1 << 6,
	/* Names memory (or lea, adr: an address) by distance from the pc: the same. */
	INSN_PC_RELATIVE = 1 << 7,
	/* A string instruction with rep, repe or repne: on x86-64 the pc stays until it is done. */
	INSN_REPEATS = 1 << 8,
	/* Not for user space: faults there. */
	INSN_PRIVILEGED = 1 << 9,
	/* More memory operands than fit: only the first INSN_MEMORY_MAX are there. */
	INSN_MORE_MEMORY = 1 << 10,
	/* sp_change is known. */
	INSN_CHANGES_SP = 1 << 11,
	/* Far jump, call or return: loads a code segment too. */
	INSN_FAR = 1 << 12,
	/* Prefetch or cache hint: names an address that it does not access. */
	INSN_HINT = 1 << 13,
	/* Neither to be copied nor to be emulated: xbegin, sysenter, near branches with prefix 66
	 * (Intel and AMD differ). */
	INSN_NOT_RELOCATABLE = 1 << 14,
	/* Belongs to the x87, MMX or vector unit. */
	INSN_VECTOR = 1 << 15,
};

/* Condition of INSN_JUMP_CONDITIONAL; below 16 it is the architecture's own number. */
enum insn_condition {
	INSN_CONDITION_LOOPNE = 16,
	INSN_CONDITION_LOOPE,
	INSN_CONDITION_LOOP,
	INSN_CONDITION_RCXZ,
	INSN_CONDITION_CBZ,
	INSN_CONDITION_CBNZ,
	INSN_CONDITION_TBZ,
	INSN_CONDITION_TBNZ,
	INSN_CONDITION_NONE = 0xff,
};

struct insn {
	uint8_t arch; /* enum insn_arch */
	uint8_t length;
	uint8_t kind;	   /* enum insn_kind */
	uint8_t condition; /* enum insn_condition */
	uint16_t flags;	   /* enum insn_flag */
	uint8_t memory_count;
	uint8_t target_reg; /* indirect jump or call by register; arm64: also cbz and tbz */
	/* Masks by DWARF number; flags, vector and system registers are not in them. A register
	 * written only sometimes (cmov, cmpxchg) is in writes. Addresses count as reads. */
	uint64_t reads;
	uint64_t writes;
	/* x86-64: written in their lower half, so that the upper is 0 after. */
	uint64_t clears_upper;
	/* INSN_RELATIVE_BRANCH: distance to the target from the instruction's own address.
	 * INSN_PC_RELATIVE: the same to the address named (arm64 adrp: from its page). */
	int64_t target;
	int32_t sp_change; /* INSN_CHANGES_SP: sp after - sp before */
	/* x86-64: where in the bytes things are; 0 when absent. arm64: all 0. */
	uint8_t opcode_at;    /* the last opcode byte is at opcode_at + opcode_bytes - 1 */
	uint8_t opcode_bytes; /* 1 to 3 with their 0f, 0f38, 0f3a; 0 for VEX, EVEX, XOP */
	uint8_t modrm_at;
	uint8_t displacement_at;
	uint8_t displacement_bytes;
	uint8_t immediate_at;
	uint8_t immediate_bytes;
	uint8_t rex;	       /* 0 without */
	uint8_t operand_bytes; /* 1, 2, 4 or 8: the width general instructions work in */
	uint8_t address_bytes; /* 8, or 4 with prefix 67: also the width of loop and jrcxz */
	uint8_t tested_bit;    /* arm64 tbz, tbnz */
	struct insn_memory memory[INSN_MEMORY_MAX];
};

/* Its locals leave the stack before the decoder comes, which a thread with a small one needs. */
#define INSN_NOT_INLINED __attribute__((noinline))

/*
 * insn_decode - decode the instruction that begins at bytes, of which available may be read.
 *
 * Errors: -ENODATA the instruction continues behind what is available; -EILSEQ no instruction.
 * *out is untouched then.
 */
int insn_decode_x86_64(const void *bytes, size_t available, struct insn *out);
int insn_decode_arm64(const void *bytes, size_t available, struct insn *out);

/* The length alone: half the time. Positive, or as insn_decode. */
int insn_length_x86_64(const void *bytes, size_t available);

/*
 * insn_address - where operand number i lies, by the registers before the instruction.
 *
 * Errors: -EINVAL no such operand; -ENODATA a register it needs is not known; -EOPNOTSUPP the
 * address is not to be computed from these registers (lanes, INSN_MEM_NOT_COMPUTABLE).
 */
int insn_address(const struct insn *insn, unsigned int i, const struct insn_regs *before,
		 uint64_t *out);

/*
 * insn_touches - does operand i touch any of len bytes at address?
 *
 * 1 yes, 0 no; 2 it may (unknown size, lanes); or the errors of insn_address. A string
 * instruction with rep is asked about its next step alone.
 */
int insn_touches(const struct insn *insn, unsigned int i, const struct insn_regs *before,
		 uint64_t address, uint64_t len);

/*
 * insn_branch_taken - would the conditional jump be taken with these registers?
 *
 * 1, 0, or -ENODATA, or -EINVAL for another kind of instruction.
 */
int insn_branch_taken(const struct insn *insn, const struct insn_regs *before);

#if defined(__x86_64__)
#define INSN_PC INSN_RIP
#define INSN_SP INSN_RSP
static inline int insn_decode(const void *bytes, size_t available, struct insn *out)
{
	return insn_decode_x86_64(bytes, available, out);
}
#elif defined(__aarch64__)
#define INSN_PC INSN_ARM64_PC
#define INSN_SP INSN_ARM64_SP
static inline int insn_decode(const void *bytes, size_t available, struct insn *out)
{
	return insn_decode_arm64(bytes, available, out);
}
#endif

#endif
