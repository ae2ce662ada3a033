/* SPDX-License-Identifier: MIT */
/*
 * race_priv.h - what the files of the race detector share.
 *
 * The way of one find:
 *	race_tick.c		a tick of the task clock interrupts a thread
 *	race_walk.c	one of the accesses ahead is chosen, a breakpoint set on it
 *	race_aim.c	a thread comes there
 *	race_hold.c	it is held; the address is watched; somebody comes or not
 *	race_second.c	who came: which instruction, is it one that counts
 *	race_memory.c	what was raced for: a block of the heap, a stack
 *	race_birth.c	or the birth of a thread is taken for one
 *	race_budget.c	how long, and whether at all
 *	race_modules.c	whose code is it
 *	race_outside.c	ticks that are made outside, and word of the command's end
 *	race_cpus.c	watches of the CPUs, for all threads at once
 *	race_end.c	when nobody looks any more
 *	race_sites.c	or, in a sweep, a thread comes to one of the sites that are trapped
 *	race_meet.c	to an address, perhaps, that other threads come to as well
 *
 * All of it but the start runs inside SIGTRAP. No lock: a slot or an aim belongs to one thread
 * from a compare-and-exchange of its state to the next.
 */
#ifndef RACE_PRIV_H
#define RACE_PRIV_H

#include <pthread.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "event/event.h"
#include "race/race.h"
#include "record/race_region.h"

#define RACE_SLOTS 3
#define RACE_AIM_ROWS TABLE_SIZE(64, 1)
#define RACE_SEEN TABLE_SIZE(256u, 2u)
#define RACE_TIMERS 2 /* fast, steady */

enum race_policy {
	RACE_CODE_INCLUDED,
	RACE_CODE_EXCLUDED, /* a runtime, or no object at all */
	RACE_CODE_LIBC,	    /* excluded but for its memory functions */
};

struct race_module {
	uint64_t key; /* 0: free row */
	uint32_t ready;
	uint32_t policy;       /* enum race_policy */
	uint32_t has_own_code; /* the library's, beside that of others perhaps */
	uint64_t start;
	uint64_t end;
	uint64_t text_start;
	uint64_t text_end;
	const uint8_t *code; /* text, as it is without the int3 of sites */
	uint64_t data_start; /* writable */
	uint64_t data_end;
	uint64_t bias;
	uint64_t dynamic;     /* 0: none */
	uint64_t relro_start; /* written by the loader alone */
	uint64_t relro_end;
	const struct race_eh_frame *eh_frame; /* or NULL */
	uint64_t file;			      /* row in the region; 0: none */
};

/* A piece of memory that an instruction is about to access. */
struct race_target {
	uint64_t address; /* of the whole access */
	uint32_t size;
	uint8_t access; /* enum race_access */
	uint8_t flags;	/* enum race_side_flag */
	uint64_t part;	/* what is watched of it */
	uint32_t part_len;
	uint8_t length; /* of the instruction */
	uint8_t is_stored_known;
	uint64_t stored; /* in all of the access */
};

enum race_slot_state {
	SLOT_FREE,
	SLOT_TAKEN,   /* being prepared, or being emptied */
	SLOT_OPEN,    /* waiting for a second access */
	SLOT_FILLING, /* the second thread writes */
	SLOT_FILLED,
	SLOT_CLOSED,
};

/* The second access, as who made it wrote it down. */
struct race_caught {
	uint32_t state; /* of race_slot.locked: 0 nobody, 1 being written, 2 whole */
	uint64_t hit_ns;
	uint64_t new_value; /* after it */
	uint64_t sp;
	struct race_side side;
};

struct race_spots;
struct race_spot;

