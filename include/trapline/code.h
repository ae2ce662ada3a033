/* SPDX-License-Identifier: MIT */
/*
 * code.h - change the instructions of the calling process while its threads run them.
 *
 * A poke replaces bytes at one or many sites, all or none. A trap is an int3 that stays: a
 * breakpoint of the own process that needs no debug register, with a callback in the thread that
 * came by. Both keep every thread going: who runs into an instruction that is being changed is
 * taken past it by the SIGTRAP handler.
 *
 * x86-64 only: elsewhere every call fails with -EOPNOTSUPP, and trapline_explain() says why.
 * Conventions and tags are those of trapline.h. See trapline_poke(3).
 */
#ifndef TRAPLINE_CODE_H
#define TRAPLINE_CODE_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest site: one instruction of x86-64. */
#define TRAPLINE_POKE_LEN_MAX 15

/*
 * One site: len bytes at address, which are now expect and shall be bytes. Both are exactly one
 * instruction; bytes may also be several, or one that never falls through (jmp, ret, ud2, int3)
 * with anything behind it.
 */
struct trapline_poke_site {
	uint64_t address;
	const void *expect;
	const void *bytes;
	size_t len;
};

enum trapline_poke_flag {
	/*
	 * For sites that threads may run with SIGTRAP blocked, where an int3 would kill the
	 * process: threads spin there on a jump to itself instead. Needs sites of 2 bytes or more
	 * whose first two lie in one aligned word of 8, a CPU that promises single stores there
	 * (AMD), and a mapping that can be stored to. Else -EOPNOTSUPP.
	 */
	TRAPLINE_POKE_SPIN = 1,
	/*
	 * One store for each site and one sync, no trap. Only where the bytes that differ lie in
	 * one aligned word of 8 and the CPU promises that (AMD, never Intel), and never while a
	 * code log is on. Else -EOPNOTSUPP.
	 */
	TRAPLINE_POKE_SINGLE_STORE = 2,
	/*
	 * expect may be several instructions: the caller knows that no thread is between them,
	 * or sleeps or returns there, for as long as the call lasts.
	 */
	TRAPLINE_POKE_QUIESCENT = 4,
};

/* How bytes are written, tried in this order. */
enum trapline_poke_writer {
	TRAPLINE_WRITE_ALIAS =
		1, /* the second mapping of memory from trapline_code_alloc() */
	TRAPLINE_WRITE_MEM = 2, /* /proc/thread-self/mem, a page at once */
	TRAPLINE_WRITE_MPROTECT =
		4, /* the page is writable and executable for a moment */
};

struct trapline_poke_opts {
	size_t size;
	uint32_t flags;	  /* enum trapline_poke_flag */
	uint32_t writers; /* enum trapline_poke_writer that may be used; 0: all */
	size_t *failed; /* if not NULL: set to the index of the site that the call failed at */
};

/*
 * trapline_poke - change the bytes at n sites, all or none.
 *
 * When it returns 0 every thread runs the new bytes, and no thread is left inside the handler with
 * the old ones. Sites may be in any order but are fastest sorted by address.
 * Errors: EBUSY the bytes at a site are not those expected (nothing has been written), or a trap
 * or another site overlaps; EFAULT a site is not mapped; EINVAL length, or expect is not one
 * instruction; EOPNOTSUPP an instruction cannot be stepped past, no membarrier, or what the flags
 * ask for is not promised here; EACCES no writer works; EDEADLK called from a callback; EPERM
 * called from a vfork child; EIO the text became read-only midway: the sites act as the new
 * bytes, but by traps, for ever. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_poke(const struct trapline_poke_site *sites, size_t n,
			       const struct trapline_poke_opts *opts);

struct trapline_traps; /* a set of int3 that stay, placed by trapline_traps_set() */

/* One pass over a trap. Valid only during the callback that receives it. */
struct trapline_trap_hit {
	size_t size;
	struct trapline_traps *traps;
	void *arg;	  /* opts.arg of the set */
	size_t index;	  /* of the site in the array given to trapline_traps_set() */
	uint64_t address; /* the instruction, which comes next */
	void *context;	  /* the thread's ucontext_t, which may be changed, pc included */
};

/*
 * Runs inside SIGTRAP in the thread that came by: async-signal-safe functions only, and it must
 * return. Passes over other traps inside it are counted and run no callback.
 */
typedef void (*trapline_trap_callback)(const struct trapline_trap_hit *hit);

struct trapline_traps_opts {
	size_t size;
	trapline_trap_callback callback; /* NULL: count only */
	void *arg;
	uint32_t writers; /* as in trapline_poke_opts */
	uint32_t flags;	  /* enum trapline_traps_flag */
	size_t *failed;	  /* as in trapline_poke_opts */
};

enum trapline_traps_flag {
	/* Place the traps although a thread has SIGTRAP blocked: it must not come by. */
	TRAPLINE_TRAPS_ANY_MASK = 1,
};

