/* SPDX-License-Identifier: MIT */
/*
 * event.h - one event: what the kernel was asked for, and what became of its hits.
 *
 * Events are in a fixed table and are never freed: a handler that has a late signal may inspect any
 * of them at any time. A generation shows whether the signal still means this event.
 *
 * Rules:
 * 1. fds, parts and counts of descriptors change only under `op` (event_lock or arming).
 * 2. generation is raised before anything it protects changes, and a handler reads it after it
 *     has entered itself in the in-flight table (trap/inflight.h): one of the two sees the other.
 * 3. Everything else that both sides touch is a single atomic word.
 */
#ifndef EVENT_EVENT_H
#define EVENT_EVENT_H

#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/types.h>

#include <trapline/trapline.h>

#include "base/ebpf.h"
#include "base/hash.h"
#include "cond/ir.h"
#include "event/uprobe/uprobe_filter.h"
#include "record/probe_region.h"

#define EVENT_MAX 256
#define EVENT_PARTS_MAX 4

enum event_state {
	EVENT_FREE,
	EVENT_OPENING,
	EVENT_LIVE,
	EVENT_CLOSING
};

/* A naturally aligned piece of the watched range: one debug register. */
struct event_part {
	uint64_t addr;
	uint32_t len;
};

/*
 * Where a part of the event is, and what was there at the last hit. Two for each part: a hit of the
 * location before a move may come while the event is being moved, and keeps its own length and
 * value.
 */
struct event_place {
	uint64_t addr; /* 0: none; written first as 0 and last as itself */
	uint64_t len;
	uint64_t last; /* value at the previous hit */
	uint64_t when; /* of a value that is read here: TRAPLINE_VALUE_AT_HIT, and what follows */
};
/* With RECORD_OLD_UNKNOWN: all threads are armed, and the next hit will leave what was there. */
#define PLACE_UNKNOWN_ONCE 0x200u
/*
 * Armed there once more. Where the handler reads the value, a hit of the time before may still be
 * on its way, and its store may be what was read at arming. If the handler finds no change, its old
 * value is unknown.
 */
#define PLACE_ARMED_AGAIN 0x400u
#define EVENT_PLACES 2

/*
 * What the program passes to the handler about a hit whose signal it accepts. Found by the stack
 * pointer, which both sides know no matter what pid namespace they are in.
 */
struct event_note {
	uint64_t key; /* event_note_key(); written first as 0 and last as itself */
	uint64_t old_value;
	uint64_t new_value;
	uint64_t value_when;
};
#define EVENT_NOTES_BITS 6
#define EVENT_NOTES (1u << EVENT_NOTES_BITS)

static inline uint64_t event_note_key(uint64_t sp, uint32_t part)
{
	return sp << 8 | part;
}

static inline uint32_t event_note_slot(uint64_t sp)
{
	return (uint32_t)(sp * HASH_MIX >> (64 - EVENT_NOTES_BITS));
}

/* Shared with the BPF program through a mapped array: one page, 8 bytes each. */
struct event_control {
	int64_t budget; /* hits still allowed; meaningless without a limit */
	uint64_t seen;	/* runs of the program */
	uint64_t hits;	/* of these, not duplicates */
	uint64_t granted;
	uint64_t rejected_limit;
	uint64_t rejected_duplicate;
	uint64_t rejected_condition;
	uint64_t condition_faults; /* of these, a load failed or a divisor was 0 */
	uint64_t lost_full;
	uint64_t skip_left; /* counted down, below 0 in the end */
	uint64_t rejected_skip;
	uint64_t stop_at; /* stop the process when so many were granted; 0: never */
	uint64_t stops;	  /* times it was stopped */
	uint64_t stops_failed;
	int64_t stops_left;	    /* with a signal of its own: so many more; below 0 as 0 */
	uint64_t is_off;	    /* uprobes: armed, but every hit is as if it were not */
	uint64_t zero;		    /* always 0, but the verifier does not know */
	uint64_t rejected_partial;  /* kernel's copies: not the last store of it into the part */
	uint64_t by_kernel;	    /* its stores that are not hits: program_keeps_values() */
	uint64_t changed_by_kernel; /* of these, the value is another one */
	uint64_t lost_late;	    /* at addresses that it was moved away from */
	uint64_t followed;	    /* tasks in the table of members */
	uint64_t not_followed;	    /* tasks that had no room there */
	uint64_t while_off;	    /* runs of the program, of uprobes that are off */
	uint64_t compat;	    /* system calls by the 32-bit interface */
	uint64_t stepped;	    /* no hits: see event_steps */
	struct event_place places[EVENT_PARTS_MAX][EVENT_PLACES];
	struct event_note notes[EVENT_NOTES];
};
_Static_assert(sizeof(struct event_control) <= 4096, "the control page is one page");