struct race_slot {
	uint32_t state; /* a futex */
	pid_t tid;
	struct trapline_event *event;
	const void *context; /* of the thread that waits, where it was interrupted */
	struct race_target target;
	uint64_t site;			/* place of the instruction held */
	const struct race_spots *spots; /* in a sweep: where it is trapped; */
	struct race_spot *spot;		/* or NULL */
	uint64_t opened_ns;
	uint64_t until_ns;     /* later its owner has left it: by siglongjmp, or dead */
	uint32_t is_explained; /* somebody was seen, though none that counts */
	uint32_t atomic_seen;
	uint32_t hits;
	uint64_t lost; /* traps of the event that never became a hit */
	uint64_t lost_before;
	uint64_t dropped; /* hits of the event that came late or nested, when it was armed */
	uint64_t delivered_before; /* of the event, when the kernel began to count */
	uint64_t taken_before;	   /* by the event of the CPUs, for us */
	uint64_t counted_before;   /* by it, for whomever */
	uint64_t dropped_before;
	uint64_t births; /* begun when it was armed; UINT64_MAX: one was under way */
	uint64_t old_value;
	uint64_t outwaited_ns; /* beyond its time, while others slept */
	struct race_caught second;
	/* A locked instruction that changed the value. A plain access may come yet, so it is waited on. */
	struct race_caught locked;
	struct task_names names; /* of the owner, while it opens the watch */
};

enum race_aim_state {
	AIM_FREE,
	AIM_BUSY,
	AIM_SET
};

/* A breakpoint of one thread, kept open for it until another needs the row; or one of all. */
struct race_aim {
	uint32_t state;
	pid_t tid;	 /* 0: nobody's, or that of all */
	uint32_t missed; /* in a row */
	uint64_t set_ns;
	struct trapline_event *event;
	int fd; /* what event->roots points to */
	uint32_t class;
};

struct race_budget {
	uint64_t started_wall_ns;
	uint64_t started_cpu_ns;
	uint64_t forgiven_ns; /* allowance that was not used in time */
	uint64_t spent_ns;
	uint64_t stall_cost_ns; /* beside the delay: recent mean */
	uint64_t own_cpu_ns;	/* used by us, in whatever thread */
	uint64_t ticks_ns;	/* spent for ticks from outside */
	uint64_t slack_ns;	/* how late sleepers wake up: recent mean */
	uint64_t trap_ns;	/* of one trap and its signal, measured at the start */
	uint64_t parallel_x16;	/* CPU time per wall time, times 16 */
	uint64_t switched_ns;
	uint32_t timer;		 /* which is on */
	uint64_t threads_at_ns;	 /* when they were counted last, */
	uint64_t threads_births; /* and after how many births */
	uint32_t threads;
	uint32_t own_threads; /* of ours, among those */
};

/* Never set to zero: creation of a thread may be under way when the search begins. */
struct race_births {
	uint64_t begun;
	uint64_t ended;
};
extern struct race_births race_births;

/* A pipe that tells us of the end of the command, which holds its read end. */
struct race_hangup {
	int fd; /* write end; 0: none */
	uint64_t inode;
};

/*
 * Stack of the thread below the one who asks trap_has_room(): by -fcallgraph-info=su, with what the
 * decoder (340) and the unwinder (1700) were seen to take. tests/tools/test_race_stacks.sh.
 */
enum {
	RACE_ROOM_TICK = 2560,	 /* to look ahead */
	RACE_ROOM_HOLD = 2688,	 /* to choose, to wait, to tell what was found */
	RACE_ROOM_SECOND = 3264, /* to find the instruction before the pc */
};

/* What makes the ticks: copies of the command's descriptors. */
struct race_clocks {
	uint32_t count;
	int fds[RACE_CLOCKS];
};

/* Events of the CPUs: copies of the command's descriptors. count 0: none. */
struct race_cpu_events {
	uint32_t count;
	int fds[RACE_CPU_EVENTS][RACE_CPUS];
	struct trapline_event *events[RACE_CPU_EVENTS];
};

enum race_phase {
	RACE_IDLE,
	RACE_STARTING,
	RACE_RUNNING,
	RACE_ENDING,
	RACE_ENDED,
};

