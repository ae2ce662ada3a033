/* SPDX-License-Identifier: MIT */
/*
 * code.h - change the instructions of the calling process while its threads run them.
 *
 * A poke replaces bytes at one or many sites, all or none. A trap is an int3 that stays:
 * a breakpoint in the own process that needs no debug register. It has a callback, which
 * runs in the thread that reached it. Both keep every thread running: the SIGTRAP handler
 * takes a thread past an instruction that is being changed.
 *
 * This is for x86-64 and arm64, where the trap is a brk. There TRAPLINE_POKE_SPIN and
 * TRAPLINE_WRITE_EXCHANGE fail with -EOPNOTSUPP, and trapline_explain() gives the reason.
 * Conventions and tags are those of trapline.h. trapline-code(7) explains how it works, and what
 * of it was tried on arm64.
 */
#ifndef TRAPLINE_CODE_H
#define TRAPLINE_CODE_H

#include <trapline/branch.h>
#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest site is one instruction of x86-64. */
#define TRAPLINE_POKE_LEN_MAX 15

/*
 * One site: the len bytes at address are expect, and become bytes. expect is exactly one
 * instruction, or one that never falls through (jmp, ret, ud2, int3) with anything behind
 * it. bytes may be several instructions.
 */
struct trapline_poke_site {
	uint64_t address;
	const void *expect;
	const void *bytes;
	size_t len;
};

enum trapline_poke_flag {
	/*
	 * Threads spin on a jump to itself instead of an int3. It is for sites that
	 * threads may run with SIGTRAP blocked, where an int3 would kill the process. It
	 * needs sites of 2 bytes or more whose first two bytes lie in one aligned word of
	 * 8. It needs a CPU that promises single stores there (AMD), and a mapping that
	 * can be stored to. Otherwise the call acts as with TRAPLINE_POKE_SINGLE_STORE.
	 */
	TRAPLINE_POKE_SPIN = 1,
	/*
	 * All bytes of a site change at once, without a trap: it is for the same sites.
	 * One store does it if the bytes that differ lie in one aligned word of 8, and the
	 * CPU promises that (AMD does, Intel does not). Otherwise a changed copy replaces
	 * the page: see TRAPLINE_WRITE_EXCHANGE. The call fails with -EOPNOTSUPP
	 * if neither is possible, and always while a code log is on.
	 */
	TRAPLINE_POKE_SINGLE_STORE = 2,
	/*
	 * expect may be several instructions. The caller guarantees that no thread is
	 * between them, or sleeps or returns there, as long as the call lasts.
	 */
	TRAPLINE_POKE_QUIESCENT = 4,
};

/* The library writes bytes in these ways. It tries the writers in this order. */
enum trapline_poke_writer {
	/* The second mapping of memory from trapline_code_alloc() is writable. */
	TRAPLINE_WRITE_ALIAS = 1,
	/* /proc/thread-self/mem takes a whole page. */
	TRAPLINE_WRITE_MEM = 2,
	/* The page is writable and executable for a moment. */
	TRAPLINE_WRITE_MPROTECT = 4,
	/*
	 * A changed copy replaces the page. It is used with
	 * TRAPLINE_POKE_SINGLE_STORE and TRAPLINE_POKE_SPIN only. It needs memory of
	 * trapline_code_alloc(), or a private mapping that is not writable.
	 */
	TRAPLINE_WRITE_EXCHANGE = 8,
};

struct trapline_poke_opts {
	size_t size;
	/* It is an OR of enum trapline_poke_flag. */
	uint32_t flags;
	/* It is an OR of the enum trapline_poke_writer that may be used. 0 means all. */
	uint32_t writers;
	/*
	 * If it is not NULL, it receives the index of the site at which the call failed.
	 */
	size_t *failed;
};

/*
 * trapline_poke - change the bytes at n sites, all or none.
 *
 * When it returns 0, every thread runs the new bytes, and no thread is inside the handler
 * with the old ones. Sites may be in any order; sorted by address they are fastest.
 * Errors: EACCES no writer works; EBUSY the bytes at a site are not those expected, or a
 * trap or another site overlaps (nothing has been written); EDEADLK the call comes from a
 * callback; EFAULT a site is not mapped; EINVAL length, or expect is not one instruction;
 * EIO the text became read-only midway, so the sites act as the new bytes by traps, for
 * ever; ENOMEM; ENOSPC no memory within reach of the text for copies; EOPNOTSUPP an
 * instruction cannot be stepped past, membarrier is refused, or what the flags ask for is
 * not promised here; EPERM the call comes from a vfork child. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_poke(const struct trapline_poke_site *sites, size_t n,
			       const struct trapline_poke_opts *opts);

/* A set of traps. trapline_traps_set() makes it. */
struct trapline_traps;

