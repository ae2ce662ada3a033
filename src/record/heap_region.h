/* SPDX-License-Identifier: MIT */
/*
 * heap_region.h - the memory that `trapline heap` shares with the processes of a run: settings one
 * way; errors, files and counters the other.
 *
 * The head has the settings, which trapline alone writes (record/share_head.h). All other bytes are
 * data, which each process can write: a reader copies a number once and checks the copy.
 *
 * A record has addresses only. The command finds names, and the size of the access from the bytes
 * of the instruction: the target decodes nothing.
 */
#ifndef RECORD_HEAP_REGION_H
#define RECORD_HEAP_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "base/table_size.h"
#include "record/file_table.h"
#include "record/share_head.h"

#define HEAP_MAGIC 0x7061656865696c6eu
/* So long the detector waits for the command, which is slow where it stops many threads. */
#define HEAP_ANSWER_MOST_NS 5000000000ull
#define HEAP_FRAMES 24u
#define HEAP_RECORDS TABLE_SIZE(256u, 2u) /* a power of two */
#define HEAP_FILES TABLE_SIZE(1024u, 3u)
#define HEAP_REGS 17u /* by DWARF number */
#define HEAP_CODE 16u
#define HEAP_NEAR 16u /* bytes around an error */
#define HEAP_MESSAGE 64u
#define HEAP_GROWTH_ROWS TABLE_SIZE(1024u, 3u)
/* What a process and its forked children have together (src/heap/heap_family.h). */
#define HEAP_FAMILY_BYTES (4096u + 16u * (1024u + 8192u + 65536u))

enum heap_kind {
	HEAP_USE_AFTER_FREE,
	HEAP_DOUBLE_FREE,
	HEAP_INVALID_FREE,
	HEAP_OVERFLOW,
	HEAP_UNDERFLOW,
	HEAP_CORRUPTION, /* the allocator noticed it, and ended the program */
	HEAP_KINDS,
};

/*
 * How certain it is: A: the access or the wrong free itself was caught; B: its trace was found
 * later.
 */
enum heap_grade {
	HEAP_GRADE_A,
	HEAP_GRADE_B,
	HEAP_GRADES,
};

enum heap_access {
	HEAP_NO_ACCESS, /* a wrong free, or a trace that was found later */
	HEAP_READ,
	HEAP_WRITE,
};

/* What an address belongs to that was freed and is not a block. */
enum heap_memory {
	HEAP_MEMORY_BLOCK, /* in or beside a sampled block */
	HEAP_MEMORY_STACK,
	HEAP_MEMORY_DATA,	/* of the program or a library */
	HEAP_MEMORY_UNALIGNED,	/* no address that the allocator gives */
	HEAP_MEMORY_MISMATCHED, /* the block is of new[] and freed by delete, or the reverse */
	HEAP_MEMORIES,
};

/* An allocation, a free, or an access. */
struct heap_moment {
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: it did not happen */
	int32_t tid;
	uint32_t frame_count;
	char thread[16]; /* empty: not known */
	/*
	 * Locations. Of an access the first is the instruction; all others are behind their calls.
	 */
	uint64_t frames[HEAP_FRAMES];
};

struct heap_record {
	uint64_t ready; /* its sequence number + 1 once it is written */
	int32_t pid;
	uint8_t kind;		/* enum heap_kind */
	uint8_t grade;		/* enum heap_grade */
	uint8_t access;		/* enum heap_access */
	uint8_t memory;		/* enum heap_memory */
	uint8_t in_system_call; /* frames[0] is a call of libc that gave the memory to the kernel */
	uint8_t code_bytes;
	uint8_t near_bytes; /* of near; 0: the block has no access, or was freed */
	uint8_t reserved;
	uint32_t in_use;     /* sampled blocks of the same allocation that are in use */
	uint64_t address;    /* the first byte that is wrong */
	uint64_t size;	     /* of a damage or a system call; 0: the instruction has it */
	uint64_t block;	     /* 0: none */
	uint64_t block_size; /* as it was asked for */
	uint64_t ip;	     /* as the process had it */
	uint64_t regs[HEAP_REGS];
	uint8_t code[HEAP_CODE];    /* at ip */
	uint64_t near_at;	    /* up to HEAP_NEAR / 2 bytes before the address */
	uint8_t near[HEAP_NEAR];    /* what was there when the error was seen */
	char message[HEAP_MESSAGE]; /* of an allocator that ended the program; empty: none */
	struct heap_moment first;
	struct heap_moment alloc;
	struct heap_moment freed;
};

