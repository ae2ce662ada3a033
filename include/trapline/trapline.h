/* SPDX-License-Identifier: MIT */
/*
 * trapline.h - synchronous hits for memory accesses, executed code and used-up budgets.
 *
 * A target is a process; an event is what is waited for in it; a hit is one occurrence.
 * Hits reach the program in one of two ways, chosen for each event:
 *   - a callback, run inside SIGTRAP in the very thread that did it (own process only);
 *   - records, read with trapline_poll() (own process or another one).
 *
 * Conventions. Every function that can fail returns 0 or a positive number, or -errno; results
 * come through the last parameter, which is untouched on failure. errno is never set. Option
 * structures begin with their size, so that older programs work with newer libraries; an
 * unknown non-zero tail is refused with -E2BIG. NULL options mean the defaults. The library
 * never prints and never exits.
 *
 * Tags: MT-Safe - any threads at once; AS-Safe - also from a signal handler and from a callback.
 * See trapline(7) for fork, exec, dlclose and who owns SIGTRAP.
 */
#ifndef TRAPLINE_H
#define TRAPLINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <trapline/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TRAPLINE_API __attribute__((visibility("default")))
#else
#define TRAPLINE_API
#endif

/* Declares options of a type with their size set and all else zero: TRAPLINE_OPTS(event, o); */
#ifdef __cplusplus
#define TRAPLINE_OPTS(kind, name)                      \
	struct trapline_##kind##_opts name = {};       \
	name.size = sizeof(struct trapline_##kind##_opts)
#else
#define TRAPLINE_OPTS(kind, name) \
	struct trapline_##kind##_opts name = {.size = sizeof(struct trapline_##kind##_opts)}
#endif

struct trapline;       /* a target: one process, opened by trapline_open() */
struct trapline_event; /* what is waited for, opened by trapline_watch() and its like */
struct trapline_condition; /* what must hold for a hit to count: <trapline/condition.h> */

/* What an access did, or what a watch waits for. A bit mask. */
enum trapline_access {
	TRAPLINE_READ = 1,
	TRAPLINE_WRITE = 2,
	TRAPLINE_READ_WRITE = 3,
	TRAPLINE_EXECUTE = 4,
	TRAPLINE_AMOUNT = 8, /* a counter reached its period */
};

/* When a value in a hit was read. */
enum trapline_value {
	TRAPLINE_VALUE_NONE = 0,   /* not read: unmapped, or not a data event */
	TRAPLINE_VALUE_AT_HIT = 1, /* at the hit, before the thread ran on */
	TRAPLINE_VALUE_LATER = 2,  /* by the reader, later: other writes may lie between */
};

/* How many frames a callback's stack holds at most. */
#define TRAPLINE_STACK_MAX 64

/*
 * One occurrence. Valid only during the callback that receives it; copy what is kept.
 * New members are appended; size tells how many of them the library filled.
 *
 * Threads are armed one after the other, and what one stores before its turn is no hit. A hit that
 * comes meanwhile has no known old value, nor has the first one after it if there was such a store.
 */
struct trapline_hit {
	size_t size;
	struct trapline_event *event;
	void *arg;	      /* opts.arg of the event */
	uint64_t time_ns;     /* CLOCK_MONOTONIC */
	pid_t pid;	      /* of the thread that did it */
	pid_t tid;
	char thread[16];      /* its name, NUL-terminated; empty in a callback */
	uint64_t ip;	      /* see done: x86-64 data accesses report the next instruction */
	uint64_t sp;
	uint64_t address;     /* the watched part that was hit, not the first byte of the access */
	uint32_t len;	      /* bytes of that part: 1, 2, 4 or 8; 0 for counters */
	uint8_t access;	      /* enum trapline_access the event waits for */
	uint8_t done;	      /* 1: the access has happened; 0: it is about to */
	uint8_t async;	      /* 1: SIGTRAP was blocked; ip is where it was unblocked */
	uint8_t value_when;   /* enum trapline_value, for new_value */
	uint8_t old_known;    /* 1: old_value is the value at the previous hit or at arming */
	uint8_t returned;     /* 1: the function has returned, see TRAPLINE_RETURNS */
	uint8_t reserved[2];
	uint64_t old_value;   /* zero-extended from len bytes, in the machine's byte order */
	uint64_t new_value;
	const uint64_t *stack; /* return addresses, innermost (ip) first */
	uint32_t stack_count;
	uint32_t stack_bytes_len;
	const void *stack_bytes; /* copy of the memory at sp, for unwinding from a record */
	void *context; /* callback: the thread's ucontext_t, which may be changed; else NULL */
	const uint64_t *regs; /* records: by DWARF number; use trapline_hit_register() */
	uint64_t amount;      /* counters: the period that was used up */
	uint64_t count;       /* opts.count_of: its hits or amount so far, at this hit */
	uint64_t caller; /* break, by BPF: return address, if ip is a function's first instruction */
	uint64_t texts;	 /* registers whose text was read; use trapline_hit_text() */
	const char *text; /* of the first register that was asked for */
	/*
	 * TRAPLINE_KERNEL: where in the kernel the access was made, 0: by the thread's own code. ip, sp
	 * and registers are then those with which the thread entered the kernel.
	 */
	uint64_t kernel_ip;
	int64_t syscall; /* the system call that made it; -1: none, or not known */
};

/*
 * trapline_hit_register - a register of the thread at the hit.
 *
 * number is the DWARF register number of the architecture (x86-64: 0 rax, 1 rdx, 2 rcx, 3 rbx,
 * 4 rsi, 5 rdi, 6 rbp, 7 rsp, 8 to 15 r8 to r15, 16 rip; arm64: 0 to 30 x0 to x30, 31 sp, 32 pc).
 * Errors: EINVAL no such register; ENODATA the hit holds none. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_hit_register(const struct trapline_hit *hit, unsigned int number,
				       uint64_t *out);

/*
 * trapline_hit_text - the text that a register pointed to at the hit, see opts.texts.
 *
 * At most 63 bytes of it, NUL-terminated; valid as long as the hit. Errors: EINVAL no such
 * register; ENODATA it was not asked for, or could not be read. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_hit_text(const struct trapline_hit *hit, unsigned int number,
				   const char **out);

/*
 * trapline_hit_leave - say that a callback will not return.
 *
 * A callback that ends by siglongjmp() must call it first, else the library waits for that
 * callback when the event is closed. Not needed before pthread_exit(). MT-Safe. AS-Safe.
 */
TRAPLINE_API void trapline_hit_leave(const struct trapline_hit *hit);

/* What the thread does after a callback. */
enum trapline_action {
	TRAPLINE_GO_ON = 0,
	TRAPLINE_DISARM = 1, /* as trapline_event_disable() */
};

/*
 * A callback runs inside SIGTRAP: only async-signal-safe functions may be called from one run
 * by an event; one run by trapline_poll() is an ordinary function call. It may call every
 * trapline function tagged AS-Safe, touch watched memory (such hits are counted as nested and
 * not delivered), call pthread_exit(), and siglongjmp() after trapline_hit_leave().
 */
typedef enum trapline_action (*trapline_callback)(const struct trapline_hit *hit);

/* Where the threads come from that an event covers. */
enum trapline_scope {
	TRAPLINE_PROCESS = 0, /* all threads, present and future */
	TRAPLINE_CALLER = 1,  /* the calling thread only, not those it creates */
	TRAPLINE_THREADS = 2, /* opts.tids, not those they create */
};

struct trapline_open_opts {
	size_t size;
	uint32_t records_bytes; /* room for unread records, a power of two; 0: 4 MiB */
	uint32_t flags;		/* TRAPLINE_NO_BPF */
};

/* trapline_open_opts.flags: take the way that needs no privilege, even where BPF is permitted. */
#define TRAPLINE_NO_BPF 1u

/*
 * trapline_open - open a process as a target.
 *
 * pid 0 is this process. Nothing is armed yet and the process is not stopped, now or later.
 * *out is released by trapline_close(), in the process that opened it.
 * Errors: ESRCH no such process; EINVAL pid is a thread that is not a process, or an
 * option is wrong; ENOMEM. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_open(pid_t pid, const struct trapline_open_opts *opts,
			       struct trapline **out);

/*
 * trapline_close - close a target and all its events. NULL is allowed.
 *
 * After it returns the process keeps no event. MT-Safe, but no other call may use t any more.
 * AS-Unsafe.
 */
TRAPLINE_API void trapline_close(struct trapline *t);

/* trapline_event_opts.flags */
#define TRAPLINE_DISABLED 1u	 /* do not start armed; see trapline_event_enable() */
#define TRAPLINE_FOLLOW_FORKS 2u /* forked children too; records only, not in a callback */
#define TRAPLINE_KERNEL 4u	 /* accesses made by the kernel too: one hit a copy; needs privilege */
#define TRAPLINE_STACK_BYTES 8u	 /* records: copy registers and the stack's memory */
#define TRAPLINE_RETURNS 32u	 /* break_sites: also when the function has returned */
#define TRAPLINE_QUIET 64u	 /* count hits, write no records: for count() and points */
#define TRAPLINE_STOP 128u	 /* records: stop the process (SIGSTOP) at each hit, needs BPF */
#define TRAPLINE_NO_VALUES 16u	 /* callbacks: do not read the value, a system call per hit */

struct trapline_event_opts {
	size_t size;
	trapline_callback callback; /* NULL: records, read by trapline_poll() */
	void *arg;		    /* given back in each hit */
	uint64_t limit;		    /* exactly so many hits over all threads, then disarmed; 0: none */
	uint32_t flags;
	uint32_t scope;	     /* enum trapline_scope */
	const pid_t *tids;   /* TRAPLINE_THREADS: copied */
	size_t tid_count;
	uint32_t stack_depth; /* callbacks: frames wanted, at most TRAPLINE_STACK_MAX */
	uint32_t reserved;
	uint64_t period; /* counters: amount per hit; 0 only counts */
	/* Hits for which it is false have no side effect; copied. NULL: all hits count. */
	const struct trapline_condition *condition;
	/*
	 * The caller's own BPF program of type BPF_PROG_TYPE_PERF_EVENT, or 0: it returns 0 to reject
	 * a hit and 1 to let it pass. With a callback the kernel must be able to hold back the signal
	 * (6.10); records are then written by the kernel. Not together with condition.
	 */
	int filter_fd;
	/*
	 * break_sites: registers that hold pointers to text, which is copied at the hit; a bit for each
	 * DWARF number. At most 8. Of a hit with hit.returned only that of the result's register.
	 */
	uint32_t texts;
	uint64_t skip; /* hits let pass by the condition that are ignored before the first counts */
	/*
	 * Records: hit.count is what this one has counted: its hits, or, of trapline_count() without a
	 * period in one thread, the amount that the thread has used up at this hit. Needs BPF.
	 */
	struct trapline_event *count_of;
};

/*
 * trapline_watch - a hit for each access to len bytes at addr.
 *
 * access is TRAPLINE_WRITE or TRAPLINE_READ_WRITE (x86-64 cannot watch reads alone). The range
 * takes one debug register for each naturally aligned part of 1, 2, 4 or 8 bytes, at most 4.
 * Accesses by system calls are not seen without TRAPLINE_KERNEL, those through another mapping
 * or by DMA never. On return every live thread in scope is covered and each thread created later
 * will be; a callback may run before this function returns.
 * *out is released by trapline_event_close().
 * Errors: ENOSPC no debug register left in some thread; EINVAL length 0 or over 32, or access;
 * E2BIG more parts than registers; EOPNOTSUPP this machine lacks it; EACCES or EPERM privilege;
 * EMFILE not enough file descriptors, one is needed for each thread (and register); EBUSY the
 * callback mode cannot have SIGTRAP; ESRCH the process is gone. With a condition also: EINVAL it
 * uses new or old and there is no value; EOPNOTSUPP what it counts cannot be read there.
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_watch(struct trapline *t, uint64_t addr, size_t len,
				enum trapline_access access,
				const struct trapline_event_opts *opts,
				struct trapline_event **out);

/*
 * trapline_break - a hit each time the instruction at addr is about to run.
 *
 * Takes one debug register. Everything else as trapline_watch().
 */
TRAPLINE_API int trapline_break(struct trapline *t, uint64_t addr,
				const struct trapline_event_opts *opts,
				struct trapline_event **out);

/*
 * trapline_break_sites - a hit each time one of many instructions is about to run.
 *
 * addrs are count addresses of code of the target with a file behind it (the program or a
 * library; not code made at run time), each the first byte of an instruction. No debug register
 * is used and there is no limit to their number: the kernel puts a breakpoint into the code's
 * page, for all threads at once, and takes it out when the event is closed. Records only.
 * hit.address is the one of addrs. With TRAPLINE_RETURNS, for addresses of functions, there is
 * another hit with hit.returned when the function has returned; its ip is where it returned to. A
 * condition and a limit are decided when the function is entered: only calls that passed, and none
 * that began before, have a return. Returns still come when the event has been disabled meanwhile.
 * Cheap on instructions that the kernel emulates: push, nop, call and jumps; endbr64 is not one.
 * Errors: ENOENT there is no file behind an address; EOPNOTSUPP the kernel lacks it, or BPF is not
 * permitted, or too many for a kernel before 6.6; EPERM privilege (CAP_SYS_ADMIN); EINVAL a
 * callback, a scope other than the process, or an address that is not an instruction.
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_break_sites(struct trapline *t, const uint64_t *addrs, size_t count,
				      const struct trapline_event_opts *opts,
				      struct trapline_event **out);

/* What trapline_count() counts. */
enum trapline_counter {
	TRAPLINE_TASK_CLOCK = 0,    /* nanoseconds of CPU time */
	TRAPLINE_PAGE_FAULTS = 1,
	TRAPLINE_CONTEXT_SWITCHES = 2, /* needs TRAPLINE_KERNEL */
	TRAPLINE_MIGRATIONS = 3,       /* needs TRAPLINE_KERNEL */
	TRAPLINE_INSTRUCTIONS = 4,     /* needs a PMU */
	TRAPLINE_CYCLES = 5,	       /* needs a PMU */
	TRAPLINE_BRANCHES = 6,	       /* needs a PMU */
	/* Retired ones: the same number in each run of the same code. Needs a PMU that is known. */
	TRAPLINE_CONDITIONAL_BRANCHES = 7,
	/* Entered ones, also those entered again after a signal. Without a period; needs tracefs. */
	TRAPLINE_SYSCALLS = 8,
};

/*
 * trapline_count - count something in all threads in scope; a hit for each opts.period of it.
 *
 * Each thread has its own period. The sum is read by trapline_event_read(). A task clock whose
 * period ends while the thread is in the kernel is counted, but its hit is lost unless
 * TRAPLINE_KERNEL is given: read the counter, do not count the hits.
 * Errors: EOPNOTSUPP no such counter on this machine; others as trapline_watch().
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_count(struct trapline *t, enum trapline_counter what,
				const struct trapline_event_opts *opts,
				struct trapline_event **out);

/*
 * trapline_sample - a hit in each thread after each period_ns nanoseconds of its CPU time.
 *
 * period_ns is at least 20000: the kernel throttles shorter ones. opts.period is ignored.
 * Errors: EINVAL period too short; others as trapline_count(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_sample(struct trapline *t, uint64_t period_ns,
				 const struct trapline_event_opts *opts,
				 struct trapline_event **out);

/*
 * trapline_event_enable, trapline_event_disable - arm and disarm in all threads.
 *
 * Cost grows with the threads covered. After disable returns no further hit begins; one that a
 * thread has already taken may still be delivered. Enabling an event whose limit is used up
 * does nothing until trapline_event_rearm(). Errors: ESRCH in a forked child.
 * MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_enable(struct trapline_event *event);
TRAPLINE_API int trapline_event_disable(struct trapline_event *event);

/*
 * trapline_event_rearm - allow exactly `more` further hits, and arm again if the limit was used up.
 *
 * Only for events opened with a limit. Errors: EINVAL the event has no limit, or more is 0; ESRCH.
 * MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_rearm(struct trapline_event *event, uint64_t more);

/*
 * trapline_event_move - watch or break at another address, in all threads.
 *
 * The length and the number of parts stay. Hits of the old address that arrive later are
 * dropped and counted as late. On failure the event stays where it was.
 * Errors: EINVAL not a watch or break, or alignment; EIO it moved in some threads only and could
 * not be moved back: the event is disabled. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_move(struct trapline_event *event, uint64_t addr);

/*
 * trapline_event_aim - as trapline_event_move(), with another length: 1, 2, 4 or 8 bytes.
 *
 * For sets of places that take turns in one register. Only for a watch of one register; addr is
 * aligned to len. Errors: as trapline_event_move(). MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_aim(struct trapline_event *event, uint64_t addr, size_t len);

/*
 * trapline_event_read - what the kernel counted so far, in all threads, dead ones included.
 *
 * For watch and break: traps taken, over all parts. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_read(struct trapline_event *event, uint64_t *out);

/*
 * trapline_event_close - disarm and release. NULL is allowed.
 *
 * Waits until no other thread is inside the event's callback; it may be called from that
 * callback itself. MT-Safe. AS-Safe.
 */
TRAPLINE_API void trapline_event_close(struct trapline_event *event);

/* Where hits went. taken = delivered + all rejected + all lost, when no thread is in a hit. */
struct trapline_stats {
	size_t size;
	uint64_t taken;		     /* counted by the kernel */
	uint64_t delivered;	     /* callbacks run, or records given to the caller */
	uint64_t rejected_limit;     /* after the limit was used up */
	uint64_t rejected_duplicate; /* a second event in a thread found and inherited */
	uint64_t rejected_condition; /* the condition, or the caller's own filter, was false */
	uint64_t lost_nested;	 /* inside a callback or the library itself */
	uint64_t lost_late;	 /* arrived after the event was moved or closed */
	uint64_t lost_merged;	 /* SIGTRAP was already pending, blocked, ignored or replaced */
	uint64_t lost_ring_full; /* no room for the record, or the ring was held by another CPU */
	uint64_t lost_kernel;	 /* the kernel ran no program for it, or dropped the tick */
	uint64_t unread;	 /* records not yet given to the caller */
	uint64_t threads;	 /* found and armed by us, inherited ones not counted */
	uint64_t registers;	 /* debug registers in each of them */
	uint64_t async;		 /* delivered late because SIGTRAP was blocked */
	uint64_t move_repairs;	 /* failed moves that were put right */
	uint64_t rseq_stops;	 /* disabled, since a restartable sequence never came past it */
	uint64_t condition_faults; /* of rejected_condition: a load failed or a divisor was 0 */
	uint64_t decided_in;	   /* enum trapline_decided */
	uint64_t hits;		   /* before condition and limit, without duplicates */
	uint64_t rejected_skip;	   /* among the first opts.skip */
	uint64_t stops_failed;	   /* TRAPLINE_STOP: hits at which the process could not be stopped */
	/* TRAPLINE_KERNEL: the kernel copied piece by piece; the last piece is the hit, these not. */
	uint64_t rejected_partial;
	/*
	 * By BPF: trapline_poll() found another value than the last hit told, so often: at least so
	 * many changes were made by what cannot be seen, such as another process or, without
	 * TRAPLINE_KERNEL, a system call. Not part of taken.
	 */
	uint64_t unseen_changes;
};

/* Where conditions and limits are decided: what a rejected hit has cost its thread. */
enum trapline_decided {
	TRAPLINE_DECIDED_NOWHERE = 0,	/* there is nothing to decide */
	TRAPLINE_DECIDED_IN_KERNEL = 1, /* before any signal or record */
	TRAPLINE_DECIDED_IN_HANDLER = 2, /* in SIGTRAP: BPF or its veto is missing */
	TRAPLINE_DECIDED_BY_READER = 3, /* in trapline_poll(), from the kernel's records */
};

/*
 * trapline_event_stats - statistics so far.
 *
 * out->size must be set. For counters taken is in hits, as far as the kernel tells.
 * Errors: EINVAL size. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_stats(struct trapline_event *event, struct trapline_stats *out);

/* How an event works here. */
enum trapline_mechanism {
	TRAPLINE_BY_SIGNAL = 0, /* SIGTRAP in the thread */
	TRAPLINE_BY_BPF = 1,	/* a BPF program writes the record at the hit */
	TRAPLINE_BY_RING = 2,	/* the kernel writes the record; values are read later */
	TRAPLINE_BY_UPROBE = 3, /* a BPF program writes the record at a breakpoint in the code */
};
/* MT-Safe. AS-Safe. */
TRAPLINE_API enum trapline_mechanism
trapline_event_mechanism(const struct trapline_event *event);

/*
 * trapline_poll - give records to fn, oldest first, waiting up to timeout_ms for the first.
 *
 * timeout_ms 0 does not wait, -1 waits until one comes or the process ends. fn returning
 * TRAPLINE_DISARM disarms the event of that record. Returns the number of records given, at
 * most some thousands, so that it returns in a storm too.
 * Errors: ESRCH no record is left and the process has ended. One thread at a time. AS-Unsafe.
 */
TRAPLINE_API int trapline_poll(struct trapline *t, int timeout_ms, trapline_callback fn);

/*
 * trapline_fd - a descriptor that is readable when trapline_poll() has something to do.
 *
 * It belongs to the target. Where the kernel writes the records (TRAPLINE_BY_RING) it is readable
 * every 10 ms, whether or not there is one. Errors: ENODATA no event with records was opened. MT-Safe.
 */
TRAPLINE_API int trapline_fd(struct trapline *t);

/*
 * trapline_explain - the cause and the remedy of the last failure of this thread with this code.
 *
 * Writes at most n bytes, always NUL-terminated when n is not 0, and returns the length of the
 * whole text. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_explain(int err, char *buf, size_t n);

/* trapline_version - the library's version, as TRAPLINE_VERSION. MT-Safe. AS-Safe. */
TRAPLINE_API unsigned int trapline_version(void);

/* One row of what this kernel, user and container allow. Strings belong to the caller's struct. */
struct trapline_feature {
	const char *name; /* static */
	int ok;
	char evidence[160]; /* what was tried and seen */
	char remedy[160];   /* empty when ok */
};

/* A measured price. */
struct trapline_cost {
	const char *name; /* static */
	double ns;	  /* median; negative: could not be measured */
};

#define TRAPLINE_FEATURES_MAX 48
#define TRAPLINE_COSTS_MAX 24

struct trapline_caps {
	size_t size;
	uint32_t feature_count;
	uint32_t cost_count;
	struct trapline_feature features[TRAPLINE_FEATURES_MAX];
	struct trapline_cost costs[TRAPLINE_COSTS_MAX];
};

/*
 * trapline_check - try each feature for real, here and now, and measure its price.
 *
 * Takes up to some seconds, creates threads and child processes of its own, and needs SIGTRAP
 * for itself while it runs: use it in a process that has no events. out->size must be set.
 * Returns 1 when watching works at all, 0 when not. Errors: EINVAL size; EBUSY events are open.
 * MT-Unsafe. AS-Unsafe.
 */
TRAPLINE_API int trapline_check(struct trapline_caps *out);

#ifdef __cplusplus
}
#endif
#endif