/* Where count(EVENT) of a condition reads; survives the end of that event. */
struct event_counted {
	/* a mapping of Trapline's own, or NULL: in the table */
	const struct event_control *control;
	const struct trapline_event *row;
	uint32_t generation;
};

#define ROOTS_GROWN_MAX 24

/*
 * Descriptors of all threads: [root][part][cpu], one cpu when the event follows its thread. A
 * callback may read them while arming adds to them: count is written last and read first, and
 * arrays that became too small stay until the event is released.
 */
struct event_roots {
	int *fds;
	uint32_t *classes; /* of each root: the round of arming it was found in */
	size_t count;
	size_t capacity;
	uint32_t fds_per_root;
	uint32_t is_per_cpu;
	uint32_t threads;
	uint32_t grown;
	void *before[ROOTS_GROWN_MAX]; /* each for half as many as the next one */
};

/* One mapping for both arrays. */
static inline size_t event_roots_bytes(const struct event_roots *roots, size_t capacity)
{
	return capacity * (roots->fds_per_root * sizeof(int) + sizeof(uint32_t));
}

/* A value that no hit has reported, so far. */
struct event_unseen {
	uint64_t seen; /* runs of the program when it was found */
	int is_found;
};

/* Where programs note the processes of an event. */
enum {
	MEMBERS_AT_FORK,
	MEMBERS_AT_EXEC,
	MEMBERS_AT_EXIT,
	MEMBERS_PROGRAMS
};

/* For uprobes with TRAPLINE_SEVERAL or TRAPLINE_FOLLOW_FORKS; see program_members.h. */
struct event_members {
	int tasks_fd;
	int named_fd; /* by number, as the command has it */
	int links[MEMBERS_PROGRAMS];
	char name[16]; /* of programs whose processes are members; empty: none */
};

#define EVENT_LINK_KINDS 3 /* as enumerated in uprobe.h */

struct uprobe_site;

/* The uprobes of an event; see uprobe.c. */
struct event_links {
	int *fds;
	size_t count;
	size_t capacity;
	int programs[EVENT_LINK_KINDS];
	uint32_t attach_type;
	struct uprobe_site *sites; /* of all kinds, in their order, to attach them again */
	size_t site_count[EVENT_LINK_KINDS];
	uint32_t rest; /* enum uprobe_rest of uprobe.c */
	int calls_fd;  /* calls that passed, whose returns are hits; TRAPLINE_RETURNS */
	struct uprobe_filter filter;
	struct event_members members;
};

#define EVENT_TRACEPOINTS 3 /* as enumerated in tracepoint.h */

/* The programs of an event of the kernel; see tracepoint.c. */
struct event_tracepoints {
	uint32_t what;	  /* enum trapline_kernel_event */
	uint32_t number;  /* of a descriptor */
	int table_fd;	  /* struct tracepoint_table */
	int ends_fd;	  /* processes that are ending */
	uint16_t *wanted; /* the table, until it is in the map; TRACEPOINT_NUMBERS */
	int programs[EVENT_TRACEPOINTS];
	int links[EVENT_TRACEPOINTS];
	/* Where members of the kernel's structures are, in bytes. */
	struct {
		int process; /* of a thread: task_struct.tgid */
		int group;   /* task_struct.signal */
		int live;    /* signal_struct.live */
		int flags;
		int group_status;
		int status; /* task_struct.exit_code */
		int compat; /* of a thread: the word that has the interface of its call */
	} at;
};

