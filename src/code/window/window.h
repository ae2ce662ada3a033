/* SPDX-License-Identifier: MIT */
/*
 * window.h - a window: a thread runs its own next instructions out of line, under Trapline's
 * control.
 *
 * A block of the thread's code is translated into a cache: each instruction is copied, and only
 * control flow and distances from the pc are written in another way. A copy runs with the
 * registers, the stack and the vector state of the thread itself. So a fault, a system call or an
 * end can come after any instruction, and the registers are exact. The cache, the area and a stack
 * for Trapline's own code belong to one thread. Code in the cache reaches the area by its distance
 * from the pc: no register is taken.
 *
 * Each block compares its bytes with those it was made from before it runs: changed code is
 * translated again. Where a store can change the text, a block ends with each store, so that the
 * next instruction is compared too. A block also takes its instructions from a budget.
 *
 * Signals that are sent wait until the window ends, so each handler meets the thread where it would
 * have been. Faults come at once: window_fault.c turns them into the program's own.
 */
#ifndef CODE_WINDOW_H
#define CODE_WINDOW_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <ucontext.h>

#include "code/insn/insn.h"

#define WINDOW_CODE_BYTES (8u << 20)
#define WINDOW_STACK_BYTES (64u << 10)
#define WINDOW_XSAVE_BYTES (16u << 10)
#define WINDOW_JUMPS 65536u /* by the low 16 bits of the target */
#define WINDOW_HASH 32768u
#define WINDOW_BLOCKS_MAX 98304u
#define WINDOW_SITES_MAX 393216u
#define WINDOW_MARKS_MAX 524288u
#define WINDOW_PAGES 64u /* with code that was changed */
#define WINDOW_BLOCK_INSNS 32u
#define WINDOW_BLOCK_BYTES 240u
#define WINDOW_SLICE 65536 /* instructions between two inspects the clock and at signals */

/* Why a window ended. The public header has the same numbers. */
enum window_reason {
	WINDOW_RUNS,
	WINDOW_BUDGET,
	WINDOW_TIME,
	WINDOW_CALLBACK,
	WINDOW_ENDED,
	WINDOW_FAULT,
	WINDOW_SIGNAL,
	WINDOW_SYSTEM_CALL,
	WINDOW_BLOCKING,
	WINDOW_RESTARTABLE,
	WINDOW_INSTRUCTION,
	WINDOW_UNREADABLE,
	WINDOW_TRAP,
};

enum window_site_kind {
	WINDOW_SITE_INDIRECT, /* number 0: target is where to */
	WINDOW_SITE_EXIT,     /* a branch whose distance is at code */
	WINDOW_SITE_BUDGET,
	WINDOW_SITE_CHANGED,
	WINDOW_SITE_RESTARTABLE, /* continues at code */
	WINDOW_SITE_LEAVE,	 /* reason is in aux */
	WINDOW_SITE_CALL,	 /* a system call is next, at code */
	WINDOW_SITE_CALLED,	 /* it is done */
	WINDOW_SITE_POPF,
	WINDOW_SITE_HOOK, /* aux is the hook's own number */
	WINDOW_SITE_BLOCK,
};

/* Where cache code calls us. */
struct window_site {
	uint32_t kind;
	uint32_t block;
	uint32_t code;
	uint32_t aux;
	uint64_t guest; /* the instruction, or the target */
};

struct window_block {
	uint64_t guest;
	uint32_t code;
	uint32_t mark; /* the first of its marks */
	uint32_t next; /* in its row of the hash */
	uint16_t insns;
	uint16_t bytes;
};

/* Bits of window_mark.saved. */
enum {
	WINDOW_SAVED_RAX = 1,
	WINDOW_SAVED_RCX = 2,
	WINDOW_SAVED_RDX = 4,
	WINDOW_SAVED_OTHER = 8,
	/* Only for what comes after an access: */
	WINDOW_AT_TARGET =
		16, /* it is in rax; other: enum insn_kind; aux: bytes popped, or of the call */
	WINDOW_AT_LOOKUP = 32,	 /* it is in rax, all else is done */
	WINDOW_AT_CALL = 64,	 /* done; aux: the site that has the target */
	WINDOW_AT_SYSCALL = 128, /* done */
};

/* From code on, a fault is of the instruction at this offset; these registers are in the area. */
struct window_mark {
	uint32_t code;
	uint8_t offset;
	uint8_t done; /* instructions of the block before it */
	uint8_t saved;
	uint8_t other; /* DWARF number of the register in spill_other */
	uint32_t aux;
};

/* window_area.is_active */
enum {
	WINDOW_IDLE,
	WINDOW_ACTIVE,
	WINDOW_SUSPENDED, /* the thread executes a system call natively, in single-step */
};

