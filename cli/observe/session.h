/* SPDX-License-Identifier: MIT */
/*
 * session.h - one observation of a process: which process, and when the observation ends.
 *
 * The target is never stopped, except by --then and as watch_stall.h states. Everything that the
 * kernel keeps for trapline belongs to its file descriptors, so nothing stays when trapline ends,
 * even by SIGKILL.
 */
#ifndef CLI_OBSERVE_SESSION_H
#define CLI_OBSERVE_SESSION_H

#include "cli/observe/pace.h"
#include "cli/output.h"
#include "report/dwarf/symbols.h"

#include <stdbool.h>
#include <sys/types.h>

struct session {
	const char *name; /* of trapline's command, for messages */
	pid_t pid;
	pid_t child;	/* that trapline started: pid, or the one that runs it; 0: none */
	char **command; /* that trapline started; NULL: none */
	uint64_t limit; /* hits; 0: none */
	uint64_t for_ns;
	/* an address that is mapped as long as the program is the same; 0: any program will do */
	uint64_t probe;
	uint64_t started_ns;
	int memory_fd; /* of the target as it is now: reads nothing after an exec; -1: none */
	bool output_broken;
	bool is_reached;    /* the location of --until-hit */
	bool is_stopped;    /* by SIGSTOP or a debugger, at the last check */
	uint64_t looked_ns; /* the time of that check */
	char switches[24];  /* its first thread's voluntary context switches at that check */
	bool has_noted_stop;
	bool is_released; /* Ctrl-C ends the observation */
	bool runs_on;	  /* it has been released because it is wanted */
	/* True ends the observation as the limit does; NULL: there is no such test. */
	bool (*is_enough)(void *arg);
	const char *enough; /* the reason for that; NULL: the limit was reached */
	/* Replaces start_command(), which stops the command by tracing it. NULL: that. */
	int (*hold)(void *arg);
	/* Instead of start_go(): the command continues. NULL: that. */
	void (*go)(void *arg);
	/* Instead of trapline_poll(). NULL: that. */
	int (*poll)(void *arg, int timeout_ms, trapline_callback fn);
	/*
	 * Several processes: the observation ends when this is true. NULL: when the one has ended.
	 */
	bool (*have_ended)(void *arg);
	bool is_one; /* it is one process all the same, which may execute other programs */
	/*
	 * Called after each batch of records; returns the ms until the next call. NULL: not called.
	 */
	int (*tick)(void *arg);
	void *arg;
	bool is_waited_by_poll; /* poll() traces the child, and sets the next two */
	bool child_ended;
	int child_status;
};

/* Cuts `-- CMD ARG...` off argv. Returns the new argc, or -1 with a line printed. */
int session_cut_command(const char *name, int argc, char **argv, char ***command);
/*
 * For tools with an agent: one of -p PID and -- CMD, without an argument beside them, and processes
 * can be found. 0 or CLI_USAGE.
 */
int session_check_program(const char *name, const char *extra, pid_t pid, char *const *command);
/* Checks that a process or a command is given, not both. 0 or an exit status, line printed. */
int session_check_target(const char *name, pid_t pid, char **command);

/*
 * Starts the command, if there is one, and stops it at its entry. 0 or an exit status, line
 * printed.
 */
int session_hold(struct session *r);
/*
 * Continues the command, or kills it if it is not wanted. From now on Ctrl-C ends the observation.
 * A second call has no effect.
 */
void session_release(struct session *r, bool wanted);

/* Has the command that was started ended? False for a process that ran before, too. */
bool session_child_has_ended(struct session *r);

/* Opens the target's objects. 0 or an exit status, line printed. */
int session_open_symbols(const struct session *r, struct symbols **out);
/* Call this when r->probe is known. It prints a note if that address is not mapped. */
void session_open_memory(struct session *r);

/*
 * Passes records to fn until there is a reason to end, which is returned. Then the events are
 * disabled and fn has got all records. The limit is compared with *hits.
 */
const char *session_loop(struct session *r, struct trapline *target, struct pace *pace,
			 struct output *o, trapline_callback fn, const uint64_t *hits);

/*
 * A tracer of this process waits for threads that stop late. The session's thread calls it now and
 * then. True: the first thread has ended, with *status as waitpid() gives it. NULL: no thread is
 * waited for.
 */
extern bool (*session_late)(int *status);

/* How the command ended: `exited with status 3`, or empty text for status 0. */
void session_describe_command(struct session *r, char *buf, size_t n);
/* Waits for the started command, as a shell does, since it may use the terminal. */
void session_wait_for_command(struct session *r);
void session_close(struct session *r);

/* Prints a note on what is missing without BPF. */
void session_note_without_bpf(const struct session *r);

/* Refuses an option that reads registers or the stack of a 32-bit program; given NULL: none. */
int session_check_width(const struct session *r, struct symbols *s, const char *given);

/*
 * The name `what` was not found. If the command is a shell or another program that runs programs,
 * prints that only the shell was searched, and returns an exit status. Otherwise returns 0.
 */
int session_not_found(const char *name, char **command, const char *what, bool can_follow);

/* Prints the library's last error as one line. Returns an exit status. */
int session_explain(const struct session *r, const char *doing, const char *what, int err);

#endif
