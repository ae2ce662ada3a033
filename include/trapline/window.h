/* SPDX-License-Identifier: MIT */
/*
 * window.h - run the next instructions of a thread under control, one by one.
 *
 * In a window the thread executes copies of its own instructions, in its own context, and
 * callbacks see each block or each access. A window ends after a number of instructions, a
 * time, or at what cannot run in it; the thread continues natively from there.
 *
 * This is for x86-64. Elsewhere the calls fail with -EOPNOTSUPP. Conventions and tags are
 * those of trapline.h.
 */
#ifndef TRAPLINE_WINDOW_H
#define TRAPLINE_WINDOW_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* It is why a window ended. */
enum trapline_window_reason {
	/* The window lasts, or the thread had none. */
	TRAPLINE_WINDOW_RUNS,
	/* max_instructions have been executed. */
	TRAPLINE_WINDOW_BUDGET,
	/* max_ns are over. */
	TRAPLINE_WINDOW_TIME,
	/* A callback returned a value that is not 0. */
	TRAPLINE_WINDOW_CALLBACK,
	/* The thread called trapline_window_end(). */
	TRAPLINE_WINDOW_ENDED,
	/* An instruction faulted. */
	TRAPLINE_WINDOW_FAULT,
	/* A signal of the program waited. */
	TRAPLINE_WINDOW_SIGNAL,
	/*
	 * A system call comes that makes or ends a thread or a process, or returns from a signal.
	 */
	TRAPLINE_WINDOW_SYSTEM_CALL,
	/* A system call comes that may block. */
	TRAPLINE_WINDOW_BLOCKING,
	/* A restartable sequence (rseq(2)) comes. */
	TRAPLINE_WINDOW_RESTARTABLE,
	/* An instruction comes that cannot run in a window. */
	TRAPLINE_WINDOW_INSTRUCTION,
	/* The code cannot be read. */
	TRAPLINE_WINDOW_UNREADABLE,
	/* A watch of the program was hit, or its seccomp filter raised SIGSYS. */
	TRAPLINE_WINDOW_TRAP,
};

/* Flags: system calls that may block run in the window. */
#define TRAPLINE_WINDOW_BLOCKS 1u
/* The callbacks, and all they call, leave the vector registers alone: 0.2 us less a call. */
#define TRAPLINE_WINDOW_GENERAL 2u

/*
 * It is called before each block: instructions that follow each other up to a branch. regs
 * has the registers by DWARF number, and is valid during the call. It returns 0, or another
 * value to end the window before the block. It runs on a stack of 64 KiB with all signals
 * blocked. It must not lock or allocate what the thread may be using.
 */
typedef int (*trapline_window_on_block)(uint64_t pc, uint32_t instructions, const uint64_t *regs,
					void *arg);

/*
 * It is called before each access to memory. access has bit 0 for a read and bit 1 for a
 * write. bytes is 0 if the address is not known from general registers: gather, scatter,
 * a bit in a string of bits, xsave. A repeated string instruction is one access, of its
 * first step. The rest is as for trapline_window_on_block.
 */
typedef int (*trapline_window_on_access)(uint64_t pc, uint64_t address, uint32_t bytes,
					 uint32_t access, const uint64_t *regs, void *arg);

struct trapline_window_opts {
	size_t size;
	/* It is 0 or TRAPLINE_WINDOW_BLOCKS, TRAPLINE_WINDOW_GENERAL. */
	uint32_t flags;
	uint32_t reserved;
	/* The window ends after so many instructions; 0 means no limit. */
	uint64_t max_instructions;
	/* The window ends after so many nanoseconds; 0 means no limit. */
	uint64_t max_ns;
	trapline_window_on_block on_block;
	trapline_window_on_access on_access;
	void *arg;
	/*
	 * In a callback of a hit it is the context of the hit: the window begins when the thread
	 * returns from there. Otherwise it is NULL.
	 */
	void *context;
};

/*
 * trapline_window - run the next instructions of the calling thread in a window.
 *
 * If it returns 0, the code after the call runs in the window. Signals that are sent to the
 * thread wait until it ends; faults do not.
 * Errors: E2BIG opts are of a newer version; EBUSY the thread is in a window; EINVAL an
 * option; ENOMEM; EOPNOTSUPP another architecture, a processor without XSAVE, a thread with
 * a shadow stack, or a context under single-step; EAGAIN other threads begin and end theirs
 * at this moment; others as mmap(2) and memfd_create(2).
 * MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_window(const struct trapline_window_opts *opts);

/*
 * trapline_window_end - end the window of the calling thread.
 *
 * Errors: ESRCH the thread was in no window. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_window_end(void);

struct trapline_window_stats {
	size_t size;
	/* It is an enum trapline_window_reason. */
	uint32_t reason;
	/* TRAPLINE_WINDOW_INSTRUCTION: these are the bytes at pc. */
	uint8_t bytes[16];
	uint32_t reserved;
	/* The thread continued natively from here. */
	uint64_t pc;
	/* So many instructions ran in the window. */
	uint64_t instructions;
	/* So many were translated, because they were new. */
	uint64_t translated;
	uint64_t blocks;
	/* The memory for translations was full so often, and was emptied. */
	uint64_t flushes;
	/* So many blocks had been changed by the program, and were translated again. */
	uint64_t changed;
	uint64_t system_calls;
};

/*
 * trapline_window_stats - read what the last window of the calling thread did.
 *
 * out->size must be set. Errors: EINVAL size; ESRCH the thread had no window. MT-Safe.
 * AS-Safe.
 */
TRAPLINE_API int trapline_window_stats(struct trapline_window_stats *out);

#ifdef __cplusplus
}
#endif

#endif
