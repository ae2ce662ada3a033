/* SPDX-License-Identifier: MIT */
/*
 * safepoint.h - stop the threads of a language runtime where it is safe.
 *
 * A domain is a set of threads that can be stopped together. A thread registers itself,
 * and its loops pass safepoints. trapline_safepoint_stop() returns when each registered
 * thread waits at a safepoint or is in a native section. One of four back ends makes the
 * threads come: poll, poke, watch and signal. trapline-safepoint(7) compares them.
 *
 * This is for x86-64. Elsewhere the calls fail with -EOPNOTSUPP. Conventions and tags are
 * those of trapline.h.
 */
#ifndef TRAPLINE_SAFEPOINT_H
#define TRAPLINE_SAFEPOINT_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A domain is what trapline_safepoint_open() makes. */
struct trapline_safepoint;

enum trapline_safepoint_backend {
	/* TRAPLINE_SAFEPOINT_POLL() reads a word of its thread. */
	TRAPLINE_SAFEPOINT_BY_POLL = 1,
	/* TRAPLINE_SAFEPOINT_POKE() is changed from a nop to a jump. */
	TRAPLINE_SAFEPOINT_BY_POKE = 2,
	/* A load that each loop has anyway hits a watch. */
	TRAPLINE_SAFEPOINT_BY_WATCH = 3,
	/* Each thread receives a signal, and stops wherever it is. */
	TRAPLINE_SAFEPOINT_BY_SIGNAL = 4,
};

/* trapline_safepoint_opts.flags: change sites by the protocol with int3 in any case. */
#define TRAPLINE_SAFEPOINT_INT3 1u

struct trapline_safepoint_opts {
	size_t size;
	/* It is an enum trapline_safepoint_backend. 0 means poll. */
	uint32_t backend;
	/* It is 0 or TRAPLINE_SAFEPOINT_INT3. */
	uint32_t flags;
	/* Watch: each loop reads the word of length bytes (1, 2, 4 or 8) at address. */
	uint64_t address;
	uint32_t length;
	/* Signal: it is a real-time signal that the program does not use otherwise. */
	int signal;
};

/*
 * trapline_safepoint_open - make a domain without threads.
 *
 * trapline_safepoint_close() releases *out. The poke back end changes all sites of the
 * process, so its domains share them.
 * Errors: E2BIG opts are of a newer version; EBUSY the signal has a handler; EINVAL an
 * option; ENOENT the program has no TRAPLINE_SAFEPOINT_POKE() for poke, or only those for
 * poll; ENOMEM; EOPNOTSUPP the machine cannot do it; others as trapline_poke() and
 * trapline_watch(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_open(const struct trapline_safepoint_opts *opts,
					 struct trapline_safepoint **out);

/*
 * trapline_safepoint_close - release a domain.
 *
 * NULL is permitted. Errors: EBUSY a thread is registered, or a stop lasts. It is MT-Safe
 * if no other call uses the domain at the same time or later. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_close(struct trapline_safepoint *domain);

/*
 * trapline_safepoint_register - add the calling thread to a domain.
 *
 * A thread is in one domain at most. The call waits while a stop lasts. user is passed to
 * visitors. A thread that ends is removed.
 * Errors: EBUSY the thread is registered; EINVAL domain is NULL; ENOMEM. MT-Safe.
 * AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_register(struct trapline_safepoint *domain, void *user);

/*
 * trapline_safepoint_unregister - remove the calling thread from its domain.
 *
 * The call waits while a stop lasts that another thread made.
 * Errors: EDEADLK the thread made the stop that lasts; EPERM it is not registered.
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_unregister(void);

/*
 * trapline_safepoint_enter_native - begin a native section: the thread counts as stopped.
 *
 * In it the thread must not touch what the stop protects. Sections do not nest.
 * Errors: EALREADY the thread is in one; EPERM it is not registered. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_enter_native(void);

/*
 * trapline_safepoint_leave_native - end a native section. It waits while a stop lasts.
 *
 * Errors: EALREADY the thread is in none; EPERM it is not registered. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_leave_native(void);

/* It is where a thread was when it stopped. */
enum trapline_safepoint_place {
	/* The thread waits at a safepoint. */
	TRAPLINE_SAFEPOINT_AT_SITE = 1,
	/* It is in a native section, or waits at the end of one, or registers. */
	TRAPLINE_SAFEPOINT_IN_NATIVE = 2,
	/* It is the registered thread that makes the stop. */
	TRAPLINE_SAFEPOINT_STOPPING = 3,
};

