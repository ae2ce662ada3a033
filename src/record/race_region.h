/* SPDX-License-Identifier: MIT */
/*
 * race_region.h - the memory that the race detector in a target shares with trapline: settings
 * one way; races, sites and counters the other.
 *
 * One mapping serves all processes of a run, also those that were forked or called exec.
 * Its head has the settings (record/share_head.h). A target trusts the rest as little as
 * possible: an index from it is checked before use. The reader trusts nothing.
 *
 * A location is file << 48 | address in that file. It means the same in every process, at
 * any load address, and after the process has ended. File 0 means no file: the rest is an
 * address of the process (a heap block, a stack).
 */
#ifndef RECORD_RACE_REGION_H
#define RECORD_RACE_REGION_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/table_size.h"
#include "record/share_head.h"

#define RACE_MAGIC 0x65636172656e696cu
#define RACE_FRAMES 24
#define RACE_HEAP_FRAMES 16
#define RACE_CODE 80 /* bytes around each access, of which 32 at most before it */
#define RACE_CODE_BEFORE 32
#define RACE_RECORDS TABLE_SIZE(1024u, 2u) /* a power of two */
#define RACE_FILES TABLE_SIZE(1024u, 3u)
#define RACE_PROCESSES TABLE_SIZE(16384u, 2u)
/* Memory is used for those that there are. The browsers have some 2 million. */
#define RACE_SITES TABLE_SIZE(2097152u, 2u)
#define RACE_SITE_INDEX (2u * RACE_SITES) /* a power of two */
#define RACE_PAIRS TABLE_SIZE(8192u, 1u)  /* a power of two */

#define RACE_CLOCKS TABLE_SIZE(256u, 1u) /* CPUs whose clocks outlive trapline */

/*
 * Events of the CPUs (race/host/race_cpu_events.c): they see all threads without an event in any
 * thread. Two of the four registers stay free. The watchpoint is always for reads and
 * writes: changing that makes the kernel wait for all CPUs, some 5 ms (modify_bp_slot()
 * in kernel/events/hw_breakpoint.c).
 */
enum race_cpu_event {
	RACE_CPU_WATCH,
	RACE_CPU_BREAK,
	RACE_CPU_EVENTS,
};
#define RACE_CPUS 32u /* with more, events in the threads are cheaper */
#define RACE_TRAPS_LOG2 TABLE_SIZE(8, 1)
#define RACE_TRAPS \
	(1u << RACE_TRAPS_LOG2) /* the row of a stack pointer: the upper bits of its HASH_MIX */

#define RACE_PLACE_BITS 48
#define RACE_PLACE_MASK ((1ull << RACE_PLACE_BITS) - 1)

/* Bits of race_side.access. */
enum race_access {
	RACE_READ = 1,
	RACE_WRITE = 2,
	RACE_READ_WRITE = 3,
};

/* Bits of race_side.flags. */
enum race_side_flag {
	RACE_DECODED = 1 << 0, /* the location is the instruction; else the one after it */
	RACE_BLOCK = 1 << 1,   /* in a memory function of libc; frames[1] is its caller */
	RACE_VECTOR = 1 << 2,
	RACE_CONDITIONAL = 1 << 3, /* masked lanes or the like: perhaps not accessed */
	RACE_LOCKED = 1 << 4,	   /* an atomic instruction; only the second side can be one */
	RACE_INSIDE = 1 << 5,	   /* in another function of libc; its caller follows in frames[] */
	RACE_STORES_SAME = 1 << 6, /* the first side was about to store the same value */
	RACE_STORES_OTHER = 1 << 7, /* the first side was about to store another value */
};

/* One of the two accesses. */
struct race_side {
	uint64_t ip;	  /* as the process had it */
	uint64_t address; /* of the whole access */
	uint32_t size;
	int32_t tid;
	char thread[16];
	uint8_t access; /* enum race_access; 0: not known */
	uint8_t flags;	/* enum race_side_flag */
	uint8_t frame_count;
	uint8_t code_before; /* bytes of code[] that are before the instruction */
	uint8_t code_bytes;
	uint8_t length; /* of the instruction */
	uint8_t reserved[2];
	uint8_t code[RACE_CODE];
	uint64_t frames[RACE_FRAMES]; /* locations; frames[0] the access, others after their call */
};

/* Bits of race_record.flags. */
enum race_record_flag {
	RACE_UNKNOWN_ORIGIN = 1 << 0, /* the value changed and no thread was seen doing it */
	RACE_SHARED_MAPPING = 1 << 1, /* ... in memory shared with other processes or devices */
	RACE_ATOMIC_SEEN = 1 << 2,    /* a locked instruction accessed it during the stall */
	RACE_CHANGED = 1 << 3,	      /* the value was another after the second access */
	RACE_ON_STACK = 1 << 4,	      /* of the first or the second thread */
};

