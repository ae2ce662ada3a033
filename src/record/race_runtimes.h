/* SPDX-License-Identifier: MIT */
/* race_runtimes.h - objects whose code a race search leaves out, by the name of their file. */
#ifndef RECORD_RACE_RUNTIMES_H
#define RECORD_RACE_RUNTIMES_H

enum race_runtime {
	RACE_RUNTIME_NONE,
	RACE_RUNTIME_LIBC,  /* what it accesses is an access of its caller, perhaps */
	RACE_RUNTIME_OTHER, /* builds locks from plain loads and stores */
};

/* path: with folders or without. AS-Safe. */
enum race_runtime race_runtime_of(const char *path);

#endif
