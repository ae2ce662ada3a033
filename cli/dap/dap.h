/* SPDX-License-Identifier: MIT */
/*
 * dap.h - a session of `trapline dap`: one client, one process, and many breakpoints in it that
 * come and go while it runs.
 *
 * A breakpoint is a row of the client's list, with its locations in the code or its bytes. An arm
 * is an event of the library: it belongs to one breakpoint, or to a batch of those that have
 * neither condition nor limit. Closing an arm costs a moment in the kernel, so that a thousand
 * breakpoints are not a thousand events. A breakpoint never changes its arm: a hit is then seen
 * exactly once, no matter what the client edits.
 */
#ifndef CLI_DAP_DAP_H
#define CLI_DAP_DAP_H

#include "cli/dap/dap_frames.h"
#include "cli/dap/dap_send.h"
#include "cli/launch/thread_names.h"
#include "cli/observe/hit_template.h"
#include "cli/observe/pace.h"
#include "cli/observe/targets.h"
#include "cli/watch/watch_expr.h"
#include "report/code/code_sites.h"

#include <trapline/condition.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DAP_WHY 600 /* bytes of a sentence */
#define DAP_HISTORY 20
#define DAP_CHILDREN 8
#define DAP_HAS_ENDED "the process has ended: attach or launch in another session"

enum dap_kind {
	DAP_LINE,
	DAP_FUNCTION,
	DAP_DATA,
};

struct dap_arm;
struct dap_races;
struct dap_tree;

/* Hits of one breakpoint, where they went. */
struct dap_counts {
	uint64_t hits;	  /* that arrived */
	uint64_t shown;	  /* as a line of their own */
	uint64_t unshown; /* since the last sum */
	uint64_t summed;  /* in a sum */
};

/* A value that a data breakpoint saw. */
struct dap_seen {
	uint64_t time_ns;
	char text[120];
	char by[120];
};

struct dap_point {
	enum dap_kind kind;
	int id;
	/* As the client asked for it; all are never NULL but the first two. */
	char *path; /* of the source; NULL: no line */
	int line;
	char *name;	 /* of the function, or the data */
	char *condition; /* empty: none */
	char *hit_condition;
	char *log;
	char *access;
	bool is_kept; /* the client's new list has it still */
	/* What became of it: */
	bool is_verified;
	char why[DAP_WHY]; /* not verified, or worth knowing; empty: nothing */
	int real_line;
	uint64_t limit; /* 0: none */
	uint64_t skip;
	struct trapline_condition *made;
	struct dap_counts counts;
	struct dap_arm *arm; /* NULL: none */
	struct dap_point *next;
	/* a location in the code: */
	struct code_sites sites;
	struct signature **signature;  /* by index of sites; each may be NULL */
	struct hit_template *template; /* NULL: the client gave no text */
	struct hit_bound **bound;      /* by index of sites */
	/* bytes of data: */
	struct watch_expr expr;
	struct dap_seen seen[DAP_HISTORY]; /* the oldest is overwritten */
	uint64_t seen_count;
};

/* Where a hit of a shared arm belongs. */
struct dap_site {
	uint64_t address;
	struct dap_point *point;
	size_t index; /* of the point's sites */
};

struct dap_arm {
	struct dap *dap;
	struct trapline_event *event;
	struct dap_site *site; /* by address */
	size_t count;
	size_t points; /* that it still has */
	bool is_shared;
	struct pace pace; /* of data */
	uint64_t orphans; /* hits of points that were removed since */
	struct dap_arm *next;
};

/* A program whose output is passed on: a command of the console, or the process itself. */
struct dap_child {
	pid_t pid;		 /* 0: the slot is free */
	int fd[2];		 /* its standard output and error; -1: closed */
	struct dap_races *races; /* its standard output is those; NULL: it is text */
	bool is_command;	 /* it ends with the session; else it is the process */
	uint64_t dropped;	 /* bytes, since this was last stated */
};

struct dap {
	int in_fd;
	struct dap_frames in;
	struct dap_send out;
	const char *token;   /* NULL: none is needed */
	const char *ended;   /* why the session ends; NULL: it continues */
	bool is_trusted;     /* the token was shown, or none is needed */
	bool is_initialized; /* the client was */
	bool counts_lines_from_0;
	bool is_configured;
	bool is_terminated; /* the client knows */
	int next_id;
	/* The process: */
	pid_t pid; /* 0: none yet */
	bool is_launched;
	bool follows;	     /* its children are observed too: targets */
	bool first_has_gone; /* but its children have not: no location can be looked up */
	bool is_held;	     /* at its entry, until the client has set its breakpoints */
	bool has_exited;
	bool said_later; /* that memory is read after a hit */
	int exit_status;
	int memory_fd;
	uint64_t probe;
	struct symbols *symbols;
	struct trapline *target;
	struct thread_names names;
	struct observe_settings set; /* of targets */
	struct targets targets;
	struct dap_tree *tree; /* of variables; NULL: the client did not ask for any */
	struct dap_child child[DAP_CHILDREN];
	struct dap_point *points;
	struct dap_arm *arms;
	size_t arm_count;
	uint64_t drained_ns; /* records were read, the last time */
	/* Lines in this second. */
	uint64_t second_ns;
	unsigned int lines;
	unsigned int child_lines;
	uint64_t unshown; /* hits */
};

/* A line in the client's console. */
void dap_say(struct dap *d, const char *category, const char *text);
/* The same with a location that the client can open, and start or end of a group, or NULL. */
void dap_say_at(struct dap *d, const char *text, const char *path, int line, const char *group);
__attribute__((format(printf, 2, 3))) void dap_note(struct dap *d, const char *format, ...);

#endif
