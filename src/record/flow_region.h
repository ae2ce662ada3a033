/* SPDX-License-Identifier: MIT */
/*
 * flow_region.h - the memory that `trapline flow` shares with the processes of a run: settings one
 * way; sources, steps, flows, files and counters the other.
 *
 * The head has the settings, which trapline alone writes (record/share_head.h). All other bytes are
 * data, which each process can write: a reader copies a number once and checks the copy. The bytes
 * that are followed are never in it: they may be secrets.
 */
#ifndef RECORD_FLOW_REGION_H
#define RECORD_FLOW_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "base/table_size.h"
#include "record/file_table.h"
#include "record/share_head.h"

#define FLOW_MAGIC 0x776f6c66656e696cu
#define FLOW_FRAMES 16u
#define FLOW_SOURCES 1024u
#define FLOW_STEPS TABLE_SIZE(8192u, 8u)
#define FLOW_RECORDS TABLE_SIZE(2048u, 4u)
#define FLOW_FILES TABLE_SIZE(1024u, 3u)
#define FLOW_MATCH_BYTES 4096u
#define FLOW_SOURCE_BYTES (1u << 20) /* that are followed of one source */
#define FLOW_PLACES 32u
#define FLOW_NAME 64u

/* Where bytes come from. */
enum flow_origin {
	FLOW_FROM_READ, /* read(2) and its relatives */
	FLOW_FROM_ARGUMENT,
	FLOW_FROM_RESULT,
	FLOW_FROM_ENVIRONMENT,
	FLOW_FROM_VARIABLE,
	FLOW_ORIGINS,
};

enum flow_kind {
	FLOW_COPY,     /* a sink got the bytes as they are */
	FLOW_COMPUTED, /* a sink got what was computed from them */
	FLOW_RESIDUE,  /* they lie in memory at the end */
	FLOW_KINDS,
};

/*
 * How certain: A: moved only, and equal at the end; B: computed; C: a look-up with such an index.
 * Found: the text is there, and how it came was not seen.
 */
enum flow_grade {
	FLOW_GRADE_A,
	FLOW_GRADE_B,
	FLOW_GRADE_C,
	FLOW_GRADE_FOUND,
	FLOW_GRADES,
};

enum flow_memory {
	FLOW_MEMORY_OTHER,
	FLOW_MEMORY_HEAP,
	FLOW_MEMORY_STACK,
	FLOW_MEMORY_DATA, /* of the program or a library */
	FLOW_MEMORIES,
};

/* Locations: the first is the instruction, all others are behind their calls. */
struct flow_stack {
	uint32_t count;
	int32_t tid;
	uint64_t frames[FLOW_FRAMES];
};

/* What a descriptor led to when the bytes went by. */
struct flow_open {
	char path[200];	   /* as /proc/self/fd has it; empty: no descriptor */
	uint8_t peer[112]; /* of a socket, a sockaddr: its family is 0 if it is not known */
};

/* ready: 0: not yet, or never. */
struct flow_source {
	uint32_t ready;
	uint8_t origin;	   /* enum flow_origin */
	uint8_t is_mapped; /* it lies where mmap(2) has put it */
	uint8_t reserved[2];
	int32_t pid;
	int32_t fd; /* -1: none */
	uint64_t time_ns;
	uint64_t address;
	uint64_t bytes;	      /* that are followed */
	uint64_t offset;      /* of the first in what was read */
	char name[FLOW_NAME]; /* the function or the variable */
	struct flow_open open;
	struct flow_stack stack;
};

/* A function wrote bytes that came from a step before, or from the source itself (0). */
struct flow_step {
	uint32_t ready;
	uint32_t parent; /* number of a step; 0: the source */
	uint32_t source;
	uint8_t grade;
	uint8_t is_moved; /* what another function computed */
	uint8_t reserved[2];
	uint64_t bytes; /* stores */
	struct flow_stack stack;
};

struct flow_record {
	uint32_t ready;
	uint8_t kind;	    /* enum flow_kind */
	uint8_t grade;	    /* enum flow_grade */
	uint8_t memory;	    /* enum flow_memory, of a residue */
	uint8_t was_native; /* seen at the sink, outside of a window */
	int32_t pid;
	int32_t fd; /* -1: none */
	uint32_t source;
	uint32_t step;
	uint64_t count; /* how often */
	uint64_t time_ns;
	uint64_t bytes;
	uint64_t offset;  /* of the first in the source */
	uint64_t address; /* where the first of them lies */
	uint64_t block;	  /* of a residue in the heap; 0: not known */
	uint64_t block_size;
	char name[FLOW_NAME]; /* the function that got them, and the argument */
	struct flow_open open;
	struct flow_stack stack;
};