/* Every way in which something is done, refused or lost. */
enum heap_counter {
	HEAP_SAMPLED,	   /* blocks with guards */
	HEAP_DRAWN_BLOCKS, /* ... that were drawn of all alike */
	HEAP_REUSED,	   /* ... in a slot that another block had before */
	HEAP_LOST_FULL,	   /* not sampled: no slot was free */
	HEAP_LOST_LARGE,   /* not sampled: larger than the largest slot */
	HEAP_LOST_BUDGET,  /* not sampled: the budget was used up */
	HEAP_LOST_MEMORY,  /* not sampled: the kernel refused to change the access */
	HEAP_LOST_STACKS,  /* stacks that had no room */
	HEAP_FOUND,	   /* errors */
	HEAP_FOUND_AGAIN,  /* ... at a location that was reported before */
	HEAP_LOST_RECORDS, /* ... lost: no room for the record */
	HEAP_LATE,	   /* faults in a block that was in use again when the handler came */
	HEAP_WATCHED,	   /* blocks with a debug register on the bytes before */
	HEAP_LOST_WATCHES, /* ... that the kernel refused */
	HEAP_INNOCENT,	   /* aligned reads of vectors that begin before a block */
	HEAP_UNWATCHED,	   /* processes without debug registers */
	HEAP_LIVE_AT_END,  /* sampled blocks that were not freed when their process ended */
	HEAP_COST_NS,	   /* spent on samples and calls */
	HEAP_CALLS_NS,	   /* ... of it on calls that are not sampled */
	HEAP_FORKS_NS,	   /* ... of it on forks */
	HEAP_CALLS,	   /* allocations, sampled or not, as far as they are counted */
	HEAP_ASKED,	   /* ... whose contexts were looked up */
	HEAP_CPU_NS,	   /* of the processes, so that the cost is a part of it */
	HEAP_PROCESSES,	   /* that sampled */
	HEAP_FORKED,	   /* ... as children by fork(2) */
	HEAP_REFUSED,	   /* processes that could not: see run.why */
	HEAP_LET_GO,	   /* processes that were sent a SIGSEGV which they block: sampling ended */
	HEAP_OTHER_USER,   /* processes that changed their user: what they execute is not sampled */
	HEAP_LOST_COPIES,  /* forked children that ended and did not inspect their copies */
	HEAP_LOST_ROWS,	   /* stacks of growth that had no row */
	HEAP_COUNTERS,
};

/*
 * The answer to RUN_TAKEN. A process that is not sampled waits for none, so that it is itself again
 * at once.
 */
enum heap_leave {
	HEAP_WAITS,
	HEAP_MAY_SAMPLE,
	HEAP_MAY_NOT,
};

struct heap_settings {
	uint64_t budget_ppm;	    /* of CPU time */
	uint64_t allowance_ns;	    /* of the start, which the budget pays back */
	uint64_t first;		    /* blocks of each context without a budget; 0: two within it */
	uint64_t seed;		    /* of what is drawn */
	uint64_t user;		    /* whose the run is */
	uint64_t no_regions;	    /* guards by mprotect(2) in any case */
	uint64_t align;		    /* least alignment of a block, 1 to 16 */
	uint64_t does_stop;	    /* the program ends at the first error */
	uint64_t are_traps_blocked; /* a thread of a process that ran before blocks SIGTRAP */
	uint64_t has_family;	    /* one process and its children alone use `family` */
	uint64_t has_reader;	    /* in the process itself: it sleeps on `told` */
	uint64_t growth;	    /* no errors, but which blocks stay in use */
};

/*
 * Blocks of one stack that are in use at the end of a process, as sampled ones stand for them. With
 * a weight w, the mean of the distance between samples, w - 1 are not sampled for each one.
 */
struct heap_growth_row {
	uint64_t ready;
	uint64_t sampled;
	uint64_t blocks;
	uint64_t bytes;
	uint64_t grown;	 /* bytes ... that were allocated in the second third of the run */
	double variance; /* of bytes: the sum of w (w - 1) bytes^2 */
	double grown_variance;
	uint64_t youngest_ns; /* ages */
	uint64_t oldest_ns;
	uint64_t run_ns; /* of the process */
	struct heap_moment alloc;
};

struct heap_region {
	/* Only trapline writes this. */
	union {
		struct {
			struct share_head share;
			struct heap_settings settings;
		};
		uint8_t head[SHARE_HEAD_BYTES];
	};
	/* And all processes this. Of the run, state and error are of a process that ran before. */
	struct run_words run;
	uint64_t counters[HEAP_COUNTERS];
	uint64_t has_regions;	 /* guards are regions where they can be, not mprotect(2) alone */
	uint64_t pool_bytes;	 /* what sampled blocks can have at most, in one process */
	char why_unwatched[200]; /* ... that got no debug register */
	/* sampled blocks that were in use when it ended: free() keeps its jump for them */
	uint64_t live;
	uint64_t refused_jumps;
	char refused_names[200];
	char allocator[200]; /* the object whose malloc() it is */
	uint32_t told;	     /* so many records, for a reader that sleeps */
	/* By the command: threads whose SIGSEGV it has unblocked, and it did; or blocked again. */
	uint32_t unblocked;
	uint32_t may_sample; /* enum heap_leave */
	uint32_t are_masks_back;
	uint64_t write_at; /* next record's sequence number */
	uint64_t read_at;
	uint64_t growth_rows; /* taken: may be more than there are */
	/* Allocations, and the sum of what each would have stood for. */
	uint64_t growth_calls;
	uint64_t growth_weights;
	struct heap_growth_row growth[HEAP_GROWTH_ROWS];
	struct heap_record records[HEAP_RECORDS];
	struct file_row files[HEAP_FILES];
	uint8_t family[HEAP_FAMILY_BYTES] __attribute__((aligned(64)));
};

_Static_assert(offsetof(struct heap_region, run) == SHARE_HEAD_BYTES,
	       "the settings have room in the head");

/* For the target, in a handler. NULL: no room. */
struct heap_record *heap_write_begin(struct heap_region *r, uint64_t *sequence);
void heap_write_end(struct heap_record *record, uint64_t sequence);
/*
 * For trapline. Copies the next record; 0: all are copied. *torn counts records that a process
 * began and did not finish before it died.
 */
int heap_read(struct heap_region *r, struct heap_record *out, uint64_t *torn);

#endif
