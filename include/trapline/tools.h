/* SPDX-License-Identifier: MIT */
/*
 * tools.h - policies that are made of events: throttle, point, race.
 *
 * Conventions are those of <trapline/trapline.h>.
 */
#ifndef TRAPLINE_TOOLS_H
#define TRAPLINE_TOOLS_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A budget is an amount per second that threads may use, and what a thread does that has
 * used more. The thread pays in its own context; there is no supervisor.
 */
struct trapline_throttle;

/* These are the flags of trapline_throttle_opts. */
/*
 * A thread that finds a debt sleeps it off at once, inside SIGTRAP, wherever it is. It
 * may own a lock that others wait for, so this is not the default. Without the flag the
 * thread pays by trapline_throttle_pay(), where that is safe.
 */
#define TRAPLINE_THROTTLE_SLEEP 1u
/* Every thread has the whole budget to itself. */
#define TRAPLINE_THROTTLE_EACH 2u
/*
 * The account is inspected inside system calls too. This is more exact for threads that
 * hardly leave the kernel. But a call such as epoll_wait(2), which no flag restarts, may
 * then return EINTR. It needs privilege.
 */
#define TRAPLINE_THROTTLE_KERNEL 4u

struct trapline_throttle_opts {
	size_t size;
	uint32_t flags;
	/* It is an enum trapline_counter: threads use this. */
	uint32_t counter;
	/*
	 * They may use so much in a second. TRAPLINE_TASK_CLOCK: 300000000 ns are 30 %.
	 */
	uint64_t per_second;
	/* Unused budget is kept for so long. 0 means 20 ms. */
	uint64_t burst_ns;
	/* The account is inspected after so much was used. 0: the library chooses one. */
	uint64_t check;
	/* It is an enum trapline_scope. TRAPLINE_PROCESS covers threads created later. */
	uint32_t scope;
	uint32_t reserved;
	/* These are the threads of TRAPLINE_THREADS. */
	const pid_t *tids;
	size_t tid_count;
	/*
	 * The account went into debt by more than debt_ns, and is even again. The thread
	 * that found that makes the call, the first one inside SIGTRAP: async-signal-safe
	 * calls only. They may be NULL.
	 */
	void (*throttled)(void *arg, uint64_t debt_ns);
	void (*unthrottled)(void *arg);
	void *arg;
	/* It is in nanoseconds' worth of budget. 0 means 1 ms. */
	uint64_t debt_ns;
};

/*
 * trapline_throttle - give the threads of this process a budget.
 *
 * t must be this process. trapline_throttle_end() releases *out. Task clock and page
 * faults work everywhere; the other counters are those of trapline_count().
 * Errors: E2BIG opts are of a newer version; EINVAL per_second is 0, an option, or
 * TRAPLINE_THROTTLE_EACH with another counter than task clock or page faults; ENFILE four
 * budgets are open; others as trapline_count(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_throttle(struct trapline *t, const struct trapline_throttle_opts *opts,
				   struct trapline_throttle **out);

/*
 * trapline_throttle_debt - read the nanoseconds until the calling thread's account is
 * even.
 *
 * 0: the account is even. MT-Safe. AS-Safe.
 */
TRAPLINE_API uint64_t trapline_throttle_debt(struct trapline_throttle *throttle);

/*
 * trapline_throttle_pay - sleep until the account is even.
 *
 * It returns at once if the account is even. Call it where the thread owns no lock. It
 * returns the nanoseconds slept. MT-Safe. AS-Safe.
 */
TRAPLINE_API uint64_t trapline_throttle_pay(struct trapline_throttle *throttle);

struct trapline_throttle_stats {
	size_t size;
	/*
	 * All threads in scope used so much. TRAPLINE_THROTTLE_EACH: the calling thread
	 * did.
	 */
	uint64_t drawn;
	/* Threads inspected the account in SIGTRAP. */
	uint64_t checks;
	/* Threads slept, there or in trapline_throttle_pay(). */
	uint64_t sleeps;
	/* They slept so long in all. */
	uint64_t slept_ns;
	/* The account went into debt by more than debt_ns. */
	uint64_t throttled;
	/* Inspections fell into system calls. Their amount was found at a later one. */
	uint64_t missed;
};

