/* SPDX-License-Identifier: MIT */
/*
 * heap.h - a program that searches its own heap for errors: use after free, double free,
 * invalid free, overflow and underflow.
 *
 * Some blocks get guards, within a budget of time. An access that is an error is reported
 * with its stacks, and the program continues. trapline-heap(1) explains what is found and
 * what is not. This is for x86-64; elsewhere the calls fail with -EOPNOTSUPP. Conventions
 * and tags are those of trapline.h.
 */
#ifndef TRAPLINE_HEAP_H
#define TRAPLINE_HEAP_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A search for heap errors. trapline_heap_start() makes it. */
struct trapline_heap;

enum trapline_heap_kind {
	TRAPLINE_HEAP_USE_AFTER_FREE,
	TRAPLINE_HEAP_DOUBLE_FREE,
	TRAPLINE_HEAP_INVALID_FREE,
	TRAPLINE_HEAP_OVERFLOW,
	TRAPLINE_HEAP_UNDERFLOW,
	/* The C library noticed damage, and ends the program. No block is known. */
	TRAPLINE_HEAP_CORRUPTION,
};

enum trapline_heap_grade {
	/* The access or the wrong free itself was caught. */
	TRAPLINE_HEAP_A = 1,
	/* Bytes beside the block had changed when it was freed. */
	TRAPLINE_HEAP_B,
};

struct trapline_heap_frame {
	/* It is the path of the object file, NULL if it has none; then offset is an address. */
	const char *module;
	uint64_t offset;
};

/* It is an access, an allocation or a free. */
struct trapline_heap_moment {
	/* The clock is CLOCK_MONOTONIC. */
	uint64_t time_ns;
	pid_t tid;
	uint32_t frame_count;
	/* The first frame of an access is the instruction; the others are return addresses. */
	const struct trapline_heap_frame *frames;
};

/* trapline_heap_start(3) has the details. */
struct trapline_heap_report {
	size_t size;
	/* It is an enum trapline_heap_kind. */
	uint32_t kind;
	/* It is an enum trapline_heap_grade. */
	uint32_t grade;
	/* TRAPLINE_READ or TRAPLINE_WRITE. 0: a wrong free, or a damage that was found later. */
	uint32_t access;
	uint32_t reserved;
	/* The access has so many bytes. 0: this is not known. */
	uint64_t len;
	/* This is the first wrong byte, or the address that was freed. */
	uint64_t address;
	/* The block begins here. 0: it is beside no block. */
	uint64_t block;
	/* The program asked for so many bytes. */
	uint64_t block_size;
	/* Each of them is NULL where it is not known or did not happen. */
	const struct trapline_heap_moment *first;
	const struct trapline_heap_moment *allocated;
	const struct trapline_heap_moment *freed;
	/* It is the report as a line of JSON, without the end of the line. */
	const char *json;
	size_t json_length;
};

struct trapline_heap_opts {
	size_t size;
	/* No flag exists: it is 0. */
	uint32_t flags;
	/*
	 * Samples may cost so many millionths of the CPU time of the process. 0 means
	 * 20000 (2 %).
	 */
	uint32_t budget_ppm;
	/* So many blocks of each calling context are sampled without a budget. 0: none. */
	uint32_t first;
	/* Sampled blocks have this alignment: 1, 2, 4, 8 or 16. 0 means 16. */
	uint32_t align;
	/* Reports are written there as lines of JSON. 0: they are not. */
	int fd;
	uint32_t reserved;
	/*
	 * The library calls it once for each location, in a thread of its own. It may call
	 * everything except trapline_heap_stop(). The report is valid until it returns. It may
	 * be NULL.
	 */
	void (*report)(void *arg, const struct trapline_heap_report *report);
	void *arg;
};

/*
 * trapline_heap_start - begin to search the heap of this process for errors.
 *
 * t must be this process. trapline_heap_stop() releases *out. Blocks from before are not
 * sampled, nor are those of children that the process forks. SIGSEGV of the program goes
 * to its own handler, as before. No thread may have SIGSEGV blocked.
 * Errors: E2BIG opts are of a newer version; EBUSY a search runs already, or a thread
 * blocks SIGSEGV; EINVAL an option, or t; ENOENT the object of the detector is not
 * installed; ENOMEM; EOPNOTSUPP the process has a seccomp filter, a function of its
 * allocator cannot be changed, or it does not run on x86-64; others as trapline_poke().
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_heap_start(struct trapline *t, const struct trapline_heap_opts *opts,
				     struct trapline_heap **out);

struct trapline_heap_stats {
	size_t size;
	/* So many blocks were sampled. */
	uint64_t sampled;
	/* They cost so much in all. */
	uint64_t cost_ns;
	/* So many errors were seen, those of the same location each time. */
	uint64_t found;
	uint64_t reported;
	/* There was no room for these, or their line could not be written. */
	uint64_t lost;
	/* 1: debug registers find reads before a block. */
	uint64_t has_registers;
};

/*
 * trapline_heap_stats - read the statistics of a search.
 *
 * out->size must be set.
 * Errors: EINVAL size. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_heap_stats(struct trapline_heap *heap, struct trapline_heap_stats *out);

/*
 * trapline_heap_stop - end a search: no block is sampled, and no memory is without
 * access.
 *
 * NULL is permitted. What was found is reported before it returns. free() and its like
 * stay changed until the last sampled block is freed. Do not call it from the report
 * function. It is MT-Safe if no other call uses the search at the same time or later.
 * AS-Unsafe.
 */
TRAPLINE_API void trapline_heap_stop(struct trapline_heap *heap);

#ifdef __cplusplus
}
#endif

#endif
