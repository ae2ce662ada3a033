/* SPDX-License-Identifier: MIT */
/*
 * point_window.h - a traced thread executes many of its next instructions without a stop at each.
 *
 * A window (see code/window/window.h) in another process: the tracer translates the thread's code
 * and writes it into a mapping that the thread has made for it. Nothing else of Trapline is in the
 * target: no object, no handler, no signal. Where code of the cache has to ask, it executes a
 * system call, which PTRACE_SYSEMU turns into a stop.
 *
 * The instructions are counted as single steps count them: each round of a repeated string
 * instruction is one. Instructions that see a difference between a step and the window, and all
 * system calls, are the caller's to step.
 */
#ifndef POINT_HOST_POINT_WINDOW_H
#define POINT_HOST_POINT_WINDOW_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Below that, making a window takes longer than the steps. */
#define POINT_WINDOW_LEAST 200
#define POINT_WINDOW_HELD 16

/* For PTRACE_SEIZE, besides the caller's. */
#define POINT_WINDOW_OPTIONS PTRACE_O_TRACESYSGOOD

struct point_window;

struct point_window_run {
	pid_t pid;
	pid_t tid;	    /* after an exec it can be another one */
	uint64_t most;	    /* instructions */
	bool (*ends)(void); /* the window is to end; NULL: never */
	/* The result: */
	uint64_t made;
	bool has_status; /* `status` of wait(2) is one that the window has no use for */
	bool is_let_go;	 /* SIGCONT arrived */
	int status;
};

/*
 * The thread is traced, and in the stop after a step. It executes up to `most` instructions, and is
 * in a ptrace stop again. 0; or -errno, with the thread in an unknown state.
 */
int point_window_run(struct point_window **window, struct point_window_run *run);

/*
 * Signals that came in a window. The caller passes the first one on at its next stop after a step,
 * and sends those that it cannot pass on. 0: no signal is left.
 */
int point_window_held(struct point_window *window, siginfo_t *out);

/* Before each step: it may need that the mapping is gone. 0 or -errno. */
int point_window_before_step(struct point_window *window);

/*
 * The mapping is removed, unless the thread is over: then it is gone already. Frees the window. The
 * result is true if SIGCONT arrived in the meantime.
 */
bool point_window_end(struct point_window *window, bool is_over);

#endif
