/* SPDX-License-Identifier: MIT */
/*
 * tools.h - what is made of events and of changed code: throttle, point, race, patch.
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

/*
 * A patch replaces functions of this process by others while its threads run. It changes the
 * first instruction of each old function, and no thread stops. trapline_patch() makes it. It is
 * for x86-64. Elsewhere the calls fail with -EOPNOTSUPP. trapline_patch(3) has the details.
 */
struct trapline_patch;

/* It is a range of code. */
struct trapline_patch_part {
	uint64_t address;
	uint64_t bytes;
};

struct trapline_patch_function {
	/* Messages have this name. It may be NULL. */
	const char *name;
	/* The old function begins here, and has so many bytes. 0: the unwind table has the size. */
	uint64_t old_address;
	uint64_t old_bytes;
	/* The same of the new function, which has the same type. */
	uint64_t new_address;
	uint64_t new_bytes;
	/*
	 * These are other parts with code of the functions, as a compiler makes them for code
	 * that seldom runs (`answer.cold`). They may be NULL.
	 */
	const struct trapline_patch_part *old_parts;
	size_t old_part_count;
	const struct trapline_patch_part *new_parts;
	size_t new_part_count;
};

/* When a thread goes from the old functions to the new ones. */
enum trapline_patch_consistency {
	/*
	 * All threads change at one moment, when no thread is inside an old function. A thread
	 * that enters one then waits, at most until the time-out.
	 */
	TRAPLINE_PATCH_NO_THREAD_INSIDE = 0,
	/* Each thread changes when it enters a function and is inside none. No thread waits. */
	TRAPLINE_PATCH_PER_THREAD = 1,
	/* Each call that begins from now on runs the new function. */
	TRAPLINE_PATCH_IMMEDIATE = 2,
};

struct trapline_patch_opts {
	size_t size;
	/* It is an enum trapline_patch_consistency, for the patch and for its end. */
	uint32_t consistency;
	/* No flag exists: it is 0. */
	uint32_t flags;
	/* The call waits for threads inside at most for this time. 0 means 1 s. */
	uint64_t timeout_ns;
	/*
	 * The calling thread calls before() while all threads still run the old functions. If it
	 * returns another value than 0, nothing is replaced, and that value is returned. It calls
	 * after() when all threads run the new ones. They may be NULL.
	 */
	int (*before)(void *arg);
	void (*after)(void *arg);
	void *arg;
	/* If it is not NULL, it receives the index of the function at which the call failed. */
	size_t *failed;
};

/*
 * trapline_patch - replace n functions of this process, all or none.
 *
 * t is this process. When it returns 0, every call runs the new functions. A positive number is
 * possible with TRAPLINE_PATCH_PER_THREAD: so many threads have not changed when the time-out is
 * over. Then trapline_patch_wait() waits for more, and trapline_patch_undo() goes back.
 * trapline_patch_undo() releases *out. The code of the new functions must stay until then.
 *
 * Errors: E2BIG opts are of a newer version; EBUSY a function is patched already, or a probe, a
 * trap or a breakpoint is there; EDEADLK the calling thread is inside an old function; EFAULT an
 * old function is not mapped; EINVAL a size, an option, or the new function is not executable;
 * ENOMEM; EOPNOTSUPP a function cannot be replaced; ETIMEDOUT threads stayed inside, and the old
 * functions stay; others as trapline_poke(). trapline_explain() has the thread and the function.
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_patch(struct trapline *t, const struct trapline_patch_function *functions,
				size_t n, const struct trapline_patch_opts *opts,
				struct trapline_patch **out);

/*
 * trapline_patch_wait - wait until all threads have changed.
 *
 * It is for TRAPLINE_PATCH_PER_THREAD. It returns 0 then, or the number of threads that have not
 * changed after timeout_ns. 0 means 1 s.
 * Errors: EDEADLK the calling thread is inside a function of the patch; EINVAL patch is NULL.
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_patch_wait(struct trapline_patch *patch, uint64_t timeout_ns);

/*
 * trapline_patch_undo - go back to the old functions, and release the patch.
 *
 * NULL is permitted. When it returns 0, every call runs the old functions, whose bytes are as
 * before. The new functions may be unloaded if the consistency is not TRAPLINE_PATCH_IMMEDIATE.
 * If it does not return 0 the patch stays: call it again. timeout_ns 0 means 1 s. A positive
 * number is the number of threads that have not gone back, with TRAPLINE_PATCH_PER_THREAD. Each
 * thread is then on its way back.
 * Errors: EDEADLK the calling thread is inside a new function; ETIMEDOUT threads stayed inside,
 * and the new functions stay; others as trapline_poke(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_patch_undo(struct trapline_patch *patch, uint64_t timeout_ns);

/* What a patch is doing. */
enum trapline_patch_phase {
	TRAPLINE_PATCH_OLD = 0,
	TRAPLINE_PATCH_NEW = 1,
	/* Threads change one by one. */
	TRAPLINE_PATCH_TO_NEW = 2,
	TRAPLINE_PATCH_TO_OLD = 3,
};