struct race_state {
	struct race_region *region;
	struct race_process *process;
	pid_t pid;
	pid_t observer; /* the command; 0: none, or not visible from here */
	uint32_t phase; /* enum race_phase */
	uint32_t flags; /* enum race_start_flag */
	uint32_t is_stopped;
	const struct race_module *program;
	uint64_t random;
	uint32_t slot_count;
	struct trapline_event *timers[RACE_TIMERS];
	struct race_slot slots[RACE_SLOTS];
	struct race_aim aims[RACE_AIM_ROWS];
	struct race_aim shared_aim; /* of all threads, or of one that creates others and of those */
	uint32_t has_shared_aim;    /* of all */
	uint32_t has_outwaited;
	pid_t keeper;		/* of a sweep's traps, once it has begun: its tid */
	uint32_t lingering;	/* threads in exit() that wait for others */
	uint64_t birth_next_ns; /* no birth is taken for a tick before */
	struct race_budget budget;
	struct race_gate *gate; /* with ticks from outside */
	struct race_hangup hangup;
	struct race_clocks clocks;
	struct race_cpu_events cpus;
	uint64_t seen[RACE_SEEN]; /* accesses that were come across lately */
	uint64_t seen_count;
};

extern struct race_state race;

/* By the command, for all processes, or in this one. */
static inline int race_is_stopped(void)
{
	return atomic_get(&race.region->stop) || atomic_get(&race.is_stopped);
}

/* Only some places are held, for long: those of a race that is to be shown again. */
static inline int race_is_replay(void)
{
	return race.region->settings.range_count != 0;
}

/* One run of a sweep, for some of the sites that were held before. */
static inline int race_is_focused(void)
{
	return atomic_get(&race.region->focus_count) != 0;
}

/* One run of a sweep in which it is noted at first who touches what. */
static inline int race_is_noting(void)
{
	return atomic_get(&race.region->is_noting) != 0;
}

/* race_is_in_range() tells which sites are to be held; else all are. */
static inline int race_is_for_some(void)
{
	return race_is_replay() || race_is_focused();
}

static inline void race_count(enum race_counter what)
{
	counter_add(&race.process->counters[what], 1u);
}

/* No thread has an event of ours. */
static inline int race_is_on_cpus(void)
{
	return race.cpus.count != 0;
}

/*
 * An event that lies in a thread costs it at each switch, even disabled. Where the ticks need none,
 * nothing else does either: watches and breakpoints are opened for each stall.
 */
static inline int race_opens_anew(void)
{
	return (race.flags & RACE_HAS_TICKS) != 0 && !race_is_on_cpus();
}

/* Where all processes have it; stays mapped. NULL: none. */
extern struct race_gate *race_common_gate;

/* race_outside.c: */
/*
 * A copy of a descriptor of trapline that has this name in /proc, or is the event with this id. It
 * may have ended, and another process have its number. A descriptor or -errno; not in a handler.
 */
int race_copy_descriptor(int pidfd, int number, const char *name);
int race_copy_event(int pidfd, int number, uint64_t id);
int race_outside_start(void);
/* A tick is being taken: none before that time. */
void race_gate_open_at(uint64_t ns);
/* A tick was taken: when may the next one come? */
void race_gate_set(uint64_t now_ns);
void race_outside_end(void);
/* The last of it: who sees the pipe gone knows that nothing is left. */
void race_outside_close(void);
/* Nobody holds the pipe that tells of the command's end. */
int race_outside_is_left(void);

/* race_cpus.c. Copy them, if there are some and they can be had. */
void race_cpus_start(void);
/* Make it an event of the CPUs. */
void race_cpu_event(struct trapline_event *ev, enum race_cpu_event which);
/* From now on their signals are heard. */
void race_cpus_listen(void);
/* 1: it belongs to this process from now on, or events are no matter of the CPUs. */
int race_cpu_take(uint32_t which);
int race_cpu_is_ours(uint32_t which);
void race_cpu_give(uint32_t which);
/* What it traps is for this process: from now on, and no longer. */
void race_cpu_await(const struct trapline_event *ev, uint32_t which);
void race_cpu_await_nothing(uint32_t which);
/* Nobody is told of who leaves that value there: a read, most likely. Until the next await(). */
void race_cpu_pass_over(uint64_t address, uint32_t len, uint64_t value);
/* How often it has trapped where that was waited for. */
uint64_t race_cpu_taken(uint32_t which);
/* The search ends: those that are ours are off; and later, when nobody can be in a callback. */
void race_cpus_stop(void);
void race_cpus_end(void);
void race_cpus_forked(void);

