/* SPDX-License-Identifier: MIT */
/*
 * event.h - one event: what the kernel was asked for, and what became of its hits.
 *
 * Events live in a fixed table and are never freed: a handler that holds a late signal may look
 * at any of them at any time. A generation tells whether the signal still means this event.
 *
 * Rules:
 *  1. fds, parts and counts of descriptors change only under `op` (event_lock or arming).
 *  2. generation is raised before anything it protects changes, and a handler reads it after it
 *     has entered itself in the in-flight table (trap/inflight.h): one of the two sees the other.
 *  3. Everything else that both sides touch is a single atomic word.
 */
#ifndef EVENT_EVENT_H
#define EVENT_EVENT_H

#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <trapline/trapline.h>

#include "base/ebpf.h"
#include "cond/ir.h"
#include "event/uprobe_filter.h"

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
 * place before a move may come while the event is being moved, and keeps its own length and value.
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
 * Armed there once more. Where the handler reads the value, a hit of the time before may still be on
 * its way, and its store be what was read at arming: if it finds no change, its old value is unknown.
 */
#define PLACE_ARMED_AGAIN 0x400u
#define EVENT_PLACES 2

/*
 * What the program tells the handler of a hit whose signal it lets pass. Found by the stack
 * pointer, which both sides know whatever pid namespace they are in.
 */
struct event_note {
	uint64_t key; /* event_note_key(); written first as 0 and last as itself */
	uint64_t old_value;
	uint64_t new_value;
	uint64_t value_when;
};
#define EVENT_NOTES_BITS 6
#define EVENT_NOTES (1u << EVENT_NOTES_BITS)
#define EVENT_NOTE_HASH 0x9e3779b97f4a7c15ull

static inline uint64_t event_note_key(uint64_t sp, uint32_t part)
{
	return sp << 8 | part;
}

static inline uint32_t event_note_slot(uint64_t sp)
{
	return (uint32_t)(sp * EVENT_NOTE_HASH >> (64 - EVENT_NOTES_BITS));
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
	uint64_t stops;	  /* times it was told to stop */
	uint64_t stops_failed;
	uint64_t is_off;	   /* uprobes: armed, but every hit is as if it were not */
	uint64_t zero;		   /* always 0, but the verifier does not know */
	uint64_t rejected_partial; /* kernel's copies: not the last store of it into the part */
	uint64_t lost_late;	   /* of places it was moved away from */
	struct event_place places[EVENT_PARTS_MAX][EVENT_PLACES];
	struct event_note notes[EVENT_NOTES];
};
_Static_assert(sizeof(struct event_control) <= 4096, "the control page is one page");

/* Where count(EVENT) of a condition reads; survives the end of that event. */
struct event_counted {
	const struct event_control *control; /* a mapping of our own, or NULL: in the table */
	const struct trapline_event *row;
	uint32_t generation;
};

#define ROOTS_GROWN_MAX 24

/*
 * Descriptors of all threads: [root][part][cpu], one cpu when the event follows its thread. A callback
 * may read them while arming adds to them: count is written last and read first, and arrays that became
 * too small stay until the event is released.
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

void event_roots_free(struct event_roots *roots);

/* A value that no hit has told of, so far. */
struct event_unseen {
	uint64_t seen; /* runs of the program when it was found */
	int is_found;
};

#define EVENT_LINK_KINDS 3 /* as enumerated in uprobe.h */

/* What holds the uprobes of an event; see uprobe.c. */
struct event_links {
	int *fds;
	size_t count;
	size_t capacity;
	int programs[EVENT_LINK_KINDS];
	uint32_t attach_type;
	int calls_fd; /* calls that passed, whose returns are hits; TRAPLINE_RETURNS */
	struct uprobe_filter filter;
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
	uint32_t texts;	       /* registers, by DWARF number */
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
	/* Hits before that counter has reached the count are rejected; past it, the process stops. */
	const struct trapline_event *amount;
	uint64_t amount_at;