struct trapline_event {
	uint32_t state;
	uint32_t generation;
	uint32_t first_generation; /* the one it was opened with */
	uint32_t index;
	uint32_t users; /* calls under way, and 1 until it is closed: see event_enter() */
	struct trapline *target;
	void (*release)(struct trapline_event *ev); /* by the last of the users */
	pid_t pid;				    /* the target process */
	pid_t owner_pid;     /* the process that opened it: a forked child must not touch it */
	struct ebpf_ids ids; /* how programs number the threads they run in; see ids.h */

	trapline_callback callback;
	void *arg;
	uint32_t flags;
	uint32_t scope;
	pid_t only_tid; /* the one thread in scope, where it was named; else 0 */
	uint32_t stack_depth;
	uint32_t texts; /* registers, by DWARF number */
	uint32_t memory_asked;
	uint32_t memory_count; /* of these, the ones that a record has room for */
	uint32_t memory_room;  /* of a record */
	struct trapline_memory *memory;
	uint32_t stop_signal;  /* of TRAPLINE_STOP, to the thread; 0: SIGSTOP, to the process */
	uint32_t mechanism;    /* enum trapline_mechanism */
	uint32_t has_program;  /* attached before it is enabled */
	uint32_t evaluated_in; /* enum trapline_evaluated */
	uint32_t thread_slot;  /* of hits_in_thread in the handler, + 1; 0: none */
	int filter_fd;	       /* the caller's own program, or -1 */
	const struct condition *condition;
	struct event_counted counted[COND_EVENTS_MAX];
	struct event_counted count_of; /* for hit.count */
	uint32_t access;
	uint64_t period;
	uint32_t counter; /* enum trapline_counter, of amounts */
	/*
	 * Hits before that counter has reached the count are rejected; past it, the process stops.
	 */
	const struct trapline_event *amount;
	uint64_t amount_at;

	struct perf_event_attr attr;
	struct event_part parts[EVENT_PARTS_MAX];
	uint32_t part_count;
	struct event_roots roots;
	struct event_links links;
	struct event_tracepoints tracepoints;

	uint32_t probe;		      /* TRAPLINE_BY_PROBE: its number, + 1 */
	struct trapline_traps *traps; /* TRAPLINE_BY_TRAP */
	/*
	 * The object with that code, which stays while a thread runs there; see verdict.c. 0: not
	 * known.
	 */
	uint64_t object_start;
	uint64_t object_end;
	const struct hit_slots *records; /* of the target: these, without a callback */
	uint64_t recorded;

	/* Arming state: wanted by the user, applied to the kernel; see event_sync(). */
	uint32_t op; /* 0 free, 1 taken, 2 taken and asked again */
	pid_t op_owner;
	uint32_t wanted;
	uint32_t applied;
	/* by threads that are created: a change has to meet thread creations; see control.c */
	uint32_t is_inherited;

	int has_limit;
	uint64_t limit;
	uint64_t granted;
	uint64_t skip;
	uint64_t skipped; /* by the handler or the reader */

	uint64_t hits; /* not duplicates, before the condition and the limit */
	/*
	 * What the handler or the reader let pass. The rest of hits was rejected: that is the
	 * frequent case, and it counts once.
	 */
	uint64_t passed_condition;
	uint64_t condition_faults;
	uint64_t rejected_skip;
	uint64_t delivered;
	uint64_t rejected_limit;
	uint64_t rejected_duplicate;
	uint64_t lost_nested;
	uint64_t lost_late;
	uint64_t lost_ring_full;
	uint64_t async;
	uint64_t move_repairs;
	uint64_t changes_unsure;
	uint64_t lost_causes_before; /* in this process, when the event was opened */
	uint64_t values_replaced;
	uint64_t rseq_stops;
	uint64_t stepped; /* counted by the kernel once more: see event_steps */
	pid_t armed_tid;  /* the one thread in scope; 0: several, or all */
	uint64_t unread;
	struct probe_counts *mirror; /* another process counts with it; NULL: none does */