/*
 * trapline_traps_set - put an int3 at n instructions, to stay.
 *
 * Each address must be the first byte of an instruction. All or none. No thread ever misses a trap
 * because another one is passing it: the instruction is emulated, or a copy of it is run elsewhere.
 * *out is released by trapline_traps_remove().
 * Errors: as trapline_poke(); EBUSY also: a trap is there already, or a thread has SIGTRAP blocked;
 * ENOSPC no memory within reach of the text for the copies; EINVAL also: the library's own text
 * or the return trampoline of signals. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_traps_set(const uint64_t *addresses, size_t n,
				    const struct trapline_traps_opts *opts,
				    struct trapline_traps **out);

/*
 * trapline_traps_hits - how often threads have passed a trap of the set, callbacks or not.
 *
 * nested, if not NULL: how many of them ran no callback because they came from inside one.
 * Errors: EINVAL no such index. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_traps_hits(const struct trapline_traps *traps, size_t index,
				     uint64_t *nested, uint64_t *out);

/*
 * trapline_traps_remove - take the traps away; when it returns 0 no callback of the set runs.
 *
 * Text that has been unloaded, or that somebody else has changed meanwhile, is left alone.
 * Errors, the set stays then: EBUSY a callback did not return within 2 s; EACCES no writer works;
 * EDEADLK called from a callback. NULL is allowed. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_traps_remove(struct trapline_traps *traps);

/*
 * trapline_code_alloc - memory for generated code, executable at *out and never writable there.
 *
 * near, if not 0: an address that must be within reach of a 32-bit distance. The memory is mapped
 * twice, so a poke there needs neither /proc nor mprotect(). It is filled with int3. A forked child
 * has a copy of its own. Released by trapline_code_free().
 * Errors: ENOMEM; ENOSPC nothing free near; EACCES forbidden here. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_code_alloc(uint64_t near, size_t bytes, void **out);
TRAPLINE_API int trapline_code_free(void *code);

/*
 * trapline_code_write - n bytes of code that no thread runs yet, at code inside such memory.
 *
 * Once it has returned every thread may be sent there. Code that may be running is changed by
 * trapline_poke(). Errors: EINVAL not wholly inside memory from trapline_code_alloc(); EACCES.
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_code_write(void *code, const void *bytes, size_t n);

/* Counters of the process since its start or since it was forked. */
struct trapline_code_stats {
	size_t size;
	uint64_t batches; /* that succeeded */
	uint64_t sites;	  /* in them */
	uint64_t refused; /* batches that wrote nothing: the bytes were not those expected */
	uint64_t rolled_back; /* batches that failed while trapped, and were undone */
	uint64_t stranded;    /* sites that act by trap for ever: see EIO */
	uint64_t syncs;	      /* calls of membarrier() */
	uint64_t emulated;    /* passes in the handler over sites being changed */
	uint64_t copied;      /* of those, how many went to a copy of the instruction */
	uint64_t orphans;     /* int3 gone when the handler looked: executed again */
	uint64_t trap_passes; /* passes over traps that stay */
	uint64_t trap_nested; /* of those, inside a callback */
	uint64_t foreign; /* int3 of others, given to the action that was there before */
	uint64_t gone;	  /* traps whose text was unloaded or changed by others */
	uint64_t deferred; /* times memory could not be reused yet: a thread was in the handler */
	uint64_t by_alias; /* sites written by each writer */
	uint64_t by_mem;
	uint64_t by_mprotect;
};

/* trapline_code_stats - read the counters; stats->size must be set. EINVAL. MT-Safe. AS-Safe. */
TRAPLINE_API int trapline_code_stats(struct trapline_code_stats *stats);

/* Where a batch is, told to the code log. */
enum trapline_code_stage {
	TRAPLINE_CODE_BEGIN =
		0, /* old bytes everywhere; the sites are told with this stage */
	TRAPLINE_CODE_TRAP = 1,	  /* every thread runs into traps at all sites */
	TRAPLINE_CODE_OPEN = 2,	  /* new bytes begin to appear */
	TRAPLINE_CODE_DONE = 3,	  /* new bytes everywhere */
	TRAPLINE_CODE_UNDONE = 4, /* the batch failed: old bytes everywhere */
};

struct trapline_code_record {
	size_t size;
	void *arg;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t batch;	  /* counts up from 1 */
	uint32_t stage;	  /* enum trapline_code_stage */
	size_t count;
	const struct trapline_poke_site *sites; /* with TRAPLINE_CODE_BEGIN, else NULL */
};

typedef void (*trapline_code_log)(const struct trapline_code_record *record);

/*
 * trapline_log_code - have every batch told, traps included; NULL: no more.
 *
 * Called by the thread that changes code, with its signals blocked; it must not poke. While a log
 * is on, TRAPLINE_POKE_SINGLE_STORE is refused: between its stamps nobody could tell old from new.
 * Returns 0, or the errors of trapline_poke() that need no site. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_log_code(trapline_code_log log, void *arg);

#ifdef __cplusplus
}
#endif

#endif