#define WINDOW_HELD 6u
#define WINDOW_TRAP_FLAG 0x100u

struct window_jump {
	/* of the guest's address: compared by an addition that changes no flag */
	uint64_t negative;
	uint64_t code;
};

struct window_area;

/*
 * What inspects instructions. choose: at translation, vector registers free: 0, or a number that
 * before gets each time the instruction is next. block: at each block. Both return 0, or 1 to end
 * the window there. They leave the vector registers alone, or keeps_vectors is 0.
 */
struct window_hooks {
	uint32_t (*choose)(struct window_area *area, uint64_t pc, const struct insn *insn,
			   const uint8_t *bytes);
	int (*before)(struct window_area *area, uint64_t pc, uint32_t number);
	int (*block)(struct window_area *area, uint64_t pc, uint32_t insns);
	int keeps_vectors;
};

struct window_operand {
	int64_t displacement;
	uint32_t size;
	uint16_t flags;
	uint8_t base;
	uint8_t index;
	uint8_t scale;
	uint8_t segment;
	uint8_t access;
	uint8_t is_last;
};
#define WINDOW_OPERANDS_MAX 262144u

struct window_request {
	uint64_t instructions; /* 0: without bound */
	uint64_t deadline_ns;  /* CLOCK_MONOTONIC; 0: none */
	int may_block;
	struct window_hooks hooks;
	/* For hooks. */
	int (*user_block)(uint64_t pc, uint32_t insns, const uint64_t *regs, void *arg);
	int (*user_access)(uint64_t pc, uint64_t address, uint32_t bytes, uint32_t access,
			   const uint64_t *regs, void *arg);
	void *arg;
	/*
	 * Where the program's text has something of Trapline, and what it had before; 0 bytes:
	 * nowhere.
	 */
	uint64_t text_at;
	uint32_t text_bytes;
	uint8_t text[INSN_LENGTH_MAX + 1];
	/*
	 * 1: a watch at this address is of the window's owner, which has no use for the hit. NULL:
	 * none is.
	 */
	int (*owns_watch)(uint64_t address);
	/* Reads the text of another process; NULL: it is Trapline's. */
	size_t (*read_text)(struct window_area *area, void *to, uint64_t from, size_t n);
	/* 1: a store of this text can change it. NULL: by what this process may write. */
	int (*changes)(struct window_area *area, uint64_t pc);
	/* 1: a window ends before this instruction; NULL: at none of those that can run. */
	int (*refuses)(const struct insn *insn, const uint8_t *bytes);
	/* The window has ended; its result is known. In a signal handler; NULL: not called. */
	void (*ended)(struct window_area *area);
};

struct window_result {
	uint64_t instructions;
	uint64_t pc;
	uint64_t translated; /* instructions */
	uint64_t blocks;
	uint64_t flushes;
	uint64_t changed;
	uint64_t system_calls;
	uint32_t reason;		    /* enum window_reason */
	uint8_t bytes[INSN_LENGTH_MAX + 1]; /* WINDOW_INSTRUCTION: what is at pc */
};

/* Read and written by the code in the cache, by distance: the members before `end of cache` */
struct window_area {
	struct insn_regs regs;
	uint64_t spill_rax;
	uint64_t spill_rcx;
	uint64_t spill_rdx;
	uint64_t spill_other;
	int64_t left; /* of the slice */
	uint64_t resume;
	uint64_t target;
	uint64_t dispatch;
	uint64_t leave_sp; /* where the signal that leaves the window has its frame */
	uint32_t site;
	uint32_t is_active;
	/* end of cache */
	uint8_t *code;	   /* executable */
	uint8_t *writable; /* the same bytes */
	uint32_t used;
	uint32_t entry;	   /* loads all registers and goes to resume */
	uint32_t save;	   /* saves them and calls dispatch */
	uint32_t miss;	   /* of an indirect branch */
	uint32_t pad;	   /* what leaves the window */
	uint32_t pad_trap; /* its last instruction */
	uint32_t kept;	   /* code before it stays at a flush */
	uint32_t blocks_used;
	uint32_t sites_used;
	uint32_t marks_used;
	uint32_t operands_used;
	uint32_t epoch;
	uint32_t pages_used;
	uint32_t copy_failed;
	uint32_t page_changes; /* what was found of the page */
	uint64_t page_asked;   /* its number; 0: none */
	uint64_t pages[WINDOW_PAGES];
	uint64_t guest_mask;
	uint64_t budget;       /* not yet in a slice */
	int64_t slice;	       /* what left was at the slice's begin */
	uint64_t rseq_offset;  /* of rseq_cs from fs; 0: none is registered */
	uint32_t owned_signal; /* that a system call is about; 0 */
	uint32_t is_unmasked;
	uint64_t step_pc; /* leaving goes to the system call there; 0: it ends the window */
	uint64_t step_flags;
	uint64_t step_sp;
	uint64_t step_next; /* behind the call, until the window has continued */
	uint64_t abandoned_sp;
	uint32_t was_abandoned; /* a suspended window: see window_area.c */
	uint32_t held_count;
	siginfo_t held[WINDOW_HELD]; /* sent signals, of those that are not blocked */
	pid_t pid;
	pid_t tid;
	struct window_request request;
	struct window_result result;
	struct window_area *next;
	struct window_block *blocks;
	struct window_site *sites;
	struct window_mark *marks;
	struct window_operand *operands;
	uint32_t *hash;
	struct window_jump *jumps;
	void *xsave;
	uint64_t stack_top;
};