/*
 * trapline_throttle_stats - read the statistics of a budget.
 *
 * out->size must be set.
 * Errors: EINVAL size. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_throttle_stats(struct trapline_throttle *throttle,
					 struct trapline_throttle_stats *out);

/*
 * trapline_throttle_end - end a budget.
 *
 * NULL is permitted. Threads that sleep for the budget wake up. Do not call it from the
 * callbacks of the budget. It is MT-Safe if no other call uses the budget at the same
 * time or later. AS-Unsafe.
 */
TRAPLINE_API void trapline_throttle_end(struct trapline_throttle *throttle);

#define TRAPLINE_POINT_REGISTERS 33

/*
 * An exact moment of an execution: how often something has happened, the instruction, and
 * the values of registers. In each run of a deterministic program the same point is the
 * same moment. trapline_point(3) has the details.
 */
struct trapline_point {
	size_t size;
	/*
	 * An event of the process that was opened with TRAPLINE_QUIET; count is the
	 * number of its hits at the point. Or an amount: trapline_count() without a
	 * period, in thread tid alone (TRAPLINE_THREADS); count is then how much the
	 * thread has used. Such a point needs ip, since interrupts come late. Counters of
	 * the PMU must pass a self-test, once in each process; see point_* of `trapline
	 * check`. NULL: ip, condition and registers alone describe the point.
	 */
	struct trapline_event *counter;
	uint64_t count;
	/* This instruction comes next. 0: right after the count was reached. */
	uint64_t ip;
	/* It must be true there. It may be NULL. */
	const struct trapline_condition *condition;
	/* Bit n: register n must have the value regs[n]. */
	uint64_t registers_used;
	/* The index is the DWARF number. */
	uint64_t regs[TRAPLINE_POINT_REGISTERS];
};

/*
 * trapline_run_to - let a process run until a thread is at a point, and stop it there.
 *
 * The process is another one, running or stopped by SIGSTOP. Afterwards it is stopped by
 * SIGSTOP, and thread tid is about to execute the instruction at ip. A signal sent to tid
 * is then delivered before that instruction. SIGCONT lets the process continue. tid 0 is
 * the first thread that comes there. An execution of ip that is not the point costs a
 * trap and no stop. The call takes a debug register if there is an ip. It needs BPF. It
 * returns the thread's id, or 0 if the point has no ip.
 *
 * timeout_ms is in milliseconds; -1 waits for ever.
 * Errors: E2BIG point is of a newer version; EAGAIN the self-test did not end; EBUSY
 * another counter took the PMU; EINVAL the counter is not quiet, or a member is wrong;
 * EOPNOTSUPP there is no BPF, or the counter failed its self-test; ERANGE the point was
 * missed and the process is stopped, trapline_explain() reports by how much; ESRCH the
 * process has ended; ETIMEDOUT the process continues; others as trapline_break(). MT-Safe
 * for different targets. AS-Unsafe.
 */
TRAPLINE_API int trapline_run_to(struct trapline *t, pid_t tid, const struct trapline_point *point,
				 int timeout_ms);

/*
 * This is a search for data races of this program. From time to time a thread that is
 * about to access memory is stalled, and the address is watched in all other threads. An
 * access by another thread during the stall is a race. The search needs no special build
 * and keeps to a budget, so it can stay on in production.
 */
struct trapline_race;

/* A grade is how certain a race is. An atomic load or store of a word is a plain mov. */
enum trapline_race_grade {
	/*
	 * Definite: an access that is not an aligned word, or a read-modify-write without
	 * LOCK.
	 */
	TRAPLINE_RACE_A = 1,
	/*
	 * Likely: plain aligned accesses that changed the value, unless both are meant
	 * atomic.
	 */
	TRAPLINE_RACE_B,
	/* Probably intentional. */
	TRAPLINE_RACE_C,
};

/* It is a location in code. */
struct trapline_race_frame {
	/* It is the path of the file. NULL: the code belongs to no file. */
	const char *module;
	/* It is the address in that file, as symbol tables and addr2line have it. */
	uint64_t offset;
};