/* What an address that was raced for belongs to. */
enum race_memory {
	RACE_MEMORY_UNKNOWN,
	RACE_MEMORY_FILE,      /* a variable of an object, or a file that is mapped */
	RACE_MEMORY_HEAP,      /* a block that is known, or what brk() gave */
	RACE_MEMORY_ANONYMOUS, /* heap blocks are most often there too */
	RACE_MEMORY_STACK,     /* of the first or the second thread, or of the first of all */
	RACE_MEMORY_SHARED,    /* with other processes or devices */
};

/* A block of the heap was allocated, or freed. */
struct race_heap_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: it was not */
	int32_t tid;
	uint32_t frame_count;
	char thread[16];		   /* empty: it has ended */
	uint64_t frames[RACE_HEAP_FRAMES]; /* locations after calls, innermost first */
};

struct race_heap {
	uint64_t start;
	uint64_t size;			  /* as it was asked for */
	struct race_heap_event allocated; /* frame_count 0: its stack had no room */
	struct race_heap_event freed;
};

struct race_record {
	uint64_t ready;		/* its sequence number + 1 once it is written */
	uint64_t time_ns;	/* CLOCK_MONOTONIC */
	uint64_t held_since_ns; /* CLOCK_MONOTONIC */
	uint64_t stalled_ns;	/* from the start of the stall to the second access */
	uint64_t address;	/* watched */
	uint64_t place;		/* the same */
	uint64_t old_value;
	uint64_t new_value;
	uint32_t len; /* watched: 1, 2, 4, 8 */
	uint32_t flags;
	int32_t pid;
	uint32_t pair;	   /* row of pairs[], or RACE_PAIRS: the table was full */
	uint32_t memory;   /* enum race_memory */
	uint32_t has_heap; /* heap is filled */
	struct race_side first;
	struct race_side second;
	struct race_heap heap;
};

/* Every way in which something is tried, done, refused or lost. */
enum race_counter {
	RACE_SAMPLES,	       /* samples taken */
	RACE_SAMPLES_BIRTHS,   /* ... of them not by a clock, but since a thread was created */
	RACE_SAMPLES_EARLY,    /* ... before the budget allowed a stall */
	RACE_SAMPLES_ALONE,    /* ... while one thread existed */
	RACE_SAMPLES_EXCLUDED, /* ... in a runtime or in code without an object */
	RACE_SAMPLES_NOTHING,  /* ... with no access ahead that is worth it */
	RACE_AIMS,	       /* breakpoints set on an access ahead */
	RACE_AIMS_MISSED,      /* the thread went another way */
	RACE_AIMS_REFUSED,     /* no breakpoint to be had */
	RACE_STALLS,	       /* accesses stalled */
	RACE_STALLS_STACK,     /* not stalled: own stack */
	RACE_STALLS_CONSTANT,  /* not stalled: memory that is not writable, or not there */
	RACE_STALLS_NO_SLOT,   /* not stalled: all registers in use */
	RACE_STALLS_REFUSED,   /* not stalled: the kernel refused */
	RACE_STALLS_NO_ROOM,   /* not stalled: the thread's stack is almost full */
	RACE_STALLS_SIGNALLED, /* ended early: a signal of the program waited for the thread */
	RACE_STALLS_LEFT,      /* not ended: the thread jumped out of the handler, or died in it */
	RACE_STALLS_IDLE,      /* ended early, since nothing else ran */
	RACE_STALLS_OUTWAITED, /* continued until threads that slept by the clock woke up */
	RACE_HITS,	       /* accesses by others to what was watched */
	RACE_HITS_ATOMIC,      /* ... by locked instructions */
	RACE_HITS_EXCLUDED,    /* ... from runtimes */
	RACE_HITS_ASYNC,       /* ... seen late, since SIGTRAP was blocked */
	RACE_HITS_MORE,	       /* ... after the one that is reported */
	RACE_HITS_NO_ROOM,     /* ... not inspected: the thread's stack is almost full */
	RACE_HITS_OWN,	       /* ... by the stalled thread itself, in a handler of its own */
	RACE_HITS_LOST,	       /* ... whose signal was merged with another */
	RACE_CHANGES_UNSURE,   /* values that changed, perhaps by a new thread */
	RACE_FOUND,	       /* pairs of accesses caught */
	RACE_FOUND_REPEATED,   /* ... of which the pair was reported often enough */
	/* plain accesses whose value a locked instruction changed during the stall */
	RACE_FOUND_LOCKED,
	RACE_LOST_FULL,		/* ... lost: no room for the record */
	RACE_LOST_TABLES,	/* sites, files or pairs that had no room */
	RACE_SITE_HITS,		/* hits of the trap of a site */
	RACE_SITE_HITS_ALONE,	/* ... while one thread existed */
	RACE_SITE_HITS_EARLY,	/* ... before the budget allowed a stall */
	RACE_SITE_HITS_BUSY,	/* ... while other threads were stalled */
	RACE_SITE_HITS_SKIPPED, /* ... skipped until a later one is stalled */
	RACE_SITE_REMOVED,	/* traps taken away since they had fired enough */
	RACE_SITE_RENEWED,	/* ... and put back */
	RACE_EXITS_DELAYED,	/* processes whose end waited a moment for their threads */
	RACE_LOST_OBJECTS,	/* objects that a sweep had no room for */
	RACE_LOST_TRAPS,	/* sites that had no room among the traps of their process */
	RACE_LOST_LOCALS,  /* accesses to locals of a function that gives away too many of them */
	RACE_HEAP_UNKNOWN, /* races not in a known block, where blocks are recorded */
	RACE_HEAP_LOST_BLOCKS, /* blocks that had no room */
	RACE_HEAP_LOST_STACKS, /* allocations or frees whose stack had none */
	RACE_COUNTERS,
};