/* ---- window_area.c ---- */

/* The calling thread's area, made when there is none; NULL and -errno. */
int window_take(struct window_area **out);
struct window_area *window_own(void);
/*
 * Unmaps all areas, when no thread is in Trapline's code any more and none can come. -EBUSY: a
 * thread executes a system call of a window natively, so all stays.
 */
int window_areas_give(void);
/* Empties the cache. */
void window_flush(struct window_area *area);

/* ---- window_translate.c: uses vector registers ---- */

/* Number of a block at pc with at most `most` instructions; is_kept: it can be found again. */
int window_translate(struct window_area *area, uint64_t pc, unsigned int most, int is_kept);

/* ---- window_run.c: leaves the vector registers alone ---- */

void window_dispatch(struct window_area *area);
/* The block is not found again, and its pages are known to change. */
void window_forget(struct window_area *area, uint32_t number);
/* The registers in area continue in a window: resume is set. */
void window_begin(struct window_area *area, const struct window_request *request);
/* Copies up to n bytes; the number that could be read. */
size_t window_read(void *to, uint64_t from, size_t n);
extern const char window_read_at[] __attribute__((visibility("hidden")));
extern const char window_read_failed[] __attribute__((visibility("hidden")));

/* ---- window_actions.c ---- */

/* For one window more. 0 or -errno; -EAGAIN: other threads begin or end theirs at this moment. */
int window_faults_take(void);
void window_faults_release(void);
/* Again, if the program has natively set an action of its own: one signal in turn. */
void window_faults_renew(void);
/* sigaction(2) by the registers. 1: done, with *result; 0: not for a signal of Trapline. */
int window_action_call(struct window_area *area, long *result);
/* To the program's action. frame: of the handler that calls this. May not return. */
void window_pass_on(int sig, siginfo_t *info, ucontext_t *context, const void *frame);

/* ---- window_fault.c ---- */

/* Whose code has this offset. */
const struct window_block *window_block_of(const struct window_area *area, uint32_t code);
const struct window_mark *window_mark_of(const struct window_area *area,
					 const struct window_block *block, uint32_t code);

void window_on_signal(int sig, siginfo_t *info, void *context);

/* All signals wait in a window but those that instructions raise. */
#define WINDOW_SIGNAL_BIT(n) (1ull << ((n)-1))
#define WINDOW_BLOCKED                                                                          \
	(~(WINDOW_SIGNAL_BIT(SIGSEGV) | WINDOW_SIGNAL_BIT(SIGBUS) | WINDOW_SIGNAL_BIT(SIGILL) | \
	   WINDOW_SIGNAL_BIT(SIGFPE) | WINDOW_SIGNAL_BIT(SIGTRAP) | WINDOW_SIGNAL_BIT(SIGSYS)))

/* ---- window_access.c: leaves the vector registers alone ---- */

uint32_t window_access_choose(struct window_area *area, uint64_t pc, const struct insn *insn,
			      const uint8_t *bytes);
/*
 * Where an operand lies, by the registers before the instruction. *bytes is 0: that is not known.
 */
uint64_t window_operand_address(const struct window_area *area, const struct window_operand *o,
				uint32_t *bytes);
void window_operand_fill(struct window_operand *o, const struct insn *insn,
			 const struct insn_memory *m);
int window_access_before(struct window_area *area, uint64_t pc, uint32_t number);
int window_block_before(struct window_area *area, uint64_t pc, uint32_t insns);

/* ---- window_enter.c ---- */

/*
 * The instruction after the call of Trapline's caller begins the window; its result is 0. Else
 * -errno.
 */
int window_enter(const struct window_request *request);
/* The registers of context begin it, when the handler has returned. */
int window_enter_context(const struct window_request *request, ucontext_t *context);
/* A window ends that comes here. */
int window_end(void);

#endif
