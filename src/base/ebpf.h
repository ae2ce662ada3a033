/* SPDX-License-Identifier: MIT */
/*
 * ebpf.h - an assembler for eBPF, and the few bpf(2) calls the library needs.
 *
 * Programs are written into a fixed buffer. Overflow is remembered and reported once, by
 * ebpf_load(), so that emitting code needs no checks.
 */
#ifndef BASE_EBPF_H
#define BASE_EBPF_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

#define EBPF_MAX_INSNS 16384

struct ebpf {
	struct bpf_insn insns[EBPF_MAX_INSNS];
	uint32_t count;
	int overflow;
	uint32_t attach_type; /* expected by the kernel where it asks for one */
};

/* Registers: R0 result, R1 to R5 arguments, R6 to R9 kept over calls, R10 frame. */
enum {
	R0,
	R1,
	R2,
	R3,
	R4,
	R5,
	R6,
	R7,
	R8,
	R9,
	R10
};

void ebpf_emit(struct ebpf *p, uint8_t code, int dst, int src, int16_t off, int32_t imm);

static inline void ebpf_mov(struct ebpf *p, int dst, int src)
{
	ebpf_emit(p, BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0);
}

static inline void ebpf_mov_imm(struct ebpf *p, int dst, int32_t imm)
{
	ebpf_emit(p, BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm);
}

/* op: BPF_ADD, BPF_SUB, BPF_AND, BPF_OR, BPF_LSH, BPF_RSH ... */
static inline void ebpf_alu(struct ebpf *p, int op, int dst, int src)
{
	ebpf_emit(p, (uint8_t)(BPF_ALU64 | op | BPF_X), dst, src, 0, 0);
}

static inline void ebpf_alu_imm(struct ebpf *p, int op, int dst, int32_t imm)
{
	ebpf_emit(p, (uint8_t)(BPF_ALU64 | op | BPF_K), dst, 0, 0, imm);
}

/* size: BPF_B, BPF_H, BPF_W or BPF_DW. */
static inline void ebpf_load_mem(struct ebpf *p, int size, int dst, int src, int16_t off)
{
	ebpf_emit(p, (uint8_t)(BPF_LDX | BPF_MEM | size), dst, src, off, 0);
}

static inline void ebpf_store(struct ebpf *p, int size, int dst, int16_t off, int src)
{
	ebpf_emit(p, (uint8_t)(BPF_STX | BPF_MEM | size), dst, src, off, 0);
}

static inline void ebpf_store_imm(struct ebpf *p, int size, int dst, int16_t off, int32_t imm)
{
	ebpf_emit(p, (uint8_t)(BPF_ST | BPF_MEM | size), dst, 0, off, imm);
}

/* op: BPF_ADD | BPF_FETCH, BPF_XCHG ... on 64 bits; src receives the old value. */
static inline void ebpf_atomic(struct ebpf *p, int32_t op, int dst, int16_t off, int src)
{
	ebpf_emit(p, BPF_STX | BPF_ATOMIC | BPF_DW, dst, src, off, op);
}

static inline void ebpf_call(struct ebpf *p, int helper)
{
	ebpf_emit(p, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

static inline void ebpf_exit(struct ebpf *p)
{
	ebpf_emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* A forward jump whose distance ebpf_land() fills in. op: BPF_JEQ, BPF_JNE, BPF_JGE, BPF_JA ... */
uint32_t ebpf_jump(struct ebpf *p, int op, int dst, int src);
uint32_t ebpf_jump_imm(struct ebpf *p, int op, int dst, int32_t imm);
void ebpf_land(struct ebpf *p, uint32_t jump);

/* From a jump back to an instruction emitted before, whose index it was: a loop that must end. */
void ebpf_land_at(struct ebpf *p, uint32_t jump, uint32_t index);

/* 64-bit constants: a number, a map's descriptor, or the address of a byte in a map's value. */
void ebpf_load_imm64(struct ebpf *p, int dst, uint64_t value);
void ebpf_load_map(struct ebpf *p, int dst, int map_fd);
void ebpf_load_map_value(struct ebpf *p, int dst, int map_fd, uint32_t off);

/* A pid namespace in which processes and threads have their numbers; inode 0: the first one. */
struct ebpf_ids {
	uint64_t device;
	uint64_t inode;
};

/*
 * R0: the process << 32 | the thread that runs, as numbered there. frame_at: 8 bytes of the frame
 * to be used. Uses R0 to R4.
 */
void ebpf_current_ids(struct ebpf *p, const struct ebpf_ids *ids, int16_t frame_at);

/* Load a program; log may be NULL. Returns a descriptor or -errno. AS-Unsafe. */
int ebpf_load(const struct ebpf *p, enum bpf_prog_type type, char *log, uint32_t log_size);

/* Runs of a program that the kernel skipped because it was running on that CPU; 0: no program. */
uint64_t ebpf_missed(int program);

/* Create a map of a type. flags: BPF_F_MMAPABLE ... Returns a descriptor or -errno. */
int ebpf_map_create(enum bpf_map_type type, uint32_t key_size, uint32_t value_size,
		    uint32_t max_entries, uint32_t flags);

/* An element of a map. 0 or -errno. */
int ebpf_map_read(int map_fd, const void *key, void *value);
int ebpf_map_write(int map_fd, const void *key, const void *value);
int ebpf_map_remove(int map_fd, const void *key);

/*
 * Attach a program to a raw tracepoint of this name. Returns a descriptor, which keeps the program,
 * or -errno.
 */
int ebpf_attach_tracepoint(int program, const char *name);

/*
 * Create per-task storage, bytes a multiple of 8; it needs a BTF description, which is made here.
 */
#define EBPF_TASK_BYTES 16 /* two u64 */
int ebpf_task_storage_create(uint32_t bytes);

#endif
