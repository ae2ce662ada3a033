/* SPDX-License-Identifier: MIT */
/*
 * trapline.h - synchronous hits for accesses to memory, executed code and used amounts.
 *
 * A target is a process. An event is what the program waits for in a target. A hit is one
 * occurrence of an event. A hit reaches the program in one of two ways, for each event:
 *   - a callback runs inside SIGTRAP in the thread that caused the hit (own process
 *     only);
 *   - a record waits for trapline_poll() (own process or another one).
 *
 * Conventions. Every function that can fail returns 0 or a positive number, or -errno.
 * Results come through the last parameter, which does not change on failure. The library
 * does not use errno for errors. Option structures begin with their size, so that
 * programs and libraries of different versions work together. A non-zero member that the
 * library does not know is refused with -E2BIG. NULL options mean the defaults. The
 * library never prints and never exits.
 *
 * Tags. MT-Safe: any threads may make the call at the same time. AS-Safe: a signal
 * handler and a callback may make the call too.
 *
 * trapline(3) is the overview. Each function has a page of its name. trapline(7) explains
 * fork, exec, dlclose and the use of SIGTRAP.
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

/* TRAPLINE_OPTS(event, o); declares options whose size is set and whose rest is zero. */
#ifdef __cplusplus
#define TRAPLINE_OPTS(kind, name)                \
	struct trapline_##kind##_opts name = {}; \
	name.size = sizeof(struct trapline_##kind##_opts)
#else
#define TRAPLINE_OPTS(kind, name) \
	struct trapline_##kind##_opts name = { .size = sizeof(struct trapline_##kind##_opts) }
#endif

/* A target is one process. trapline_open() makes it. */
struct trapline;
/* An event is what the program waits for. trapline_watch() and its like make it. */
struct trapline_event;
/* A condition must be true for a hit to count. <trapline/condition.h> has the functions. */
struct trapline_condition;

/* It is what an access did, or what a watch waits for. The values are a bit mask. */
enum trapline_access {
	TRAPLINE_READ = 1,
	TRAPLINE_WRITE = 2,
	TRAPLINE_READ_WRITE = 3,
	TRAPLINE_EXECUTE = 4,
	/* A counter reached its period. */
	TRAPLINE_AMOUNT = 8,
};

/* It is when the value in a hit was read. */
enum trapline_value {
	/* The value was not read: the memory is not mapped, or the event has no data. */
	TRAPLINE_VALUE_NONE = 0,
	/* The value was read at the hit, before the thread continued. */
	TRAPLINE_VALUE_AT_HIT = 1,
	/* The reader read the value later: other writes may lie between. */
	TRAPLINE_VALUE_LATER = 2,
};

/* How a function ended: a return, or a jump through a pointer or into another file. */
enum trapline_returned {
	TRAPLINE_RETURNED = 1,
	TRAPLINE_LEFT = 2
};

/* The stack of a callback has at most so many frames. */
#define TRAPLINE_STACK_MAX 64

/*
 * A hit is one occurrence of an event. It is valid only during the callback that receives
 * it; copy what you keep. Later versions append members. trapline_hit(3) has the details.
 *
 * Threads are armed one after the other, and a store of a thread that is not yet armed
 * does not hit. So a hit during arming has no known old value, nor has the first hit after such
 * a store.
 */
struct trapline_hit {
	/* The library filled so many bytes. */
	size_t size;
	struct trapline_event *event;
	/* This is opts.arg of the event. */
	void *arg;
	/* The clock is CLOCK_MONOTONIC. */
	uint64_t time_ns;
	/* This thread caused the hit. */
	pid_t pid;
	pid_t tid;
	/* The name of the thread ends in NUL. It is empty in a callback. */
	char thread[16];
	/* See done: on x86-64 a data access reports the next instruction. */
	uint64_t ip;
	uint64_t sp;
	/* The watched part that was hit begins here. The access may begin elsewhere. */
	uint64_t address;
	/* The part has 1, 2, 4 or 8 bytes. The length has a meaning for data only. */
	uint32_t len;
	/* The event waits for this enum trapline_access. */
	uint8_t access;
	/* 1: the access has happened. 0: it comes next, and both values are those before it. */
	uint8_t done;
	/* 1: SIGTRAP was blocked, and ip is where the thread unblocked it. */
	uint8_t async;
	/* new_value was read at this enum trapline_value. */
	uint8_t value_when;
	/* 1: old_value is the value at the previous hit, or at arming. */
	uint8_t old_known;
	/* enum trapline_returned: this is the end of a call; see TRAPLINE_RETURNS. */
	uint8_t returned;
	uint8_t stopped; /* 1: the thread receives opts.signal */
	/* This many bytes of the red zone below sp are before stack_bytes. */
	uint8_t stack_below;
	/* Values are zero-extended from len bytes, in the byte order of the machine. */
	uint64_t old_value;
	uint64_t new_value;
	/* In callbacks these are the return addresses, innermost (ip) first. */
	const uint64_t *stack;
	uint32_t stack_count;
	uint32_t stack_bytes_len;
	/* In records this is a copy of the memory at sp, for unwinding. */
	const void *stack_bytes;
	/*
	 * In callbacks it is the ucontext_t of the thread, which may be changed. In
	 * records it is NULL.
	 */
	void *context;
	/* In records these are the registers. Use trapline_hit_register(). */
	const uint64_t *regs;
	/* For a counter it is the period that was used. */
	uint64_t amount;
	/* It is what the event of opts.count_of has counted at this hit, hits or an amount. */
	uint64_t count;
	/* By BPF it is the return address, if ip is the first instruction of a function. */
	uint64_t caller;
	/* Bit n: the text of register n was read. Use trapline_hit_text(). */
	uint64_t texts;
	/* It is the text of the first register that was asked for. */
	const char *text;
	/*
	 * With TRAPLINE_KERNEL it is the location in the kernel that made the access, or
	 * 0 if the thread made it. ip, sp and the registers are then those of the entry
	 * into the kernel.
	 */
	uint64_t kernel_ip;
	/* It is the number of the system call that made the access. -1: it is not known. */
	int64_t syscall;
	/* In records these are the copies of opts.memory. Use trapline_hit_memory(). */
	const void *memory;
	uint32_t memory_len;
	uint32_t vector_count;
	const void *vectors; /* in records; use trapline_hit_vector() */
};

/*
 * trapline_hit_register - read a register of the thread at the hit.
 *
 * number is the DWARF number of the architecture:
 *	x86-64: 0 rax, 1 rdx, 2 rcx, 3 rbx, 4 rsi, 5 rdi, 6 rbp, 7 rsp, 8 to 15 r8 to r15, 16 rip
 *	arm64: 0 to 30 x0 to x30, 31 sp, 32 pc
 * Errors: EINVAL there is no such register; ENODATA the hit has no registers. MT-Safe.
 * AS-Safe.
 */
TRAPLINE_API int trapline_hit_register(const struct trapline_hit *hit, unsigned int number,
				       uint64_t *out);

/*
 * trapline_hit_text - read the text that a register pointed to at the hit; see
 * opts.texts.
 *
 * The text has at most 63 bytes, ends in NUL, and is valid as long as the hit.
 * Errors: EINVAL there is no such register; ENODATA the event did not ask for the text,
 * or the text could not be read. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_hit_text(const struct trapline_hit *hit, unsigned int number,
				   const char **out);

/*
 * trapline_hit_leave - declare that a callback will not return.
 *
 * A callback that leaves by siglongjmp() must call it first. Otherwise
 * trapline_event_close() waits 2 s for that callback. It is not needed before
 * pthread_exit(). MT-Safe. AS-Safe.
 */
TRAPLINE_API void trapline_hit_leave(const struct trapline_hit *hit);

/* It is what the thread does after a callback. */
enum trapline_action {
	/* The thread continues. */
	TRAPLINE_GO_ON = 0,
	/* The event is disarmed, as by trapline_event_disable(). */
	TRAPLINE_DISARM = 1,
};

/*
 * A callback of an event runs inside SIGTRAP and may call only async-signal-safe
 * functions and the functions here that are AS-Safe. A callback that trapline_poll() runs
 * is an ordinary function call. A callback may access watched memory: such hits are
 * counted as nested and not delivered. It may call pthread_exit(), and siglongjmp() after
 * trapline_hit_leave().
 */
typedef enum trapline_action (*trapline_callback)(const struct trapline_hit *hit);

/* It is which threads an event covers. */
enum trapline_scope {
	/* The event covers all threads, present and future. */
	TRAPLINE_PROCESS = 0,
	/* It covers the calling thread only, not the threads that it creates. */
	TRAPLINE_CALLER = 1,
	/* It covers the threads of opts.tids, not the threads that they create. */
	TRAPLINE_THREADS = 2,
};

struct trapline_open_opts {
	size_t size;
	/*
	 * The room for unread records is a power of two, from 64 KiB to 1 GiB. 0 means 4
	 * MiB.
	 */
	uint32_t records_bytes;
	/* It is 0 or TRAPLINE_NO_BPF. */
	uint32_t flags;
};

/* trapline_open_opts.flags: use what needs no privilege, also where BPF is permitted. */
#define TRAPLINE_NO_BPF 1u

/*
 * trapline_open - open a process as a target.
 *
 * pid 0 is this process. The call arms nothing and does not stop the process. It takes
 * two descriptors. trapline_close() releases *out, in the process that opened it.
 * Errors: E2BIG opts are of a newer version; EINVAL pid is a thread that is not a
 * process, or an option is wrong; EMFILE or ENFILE there are not enough descriptors;
 * ENOMEM; ESRCH there is no such process. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_open(pid_t pid, const struct trapline_open_opts *opts,
			       struct trapline **out);

/*
 * trapline_close - close all events of a target, and release the target.
 *
 * NULL is permitted. After it returns the process has no event of this target. It is
 * MT-Safe if no other call uses t at the same time or later. AS-Unsafe.
 */
TRAPLINE_API void trapline_close(struct trapline *t);

/* Flags of trapline_event_opts. The event starts disarmed. trapline_event_enable() arms it. */
#define TRAPLINE_DISABLED 1u
/* The event covers forked children too. It is for records only. */
#define TRAPLINE_FOLLOW_FORKS 2u
/* Accesses that the kernel makes are hits too: one for each copy. It needs privilege. */
#define TRAPLINE_KERNEL 4u
/* Records have a copy of the stack's memory, of 16 KiB at most. */
#define TRAPLINE_STACK_BYTES 8u
/* trapline_break_sites(): a returned function is a hit too. */
#define TRAPLINE_RETURNS 32u
/* Hits are counted and write no records, for count() and points. It needs BPF. */
#define TRAPLINE_QUIET 64u
/* Each hit stops the process (SIGSTOP); see opts.signal. It is for records, and needs BPF. */
#define TRAPLINE_STOP 128u
/* A callback gets no value, which costs a system call for each hit. */
#define TRAPLINE_NO_VALUES 16u
/* trapline_break_sites(): calls in processes that trapline_event_add() adds are hits too. */
#define TRAPLINE_SEVERAL 256u

/* trapline_event_opts(3) has the details. The library copies what it needs. */
struct trapline_event_opts {
	size_t size;
	trapline_callback callback; /* NULL: hits are records, which trapline_poll() reads */
	void *arg;		    /* The library stores it in each hit. */
	/* After exactly so many hits over all threads the event is disarmed. 0 means no limit. */
	uint64_t limit;
	uint32_t flags;
	/* It is an enum trapline_scope. */
	uint32_t scope;
	/* These are the threads of TRAPLINE_THREADS. */
	const pid_t *tids;
	size_t tid_count;
	/* Callbacks receive so many frames, at most TRAPLINE_STACK_MAX. */
	uint32_t stack_depth;
	/* TRAPLINE_STOP: the thread receives this signal; see trapline_event_stop_next(). */
	uint32_t signal;
	/* Counters: each such amount is a hit. 0: the event only counts. */
	uint64_t period;
	/* A hit for which it is false has no side effect. NULL: all hits count. */
	const struct trapline_condition *condition;
	/*
	 * It is the program's own BPF program of type BPF_PROG_TYPE_PERF_EVENT, or 0. It
	 * returns 0 to reject a hit and 1 to accept it. With a callback the kernel must
	 * be able to suppress the signal (6.10). The kernel then writes the records. An
	 * event takes a filter or a condition, not both.
	 */
	int filter_fd;
	/*
	 * trapline_break_sites(): the kernel copies the text that these registers point to. Each
	 * has the bit of its DWARF number; 8 are permitted. A return has the text of its result.
	 */
	uint32_t texts;
	/* So many hits that the condition accepts are ignored before the first one counts. */
	uint64_t skip;
	/*
	 * Records: hit.count is what this event has counted. That is its hits, or the
	 * amount of a counter without a period in one thread. It needs BPF.
	 */
	struct trapline_event *count_of;
	/*
	 * TRAPLINE_SEVERAL: each process that executes a program under this name is
	 * added, and so are its children. The kernel compares 15 characters.
	 */
	const char *program;
	/* Records by BPF have copies of this memory; see <trapline/memory.h>. */
	const struct trapline_memory *memory;
	size_t memory_count;
};

/*
 * trapline_watch - report each access to len bytes at addr.
 *
 * access is TRAPLINE_WRITE or TRAPLINE_READ_WRITE; x86-64 cannot watch reads alone. The
 * range takes one debug register for each naturally aligned part of 1, 2, 4 or 8 bytes,
 * at most 4. Accesses by system calls are seen only with TRAPLINE_KERNEL; in records by
 * BPF the next hit has what they wrote as its old value. Accesses through another mapping,
 * by another process or by a device are never seen.
 *
 * On return every live thread in scope is covered, and each thread created later will be.
 * A callback may run before this function returns. The event takes one descriptor for
 * each thread and part. trapline_event_close() releases *out.
 *
 * Errors: E2BIG the range has more parts than there are registers; EACCES or EPERM the
 * kernel does not permit it; EAGAIN threads were created faster than they could be armed;
 * EBUSY the library cannot handle SIGTRAP; EINVAL length 0 or over 32, access, address,
 * or an option; EMFILE there are not enough descriptors; ENFILE 256 events are open;
 * ENOBUFS not enough memory may be locked for records; ENOMEM; ENOSPC no debug register
 * is left in some thread; EOPNOTSUPP this machine lacks what the options ask for; ESRCH
 * the process has ended. With a condition also EINVAL: it uses new or old and there is no
 * value. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_watch(struct trapline *t, uint64_t addr, size_t len,
				enum trapline_access access, const struct trapline_event_opts *opts,
				struct trapline_event **out);

/*
 * trapline_break - report each time a thread is about to execute the instruction at addr.
 *
 * The event takes one debug register. Everything else is as for trapline_watch().
 */
TRAPLINE_API int trapline_break(struct trapline *t, uint64_t addr,
				const struct trapline_event_opts *opts,
				struct trapline_event **out);

/*
 * trapline_break_sites - report each time a thread is about to execute one of many
 * instructions.
 *
 * addrs are count addresses of code of the target that has a file behind it: the program
 * or a library, not code made at run time. Each is the first byte of an instruction,
 * which the kernel cannot check. The kernel puts a breakpoint into the page of the code,
 * for all threads at once, and removes it when the event is closed. So the event uses no
 * debug register, and the number of addresses has no limit. The event has records only.
 * hit.address is the one of addrs.
 *
 * With TRAPLINE_RETURNS there is another hit, with hit.returned, when the function at the
 * address returns. Its ip is the address that the function returns to. Condition
 * and limit are evaluated at the call. Only a call that was a hit has a return. Such
 * returns still come after the event was disabled. A call that ends by an exception or with
 * its thread has none.
 *
 * A hit is cheap on an instruction that the kernel emulates: push, nop, call and jumps.
 * endbr64 is not one of these.
 *
 * Errors: EINVAL a callback, or a scope other than the process; ENOENT there is no file
 * behind an address; EOPNOTSUPP BPF is not available, there are more than 64 addresses before
 * Linux 6.6, the kernel cannot put a breakpoint on an instruction, or the return instructions of
 * a function cannot be found; EPERM the process lacks CAP_SYS_ADMIN. Others as trapline_watch().
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_break_sites(struct trapline *t, const uint64_t *addrs, size_t count,
				      const struct trapline_event_opts *opts,
				      struct trapline_event **out);

/* trapline_count() counts one of these. */
enum trapline_counter {
	/* It counts nanoseconds of CPU time. */
	TRAPLINE_TASK_CLOCK = 0,
	/* Faults inside the kernel count with TRAPLINE_KERNEL only. */
	TRAPLINE_PAGE_FAULTS = 1,
	/* The next two happen in the kernel, so they need TRAPLINE_KERNEL. */
	TRAPLINE_CONTEXT_SWITCHES = 2,
	TRAPLINE_MIGRATIONS = 3,
	/* The next four need a PMU. */
	TRAPLINE_INSTRUCTIONS = 4,
	TRAPLINE_CYCLES = 5,
	TRAPLINE_BRANCHES = 6,
	/* Retired ones have the same number in each run of the same code. */
	TRAPLINE_CONDITIONAL_BRANCHES = 7,
	/* Entered ones count, also those entered again after a signal. It needs tracefs. */
	TRAPLINE_SYSCALLS = 8,
};

/*
 * trapline_count - count an amount in all threads in scope, with a hit after each period.
 *
 * Each thread has its own period of opts.period. trapline_event_read() reads the sum. If
 * a period of the task clock ends while the thread is in the kernel, the amount counts
 * but the hit is lost, except with TRAPLINE_KERNEL. So read the counter; do not count the
 * hits.
 * Errors: EINVAL the counter is unknown, or TRAPLINE_SYSCALLS has a period; ENOENT this
 * machine has no such counter, in most cases because it has no PMU; EOPNOTSUPP the
 * processor's conditional branches are not known, or tracefs cannot be read; others as
 * trapline_watch(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_count(struct trapline *t, enum trapline_counter what,
				const struct trapline_event_opts *opts,
				struct trapline_event **out);

/*
 * trapline_sample - report a hit in each thread after each period_ns of its CPU time.
 *
 * period_ns is in nanoseconds and at least 20000, since the kernel throttles shorter
 * ones. opts.period is ignored.
 * Errors: EINVAL period_ns is too short; others as trapline_count(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_sample(struct trapline *t, uint64_t period_ns,
				 const struct trapline_event_opts *opts,
				 struct trapline_event **out);

/*
 * trapline_event_enable, trapline_event_disable - arm and disarm an event in all threads.
 *
 * The cost grows with the threads that the event covers. Both calls wait for threads that
 * are just being created. So after enable has returned, each thread is covered, and after
 * disable has returned, no further hit begins. A hit that a thread has already taken may still be
 * delivered. If the limit is used up, enable has no effect until trapline_event_rearm().
 * Errors: ESRCH the event is closed, or the call comes from a forked child. MT-Safe.
 * AS-Safe.
 */
TRAPLINE_API int trapline_event_enable(struct trapline_event *event);
TRAPLINE_API int trapline_event_disable(struct trapline_event *event);

/*
 * trapline_event_rest - disable, and take the breakpoints of trapline_break_sites() out of the
 * code. It takes milliseconds to seconds. trapline_event_enable() puts them back, is AS-Unsafe
 * then, and fails as trapline_break_sites(). Errors: ESRCH; EBUSY another thread does so. MT-Safe.
 * AS-Unsafe.
 */
TRAPLINE_API int trapline_event_rest(struct trapline_event *event);

/*
 * trapline_event_rearm - permit exactly `more` further hits.
 *
 * The event is armed again if its limit was used up. It must have been opened with a
 * limit.
 * Errors: EINVAL the event has no limit, or more is 0 or over INT64_MAX; ESRCH the event
 * is closed, or the call comes from a forked child. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_rearm(struct trapline_event *event, uint64_t more);

/*
 * trapline_event_stop_next - at the next n hits, or returns, their threads receive opts.signal. n
 * replaces what is left of an earlier call. Errors: EINVAL no opts.signal, or n is over INT64_MAX;
 * ESRCH the event is closed, or the caller is a forked child. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_stop_next(struct trapline_event *event, uint64_t n);

/*
 * trapline_event_add - calls in another process are hits of the event too.
 *
 * The event must be of trapline_break_sites(), with TRAPLINE_SEVERAL or
 * TRAPLINE_FOLLOW_FORKS. A process that does not run the files of its addresses gives no
 * hit. hit.pid is the process of a hit, and hit.address always an address in the first process.
 * Errors: E2BIG 16384 processes were added; EINVAL the event does not take several
 * processes; ESRCH there is no such process, the event is closed, or the call comes from
 * a forked child. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_add(struct trapline_event *event, pid_t pid);

/*
 * trapline_event_move - watch or break at another address, in all threads.
 *
 * The length and the number of parts stay. On return each thread is covered at the new
 * address, and threads created later will be. Hits of the old address that arrive later are
 * dropped and counted as late. On failure the event stays where it was, except with EIO.
 * Errors: EDEADLK this thread is changing the event already; EINVAL the event is not a
 * watch or a break, or the alignment or the address is wrong; EIO the event moved in some
 * threads only and could not be moved back, so it is disabled; ESRCH the event is closed,
 * or the call comes from a forked child. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_move(struct trapline_event *event, uint64_t addr);

/*
 * trapline_event_aim - move a watch and give it another length: 1, 2, 4 or 8 bytes.
 *
 * It is for a watch of one register, which several locations in memory share, one time
 * slice each. addr is aligned to len.
 * Errors: as trapline_event_move(). MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_aim(struct trapline_event *event, uint64_t addr, size_t len);

/*
 * trapline_event_read - read what the kernel counted so far, in all threads.
 *
 * Threads that have ended are included. For watch and break it is the number of traps,
 * over all parts.
 * Errors: ESRCH the event is closed, or the call comes from a forked child. MT-Safe.
 * AS-Safe.
 */
TRAPLINE_API int trapline_event_read(struct trapline_event *event, uint64_t *out);

/*
 * trapline_event_close - disarm and release an event.
 *
 * NULL is permitted. The call waits until no other thread is inside the callback of the
 * event. The callback itself may call it. A call that another thread makes for
 * the same event ends first, or returns -ESRCH. MT-Safe. AS-Safe.
 */
TRAPLINE_API void trapline_event_close(struct trapline_event *event);

/*
 * These counters are where hits went. taken = delivered + all rejected + all lost, when
 * no thread is in a hit and no record is unread.
 */
struct trapline_stats {
	size_t size;
	/* The kernel counted so many hits. */
	uint64_t taken;
	/* Callbacks ran, or the program received records. */
	uint64_t delivered;
	/* The limit was used up. */
	uint64_t rejected_limit;
	/* The thread was found and had also inherited the event. */
	uint64_t rejected_duplicate;
	/* The condition, or the program's own filter, was false. */
	uint64_t rejected_condition;
	/* The hit was inside a callback or inside the library itself. */
	uint64_t lost_nested;
	/* The hit arrived after the event was moved or closed. */
	uint64_t lost_late;
	/* SIGTRAP was already pending, blocked, ignored or taken by another handler. */
	uint64_t lost_merged;
	/* There was no room for the record, or another CPU had locked the ring. */
	uint64_t lost_ring_full;
	/* The kernel ran no program for the hit, or dropped it. */
	uint64_t lost_kernel;
	/* These records were not yet given to the program. */
	uint64_t unread;
	/* The library found and armed these threads. Inherited events are not counted. */
	uint64_t threads;
	/* Each of these threads uses so many debug registers. */
	uint64_t registers;
	/* These hits came late, because SIGTRAP was blocked. */
	uint64_t async;
	/* These moves failed in some threads and were undone. */
	uint64_t move_repairs;
	/* It was disabled: its hits abort rseq sequences, or arm64 cannot step past one. */
	uint64_t rseq_stops;
	/* Part of rejected_condition: a load failed, or a divisor was 0. */
	uint64_t condition_faults;
	/* It is an enum trapline_evaluated. */
	uint64_t evaluated_in;
	/* So many hits came before condition, skip and limit, without duplicates. */
	uint64_t hits;
	/* The hit was among the first opts.skip. */
	uint64_t rejected_skip;
	/* TRAPLINE_STOP: the process could not be stopped at these hits. */
	uint64_t stops_failed;
	/* TRAPLINE_KERNEL: the kernel copied in steps, and only the last step is the hit. */
	uint64_t rejected_partial;
	/*
	 * By BPF, not part of taken: trapline_poll() found another value than the last
	 * hit reported. At least so many changes came from what cannot be seen, such as
	 * another process or, without TRAPLINE_KERNEL, a system call.
	 */
	uint64_t unseen_changes;
	/*
	 * So many calls of enable, disable or move may have missed a thread that was
	 * just being created: no event could be opened in some thread.
	 */
	uint64_t changes_unsure;
	/* By BPF with a signal: hits of other threads replaced what the kernel had read. */
	uint64_t values_replaced;
	/* trapline_break_sites(): so many threads of children are covered now. */
	uint64_t followed;
	/* So many threads of children had no room in the table, and give no hit. */
	uint64_t not_followed;
	/* trapline_break_sites(), not part of taken: hits while off; see trapline_event_rest(). */
	uint64_t while_off;
	/* Not part of taken: traps of the own process whose cause a hypervisor lost. */
	uint64_t lost_causes;
	uint64_t compat; /* trapline_break_kernel(), not part of taken: by the 32-bit interface */
};

/* Conditions and limits are evaluated here. It decides what a rejected hit costs. */
enum trapline_evaluated {
	/* The event has neither condition, skip nor limit. */
	TRAPLINE_EVALUATED_NOWHERE = 0,
	/* The kernel evaluates them, before any signal or record. */
	TRAPLINE_EVALUATED_IN_KERNEL = 1,
	/* The handler of SIGTRAP evaluates them: BPF or its veto is missing. */
	TRAPLINE_EVALUATED_IN_HANDLER = 2,
	/* trapline_poll() evaluates them, from the kernel's records. */
	TRAPLINE_EVALUATED_BY_READER = 3,
	/* Machine code at the probe evaluates them, and counts no hit that it rejects. */
	TRAPLINE_EVALUATED_IN_CODE = 4,
};

/*
 * trapline_event_stats - read the statistics so far.
 *
 * out->size must be set. For counters taken is a number of hits, as far as the kernel
 * reports them.
 * Errors: EINVAL size; ESRCH the event is closed, or the call comes from a forked child.
 * MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_event_stats(struct trapline_event *event, struct trapline_stats *out);

/* It is how an event works here. */
enum trapline_mechanism {
	/* The kernel raises SIGTRAP in the thread. */
	TRAPLINE_BY_SIGNAL = 0,
	/* A BPF program writes the record at the hit. */
	TRAPLINE_BY_BPF = 1,
	/* The kernel writes the record. Values are read later. */
	TRAPLINE_BY_RING = 2,
	/* A BPF program writes the record at a breakpoint in the code. */
	TRAPLINE_BY_UPROBE = 3,
	/* trapline_probe(): by a jump, or by an int3. */
	TRAPLINE_BY_PROBE = 4,
	TRAPLINE_BY_TRAP = 5,
	/* A BPF program writes the record at a tracepoint of the kernel. */
	TRAPLINE_BY_TRACEPOINT = 6,
};

/* trapline_event_mechanism - read how an event works here. MT-Safe. AS-Safe. */
TRAPLINE_API enum trapline_mechanism trapline_event_mechanism(const struct trapline_event *event);

/*
 * trapline_poll - give records to fn, oldest first.
 *
 * The call waits up to timeout_ms milliseconds for the first record. 0 does not wait. -1
 * waits until a record comes or the process ends. If fn returns TRAPLINE_DISARM, the
 * event of that record is disarmed. The call returns the number of records given, at most
 * some thousands, so that it also returns in a storm.
 * Errors: ESRCH no record is left and the process has ended. It is MT-Safe if one thread
 * at a time calls it. AS-Unsafe.
 */
TRAPLINE_API int trapline_poll(struct trapline *t, int timeout_ms, trapline_callback fn);

/*
 * trapline_fd - get a descriptor that is readable when trapline_poll() has something to
 * do.
 *
 * The descriptor belongs to the target. Where the kernel writes the records
 * (TRAPLINE_BY_RING) it is readable every 10 ms.
 * Errors: ENODATA no event with records was opened. MT-Safe. AS-Safe.
 */
TRAPLINE_API int trapline_fd(struct trapline *t);

/*
 * trapline_explain - write the cause and the remedy of the last failure of this thread.
 *
 * err is the number that the function returned. At most n bytes are written, with a NUL
 * if n is not 0. The call returns the length of the whole text. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_explain(int err, char *buf, size_t n);

/*
 * trapline_version - get the version of the library, in the form of TRAPLINE_VERSION.
 *
 * MT-Safe. AS-Safe.
 */
TRAPLINE_API unsigned int trapline_version(void);

#ifdef __cplusplus
}
#endif

#include <trapline/caps.h>
#include <trapline/kernel.h>
#include <trapline/memory.h>

#endif
