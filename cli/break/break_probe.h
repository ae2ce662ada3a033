/* SPDX-License-Identifier: MIT */
/* break_probe.h - probes: the agent in the process makes the hits. */
#ifndef CLI_BREAK_BREAK_PROBE_H
#define CLI_BREAK_BREAK_PROBE_H

#include "cli/launch/agent_start.h"
#include "cli/observe/observe.h"
#include "record/hit_ring.h"
#include "record/layout.h"
#include "record/probe_region.h"
#include "report/code/code_sites.h"

struct break_probe {
	struct probe_region *region; /* NULL: another mechanism */
	struct agent_region memory;
	int lock_fd; /* as long as it is open, the agent keeps the probes */
	struct hit_reader reader;
	uint8_t *slot; /* the copy of a record that is being inspected */
	const struct code_sites *sites;
	uint32_t texts;	  /* as asked for: the process is not asked again */
	uint32_t vectors; /* asked for before break_probe_arm() */
	uint32_t stack_bytes;
	uint64_t delivered;
	uint64_t damaged; /* records that no agent writes */
	char refused_names[200];
	/* where probes are not used, although there is a choice; empty: no choice */
	char why_not[256];
	bool is_chosen; /* here, and not by --mechanism: what cannot be done is left to uprobes */
};

/* 0, or an exit status with the option or the limit that is against it printed. */
int break_probe_check(struct observe_settings *set);

/*
 * True: by --mechanism, or where CMD is started and they cost less than uprobes. probe->is_chosen
 * or why_not state more.
 */
bool break_probe_is_wanted(const struct observe_settings *set, struct break_probe *probe);

/* Before the start of a command, or before the attach. 0 or an exit status, line printed. */
int break_probe_begin(const struct observe_settings *set, struct break_probe *probe);
/* Starts the command with the agent, which waits before the first code of the program. */
int break_probe_hold(struct break_probe *probe, struct session *r);

/* Its hits have vector registers, which conditions can compare. */
static inline bool break_probe_has_vectors(const struct break_probe *probe)
{
	return probe->region && RECORD_VECTORS > 0;
}

/* break_probe_arm() returns it: probe->why_not is the reason, and the process waits. */
#define BREAK_PROBE_UNFIT (-1)
/* After that: the process runs without probes. */
void break_probe_decline(struct break_probe *probe);

/*
 * 0, BREAK_PROBE_UNFIT if probes were chosen here, or an exit status, line printed. *out: how many
 * sites of each kind.
 */
int break_probe_arm(struct break_probe *probe, struct observe *o, const struct code_sites *sites,
		    const struct trapline_event_opts *opts, struct run_calls_end *out);

/* As trapline_poll(). */
int break_probe_poll(struct break_probe *probe, struct observe *o, int timeout_ms,
		     trapline_callback fn);

/*
 * The instructions are as before when it returns, or the process has ended. The last hits go to fn.
 */
void break_probe_end(struct break_probe *probe, struct observe *o, trapline_callback fn,
		     struct run_end *end);
void break_probe_release(struct break_probe *probe);

#endif