	/* Records. */
	struct event_control *control; /* BPF: mapped, else NULL */
	int control_fd;
	int storage_fd;
	int amount_fd; /* of a counter: a map that lets programs read it; -1: none asked yet */
	struct event_owner *owners; /* ring: which class owns each thread */
	struct event_place places[EVENT_PARTS_MAX][EVENT_PLACES]; /* without a program */
	uint32_t place_now[EVENT_PARTS_MAX];			  /* index of the newest */
	struct event_unseen unseen[EVENT_PARTS_MAX];
	uint64_t unseen_changes;
};

extern struct trapline_event event_table[EVENT_MAX];

/*
 * Where the handler executes what a thread has hit: see trap/past.h. A hit with its pc there was
 * reported before, so it is not one. 0 bytes: nowhere.
 */
struct event_steps {
	uint64_t start;
	uint64_t bytes;
};
extern struct event_steps event_steps;

static inline int event_is_step(uint64_t pc)
{
	return pc - event_steps.start < event_steps.bytes;
}

/*
 * sig_data: magic 16, index 8, part 8, generation 32 bits. The magic distinguishes Trapline's
 * signals from those of another copy of this library in the same process: the program's own, or a
 * loaded agent.
 */
#define EVENT_MAGIC 0x7472u

static inline uint64_t event_magic(void)
{
	return (EVENT_MAGIC ^ (uintptr_t)event_table >> 12) & 0xffffu;
}

static inline uint64_t event_sig_data(const struct trapline_event *ev, uint32_t part)
{
	return event_magic() << 48 | (uint64_t)ev->index << 40 | (uint64_t)part << 32 |
	       ev->generation;
}

static inline int event_is_data(const struct trapline_event *ev)
{
	return (ev->access & TRAPLINE_READ_WRITE) != 0;
}

static inline int event_is_breakpoint(const struct trapline_event *ev)
{
	return ev->access != TRAPLINE_AMOUNT;
}

/* Counts an amount in one thread, without hits: what a program in that thread can read. */
static inline int event_is_readable_amount(const struct trapline_event *ev)
{
	return ev->access == TRAPLINE_AMOUNT && !ev->attr.sample_period && ev->only_tid;
}

/*
 * Off means: at an address where nothing is. The state "disabled" would be passed on from thread to
 * thread, each of which may be creating the next one. But the address is always copied from the
 * event that was opened. The page is below vm.mmap_min_addr.
 */
#define EVENT_PARKED_AT 0xff8u

static inline int event_parks(const struct trapline_event *ev)
{
	return ev->is_inherited && event_is_breakpoint(ev);
}

/* Its hits come from changed code of the own process: nothing in the kernel knows of it. */
static inline int event_is_in_code(const struct trapline_event *ev)
{
	return ev->mechanism == TRAPLINE_BY_PROBE || ev->mechanism == TRAPLINE_BY_TRAP;
}

/* Its program runs in every process that comes there, and is on or off by a word of its page. */
static inline int event_is_shared(const struct trapline_event *ev)
{
	return ev->mechanism == TRAPLINE_BY_UPROBE || ev->mechanism == TRAPLINE_BY_TRACEPOINT;
}

/* Its hits are of several processes, which the command numbers. */
static inline int event_has_members(const struct trapline_event *ev)
{
	return event_is_shared(ev) && ev->flags & (TRAPLINE_SEVERAL | TRAPLINE_FOLLOW_FORKS);
}

static inline int event_opens_enabled(const struct trapline_event *ev)
{
	return ev->mechanism == TRAPLINE_BY_SIGNAL && !ev->has_program;
}

#endif