/* It describes one stopped thread. It is valid only during the call of the visitor. */
struct trapline_safepoint_thread {
	size_t size;
	pid_t tid;
	/* It is an enum trapline_safepoint_place. */
	uint32_t place;
	/* This is what the thread registered with. */
	void *user;
	/* The used part of its stack is from sp up to stack_end. */
	uint64_t sp;
	uint64_t stack_end;
	uint64_t stack_start;
	/* Bit n: regs[n] is the value of register n. The index is the DWARF number. */
	uint64_t regs_known;
	const uint64_t *regs;
	/* Watch and signal: it is the ucontext_t of the thread. Otherwise it is NULL. */
	void *context;
};

/* A visitor is called once for each thread, in the thread that makes the stop. */
typedef void (*trapline_safepoint_visitor)(const struct trapline_safepoint_thread *thread,
					   void *arg);

/*
 * trapline_safepoint_stop - stop all threads of a domain, except the caller.
 *
 * When it returns 0 each registered thread waits or is in a native section, until
 * trapline_safepoint_resume(). visitor may be NULL; it must not call functions of this
 * header. timeout_ms is in milliseconds; -1 waits for ever. If the time is over, all
 * threads continue, and trapline_explain() names the thread that did not come. If another
 * thread has made a stop, the call waits until it has ended; a registered caller counts
 * as stopped until then.
 * Errors: EBUSY a site was changed by another patcher; EDEADLK the caller made a stop
 * that lasts, or is inside a callback, a handshake or a signal handler that interrupted
 * the library; EINVAL domain is NULL; ETIMEDOUT; others as trapline_poke() and
 * trapline_event_enable(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_stop(struct trapline_safepoint *domain, int timeout_ms,
					 trapline_safepoint_visitor visitor, void *arg);

/*
 * trapline_safepoint_resume - end a stop: the threads continue.
 *
 * The thread that made the stop calls it.
 * Errors: EINVAL domain is NULL; EPERM the caller made no stop. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_resume(struct trapline_safepoint *domain);

/* It may not stop, resume, register or unregister. */
typedef void (*trapline_safepoint_function)(void *arg);

/*
 * trapline_safepoint_handshake - run function(arg) in one thread, at its safepoint.
 *
 * If the thread is in a native section or stopped, the caller runs the function, and the
 * thread waits for that. With watch and signal the function runs inside a signal
 * handler. The call returns after the function. timeout_ms is as for
 * trapline_safepoint_stop(); after a time-out the function does not run.
 * Errors: ESRCH the domain has no such thread; others as trapline_safepoint_stop().
 * MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_handshake(struct trapline_safepoint *domain, pid_t tid,
					      int timeout_ms, trapline_safepoint_function function,
					      void *arg);

#define TRAPLINE_SAFEPOINT_TIMES 40

struct trapline_safepoint_stats {
	size_t size;
	/* So many stops succeeded. */
	uint64_t stops;
	uint64_t timeouts;
	uint64_t handshakes;
	/* All stops took so long until the last thread had come. */
	uint64_t total_ns;
	uint64_t longest_ns;
	/* times[n]: so many stops took at least 2^n ns, and less than 2^(n+1). */
	uint64_t times[TRAPLINE_SAFEPOINT_TIMES];
	/* So many threads are registered. */
	uint64_t threads;
	/* Poke: the process has so many sites. */
	uint64_t sites;
	/* This thread came last at the last stop for which a thread had to come. */
	pid_t last_tid;
	char last_name[16];
	/* This thread did not come before the last time-out. */
	pid_t late_tid;
};

/*
 * trapline_safepoint_stats - read the statistics of a domain.
 *
 * out->size must be set. Errors: EINVAL domain is NULL, or size. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_safepoint_stats(struct trapline_safepoint *domain,
					  struct trapline_safepoint_stats *out);

/* ---- what the macros are made of ---- */

/*
 * It is not 0 while the calling thread is wanted at a safepoint. Its address stays the
 * same as long as the thread lives, so a runtime may keep it in a register.
 */
