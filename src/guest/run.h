/* SPDX-License-Identifier: MIT */
/*
 * run.h - the life of a tool's run in a process that is not Trapline's, written once for all tools.
 *
 * A tool is a row: the option that names its region, the size of the region, and what the tool does
 * at each step. An object that comes into a target has a table of such rows.
 *
 * A run with arm() ends with its command, no matter how the command ends. The command holds a lock
 * on the region's file, and a thread of Trapline has the lock as soon as the command is gone. The
 * region states how far the run is, see enum run_state. Other tools end by what their region
 * states.
 */
#ifndef GUEST_RUN_H
#define GUEST_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "code/kept_fd.h"
#include "guest/late_calls.h"
#include "record/share_head.h"

enum run_flag {
	RUN_IS_ONCE = 1, /* what a run leaves is still inspected by threads: one in a process */
	RUN_ARMS_AT_ONCE = 2, /* the command has written all there is: no RUN_ARM */
	RUN_FOLLOWS_EXEC = 4, /* a program that an armed one starts arms too */
	RUN_ASKS = 8,	      /* one that cannot arm waits until the command states RUN_DECLINED */
	RUN_FORGETS = 16,     /* a program that this one starts gets no option */
	RUN_OWN_SIGNALS = 32, /* the tool takes SIGTRAP itself */
	RUN_TRAPS_ON_STACKS = 64, /* also in handlers that have a stack of their own */
	RUN_OPENS_TRAP =
		128, /* its command opens SIGTRAP in threads, and blocks it again at the end */
	RUN_LIVES_ON =
		/*
		 * where the lock is not to be had any more the command is asked for by its number
		 */
		256,
	RUN_OWN_TABLE =
		/*
		 * where it can, it has its descriptors in a table of its own: see guest/own_table.h
		 */
		512,
};

struct run {
	const char *option; /* such as "flow=" */
	uint64_t magic;
	size_t bytes; /* of the region */
	uint32_t flags;

	/* * In a process that runs: what sees the program's own SIGTRAP there. */
	const struct late_calls *calls;
	/*
	 * The program has replaced Trapline's action by a system call of its own, and it is
	 * Trapline's again. Nothing of the tool raises SIGTRAP from now on, and it reports why. In
	 * the thread.
	 */
	void (*replaced)(void);

	/* An option without a region: text is what follows. */
	int (*call)(const char *text);

	/*
	 * In a program that was just started, and in a process that runs already. 0 or -errno. The
	 * region is the tool's from here on. NULL: it does not come so.
	 */
	int (*start)(void *region);
	int (*attach)(void *region);
	/*
	 * * For a run that comes by attach, and has calls: 1: nothing of it raises SIGTRAP any
	 * more.
	 */
	int (*is_over)(void);

	/*
	 * All below are of a run that ends with its command; what is marked * may be NULL. With
	 * start, of one by -p.
	 */
	size_t stack_bytes;	    /* of its thread */
	void (*comes)(int is_late); /* * before anything is taken */
	/*
	 * 0; or -errno, nothing is left, and the words of the region state why. SIGTRAP is open, as
	 * in all below.
	 */
	int (*arm)(void *region, int is_late);
	int (*begin)(
		/* * at last. 0; or -errno: it is not armed, and ends with its command */
		void *region);
	void (*armed)(void *region);	 /* * in the thread; SIGTRAP is blocked */
	int (*tick)(uint64_t passed_ns); /* * all 20 ms, in the thread. 1: it ends now */
	void (*end)(void *region);
	int (*give)(
		/*
		 * * its memory, when no thread can be in it any more; then the region goes. 0 or
		 * -errno
		 */
		void);
	void (*ended)(
		/* * last in the thread, also if it was not armed; SIGTRAP is blocked */
		void *region);

	/* For run_follow_forks(): before a fork, and after it in the parent and in the child. * */
	void (*fork_begins)(void);
	void (*fork_ended)(void);
	void (*forked)(void);

	/* The room's own. */
	void *region;
	void *last; /* of the run before: a thread may still be about to count there */
	struct kept_fd lock;
	pid_t pid; /* that took the region */
	uint32_t is_taken;
	uint32_t follows_forks;
	uint32_t sees_calls;
	int has_table; /* it is a user of the table, which its thread gives up, if it has one */
	int has_thread;
	int is_here; /* its thread has the very table */
	uint32_t is_attaching;
	struct run *next;
};

/*
 * In the constructor of an object that is preloaded: all rows that TRAPLINE_OPTIONS names. end_all:
 * see signals_prepare().
 */
void run_start(struct run *const *table, size_t count, int (*end_all)(void));
/*
 * From outside, in a thread that is borrowed: one row. 0 or -errno; -EALREADY: another call does
 * not return.
 */
int run_call(struct run *const *table, size_t count, const char *options, int (*end_all)(void));

/* From now on the run gets forks. Not in a handler. */
void run_follow_forks(struct run *run);
/* The program has asked for a filter: a system call of Trapline may kill it, and its children. */
void run_make_no_calls(void);

/*
 * By a process that searches itself: no command, no lock. 0, or -EBUSY: there is a run; and its
 * end.
 */
int run_take(struct run *run, void *region, int lock);
void run_forget(struct run *run);
/*
 * In a forked child, which has no thread of Trapline: another run may come. Makes no system call.
 */
void run_forget_parent(struct run *run);
/* 1: the command is there, and the descriptor of its lock too. Does not wait. AS-Safe. */
int run_has_command(const struct run *run);

#endif