/* It is one of the two accesses. */
struct trapline_race_side {
	pid_t tid;
	/* It is an enum trapline_access. 0: it is not known. */
	uint32_t access;
	/* The whole access has so many bytes. */
	uint32_t size;
	uint32_t frame_count;
	uint64_t address;
	uint64_t ip;
	/* The thread has this name. */
	const char *thread;
	/* The access comes first, then the return addresses. */
	const struct trapline_race_frame *frames;
};

/* trapline_race_report(3) has the details. */
struct trapline_race_report {
	size_t size;
	/* It is an enum trapline_race_grade. */
	uint32_t grade;
	/* Both sides accessed so many bytes. */
	uint32_t len;
	/* They begin here. */
	uint64_t address;
	/* These are the values before and after the second access. */
	uint64_t old_value;
	uint64_t new_value;
	/* The clock is CLOCK_MONOTONIC. */
	uint64_t time_ns;
	/* The first thread had been stalled so long when the second access came. */
	uint64_t stalled_ns;
	/* This access was stalled. */
	const struct trapline_race_side *first;
	/* NULL: the kernel or another process wrote. */
	const struct trapline_race_side *second;
	/* It is the report as a line of JSON, without the end of the line. */
	const char *json;
	size_t json_length;
};

struct trapline_race_opts {
	size_t size;
	/* No flag exists: it is 0. */
	uint32_t flags;
	/*
	 * The search may cost so many millionths of the time that the program runs. 0
	 * means 20000 (2 %).
	 */
	uint32_t budget_ppm;
	/* Each access is stalled for this time. 0: the time is adaptive. */
	uint64_t delay_ns;
	/* Races down to this grade are reported. 0 means TRAPLINE_RACE_A. */
	uint32_t grade;
	/* Reports are written there as lines of JSON. 0: they are not. */
	int fd;
	/*
	 * The library calls it once for each pair of locations, in a thread of its own.
	 * It may call everything except trapline_race_stop(). The report is valid until
	 * it returns. It may be NULL.
	 */
	void (*report)(void *arg, const struct trapline_race_report *report);
	void *arg;
};

/*
 * trapline_race_start - begin to search all threads of this process for data races.
 *
 * t must be this process. trapline_race_stop() releases *out. The search takes up to four
 * debug registers, and five descriptors for each thread that exists. SIGTRAP must not be
 * blocked: accesses of threads that block it are seen late or not at all. Forked children
 * are not searched.
 * Errors: E2BIG opts are of a newer version; EBUSY a search runs already; EINVAL an
 * option, or t; EMFILE there are not enough descriptors; ENOMEM; ENOSPC no debug register
 * is left in some thread; EOPNOTSUPP the process has a seccomp filter, is a Go program,
 * or does not run on x86-64; others as trapline_watch(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_race_start(struct trapline *t, const struct trapline_race_opts *opts,
				     struct trapline_race **out);

struct trapline_race_stats {
	size_t size;
	/* These accesses were stalled. */
	uint64_t stalls;
	/* They were at so many different sites. */
	uint64_t sites;
	/* All stalls took so long, over all threads. */
	uint64_t stalled_ns;
	/* The search has cost so much in all. The budget is a part of run_ns. */
	uint64_t spent_ns;
	uint64_t run_ns;
	/*
	 * These pairs of accesses were caught, those of the same two locations each time.
	 */
	uint64_t found;
	uint64_t reported;
	/* These were not reported: they are below the grade. */
	uint64_t below_grade;
	/* There was no room for these, or their line could not be written. */
	uint64_t lost;
	/* So many threads were seen at once, at most. Below 2 nothing can be found. */
	uint64_t threads;
};

/*
 * trapline_race_stats - read the statistics of a search.
 *
 * out->size must be set.
 * Errors: EINVAL size. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_race_stats(struct trapline_race *race, struct trapline_race_stats *out);

/*
 * trapline_race_stop - end a search: no event, breakpoint, descriptor or thread of it
 * stays.
 *
 * NULL is permitted. What was found is reported before it returns. Do not call it from
 * the report function. It is MT-Safe if no other call uses the search at the same time or
 * later. AS-Unsafe.
 */
TRAPLINE_API void trapline_race_stop(struct trapline_race *race);

#ifdef __cplusplus
}
#endif
#endif