extern TRAPLINE_API __thread uint32_t trapline_safepoint_wanted
	__attribute__((tls_model("initial-exec")));

/*
 * trapline_safepoint_arrive - wait, if a stop or a handshake wants the calling thread.
 *
 * The macros call it. A runtime may call it after a poll of its own. MT-Safe. AS-Safe.
 */
TRAPLINE_API void trapline_safepoint_arrive(void) __attribute__((cold));

/* One safepoint in the section trapline_safepoints; each distance is from the member. */
struct trapline_safepoint_site {
	/* Poke: the instruction. Poll: 0. */
	int32_t site;
	/* Poke: where it jumps. Poll: 0. */
	int32_t target;
};

/*
 * trapline_safepoint_sites - add the sites of a loaded object, or remove them.
 *
 * This header calls it in a constructor and a destructor of each object that includes
 * it. A domain that is stopped at that moment stops at the new sites too. MT-Safe.
 * AS-Unsafe.
 */
TRAPLINE_API void trapline_safepoint_sites(const struct trapline_safepoint_site *begin,
					   const struct trapline_safepoint_site *end,
					   int is_loaded);

#if defined(__x86_64__)
#define TRAPLINE_SAFEPOINT_NOTE(site, target)                     \
	".pushsection trapline_safepoints, \"a?\", @progbits\n\t" \
	".balign 4\n\t"                                           \
	".long " site "\n\t"                                      \
	".long " target "\n\t"                                    \
	".popsection\n\t"
#endif

/* TRAPLINE_SAFEPOINT_POLL() is a load and a branch that is not taken. */
static inline __attribute__((always_inline)) void trapline_safepoint_poll_(void)
{
#if defined(__x86_64__)
	__asm__ volatile(TRAPLINE_SAFEPOINT_NOTE("0", "0"));
#endif
	if (__builtin_expect(__atomic_load_n(&trapline_safepoint_wanted, __ATOMIC_RELAXED) != 0, 0))
		trapline_safepoint_arrive();
}
#define TRAPLINE_SAFEPOINT_POLL() trapline_safepoint_poll_()

/*
 * TRAPLINE_SAFEPOINT_POKE() is `test $imm32, %eax`. A stop makes it `jmp rel32`: one byte
 * differs, so the instruction may lie anywhere.
 */
static inline __attribute__((always_inline)) void trapline_safepoint_poke_(void)
{
#if defined(__x86_64__)
	__asm__ goto("771: .byte 0xa9\n\t"
		     ".long %l[trapline_slow] - (771b + 5)\n\t" TRAPLINE_SAFEPOINT_NOTE(
			     "771b - .", "%l[trapline_slow] - .")
		     :
		     :
		     : "cc"
		     : trapline_slow);
	return;
trapline_slow:
	trapline_safepoint_arrive();
#endif
}
#define TRAPLINE_SAFEPOINT_POKE() trapline_safepoint_poke_()

/* TRAPLINE_SAFEPOINT() is the form that the program chose for its loops. */
#if defined(TRAPLINE_SAFEPOINT_POKED)
#define TRAPLINE_SAFEPOINT() TRAPLINE_SAFEPOINT_POKE()
#else
#define TRAPLINE_SAFEPOINT() TRAPLINE_SAFEPOINT_POLL()
#endif

#if defined(__x86_64__) && !defined(TRAPLINE_SAFEPOINT_NO_SITES)
/* The linker makes these names for each object. They are 0 if it has no safepoint. */
extern const struct trapline_safepoint_site __start_trapline_safepoints[]
	__attribute__((weak, visibility("hidden")));
extern const struct trapline_safepoint_site __stop_trapline_safepoints[]
	__attribute__((weak, visibility("hidden")));

static __attribute__((constructor)) void trapline_safepoint_loaded_(void)
{
	if (&__start_trapline_safepoints[0] != &__stop_trapline_safepoints[0])
		trapline_safepoint_sites(__start_trapline_safepoints, __stop_trapline_safepoints,
					 1);
}

static __attribute__((destructor)) void trapline_safepoint_unloaded_(void)
{
	if (&__start_trapline_safepoints[0] != &__stop_trapline_safepoints[0])
		trapline_safepoint_sites(__start_trapline_safepoints, __stop_trapline_safepoints,
					 0);
}
#endif

#ifdef __cplusplus
}
#endif

#endif