enum race_process_state {
	RACE_PROCESS_FREE,
	RACE_PROCESS_TAKEN, /* being filled */
	RACE_PROCESS_LIVE,
	RACE_PROCESS_ENDED, /* the search has ended in it; the process may continue */
};

/* One row for each process that has the agent. */
struct race_process {
	uint32_t state; /* enum race_process_state */
	int32_t pid;
	uint64_t run;  /* region.run when it began */
	int32_t error; /* -errno when the detector could not start */
	uint32_t step; /* enum race_step: where */
	uint32_t watches;
	uint32_t most_threads; /* that were seen at once */
	uint32_t is_on_cpus;   /* they are events of the CPUs */
	uint32_t reserved;
	uint64_t counters[RACE_COUNTERS];
	uint64_t stalled_ns; /* threads stalled, arming included */
	uint64_t spent_ns;   /* all that it cost */
	uint64_t run_ns;     /* of which the budget is a part */
	uint64_t program;    /* file + 1 */
	int32_t sites_error; /* -errno when sites could not be trapped: see sites_why */
};

enum race_step {
	RACE_STEP_NONE,
	RACE_STEP_SIGNAL,  /* SIGTRAP could not be taken */
	RACE_STEP_TIMER,   /* the task clock */
	RACE_STEP_WATCH,   /* not one watch could be opened */
	RACE_STEP_BREAK,   /* no register left for the breakpoint */
	RACE_STEP_DECODER, /* instructions cannot be decoded */
	RACE_STEP_RUNTIME, /* a program that must not get the detector's signals: Go */
	/* a program that allows itself few system calls, from now on or before */
	RACE_STEP_SECCOMP,
	RACE_STEP_DESCRIPTORS, /* not one for each thread and register */
	RACE_STEP_OWN_TRAP, /* a program that has SIGTRAP blocked and takes it without a handler */
	/* trapline did not respond for a minute, and was assumed to have exited */
	RACE_STEP_UNWATCHED,
	RACE_STEP_REPLACED, /* a program that sets its handler of SIGTRAP without libc */
	/* /proc/self/status cannot be read: a seccomp filter may be there */
	RACE_STEP_FILTER_UNKNOWN,
	RACE_STEPS,
};

struct race_file {
	uint64_t hash; /* of path; 0: free */
	uint32_t ready;
	uint32_t is_included;	 /* an object whose accesses are stalled: not a runtime, not libc */
	uint64_t sites_unproven; /* of a sweep: left out, as the bytes are not known to be code */
	char path[496];
};

/* An instruction; or a global variable, of which only is_atomic is meant. */
struct race_site {
	uint64_t place; /* 0: not used */
	uint64_t last_ns;
	uint32_t stalls;
	uint32_t found;
	uint32_t is_atomic; /* what it accesses was accessed by a locked instruction too */
	uint32_t flags;	    /* enum race_site_flag */
	uint32_t depth;	    /* in a sweep: 2^depth hits at once were seen */
	uint32_t outwaits;  /* stalls there that continued while others slept */
	/* a conflict hint of a sweep: other threads access addresses that end so; 0: unknown */
	uint32_t meets;
	uint32_t reserved;
};