/* race_start.c: the program's threads have all ended, and its first one only waits for ours. */
int race_is_kept_by_us(void);
/* race_sites_start.c: until the thread that keeps the traps has taken them away and is gone; 2 s at most. -EBUSY: it is not. */
int race_sites_end(void);
/* Until nobody is held at one of them: 0, or -EBUSY. */
int race_sites_wait(void);

/* race_linger.c: at the end of a process that has traps. 0 or -errno. And until nobody does so any more. */
int race_linger_begin(void);
void race_linger_end(void);
/* race_end.c: is there nobody any more who would hear of a race? */
int race_is_unwatched(void);
/* Nobody has come yet, and nothing else ends the stall before its time. */
int race_slot_waits(const struct race_slot *slot);
/* What /proc has of a thread of ours, file with its slash. Returns bytes, or -errno; not terminated. */
ssize_t race_read_of_thread(pid_t tid, const char *file, char *out, size_t n);
/* When the time of a stall is over: goes on while others sleep, now and then. Returns how long. */
uint64_t race_outwait(struct race_slot *slot);
/* End it when that is so, or the command is done. 1: it was. */
int race_end_if_over(void);
/* -EALREADY: it is not running, or somebody ends it. -EBUSY: ended; what callbacks use is not freed. */
int race_end(enum race_step why, int error);
/* In a forked child. */
void race_let_go_of_copies(void);

/* race_tick.c: threads whose creation has begun; UINT64_MAX: one is under way, or it is not known. */
uint64_t race_births_begun(void);
/* A record was written: wake who reads in this process. */
void race_tell_reader(void);
uint64_t race_random(void);
void race_registers(const struct trapline_hit *hit, struct insn_regs *out);
enum trapline_action race_on_timer(const struct trapline_hit *hit);

/* race_functions.c */
struct race_function {
	uint64_t start;
	uint64_t end;
	uint8_t access; /* which of its accesses are exact: enum race_access */
	uint8_t compares;
};
#define RACE_FUNCTIONS 96
void race_functions_prepare(void);
/* What libc needs of a thread's stack, for the thread's own variables above all; 0: not known. */
size_t race_least_stack(const pthread_attr_t *attr);

/* .eh_frame_hdr: where the functions of an object begin, sorted. */
struct race_eh_frame {
	uint8_t version;
	uint8_t pointer_encoding;
	uint8_t count_encoding;
	uint8_t table_encoding;
	int32_t eh_frame;
	uint32_t count;
	struct {
		int32_t start; /* from the beginning of this header */
		int32_t fde;
	} rows[];
};

/* DW_EH_PE_udata4, and DW_EH_PE_datarel | DW_EH_PE_sdata4: what all linkers write. */
static inline int race_eh_frame_is_sorted(const struct race_eh_frame *h)
{
	return h->version == 1 && h->count_encoding == 0x03 && h->table_encoding == 0x3b;
}

/* race_modules.c */
/* By the kernel, so that it cannot fault. 1: all of it. */
int race_copy(uint64_t address, void *to, size_t n);
extern char race_program_path[496];
extern struct race_function race_functions[RACE_FUNCTIONS];
extern int race_function_count;
/* NULL: no object, or one that there is no room for. */
const struct race_module *race_module_of(uint64_t address);
uint64_t race_place_of(uint64_t address);
/* The library is linked into the module, and this is part of it: never held nor reported. */
int race_is_own_code(const struct race_module *module, uint64_t pc);
/* The region is a new one: its table of files is empty. */
void race_modules_forget(void);
/* Remember that a place, of code or of a global variable, has to do with locked instructions. */
void race_note_atomic(uint64_t place);
/* May code there be the first of a pair: what it does alone decides. */
enum race_policy race_policy_of(uint64_t pc, const struct race_module **module);
/* What counts of a libc function: 0 nothing, RACE_WRITE its writes, RACE_READ_WRITE all. */
unsigned int race_block_access(uint64_t pc);
/* memcmp() of less than a vector reads a whole one: as many bytes of it count as it was given. 1: cut. */
int race_block_clip(uint64_t pc, const struct insn_regs *regs, uint64_t address, uint32_t *size);

/* The instructions at pc, which lies in the text of the module. */
static inline const void *race_code(const struct race_module *m, uint64_t pc)
{
	return m->code + (pc - m->text_start);
}
/* Keep a copy of the text, before traps are put into it. Not in a handler. */
int race_module_keep_code(const struct race_module *module);

