/* SPDX-License-Identifier: MIT */
/*
 * tools.h - policies made of events: throttle, point, race.
 *
 * Conventions as in <trapline/trapline.h>.
 */
#ifndef TRAPLINE_TOOLS_H
#define TRAPLINE_TOOLS_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A budget: an amount of something per second that threads may draw, and what a thread does that
 * has drawn more. The thread pays in its own context; there is no supervisor.
 */
struct trapline_throttle;

/* trapline_throttle_opts.flags */
/*
 * Sleep off the debt at once, inside SIGTRAP, wherever the thread is. It may hold a lock that
 * others wait for, so it is asked for and not the default: then the thread is only told, and pays
 * by trapline_throttle_pay() where it is safe.
 */
#define TRAPLINE_THROTTLE_SLEEP 1u
#define TRAPLINE_THROTTLE_EACH 2u   /* every thread has the whole budget to itself */
/*
 * Notice what is drawn inside system calls at once too, instead of at the next tick outside. More
 * exact for threads that live in the kernel; but a call such as epoll_wait(2), which no flag
 * restarts, may then return EINTR. Needs privilege.
 */
#define TRAPLINE_THROTTLE_KERNEL 4u

struct trapline_throttle_opts {
	size_t size;
	uint32_t flags;
	uint32_t counter;    /* enum trapline_counter: what is drawn */
	uint64_t per_second; /* of it; TRAPLINE_TASK_CLOCK: ns of CPU time, 300000000 is 30 % */
	uint64_t burst_ns;   /* unused budget is kept for so long; 0: 20 ms */
	uint64_t check;	     /* look at the account after drawing so much; 0: chosen */
	uint32_t scope;	     /* enum trapline_scope; threads created later are covered */
	uint32_t reserved;
	const pid_t *tids; /* TRAPLINE_THREADS */
	size_t tid_count;
	/*
	 * The account went into debt by over debt_ns nanoseconds' worth of budget; and it is even
	 * again. Called in the thread that noticed, the first one inside SIGTRAP: async-signal-safe
	 * calls only. May be NULL.
	 */
	void (*throttled)(void *arg, uint64_t debt_ns);
	void (*unthrottled)(void *arg);
	void *arg;
	uint64_t debt_ns; /* the lower edge of the hysteresis is no debt; 0: 1 ms */
};

/*
 * trapline_throttle - give the threads of this process a budget.
 *
 * t must be this process. *out is released by trapline_throttle_end(). Task clock and page faults
 * work everywhere; other counters as trapline_count().
 * Errors: EINVAL per_second is 0, EACH with another counter than task clock or page faults, or an
 * option; others as trapline_count(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_throttle(struct trapline *t, const struct trapline_throttle_opts *opts,
				   struct trapline_throttle **out);

/*
 * trapline_throttle_debt - nanoseconds until the calling thread's account is even; 0: it is.
 * MT-Safe. AS-Safe.
 */
TRAPLINE_API uint64_t trapline_throttle_debt(struct trapline_throttle *throttle);

/*
 * trapline_throttle_pay - sleep until the account is even; at once when it is.
 *
 * To be called where no lock is held. Returns the nanoseconds slept. MT-Safe. AS-Safe.
 */
TRAPLINE_API uint64_t trapline_throttle_pay(struct trapline_throttle *throttle);

struct trapline_throttle_stats {
	size_t size;
	uint64_t drawn;	   /* since the start, of the whole scope; EACH: of the calling thread */
	uint64_t checks;   /* times a thread looked at the account in SIGTRAP */
	uint64_t sleeps;   /* times one slept, there or by pay() */
	uint64_t slept_ns; /* over all threads */
	uint64_t throttled; /* times the account went into debt beyond debt_ns */
	uint64_t missed;   /* ticks that fell into system calls: found at the next one */
};

/* trapline_throttle_stats - out->size must be set. Errors: EINVAL. MT-Safe. AS-Safe. */
TRAPLINE_API int trapline_throttle_stats(struct trapline_throttle *throttle,
					 struct trapline_throttle_stats *out);

/*
 * trapline_throttle_end - no more budget. NULL is allowed. Threads that sleep wake up at the end
 * of their sleep. Not from inside its own callbacks. MT-Safe, but no other call may use it any
 * more. AS-Unsafe.
 */
TRAPLINE_API void trapline_throttle_end(struct trapline_throttle *throttle);

/*
 * An exact point of an execution: how often something has happened, where the thread is, and what
 * is in its registers. The same point of a deterministic program is reached at the same place in
 * each run.
 */
#define TRAPLINE_POINT_REGISTERS 33

struct trapline_point {
	size_t size;
	/*
	 * An event of the process that counts, opened with TRAPLINE_QUIET, and how many hits it has
	 * let pass at the point. Or an amount, by trapline_count() without a period in thread tid
	 * alone (TRAPLINE_THREADS), and how much the thread has used up there: such a point needs
	 * ip, since interrupts come late. Instructions, cycles and branches are taken where they
	 * pass a self-test, once for each process that asks; see `trapline check`, point_*. NULL:
	 * ip, condition and registers alone say where it is.
	 */
	struct trapline_event *counter;
	uint64_t count;
	uint64_t ip; /* about to run; 0: right after the count was reached */
	const struct trapline_condition *condition; /* holds there; may be NULL */
	uint64_t registers_used; /* bit n: regs[n] must be what it is there */
	uint64_t regs[TRAPLINE_POINT_REGISTERS]; /* by DWARF number */
};