/* A thread has reached a trap. The structure is valid only during the callback. */
struct trapline_trap_hit {
	size_t size;
	struct trapline_traps *traps;
	/* This is opts.arg of the set. */
	void *arg;
	/* It is the index in the array that trapline_traps_set() received. */
	size_t index;
	/* The instruction here comes next. */
	uint64_t address;
	/* It is the ucontext_t of the thread. The callback may change it, pc included. */
	void *context;
};

/*
 * The callback runs inside SIGTRAP in the thread that reached the trap. It may call only
 * async-signal-safe functions, and must return. Traps that it reaches itself are counted
 * and run no callback.
 */
typedef void (*trapline_trap_callback)(const struct trapline_trap_hit *hit);

struct trapline_traps_opts {
	size_t size;
	/* NULL means that the traps only count. */
	trapline_trap_callback callback;
	void *arg;
	/* It is as in trapline_poke_opts. */
	uint32_t writers;
	/* It is an OR of enum trapline_traps_flag. */
	uint32_t flags;
	/* It is as in trapline_poke_opts. */
	size_t *failed;
};

enum trapline_traps_flag {
	/* Set the traps although a thread has SIGTRAP blocked. It must not reach them. */
	TRAPLINE_TRAPS_ANY_MASK = 1,
};

/*
 * trapline_traps_set - put an int3 at n instructions, to stay.
 *
 * Each address must be the first byte of an instruction. All traps are set, or none. No
 * thread ever misses a trap because another thread is just there: the instruction is
 * emulated, or a copy of it runs elsewhere. trapline_traps_remove() releases *out.
 * Errors: EACCES the signal masks of the threads cannot be read; EBUSY a trap or an int3
 * is there already, or a thread has SIGTRAP blocked; EINVAL no instruction begins at an
 * address, or the library itself runs it; ENOSPC 4096 sets exist, or no memory within
 * reach of the text for the copies; others as trapline_poke(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_traps_set(const uint64_t *addresses, size_t n,
				    const struct trapline_traps_opts *opts,
				    struct trapline_traps **out);

/*
 * trapline_traps_hits - read how often threads have reached a trap of the set.
 *
 * If nested is not NULL, *nested is how often that was inside a callback, so that no
 * further callback ran.
 * Errors: EINVAL there is no such index. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_traps_hits(const struct trapline_traps *traps, size_t index,
				     uint64_t *nested, uint64_t *out);

/*
 * trapline_traps_remove - remove the traps and release the set.
 *
 * NULL is permitted. When it returns 0 no callback of the set runs. It does not touch
 * text that was unloaded or changed by others. On failure the set stays.
 * Errors: EACCES no writer works; EBUSY a callback did not return within 2 s; EDEADLK the
 * call comes from a callback; ENOMEM; EPERM the call comes from a vfork child. MT-Safe.
 * AS-Unsafe.
 */
TRAPLINE_API int trapline_traps_remove(struct trapline_traps *traps);

/*
 * trapline_code_alloc - map memory for generated code, executable at *out and never
 * writable there.
 *
 * If near is not 0, the memory is within reach of a 32-bit distance from that address. It
 * is mapped twice, so that a poke there needs neither /proc nor mprotect(). It is filled
 * with int3. A forked child has a copy of its own. trapline_code_free() releases it.
 * Errors: EACCES or EPERM it is forbidden here; EBUSY the library cannot handle SIGTRAP;
 * EDEADLK the call comes from a callback; EINVAL bytes is 0; EMFILE; ENOMEM; ENOSPC
 * nothing is free near; EOPNOTSUPP membarrier is refused. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_code_alloc(uint64_t near, size_t bytes, void **out);

/*
 * trapline_code_free - release memory of trapline_code_alloc().
 *
 * NULL is permitted. No thread may run that code any more.
 * Errors: EDEADLK the call comes from a callback; EINVAL code is not the start of such
 * memory. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_code_free(void *code);

/*
 * trapline_code_write - write n bytes of code that no thread runs yet, inside such
 * memory.
 *
 * When it returns 0 every thread may go there. Use trapline_poke() for code that threads
 * may be running.
 * Errors: EACCES this forked child could not get a copy of its own; EDEADLK the call
 * comes from a callback; EINVAL the range is not wholly inside memory of
 * trapline_code_alloc(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_code_write(void *code, const void *bytes, size_t n);

/*
 * trapline_probe - report each time a thread of this process is about to execute the
 * instruction at address, without a signal.
 *
 * t is this process. opts are as for trapline_break(). The first instruction becomes a jump to code
 * that evaluates opts.condition. If it is false, the thread continues after some nanoseconds. If it
 * is true, the callback runs in the thread and on its stack, which needs room for 8 KiB. It may do
 * what other callbacks may do. Its context has no signal mask, its vector registers cannot be
 * changed, and its stack pointer can be lowered by 512 bytes at most. Without a callback the thread
 * writes a record, which trapline_poll() gives.
 *
 * Conditions on registers, caller, tid, pid and numbers become machine code, and the
 * hits that it rejects are not counted. For other conditions, and on arm64, each thread asks
 * the interpreter. trapline_stats.evaluated_in has the way.
 *
 * Only one instruction changes, so the call waits for no thread, and a debugger's
 * breakpoint behind that instruction works. Where a jump does not fit, the library sets
 * an int3 or brk; trapline_event_mechanism() has the way. trapline_event_disable() leaves the
 * jump. trapline_event_close() restores the instruction; if a callback closes the event,
 * the next trapline_probe() may have to. Memory for the code is kept, and used again.
 *
 * Errors: EBUSY another probe, a trap or a breakpoint is there, or a thread has SIGTRAP
 * blocked; EFAULT the address is not mapped; EINVAL no instruction begins there, or an
 * option; EOPNOTSUPP the instruction can neither run elsewhere nor be trapped, or
 * membarrier is refused; others as trapline_poke() and trapline_break(). MT-Safe.
 * AS-Unsafe.
 */
