/* SPDX-License-Identifier: MIT */
/* inject_hold.c - a thread of the target that code can be loaded in: see injection.h. */
#include "cli/inject/injection.h"
#include "cli/launch/program.h"
#include "report/dwarf/symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRIES 200
#define FIRST_TRIES 4
#define REFUSED_TRIES 40 /* the thread may be about to end, or its tracer */
#define THREADS_MAX INJECT_THREADS_MAX
#define STACK_COPY 16384
#define FRAMES_MAX 64

/* Inside the linker or the allocator a call of dlopen() would wait forever for a lock. */
static int is_unsafe(const struct place *p)
{
	static const char *const inside[] = { "alloc",	  "free",   "_int_",
					      "arena",	  "dl_",    "dlopen",
					      "fork",	  "clone",  "pthread_create",
					      "lll_lock", "tls_",   "exit",
					      "new",	  "delete", "sysmalloc" };

	if (p->module && (strstr(p->module, "ld-") || strstr(p->module, "ld.so")))
		return 1;
	for (size_t i = 0; p->function && i < sizeof(inside) / sizeof(inside[0]); i++)
		if (strstr(p->function, inside[i]))
			return 1;
	return 0;
}

/* The state of a thread from which its callers are found. */
struct stand {
	struct user_regs_struct regs;
	uint8_t stack[STACK_COPY];
	size_t copied;
};

/* Stops the thread. 0 or -errno. */
static int inject_hold(const struct injection *in, struct held_thread *t, pid_t tid,
		       struct stand *s)
{
	int err = held_begin(t, in->pid, tid, in->memory_fd);

	if (err)
		return err;
	s->regs = t->saved;
	return_look_through(in->memory_fd, &in->gadgets, &s->regs);
	ssize_t n = pread(in->memory_fd, s->stack, sizeof(s->stack), (off_t)s->regs.rsp);
	s->copied = n > 0 ? (size_t)n : 0;
	return 0;
}

static int is_good_stand(const struct injection *in, const struct stand *s)
{
	const struct user_regs_struct *r = &s->regs;
	const uint64_t regs[17] = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
				    r->rbp, r->rsp, r->r8,  r->r9,  r->r10, r->r11,
				    r->r12, r->r13, r->r14, r->r15, r->rip };
	uint64_t frames[FRAMES_MAX];
	size_t n = symbols_unwind(in->symbols, regs, 17, s->stack, s->copied, r->rsp, frames,
				  FRAMES_MAX);

	for (size_t i = 0; i < n; i++) {
		struct place p;

		symbols_place(in->symbols, frames[i] - (i != 0), &p);
		if (!p.module && return_is_code(in->memory_fd, frames[i]))
			return 0;
		/* Each thread begins in clone(), which is safe as the outermost frame. */
		if (is_unsafe(&p) && !(i + 2 >= n && p.function && strstr(p.function, "clone")))
			return 0;
	}
	return n != 0;
}

/*
 * Reading the unwind tables of an object may take a moment. So the thread is resumed
 * while its state is inspected, and stopped again if the state was good; by then they
 * are in memory.
 */
static int hold_if_good(struct injection *in, struct held_thread *t, pid_t tid)
{
	static struct stand stand;
	int err = inject_hold(in, t, tid, &stand);

	if (err)
		return err;
	held_end(t);
	if (!is_good_stand(in, &stand))
		return -EAGAIN;
	err = inject_hold(in, t, tid, &stand);
	if (err || is_good_stand(in, &stand))
		return err;
	held_end(t);
	return -EAGAIN;
}

/*
 * Tries each thread once. A thread that could not return from its first system call, were trapline
 * killed then, is taken only if there is no other. So is one that waits in a call whose timeout has
 * to be changed. -EBUSY: all of them transfer data.
 *
 * The first thread comes last: while it is stopped, the kernel gives the signals to the process to
 * other threads, and its own call does not end with EINTR.
 */
static int hold_any(struct injection *in, struct held_thread *t, int round)
{
	static pid_t tids[THREADS_MAX];
	size_t n = program_threads(in->pid, tids, THREADS_MAX);
	int result = n ? -EBUSY : -EAGAIN;

	for (size_t k = 0; k < n; k++) {
		const pid_t tid = tids[(k + 1) % n];
		bool is_last = round < FIRST_TRIES && call_kind_of(in->pid, tid) == CALL_IS_TIMED;
		int err = is_last ? -EAGAIN : hold_if_good(in, t, tid);

		if (held_is_over()) {
			if (!err)
				held_end(t);
			return -ECANCELED;
		}
		if ((err == -EPERM || err == -EACCES) && !held_wait_for_others(in->memory_fd) &&
		    round >= REFUSED_TRIES)
			return injection_refuse_tracing(in, err);
		if (err != -EBUSY)
			result = -EAGAIN;
		if (err)
			continue;
		if (program_seccomp(in->pid, tid)) { /* it has one since a moment ago */
			held_end(t);
			return injection_refuse_filter(in);
		}
		t->gadgets = in->gadgets;
		if (round >= TRIES / 2 || return_has_way_back(t))
			return 0;
		held_end(t);
	}
	return result;
}

/* Stops a thread where the call is safe; the others are resumed at once. */
int injection_hold(struct injection *in, struct held_thread *t)
{
	struct timespec pause = { 0, 5000000 };
	int err = 0;

	for (int i = 0; i < TRIES; i++) {
		err = hold_any(in, t, i);
		if (err == -ECANCELED)
			return injection_refuse(
				in, err,
				"the attach was ended before anything was loaded, and no thread had "
				"stopped where that is safe; thaw the process if it is frozen");
		if (err != -EAGAIN && err != -EBUSY)
			return err;
		nanosleep(&pause, NULL);
	}
	if (err == -EBUSY)
		return injection_refuse(
			in, err,
			"each of its threads writes or sends data, and a stop would "
			"cut that short; try again when one of them does not wait");
	return injection_refuse(in, err,
				"none of its threads was where code can be loaded safely; try "
				"again");
}
