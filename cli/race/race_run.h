/* SPDX-License-Identifier: MIT */
/* race_run.h - what the files of `trapline race` share. */
#ifndef RACE_RUN_H
#define RACE_RUN_H

#include "cli/inject/inject.h"
#include "cli/launch/agent_start.h"
#include "cli/opts.h"
#include "cli/race/race_members.h"
#include "cli/race/race_vary.h"
#include "race/host/race_cpu_events.h"
#include "race/host/race_ticks.h"
#include "report/race/race_places.h"
#include "report/race/race_report.h"
#include "report/race/race_totals.h"

#include <stdbool.h>
#include <sys/types.h>

struct race_cli_settings {
	double overhead; /* percent; 0: the default */
	const char *grade;
	const char *output;
	uint64_t frames; /* of each stack, in text; 0: all */
	uint64_t error_exitcode;
	uint64_t until_covered;
	int json;
	const char *as;	   /* text, json or sarif */
	int is_sarif;	   /* the report itself is */
	const char *sarif; /* a file, beside the report */
	struct opt_list suppressions;
	const char *gen_suppressions; /* empty or a syntax; NULL: none */
	const char *baseline;
	int write_baseline;
	int sweep;
	int heap;
	const char *replay; /* a fingerprint */
	const char *input;  /* a file of JSON lines that has that race */
	int verbose;
	struct opt_list vary;
	pid_t pid;	 /* a running process; 0: the command */
	uint64_t for_ns; /* 0: not given */
	char **command;
	char program[256]; /* what is searched, for the reader */
	uint64_t budget_ppm;
	uint64_t delay_ns; /* 0: adaptive */
	uint64_t time_ns;  /* after which a sweep or a replay starts no new run */
	enum race_grade grade_max;
};

/* Options into settings. 0, -1 after --help, or an exit status, line printed. */
int race_settings_read(struct race_cli_settings *set, int argc, char **argv);

/* Within this time a running thread gets a sample, and ends the search. */
#define RACE_LAST_TICK_MS 100

/* race_launch.c: the shared region, and the start of a command with the agent. */
struct race_run {
	struct race_region *region;
	struct agent_region memory; /* the same */
	pid_t pid;
	struct race_ticks ticks;
	struct race_cpus cpus;
	struct race_members members;
	uint64_t began;		/* the command of this run, in ticks since the machine started */
	uint64_t fast_until_ns; /* samples come more often: processes have begun */
	uint64_t known_processes;
	/* Of a process that ran already: */
	int memory_fd;
	int hangup_fd; /* the process gets a signal when this is closed: see record/race_region.h; -1: none */
	uint64_t probe;	  /* is mapped as long as it is the same program */
	bool was_stopped; /* by a signal or a debugger, when the search began or ended */
	/* Threads that had SIGTRAP blocked before; once the search runs, those of them that it unblocked. */
	struct inject_masked *blocked;
	size_t blocked_count;
};

/* Each returns 0 or an exit status, line printed. */
int race_region_open(const struct race_cli_settings *set, struct race_run *run);
void race_region_close(struct race_run *run);
int race_command_start(const struct race_cli_settings *set, struct race_run *run);
/* The search ends in all processes of the command, and the processes continue. */
void race_command_leave(struct race_run *run);
/* More samples while processes are young: they find what only a short program does. */
void race_pace(const struct race_cli_settings *set, struct race_run *run);
/* The rate of samples: enough for the stalls that the budget pays for. */
void race_ticks_settle(struct race_run *run);
/* Opens events of the CPUs if possible; after the clocks. */
void race_cpus_settle(struct race_run *run);
/* Is there a process of any run that has not ended? */
bool race_others_search(const struct race_run *run);
/* To all processes of this run that have the agent, except the command itself. The kernel says which. */
void race_others_signal(const struct race_run *run, int signal);
/* Shows the processes that trapline still runs. */
void race_look(struct race_run *run);
/*
 * Prints a note if only one CPU is available. pid: the process; for a command this one,
 * which it inherits from.
 */
void race_note_cpus(pid_t pid);
/* Can this command be searched on this machine? 0 or an exit status, line printed. */
int race_command_check(const struct race_cli_settings *set);

/*
 * race_attach.c: a process that runs already.
 *
 * race_price: what one trap costs here; nothing could be found where it cannot be had.
 */
int race_price(uint64_t *trap_ns);
int race_attach_start(const struct race_cli_settings *set, struct race_run *run);
bool race_attach_is_over(const struct race_run *run);
void race_attach_end(struct race_run *run);

/*
 * race_replay.c: a race that is known shall be seen again. Changes settings: read them before. Each
 * returns 0 or an exit status, line printed.
 */
struct race_replay_run {
	struct race_replay race;
	uint64_t times;	    /* it was seen, until the end of the last run */
	uint64_t runs_seen; /* in which it was */
	uint64_t last_run;  /* of them; they count from 1 */
};
int race_replay_open(struct race_cli_settings *set, struct race_replay_run *replay);
/* Sets which sites are armed; after the region exists. */
int race_replay_arm(const struct race_cli_settings *set, struct race_replay_run *replay,
		    struct race_region *region);
/* At the end of a run: has the race been seen? */
bool race_replay_is_seen(struct race_replay_run *replay, struct race_report *r, uint64_t run);
/* After it: if no access was trapped at a line of another build, its function is used. */
void race_replay_widen(struct race_replay_run *replay, struct race_region *region);
void race_replay_text(const struct race_replay_run *replay, const struct race_region *region,
		      const struct race_totals *t, FILE *f);
void race_replay_json(const struct race_replay_run *replay, const struct race_region *region,
		      const struct race_totals *t, FILE *f);

/* race_focus.c: which sites is the next run of a sweep for? */
struct race_focus {
	bool is_on; /* for some only */
	uint64_t runs;
	uint64_t others;     /* runs, for all */
	uint64_t focused_ns; /* spent in such runs */
	uint64_t other_ns;
};
/* By chance, 0 to below - 1. */
uint64_t race_draw(uint64_t below);
void race_focus_choose(struct race_focus *focus, struct race_region *region);
/* A run took so long. */
void race_focus_ran(struct race_focus *focus, uint64_t took_ns);

/*
 * race_policy.c: what the user does not want to hear of, and what becomes of a run in files.
 * race_policy_open() returns 0 or an exit status, line printed.
 */
int race_policy_open(const struct race_cli_settings *set, struct race_policy *policy);
void race_policy_close(struct race_policy *policy);

/* How a run ended. */
struct race_end {
	const struct race_totals *totals;
	uint64_t wall_s;   /* since 1970, now */
	int child_status;  /* as waitpid() gives it */
	bool is_running;   /* the program is: it has no exit status yet */
	const char *blind; /* why nothing could be searched, or NULL */
};
/* Writes the report as SARIF. 0 or -errno. */
int race_policy_sarif(const struct race_cli_settings *set, struct race_report *r,
		      const struct race_end *end, FILE *f);
/* Writes --sarif and --baseline to their files. Prints notes. 0 or CLI_NO. */
int race_policy_end(const struct race_cli_settings *set, struct race_report *r,
		    const struct race_end *end);

#endif
