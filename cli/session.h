/* SPDX-License-Identifier: MIT */
/*
 * session.h - a run of a command that looks at a process: which process, and when it ends.
 *
 * The target is never stopped, and all that is in the kernel for us hangs on our descriptors:
 * however we end, nothing stays.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/output.h"
#include "cli/pace.h"
#include "report/symbols.h"

#include <stdbool.h>
#include <sys/types.h>

struct session {
	const char *name; /* of our command, for messages */
	pid_t pid;
	char **command; /* that was started for us; NULL: none */
	uint64_t limit; /* hits; 0: none */
	uint64_t for_ns;
	uint64_t probe; /* an address that is mapped as long as the program is the same */
	uint64_t started_ns;
	int memory_fd; /* of the target as it is now: reads nothing after an exec; -1: none */
	bool output_broken;
	/* Something of the command's own that ends the run as the limit does; NULL: nothing. */
	bool (*is_enough)(void *arg);
	/* Called between two looks at the records; returns in how many ms it wants to be again. NULL: not. */
	int (*tick)(void *arg);
	void *arg;
	bool child_ended;
	int child_status;
};

/* Cuts `-- CMD ARG...` off argv. Returns the new argc, or -1 with a line printed. */
int session_cut_command(const char *name, int argc, char **argv, char ***command);
/* Exactly one of a process and a command. 0 or an exit status, line printed. */
int session_check_target(const char *name, pid_t pid, char **command);

/* Starts the command, if there is one, and holds it. 0 or an exit status, line printed. */
int session_hold(struct session *r);
/* Lets the command go, or ends it when it is not wanted; from here on Ctrl-C ends the run. */
void session_release(struct session *r, bool wanted);

/* The target's objects. 0 or an exit status, line printed. */
int session_open_symbols(const struct session *r, struct symbols **out);
/* After r->probe is known; notes when nothing can be read there. */
void session_open_memory(struct session *r);

/*
 * Gives records to fn until there is a reason to stop, which is returned: by then the events are
 * disabled, and all their records given. *hits is what the limit is compared with.
 */
const char *session_loop(struct session *r, struct trapline *target, struct pace *pace,
			 struct output *o, trapline_callback fn, const uint64_t *hits);

/* How the command ended, when not with 0: `exited with status 3`; else nothing. */
void session_describe_command(struct session *r, char *buf, size_t n);
/* A command of ours holds the terminal: like any shell, wait until it gives it back. */
void session_wait_for_command(struct session *r);
void session_close(struct session *r);

/* What is missing where the kernel's own ring holds the records, unless that was asked for. */
void session_note_without_bpf(const struct session *r);

/* The last failure of the library, as one line. Returns an exit status. */
int session_explain(const struct session *r, const char *doing, const char *what,
		    int err);

#endif
