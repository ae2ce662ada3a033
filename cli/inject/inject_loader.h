/* SPDX-License-Identifier: MIT */
/*
 * inject_loader.h - a second thread in the target, for one attach, that has a descriptor table of
 * its own.
 *
 * What is opened for an attach would have the lowest free number of the program for some
 * milliseconds. The program's own open(2) would get another number than it counts on, and its
 * closefrom(3) would close what the dynamic linker reads. No system call opens a file of Trapline
 * under another number. So the stopped thread makes a second one by clone(2), which takes a table
 * of its own by close_range(2). It loads and calls instead of the first, with the thread-local
 * storage of the first. The first one waits until that thread has ended, also if trapline is
 * killed.
 */
#ifndef CLI_INJECT_INJECT_LOADER_H
#define CLI_INJECT_INJECT_LOADER_H

#include "cli/inject/inject_thread.h"

struct loader {
	struct held_thread thread; /* all calls are made in this one */
	struct held_thread *waits; /* that made it */
	uint64_t mapped;	   /* 0: nothing */
};

/* From a stopped thread. 0 or -errno; then the thread itself makes the calls. */
int loader_begin(struct loader *l, struct held_thread *t);
/*
 * It ends, and the thread can make calls again. A lost one ends by itself, and the thread is lost
 * with it.
 */
void loader_end(struct loader *l);

#endif