/*
 * trapline_run_to - let a thread run until it is at a point, and stop the process there.
 *
 * The process is another one, running or stopped by SIGSTOP; afterwards it is stopped by SIGSTOP,
 * with thread tid about to execute the instruction at ip, and goes on by SIGCONT: what is to
 * happen there (a signal sent to tid is delivered before that instruction) is done between the
 * two. Passes that are not the point cost a trap and no stop. Takes a debug register where ip
 * is given. Needs BPF. tid 0 is whichever thread comes there first. Returns the thread's id, or 0
 * when the point has no ip.
 *
 * timeout_ms -1 waits for ever. Errors: ERANGE the point was missed, trapline_explain() says by how
 * much: the process is stopped there; ETIMEDOUT: it goes on; ESRCH it has ended; EINVAL the counter
 * is not quiet or an option is wrong; EOPNOTSUPP no BPF, or the counter has failed its self-test,
 * and trapline_explain() says how; EAGAIN the self-test did not end; EBUSY the
 * counter lost its place in the PMU; others as trapline_break().
 * MT-Safe for different targets. AS-Unsafe.
 */
TRAPLINE_API int trapline_run_to(struct trapline *t, pid_t tid, const struct trapline_point *point,
				 int timeout_ms);

/*
 * Data races of this program, caught in the act: from time to time a thread that is about to touch
 * memory is held for a moment, the address is watched in all others, and who touches it meanwhile
 * has raced. Needs no special build; meant to be left on in production, within a budget.
 */
struct trapline_race;

/* How certain it is that a race was not meant. An atomic load or store of a word is an ordinary mov. */
enum trapline_race_grade {
	TRAPLINE_RACE_A = 1, /* for certain: no aligned word, or a read-modify-write without LOCK */
	TRAPLINE_RACE_B,     /* plain aligned accesses, and the value changed: unless both are meant atomic */
	TRAPLINE_RACE_C,     /* likely meant so */
};

/* A place in code. */
struct trapline_race_frame {
	const char *module; /* path of the file; NULL: code that belongs to none */
	uint64_t offset;    /* address in that file, as symbol tables and addr2line have it */
};

/* One of the two accesses. */
struct trapline_race_side {
	pid_t tid;
	uint32_t access; /* enum trapline_access; 0: not known which */
	uint32_t size;	 /* bytes, of the whole access */
	uint32_t frame_count;
	uint64_t address;
	uint64_t ip;
	const char *thread; /* its name */
	const struct trapline_race_frame *frames; /* the access first, then return addresses */
};

struct trapline_race_report {
	size_t size;
	uint32_t grade; /* enum trapline_race_grade */
	uint32_t len;	/* bytes that both touched */
	uint64_t address; /* of these */
	uint64_t old_value; /* before the second access */
	uint64_t new_value; /* after it */
	uint64_t time_ns;   /* CLOCK_MONOTONIC */
	uint64_t held_ns;   /* how long the first had been held when the second came */
	const struct trapline_race_side *first;	 /* that was held */
	const struct trapline_race_side *second; /* NULL: the kernel, or another process */
	const char *json; /* the same as a line of JSON, without the line's end */
	size_t json_length;
};

struct trapline_race_opts {
	size_t size;
	uint32_t flags;	     /* none are known: 0 */
	uint32_t budget_ppm; /* cost, in millionths of the time the program runs; 0: 20000, 2 % */
	uint64_t delay_ns;   /* hold each access so long; 0: by how often its site was held */
	uint32_t grade;	     /* report down to this one; 0: TRAPLINE_RACE_A */
	int fd;		     /* reports are written there as lines of JSON; 0: not */
	/*
	 * Called once for each pair of places, in a thread of the library's own, where everything is
	 * allowed but trapline_race_stop(). The report is valid until it returns. May be NULL.
	 */
	void (*report)(void *arg, const struct trapline_race_report *report);
	void *arg;
};

/*
 * trapline_race_start - begin to look for data races in all threads of this process.
 *
 * t must be this process. *out is released by trapline_race_stop(). Takes up to four debug registers,
 * and a descriptor for each thread that runs already and each of five events. SIGTRAP must not be
 * blocked: threads that block it are seen late or not at all. Forked children are not searched.
 * Errors: EINVAL an option, or t; EBUSY a search runs already; ENOSPC no debug register left in some
 * thread; EMFILE too few descriptors; EOPNOTSUPP a seccomp filter, or a processor other than x86-64;
 * others as trapline_watch(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_race_start(struct trapline *t, const struct trapline_race_opts *opts,
				     struct trapline_race **out);

struct trapline_race_stats {
	size_t size;
	uint64_t stalls;      /* accesses that were held */
	uint64_t sites;	      /* different ones */
	uint64_t stalled_ns;  /* over all threads */
	uint64_t spent_ns;    /* all that the search has cost; the budget is a part of run_ns */
	uint64_t run_ns;
	uint64_t found;	      /* pairs of accesses caught, those of the same two places each time */
	uint64_t reported;
	uint64_t below_grade; /* not reported */
	uint64_t lost;	      /* for which there was no room, or a line could not be written */
	uint64_t threads;     /* most that were seen at once; below 2 nothing can be found */
};

/* trapline_race_stats - out->size must be set. Errors: EINVAL. MT-Safe. AS-Safe. */
TRAPLINE_API int trapline_race_stats(struct trapline_race *race, struct trapline_race_stats *out);

/*
 * trapline_race_stop - end the search: no event, breakpoint, descriptor or thread of it stays. NULL is
 * allowed. What was found is reported before it returns. Not from inside its own callback. MT-Safe,
 * but no other call may use it any more. AS-Unsafe.
 */
TRAPLINE_API void trapline_race_stop(struct trapline_race *race);

#ifdef __cplusplus
}
#endif
#endif