	struct perf_event_attr attr;
	struct event_part parts[EVENT_PARTS_MAX];
	uint32_t part_count;
	struct event_roots roots;
	struct event_links links;

	/* Arming state: wanted by the user, applied to the kernel; see event_sync(). */
	uint32_t op; /* 0 free, 1 held, 2 held and asked again */
	pid_t op_owner;
	uint32_t wanted;
	uint32_t applied;
	uint32_t is_inherited; /* by threads that are born: a change has to meet births; see control.c */

	int has_limit;
	uint64_t limit;
	uint64_t granted;
	uint64_t skip;
	uint64_t skipped; /* by the handler or the reader */

	uint64_t hits; /* not duplicates, before the condition and the limit */
	uint64_t rejected_condition;
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
	uint64_t rseq_stops;
	uint64_t unread;

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
 * sig_data: magic 16, index 8, part 8, generation 32 bits. The magic tells our signals from those of
 * another copy of this library in the same process: the program's own, or a loaded agent.
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
 * thread, each of which may be bearing the next one, but the address is always copied from the event
 * that was opened. The page is below vm.mmap_min_addr.
 */
#define EVENT_PARKED_AT 0xff8u

static inline int event_parks(const struct trapline_event *ev)
{
	return ev->is_inherited && event_is_breakpoint(ev);
}

static inline int event_opens_enabled(const struct trapline_event *ev)
{
	return ev->mechanism == TRAPLINE_BY_SIGNAL && !ev->has_program;
}

/* Take a free row of the table, or NULL. Give it back. AS-Safe. */
struct trapline_event *event_take(void);
void event_give(struct trapline_event *ev);

/*
 * table.c: between the two the event is not released, though it may be closed: for calls of a callback
 * and of other threads, which event_close() does not wait for with a lock. -ESRCH: it is closed, or, by
 * the generation that it was opened with, another one. A handler that is in its callback needs them
 * only where the callback may have closed it. AS-Safe.
 */
int event_enter(struct trapline_event *ev);
int event_enter_as(struct trapline_event *ev, uint32_t first_generation);
void event_leave(struct trapline_event *ev);
/*
 * Of an event in the state EVENT_CLOSING: release() is run when the last call under way ends, which is
 * waited for, unless it is one that the caller interrupted. AS-Safe.
 */
void event_end(struct trapline_event *ev, void (*release)(struct trapline_event *ev));

/* attr.c: fill ev->attr and parts. */
int event_describe_range(struct trapline_event *ev, uint64_t addr, size_t len,
			 enum trapline_access access);
int event_describe_code(struct trapline_event *ev, uint64_t addr);
int event_describe_counter(struct trapline_event *ev, enum trapline_counter what, uint64_t period);
void event_attr_for_part(const struct trapline_event *ev, uint32_t part,
			 struct perf_event_attr *attr);

/* tasks.c: thread ids of a process, in a mapping of its own. */
struct task_list {
	pid_t *tids;
	size_t count;
	size_t capacity;
};
int tasks_read(pid_t pid, struct task_list *list);
/* The caller's, since a handler's stack has little room. */
struct task_names {
	char bytes[2048] __attribute__((aligned(8)));
};
/* Until act returns another value than 0, which is then the result; else 0 or -errno. AS-Safe. */
int tasks_each(pid_t pid, struct task_names *names, int (*act)(void *arg, pid_t tid), void *arg);
void tasks_free(struct task_list *list);
/*
 * The thread that /proc and the kernel show the memory of a process by: the first that has not ended,
 * since with the first thread of all goes what /proc/PID has. pid itself if none is better. AS-Safe.
 */
pid_t tasks_with_memory(pid_t pid);
/* As sys_read_memory(), of a process whose first thread may have ended. AS-Safe. */
ssize_t tasks_read_memory(pid_t pid, uint64_t addr, void *buf, size_t n);

/* What arming does with each new descriptor, before it is enabled. Returns 0 or -errno. */
typedef int (*event_prepare)(struct trapline_event *ev, int fd, uint32_t part, uint32_t class,
			     int cpu);

/* arm.c: open the event in all threads in scope; holds `op` meanwhile. */
int event_arm(struct trapline_event *ev, const pid_t *tids, size_t tid_count,
	      event_prepare prepare);
/* As that, but on failure leaves what it opened to event_disarm(): callbacks may be running. */
int event_try_arm(struct trapline_event *ev, const pid_t *tids, size_t tid_count,
		  event_prepare prepare);
void event_disarm(struct trapline_event *ev);

/* One of the first that opts.skip ignores? For the handler and the reader. */
int event_skips(struct trapline_event *ev);

/* control.c */
void event_unlock(struct trapline_event *ev);
void event_sync(struct trapline_event *ev);
/*
 * The values before the first hit. While threads are armed one after the other, one that is not may
 * store: until settled, when all are, the old value of a hit is not known.
 */
void event_read_first_values(struct trapline_event *ev);
void event_settle_first_values(struct trapline_event *ev);
int event_move(struct trapline_event *ev, uint64_t addr, uint32_t len);
/* The aim that a hit's address belongs to, or NULL: it was moved away long ago. */
struct event_place *event_place_at(struct trapline_event *ev, uint32_t part, uint64_t addr);
/* unseen.c: does the memory hold what the last hit said? To be called now and then. */
void event_look_for_unseen(struct trapline_event *ev);

/*
 * For a tool that owns the event and moves it often; the caller is the only one who does.
 * event_aim: enable it at another place, with another length and access too. -errno: it is off.
 * event_pause: disable it; hits that are on their way still count.
 * event_rest: disable it. Hits of the old place that are on their way are dropped as late.
 * event_aim_self: as event_aim, in the calling thread alone, opened first if it is not open there.
 * event_aim_anew: as event_aim, of an event that was let go: opened in all threads that there are. Up
 *	to as many as it has room for; -ENFILE: there are more.
 * event_reserve: have room for so many. Not in a handler.
 * event_retire: after event_pause, what is on its way is dropped as late, too.
 * event_let_go: close all descriptors, in whatever thread they were opened.
 * event_free: after that, give back the row; nobody is in its callback any more.
 * event_forget_copies: as that, in a forked child; the parent's events go on.
 */
int event_aim(struct trapline_event *ev, uint64_t addr, uint32_t len, enum trapline_access access);
void event_pause(struct trapline_event *ev);
void event_rest(struct trapline_event *ev);
int event_aim_self(struct trapline_event *ev, uint64_t addr);
int event_aim_anew(struct trapline_event *ev, uint64_t addr, uint32_t len,
		   enum trapline_access access, struct task_names *names);
int event_reserve(struct trapline_event *ev, size_t threads);
void event_retire(struct trapline_event *ev);
void event_let_go(struct trapline_event *ev);
void event_free(struct trapline_event *ev);
void event_forget_copies(struct trapline_event *ev);

/* None is left: a higher limit. 0 or -EMFILE. AS-Safe. */
int event_limit_raise_once(void);
/* Have room for so many. 0 or -EMFILE: the hard limit is lower. */
int event_limit_raise(size_t descriptors);
/* What arming raised, when all of a tool's are closed, where nothing else has changed it. AS-Safe. */
void event_limit_restore(void);

/* Descriptors are moved to this number and above, out of the way of a program's own. 0: not. */
extern int event_lowest_fd;
/* A descriptor of ours, at event_lowest_fd or above where there is room; errors pass through. */
int event_move_fd_up(int fd);
int event_open_fd(struct perf_event_attr *attr, pid_t tid, int cpu);
int event_read_count(const struct trapline_event *ev, int later_classes_only, uint64_t *out);
int event_budget_left(const struct trapline_event *ev);

/* slots.c: who holds this process's debug registers, for -ENOSPC. */
int event_explain_slots(char *buf, size_t n);

#endif