/* race_walk.c: an access ahead of the hit. -ENOENT: none. */
int race_walk(const struct trapline_hit *hit, uint64_t *pc);
/* As that, from the beginning of any function of the program. */
int race_walk_anywhere(uint64_t *pc);
/* As that, from a place where somebody may come. */
int race_walk_from(uint64_t from, uint64_t *pc);
int race_choose_seen(uint64_t *pc);
void race_note_seen(uint64_t pc);
int race_is_tired_of(uint64_t pc);
/* Is the instruction's operand one that could be held? Its address can be told, it is no atomic. */
int race_is_holdable(const struct insn *insn, unsigned int operand);
/* As that, and not in the thread's own frame. */
int race_is_candidate(const struct insn *insn, unsigned int operand, const struct insn_regs *regs);

/* As that, but in its frame, too, where the address was given away. */
static inline int race_is_worth_it(const struct insn *insn, unsigned int operand,
				   const struct insn_regs *regs, int is_escaped)
{
	return is_escaped ? race_is_holdable(insn, operand) :
			    race_is_candidate(insn, operand, regs);
}

/* race_aim.c */
int race_aim_at(pid_t tid, uint64_t pc);
/* 1: none is open, nor about to be. */
int race_aims_put_away(void);
/* In the thread that the caller is about to create. */
int race_aim_at_birth(uint64_t pc);
enum trapline_action race_on_aim(const struct trapline_hit *hit);
/* Breakpoints that were not reached in time are taken away. */
void race_aims_drop_missed(uint64_t now);

/* race_calls.c: calls of libc's memory functions. */
enum race_call {
	RACE_CALL_NONE,
	RACE_CALL_COPY,	     /* (to, from, bytes) */
	RACE_CALL_FILL,	     /* (to, value, bytes) */
	RACE_CALL_STRING,    /* (to, from), one byte at least */
	RACE_CALL_PRINT,     /* (to, ...), one byte at least */
	RACE_CALL_PRINT_N,   /* (to, bytes, ...), one byte if there is room */
	RACE_CALL_APPEND,    /* (to, ...): behind the string that is there */
	RACE_CALL_LENGTH,    /* (from): all of a string, with its end */
	RACE_CALL_COMPARE,   /* (from, from), one byte at least */
	RACE_CALL_COMPARE_N, /* (from, from, bytes), one byte if there are any */
	RACE_CALL_FIRST,     /* (from): one byte at least */
	RACE_CALL_OUT,	     /* (descriptor, from, bytes) */
	RACE_CALL_OUT_OF,    /* (from, size, count) */
};
/* A function can have two slots. */
#define RACE_CALL_SLOTS TABLE_SIZE(96, 1)
#define RACE_LAST_SLOTS TABLE_SIZE(128, 1)
struct race_calls {
	uint32_t count;
	struct {
		uint64_t slot; /* of the linkage table */
		enum race_call kind;
	} rows[RACE_CALL_SLOTS];
	/* Slots of functions that never return; is_last_full: any may be one. */
	uint32_t last_count;
	uint32_t is_last_full;
	uint64_t last[RACE_LAST_SLOTS];
};
/* Not in a handler. */
void race_calls_find(const struct race_module *module, struct race_calls *out);
/* The functions, wherever they are, that a module calls by name. Not in a handler. */
uint32_t race_imports_find(const struct race_module *module, uint64_t *out, uint32_t max);
enum race_call race_call_of(const struct race_calls *calls, const struct race_module *m,
			    const struct insn *insn, uint64_t pc);
/* The slot of the linkage table that a call or jump leads through; 0: none. */
uint64_t race_call_slot(const struct race_module *m, const struct insn *insn, uint64_t pc);
int race_call_is_last(const struct race_calls *calls, uint64_t slot);

/* race_fork.c: threads that fork. */
extern uint32_t race_forking;

/* What is opened for a stall may not be opened now. */
static inline int race_is_forking(void)
{
	return race_opens_anew() && atomic_get(&race_forking);
}