TRAPLINE_API int trapline_probe(struct trapline *t, uint64_t address,
				const struct trapline_event_opts *opts,
				struct trapline_event **out);

/*
 * These counters are those of the process. A forked child begins with the values of its
 * parent.
 */
struct trapline_code_stats {
	size_t size;
	/* So many pokes succeeded. */
	uint64_t batches;
	/* They had so many sites. */
	uint64_t sites;
	/* These pokes wrote nothing: the bytes were not those expected. */
	uint64_t refused;
	/* These batches failed while the sites had traps, and were undone. */
	uint64_t rolled_back;
	/* These sites act by traps for ever: see EIO. */
	uint64_t stranded;
	/* membarrier() was called so often. */
	uint64_t syncs;
	/* The handler took a thread past a site that was being changed. */
	uint64_t emulated;
	/* In so many of these cases the thread ran a copy of the instruction. */
	uint64_t copied;
	/* The int3 was gone when the handler looked, and the thread executed again. */
	uint64_t orphans;
	/* A thread reached a trap that stays. */
	uint64_t trap_passes;
	/* In so many of these cases the thread was inside a callback. */
	uint64_t trap_nested;
	/* int3 instructions of others went to the previous action for SIGTRAP. */
	uint64_t foreign;
	/* The text of these traps was unloaded or changed by others. */
	uint64_t gone;
	/* Memory could not be reused yet: a thread was in the handler. */
	uint64_t deferred;
	/* Each writer wrote so many sites. */
	uint64_t by_alias;
	uint64_t by_mem;
	uint64_t by_mprotect;
	uint64_t by_exchange;
};

/*
 * trapline_code_stats - read the counters.
 *
 * stats->size must be set.
 * Errors: EINVAL size. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_code_stats(struct trapline_code_stats *stats);

/* The code log reports where a batch is. */
enum trapline_code_stage {
	/* All sites have the old bytes. The record has the sites. */
	TRAPLINE_CODE_BEGIN = 0,
	/* Every thread runs into traps at all sites. */
	TRAPLINE_CODE_TRAP = 1,
	/* New bytes begin to appear. */
	TRAPLINE_CODE_OPEN = 2,
	/* All sites have the new bytes. */
	TRAPLINE_CODE_DONE = 3,
	/* The batch failed: all sites have the old bytes. */
	TRAPLINE_CODE_UNDONE = 4,
	/* The batch failed midway: each site has old bytes, new bytes or a trap, for ever. */
	TRAPLINE_CODE_STRANDED = 5,
};

struct trapline_code_record {
	size_t size;
	void *arg;
	/* The clock is CLOCK_MONOTONIC. */
	uint64_t time_ns;
	/* Batches count up from 1. */
	uint64_t batch;
	/* It is an enum trapline_code_stage. */
	uint32_t stage;
	size_t count;
	/* With TRAPLINE_CODE_BEGIN these are the sites. Else it is NULL. */
	const struct trapline_poke_site *sites;
};

typedef void (*trapline_code_log)(const struct trapline_code_record *record);

/*
 * trapline_log_code - report every batch to a function, traps included.
 *
 * NULL ends that. The thread that changes code calls log, with its signals blocked. log
 * must not change code. While a log is on, TRAPLINE_POKE_SINGLE_STORE is refused: its
 * time stamps could not distinguish old code from new.
 * Errors: EBUSY the library cannot handle SIGTRAP; EDEADLK the call comes from a
 * callback; EOPNOTSUPP membarrier is refused; EPERM the call comes from a vfork child.
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_log_code(trapline_code_log log, void *arg);

#ifdef __cplusplus
}
#endif

#endif