/* Every way in which something is done, refused or lost. */
enum flow_counter {
	FLOW_SEEN,	      /* times that a source was reached */
	FLOW_MATCHED,	      /* ... and had the bytes */
	FLOW_WINDOWS,	      /* began */
	FLOW_INSTRUCTIONS,    /* ran in them */
	FLOW_TRANSLATED,      /* ... for the first time */
	FLOW_WINDOW_NS,	      /* they took */
	FLOW_TRAP_NS,	      /* traps at sources and sinks, and touches of copies, took */
	FLOW_OFF_NS,	      /* without traps: the budget was used up */
	FLOW_RESTED,	      /* forked children whose traps were taken out: the same */
	FLOW_CPU_NS,	      /* of the processes, so that the windows are a part of it */
	FLOW_LOST_BUDGET,     /* windows that did not begin: the budget was used up */
	FLOW_LOST_WINDOW,     /* ... or that could not */
	FLOW_CUT_TIME,	      /* windows that ended at their limit with marks in registers */
	FLOW_CUT_INSTRUCTION, /* ... before an instruction that cannot run in one */
	FLOW_CUT_CALL,	      /* ... before a system call that blocks or makes a thread */
	FLOW_LOST_MARKS,      /* pages that had no room for marks */
	FLOW_LOST_SOURCES,    /* sources that had no room */
	FLOW_LOST_STEPS,      /* steps that had no room: the path is shorter */
	FLOW_LOST_RECORDS,    /* flows that had no room */
	FLOW_LOST_LONG,	      /* calls of sinks with more than is inspected */
	FLOW_LOST_MAPPED,     /* mappings of files that had no room */
	FLOW_LOST_TEXTS,      /* texts that are not searched: no room */
	FLOW_STALE,	      /* marks of bytes that had changed unseen */
	FLOW_CHANGED,	      /* ... in their own window: by a system call or another thread */
	FLOW_IN_KERNEL,	      /* bytes that the kernel passed on, and that could not be compared */
	FLOW_INDEXED,	      /* loads with a followed byte as the index, that were not followed */
	FLOW_REGISTERS,	      /* debug registers that watch copies */
	FLOW_KEPT,	      /* copies at the ends of windows */
	FLOW_KEPT_WATCHED,    /* ... that were watched then */
	FLOW_TOUCHED,	      /* times that a thread touched one */
	FLOW_LATE,	      /* ... and had continued before the signal came */
	FLOW_PROCESSES,
	FLOW_FOLLOWED, /* processes that followed bytes */
	FLOW_SEARCHED, /* ... and were searched for what they left */
	/* sites in libc that had no room for a jump, in a process that ran already */
	FLOW_LEFT_OUT,
	FLOW_REFUSED, /* processes that could not: see run.why */
	FLOW_COUNTERS,
};

/* What is a source or a sink besides those of libc. */
struct flow_place {
	uint64_t address;
	uint64_t bytes;	   /* of the function; 0: not known */
	uint32_t origin;   /* enum flow_origin; a sink: FLOW_ORIGINS */
	uint32_t argument; /* 1 to 6 */
	char name[FLOW_NAME];
};

struct flow_settings {
	uint64_t budget_ppm; /* of CPU time; 1000000: without bound */
	uint64_t allowance_ns;
	uint64_t window_ns; /* the longest window */
	uint64_t limit;	    /* of flows; 0: none */
	int64_t fd;	    /* of read; -1: any */
	uint32_t from_read;
	uint32_t has_tables;
	uint32_t match_bytes;  /* of match; 0: all */
	uint32_t match_length; /* so many bytes at once; 0: any number */
	uint32_t place_count;
	uint32_t reserved;
	char path[256];	      /* of the descriptor; empty: any */
	char environment[64]; /* its name; empty: none */
	uint8_t match[FLOW_MATCH_BYTES];
	struct flow_place places[FLOW_PLACES];
};

struct flow_region {
	/* Only trapline writes this. */
	union {
		struct {
			struct share_head share;
			struct flow_settings settings;
		};
		uint8_t head[SHARE_HEAD_BYTES];
	};
	/* And all processes this. */
	struct run_words run;
	uint32_t sources_used;
	uint32_t steps_used;
	uint32_t records_used;
	uint64_t counters[FLOW_COUNTERS];
	uint32_t are_masks_open; /* the command has unblocked SIGTRAP in threads */
	uint32_t reserved;
	struct flow_source sources[FLOW_SOURCES];
	struct flow_step steps[FLOW_STEPS];
	struct flow_record records[FLOW_RECORDS];
	struct file_row files[FLOW_FILES];
};

_Static_assert(offsetof(struct flow_region, run) == SHARE_HEAD_BYTES,
	       "the settings have room in the head");

#endif