enum race_site_flag {
	RACE_SITE_LISTED = 1,	 /* an access that a sweep goes for */
	RACE_SITE_REACHED = 2,	 /* a thread came there, beside others */
	RACE_SITE_POINTLESS = 4, /* ... to access its own stack, or a constant */
};

struct race_pair {
	uint64_t key; /* 0: free */
	uint64_t count;
};

/*
 * A stall of a sweep, written when it begins: what came before the end of a run that failed. The
 * record has the first side alone.
 */
struct race_last_stall {
	uint64_t ready; /* its sequence number + 1 once it is written */
	uint64_t ended; /* the same once the stall has ended, at ended_ns */
	uint64_t ended_ns;
	uint64_t run; /* region.run */
	struct race_record record;
};
#define RACE_LAST_STALLS 16u

/* Instructions, by their addresses in a file. */
struct race_range {
	uint64_t start;
	uint64_t end;
	char file[256]; /* without folders */
};
#define RACE_RANGES 32
#define RACE_FOCUS 16u
#define RACE_HELD TABLE_SIZE(4096u, 1u)

struct race_settings {
	uint64_t budget_ppm;  /* of CPU time */
	uint64_t delay_ns;    /* 0: by site */
	uint64_t sample_ns;   /* 0: by budget */
	uint64_t is_sweep;    /* by sites, and the cost does not matter */
	uint64_t is_heap;     /* heap blocks are recorded */
	uint64_t is_outside;  /* nothing is in the process: the command writes the records */
	uint64_t is_by_sites; /* ... and no debug register works, so there is no watch */
	uint64_t range_count; /* above 0: a sweep over these alone, to show a race again */
	struct race_range ranges[RACE_RANGES];
	uint64_t trap_ns; /* cost of one trap, for processes that cannot measure it; 0: unknown */
	/* A BPF program gives the samples: no clocks in the processes. */
	uint64_t has_ticks;
	uint64_t tick_ppm; /* what samples cost, on all CPUs, whether or not they reach a thread */
	uint64_t gate_magic; /* random */
	/*
	 * The clocks, as descriptors of trapline, and their ids. A process keeps copies, in
	 * case trapline is killed.
	 */
	int32_t clock_fds[RACE_CLOCKS];
	uint64_t clock_ids[RACE_CLOCKS];
	uint32_t clock_count;
	uint32_t cpu_count; /* CPUs that have events; 0: none */
	/*
	 * Those events, and their ids, as descriptors of trapline; and a map, struct
	 * race_traps.
	 */
	struct perf_event_attr cpu_attr; /* of the watch; the breakpoint is of another kind */
	int32_t cpu_fds[RACE_CPU_EVENTS][RACE_CPUS];
	uint64_t cpu_ids[RACE_CPU_EVENTS][RACE_CPUS];
	int64_t traps_fd;
	int64_t pid; /* of a process that was attached to, as trapline sees it */
};

/* In the process. The BPF program reads it in the thread that would get a sample. */
struct race_gate {
	uint64_t magic;	  /* random; 0: no samples any more */
	uint64_t open_ns; /* CLOCK_MONOTONIC: no sample before */
	uint64_t pid; /* in the first namespace; a child that has a copy of the gate is another */
	uint64_t awaited[RACE_CPU_EVENTS]; /* generation of what is waited for; 0: nothing is */
	/*
	 * the bits of the aligned word that is watched: a hit is not reported while these bits have
	 * that value
	 */
	uint64_t mask; /* 0: all are */
	uint64_t value;
};

/* What an event of a CPU has to state of a trap, for the thread's handler of the signal. */
struct race_trap {
	uint64_t sp; /* of the thread there; written last; 0: nothing new */
	uint64_t pc;
	uint64_t generation;
	uint64_t address;
};

/*
 * A map that the kernel's program writes and the processes read. Threads by their stack pointer,
 * which is the same in all pid namespaces.
 */
struct race_traps {
	uint64_t taken[RACE_CPU_EVENTS];
	struct race_trap rows[RACE_CPU_EVENTS][RACE_TRAPS];
};

/* Which process uses an event of the CPUs. */
struct race_cpu_owner {
	uint64_t pid;	   /* 0: none */
	uint64_t until_ns; /* later it has been left */
};

/*
 * The address of the gate: the same in all processes, and away from programs, libraries and the
 * shadows of sanitizers. A process cannot name another one, where other processes have other data.
 */
#define RACE_GATE_AT 0x6ace00000000u
#define RACE_GATE_BYTES 4096u