/*
 * race_hold.c: the thread stands before the instruction at hit->ip. 0: it was held. -EBUSY: no watch
 * was free; -EFAULT: its own stack or a constant; -ENOENT: nothing to be held there. spot: what a
 * sweep knows of the place, one of spots; or NULL.
 */
int race_hold(const struct trapline_hit *hit, const struct race_spots *spots,
	      struct race_spot *spot);
/* Which bytes of the access are watched: a naturally aligned piece, by chance when it has several. */
void race_choose_part(struct race_target *target);
/* race_call_targets.c: what the call will touch, first. 0, or -ENOENT: nothing for certain. */
int race_find_call_target(enum race_call kind, const struct insn_regs *regs,
			  struct race_target *out);
/* 1: a watch is free, for this moment. */
int race_has_free_slot(void);
void race_slot_free(struct race_slot *slot);
/* It traps nobody any more. */
void race_slot_pause(struct race_slot *slot);
/*
 * Take a slot from an owner that has left it: a thread that has ended or jumped out of its stall, or
 * the calling thread `caller` (0: do not ask). 1: it is SLOT_TAKEN and its watch is off.
 */
int race_slot_reclaim(struct race_slot *slot, pid_t caller, uint64_t now_ns);
void race_side_fill(struct race_side *side, const struct trapline_hit *hit, uint64_t pc,
		    unsigned int length, const struct race_module *module);
int race_is_called_by_included(const struct trapline_hit *hit);

/* race_sites.c, race_sites_find.c, race_sites_start.c: the sweep. */
enum race_spot_state {
	SPOT_ARMED,
	SPOT_ASKED, /* in the queue of those to be taken away */
	SPOT_RESTING,
};

/* A site, in this process. */
struct race_spot {
	uint64_t address;
	struct race_site *site; /* or NULL: no room */
	uint32_t state;		/* enum race_spot_state */
	uint32_t pointless;	/* how often it was tried for nothing */
	/* Since it was armed: */
	uint32_t passes;
	uint32_t holds;
	uint32_t last_tid; /* who was held last */
	/* Drawn when it was armed: */
	uint32_t skip;	    /* passes that go by before the first hold */
	uint32_t wanted;    /* threads to be held, most often at once; 0: it goes off */
	uint32_t notes;	    /* ... after so many passes, which are noted */
	uint32_t meets;	    /* who comes to an address that ends so is held; 0: who comes */
	uint8_t is_witness; /* locked: not held, what it accesses is remembered */
	uint8_t is_escaped; /* of the own frame, but its address was given away */
	uint8_t call;	    /* enum race_call: a call that touches memory */
};

#define RACE_SPOTS_MAX TABLE_SIZE(16384u, 8u) /* in a process, at once */
#define RACE_SPOT_SETS TABLE_SIZE(64u, 2u)
#define RACE_SPOT_QUEUE TABLE_SIZE(4096u, 2u) /* a power of two */

struct trapline_traps;
/* Those of one module. */
struct race_spots {
	const struct race_module *module;
	struct trapline_traps *traps;
	uint64_t start; /* of the module, as it was found */
	uint32_t number;
	uint32_t count;
	struct race_spot *rows;
};

/* Spots that shall be taken away: number of the set << 16 | row, + 1. */
struct race_spot_queue {
	uint32_t in;
	uint32_t out;
	uint32_t wakeups; /* a futex */
	uint32_t rows[RACE_SPOT_QUEUE];
};
extern struct race_spot_queue race_spot_queue;

/*
 * race_meet.c: a thread is about to execute the spot's instruction, with these registers. Note what
 * it touches, and whether another one did; or is it the address that spot->meets means?
 */
void race_meet_note(const void *code, const struct race_spot *spot, const struct insn_regs *regs,
		    uint32_t tid);
int race_meet_is_there(const void *code, const struct race_spot *spot,
		       const struct insn_regs *regs);

/* Who was to be held there is, or cannot be: when that was the last one, the others need not trap. */
void race_spot_served(const struct race_spots *spots, struct race_spot *spot);