struct trapline_patch_stats {
	size_t size;
	/* It is an enum trapline_patch_phase. */
	uint32_t phase;
	/* The last wait ended with so many threads that had not changed. */
	uint32_t threads_pending;
	/* One of them, or 0, and the index of the function that it is inside of. */
	pid_t pending_tid;
	uint32_t pending_function;
	/* The system call that this thread was asleep in. -1: it was running, or is not known. */
	int32_t pending_syscall;
	/* So many of the functions have an int3, since a jump does not fit. */
	uint32_t traps;
	/* Threads were decided about one by one so often, since the patch began. */
	uint64_t decided;
	/* Threads waited so often for a change, and so long at most. */
	uint64_t waits;
	uint64_t longest_wait_ns;
	/* The part of such a wait until the change was decided. A thread then waits for a
	 * processor, as any other. */
	uint64_t longest_held_ns;
};

/*
 * trapline_patch_stats - read the statistics of a patch.
 *
 * out->size must be set.
 * Errors: EINVAL size. It is MT-Safe if no other call undoes the patch. AS-Unsafe.
 */
TRAPLINE_API int trapline_patch_stats(struct trapline_patch *patch,
				      struct trapline_patch_stats *out);

/*
 * What follows makes an ordinary shared object a patch: records in its section
 * "trapline_patches", which the dynamic linker relocates. `trapline patch` reads them.
 */
/* It is not the name of a function: the assembler would take one for the other. */
#define TRAPLINE_PATCH_SECTION "trapline_patches"
#define TRAPLINE_PATCH_RECORD_VERSION 1

enum trapline_patch_record_kind {
	/* The function at address replaces the function name. */
	TRAPLINE_PATCH_RECORD_FUNCTION = 1,
	/* The pointer at address receives the address of the old object or function name. */
	TRAPLINE_PATCH_RECORD_OLD = 2,
	/* address is an int (*)(void), which runs before; see trapline_patch_opts. */
	TRAPLINE_PATCH_RECORD_BEFORE = 3,
	/* address is a void (*)(void), which runs after. */
	TRAPLINE_PATCH_RECORD_AFTER = 4,
	/* The old functions are in the object name, whose build-id is text (hex), or NULL. */
	TRAPLINE_PATCH_RECORD_FOR = 5,
};

/* Records lie one behind the other. bytes leads to the next one. A reader skips kinds that
 * it does not know. */
struct trapline_patch_record {
	uint16_t version;
	/* It is an enum trapline_patch_record_kind. */
	uint16_t kind;
	uint32_t bytes;
	/* A static function or variable is "file.c:name". */
	const char *name;
	void *address;
	const char *text;
};

#define TRAPLINE_PATCH_NAME_(prefix, line) prefix##line
#define TRAPLINE_PATCH_NAMED_(prefix, line) TRAPLINE_PATCH_NAME_(prefix, line)
#define TRAPLINE_PATCH_RECORD_(record_kind, record_name, record_address, record_text)     \
	static struct trapline_patch_record TRAPLINE_PATCH_NAMED_(trapline_patch_record_, \
								  __LINE__)               \
		__attribute__((used, section(TRAPLINE_PATCH_SECTION), aligned(8))) = {    \
			TRAPLINE_PATCH_RECORD_VERSION,                                    \
			record_kind,                                                      \
			sizeof(struct trapline_patch_record),                             \
			record_name,                                                      \
			(void *)(record_address),                                         \
			record_text,                                                      \
		}

/* After the definition of a function, one on a line: it replaces the old function of that name. */
#define TRAPLINE_PATCH(name, function) \
	TRAPLINE_PATCH_RECORD_(TRAPLINE_PATCH_RECORD_FUNCTION, name, function, 0)
/* The pointer variable receives the address of the old data or function, before code runs. */
#define TRAPLINE_PATCH_OLD(pointer, name) \
	TRAPLINE_PATCH_RECORD_(TRAPLINE_PATCH_RECORD_OLD, name, &(pointer), 0)
#define TRAPLINE_PATCH_BEFORE(function) \
	TRAPLINE_PATCH_RECORD_(TRAPLINE_PATCH_RECORD_BEFORE, 0, function, 0)
#define TRAPLINE_PATCH_AFTER(function) \
	TRAPLINE_PATCH_RECORD_(TRAPLINE_PATCH_RECORD_AFTER, 0, function, 0)
/* The file name of a program or library, or its path, and its build-id in hex, or 0. */
#define TRAPLINE_PATCH_FOR(object, build_id) \
	TRAPLINE_PATCH_RECORD_(TRAPLINE_PATCH_RECORD_FOR, object, 0, build_id)

#ifdef __cplusplus
}
#endif
#endif