struct race_region {
	/* Only trapline writes this, and changes it between runs. */
	union {
		struct {
			struct share_head share;
			struct race_settings settings;
			uint64_t run; /* number of the run, counted by trapline */
			/* for a sweep: the only sites that are stalled in this run; count 0: all */
			uint64_t focus_count;
			uint64_t focus[RACE_FOCUS]; /* locations */
			/*
			 * This run begins without stalls, and records which thread accesses what.
			 */
			uint64_t is_noting;
		};
		uint8_t head[SHARE_HEAD_BYTES];
	};
	/* And all processes this. */
	uint32_t stop; /* set by trapline: the search ends */
	/* A process that was attached to: of a pipe there, of which trapline keeps a read end. */
	int32_t hangup_fd; /* from OWN_FD_FAR on: in Trapline's own table */
	uint64_t hangup_inode;
	uint64_t looked_ns;    /* when trapline last looked here, CLOCK_MONOTONIC; 0: it need not */
	uint64_t cpus_changed; /* other CPUs than those that have events are running */
	struct race_cpu_owner cpu_owners[RACE_CPU_EVENTS];
	uint64_t outwait_since_ns; /* first asked for; CLOCK_MONOTONIC */
	uint64_t outwaited_ns;	   /* stalls that continued while others slept, in all runs */
	uint64_t process_count;	   /* that began, ever */
	uint64_t lost_processes;   /* that found no row: not searched */
	uint32_t told;		   /* records written: a futex, for a reader in the same process */
	uint32_t reserved;
	uint64_t write_at; /* next record's sequence number */
	uint64_t read_at;
	uint64_t sites_covered;
	/* locations of the sites that were stalled, in order; 0: not yet written */
	uint64_t held[RACE_HELD];
	uint64_t sites_lost;	/* that had no room in the table */
	uint32_t exits_waited;	/* a sweep: ends that waited for the program's threads; */
	uint32_t exits_worth;	/* those of them in which a thread ran during the wait */
	uint32_t sites_refused; /* a process has written sites_why */
	uint32_t reserved_too;
	char sites_why[200];
	uint64_t stall_at; /* next stall's sequence number */
	struct race_last_stall last_stalls[RACE_LAST_STALLS];
	struct race_record records[RACE_RECORDS];
	struct race_file files[RACE_FILES];
	struct race_process processes[RACE_PROCESSES];
	struct race_pair pairs[RACE_PAIRS];
	/* Rows in the order in which they came: reading all of them touches no other memory. */
	uint32_t site_count; /* rows that were asked for; may be above RACE_SITES */
	uint32_t site_index[RACE_SITE_INDEX]; /* row + 1, by address; 0: free */
	struct race_site sites[RACE_SITES];   /* index 0: not used */
};

_Static_assert(offsetof(struct race_region, is_noting) < SHARE_HEAD_BYTES - sizeof(uint64_t),
	       "the settings have room in the head");

/* The frame that is reported: what libc accesses is an access of its caller. */
static inline uint32_t race_first_frame(const struct race_side *side)
{
	uint32_t i = 1;

	if (!(side->flags & (RACE_BLOCK | RACE_INSIDE)) || side->frame_count < 2)
		return 0;
	while (i + 1 < side->frame_count && i + 1 < RACE_FRAMES &&
	       side->frames[i] >> RACE_PLACE_BITS == side->frames[0] >> RACE_PLACE_BITS)
		i++;
	return i;
}

/*
 * race_writer.c: for the target, in a handler. Each returns a row, or NULL (pairs:
 * RACE_PAIRS) if the table is full.
 */
struct race_record *race_write_begin(struct race_region *r, uint64_t *sequence);
void race_write_end(struct race_record *record, uint64_t sequence);
struct race_process *race_add_process(struct race_region *r, int32_t pid);
/* The row of a file, by path; -1: no room. */
int race_add_file(struct race_region *r, const char *path);
struct race_site *race_add_site(struct race_region *r, uint64_t place);
struct race_site *race_find_site(struct race_region *r, uint64_t place);
/* Rows of sites that are used, except for some. */
static inline uint32_t race_site_rows(const struct race_region *r)
{
	uint32_t count = __atomic_load_n(&r->site_count, __ATOMIC_SEQ_CST);

	return count < RACE_SITES ? count : RACE_SITES;
}
uint32_t race_add_pair(struct race_region *r, uint64_t first_place, uint64_t second_place);

/*
 * race_reader.c: for trapline. Copies the next record; 0: there is none. *torn counts
 * records that a process began and did not finish before it died.
 */
int race_read(struct race_region *r, struct race_record *out, uint64_t *torn);
/* Records in the ring that were not read. */
uint64_t race_unread(const struct race_region *r);

#endif
