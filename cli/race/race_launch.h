/* SPDX-License-Identifier: MIT */
/* race_launch.h - the memory that a run shares with its processes, and the start of a command. */
#ifndef CLI_RACE_RACE_LAUNCH_H
#define CLI_RACE_RACE_LAUNCH_H

#include "cli/inject/inject_opened.h"
#include "cli/launch/agent_start.h"
#include "cli/race/race_members.h"
#include "cli/race/race_outside.h"
#include "cli/race/race_settings.h"
#include "cli/search/search_check.h"
#include "race/host/race_cpu_events.h"
#include "race/host/race_ticks.h"

/* Within this time a running thread gets a sample, and ends the search. */
#define RACE_LAST_TICK_MS 100

struct race_run {
	struct race_region *region;
	struct agent_region memory; /* the same */
	pid_t pid;
	struct race_ticks ticks;
	struct race_cpus cpus;
	struct race_members members;
	struct race_outside outside; /* the search, if it is from outside */
	uint64_t began; /* the command of this run, in clock ticks since the machine started */
	uint64_t fast_until_ns; /* samples come more often: processes have begun */
	uint64_t known_processes;
	/* for a process that ran already: */
	int memory_fd;
	/* the process gets a signal when this is closed: see record/race_region.h; -1: none */
	int hangup_fd;
	uint64_t probe;		     /* is mapped as long as it is the same program */
	bool was_stopped;	     /* by a signal or a debugger, when the search ended */
	struct inject_opened opened; /* of a process that runs already */
};

extern const struct search_kind race_search;

/* Each returns 0 or an exit status, line printed. Without debug registers set->outside is set. */
int race_region_open(struct race_cli_settings *set, struct race_run *run);
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
/*
 * To all processes of this run that have the agent, except the command itself. The kernel states
 * which.
 */
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

/* enum race_step in words. */
extern const char *const race_step_names[RACE_STEPS];

#endif