struct trapline_trap_hit;
void race_on_site(const struct trapline_trap_hit *hit);
/* It is about to be armed: which passes, and how many threads, will be held? */
enum race_arming {
	RACE_ARM_FIRST, /* in this process: perhaps none */
	RACE_ARM_AGAIN,
	RACE_ARM_TO_NOTE, /* none: who touches what is noted */
};
void race_spot_arm(struct race_spot *spot, enum race_arming why);
/* Of a module: what was gone through. */
struct race_listing {
	const struct race_module *module;
	struct race_calls calls; /* race_calls_find() */
	uint32_t functions;	 /* race_count_functions() */
	uint8_t *done;		 /* a bit each: they are listed once */
	uint8_t *outer;	   /* a bit for each byte of text: functions jump there from elsewhere */
	uint8_t *answers;  /* a byte each: does it return? race_returns.c */
	uint64_t bytes;	   /* of those three, from answers on */
	uint64_t unproven; /* accesses, perhaps, in what is not known to be code */
};
/*
 * The accesses that a sweep goes for, in the module's functions from number *function on. Returns how
 * many are in out. With most, *function says where to go on when so many have been found; else all
 * are looked at, and which are taken is by chance if there are more than max.
 */
uint32_t race_find_spots(struct race_listing *listing, uint32_t *function, uint32_t most,
			 struct race_spot *out, uint32_t max);
/* The same of the functions at some addresses, and of those that they call, until there are most. */
uint32_t race_find_spots_called(struct race_listing *listing, const uint64_t *addresses, uint32_t n,
				uint32_t most, struct race_spot *out, uint32_t max);
/*
 * race_returns.c, with the rows of the module's unwind table: the one of the function that begins at an
 * address, or UINT32_MAX; and 0: the call at pc never comes back.
 */
uint32_t race_find_row(const struct race_listing *l, int32_t (*rows)[2], uint64_t address);
int race_call_returns(struct race_listing *l, int32_t (*rows)[2], uint64_t pc,
		      const struct insn *insn);
/* 1: the instruction loads the address of a function that never returns: a call may lead there. */
int race_loads_last(struct race_listing *l, int32_t (*rows)[2], uint64_t pc, const uint8_t *code,
		    const struct insn *insn);
/* The call leads where a register or a word in memory says, whose place the code does not name. */
static inline int race_is_by_register(const struct insn *insn)
{
	return insn->kind == INSN_CALL_INDIRECT && !(insn->flags & INSN_PC_RELATIVE);
}
/* 0, or -errno: to be dropped. */
int race_listing_begin(struct race_listing *l, const struct race_module *module,
		       uint32_t functions);
void race_listing_drop(struct race_listing *l);
/* How many functions the module has. */
uint32_t race_count_functions(const struct race_module *module);

/*
 * race_memory.c: memory, and heap or that it is a mapping shared with others, from the address of
 * the record. The stack pointers of both threads; 0: there is no second.
 */
void race_tell_memory(struct race_record *record, uint64_t first_sp, uint64_t second_sp);

/* race_ranges.c: is some of it one of the places that this run is for? Not in a handler. */
int race_is_in_range(const struct race_module *module, uint64_t start, uint64_t end);

/* race_second.c */
enum trapline_action race_on_watch(const struct trapline_hit *hit);

/* race_budget.c */
void race_budget_start(void);
/* May a thread be held now? */
int race_budget_allows(uint64_t now_ns);
uint64_t race_budget_left(uint64_t now_ns);
/* How long until a thread may be held, at best; 0: now. */
uint64_t race_budget_wait_ns(uint64_t now_ns);
/* is_in_thread: CPU time of the caller. */
void race_budget_spend(uint64_t ns, int is_in_thread);
/* cpu_ns: used by the thread that was held; others_ns: by all others meanwhile. */
void race_budget_stalled(uint64_t asked_ns, uint64_t waited_ns, uint64_t cpu_ns,
			 uint64_t others_ns);
/* is_aimed: others are known to come to that address. */
uint64_t race_delay_ns(const struct race_site *site, int is_aimed, uint64_t now_ns);
int race_is_alone(uint64_t now_ns);
/* As they are now, without our own; 0: unknown. */
uint32_t race_count_threads(void);
uint64_t race_process_cpu_ns(void);
uint64_t race_thread_cpu_ns(void);
/* Of another thread of this process; 0: it is gone. */
uint64_t race_cpu_ns_of(pid_t tid);

#endif
