/* SPDX-License-Identifier: MIT */
/* break_pending.c - see break_pending.h. */
#include "cli/break/break_pending.h"

#include "base/clock.h"
#include "cli/break/break_find.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/observe/targets_find.h"
#include "cli/watchdog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* glibc and musl call it with their lock taken, so that one thread at a time is there. */
#define LOADED "_dl_debug_state"
/* Objects that another loader maps are found by looks, which read the memory map. */
#define LOOK_MS 100

int break_pending_check(const struct observe_settings *set)
{
	const char *against = !set->pending	  ? NULL :
			      set->process_name	  ? "--name" :
			      set->follow	  ? "--follow" :
			      set->pids.count > 1 ? "several processes" :
			      set->trace	  ? "--trace" :
			      set->list		  ? "--list" :
			      set->explain	  ? "--explain" :
			      set->mechanism && !strcmp(set->mechanism, "probe") ?
					     "--mechanism probe" :
					     NULL;

	return against ? cli_wrong(set->name, "--pending cannot be combined with %s", against) : 0;
}

static enum trapline_action on_load(const struct trapline_hit *hit)
{
	struct break_pending *p = hit->arg;

	p->loaded_ns = hit->time_ns;
	return TRAPLINE_GO_ON;
}

/* The first LOCATION that the process does not have, with the reason in why. NULL: it has all. */
static const char *missing(const struct observe *o, char *why, size_t n)
{
	const struct observe_settings *set = &o->set;

	for (size_t i = 0; i < set->operand_count; i++) {
		struct code_sites sites = { .all_copies = set->inlined };
		int err = code_sites_find(o->symbols, set->operands[i], &sites, why, n);

		code_sites_free(&sites);
		if (err == -ENOENT)
			return set->operands[i];
	}
	return NULL;
}

static bool is_static(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", program_reader(pid));
	return program_is_static(path);
}

static uint64_t address_of_loaded(struct symbols *s)
{
	struct code_sites sites = { 0 };
	char why[1];
	uint64_t address = 0;

	if (!code_sites_find(s, LOADED, &sites, why, 0))
		address = sites.site[0].address;
	code_sites_free(&sites);
	return address;
}

static void note_no_stall(const struct observe *o, const char *why)
{
	cli_note(o->set.name,
		 "cannot stall the thread that loads a library: %s; calls before the breakpoint is "
		 "armed are not seen",
		 why);
}

/* By a uprobe, else by a register, else by looks alone. */
static void arm_loaded(struct break_pending *p, const struct observe *o)
{
	TRAPLINE_OPTS(event, opts);
	uint64_t address = address_of_loaded(o->symbols);
	char why[300] = "it needs BPF; see trapline check";

	if (!address || trapline_open(o->session.pid, NULL, &p->target) < 0)
		return;
	opts.arg = p;
	if (!o->set.no_bpf && !watch_stall_open(o->session.pid, why, sizeof(why), &p->stall)) {
		opts.flags = TRAPLINE_STOP;
		opts.signal = (uint32_t)watch_stall_signal(p->stall);
		if (trapline_break_sites(p->target, &address, 1, &opts, &p->event) >= 0)
			return;
		watch_stall_close(p->stall);
		p->stall = NULL;
		snprintf(why, sizeof(why), "it needs uprobes and BPF; see trapline check");
	}
	opts.flags = 0;
	opts.signal = 0;
	if (trapline_break(p->target, address, &opts, &p->event) < 0)
		p->event = NULL;
	note_no_stall(o, why);
}

static void trace(struct break_pending *p, const struct observe *o)
{
	char why[300] = "";

	if (!p->stall)
		return;
	if (!watch_stall_trace(p->stall, why, sizeof(why))) {
		trapline_event_stop_next(p->event, 1);
		return;
	}
	note_no_stall(o, why);
	watch_stall_close(p->stall);
	p->stall = NULL;
}

/* Does the process have it all now? Its names are read again where a new file may have it. */
static bool has_all(struct break_pending *p, struct observe *o)
{
	uint64_t layout = targets_layout(o->session.pid);
	struct symbols *now;

	if (!layout || layout == p->layout)
		return false;
	p->layout = layout;
	if (!break_loaded_may_have(&p->loaded, o->session.pid, p->what) ||
	    symbols_open(o->session.pid, &now))
		return false;
	p->looks++;
	symbols_close(o->symbols);
	o->symbols = now;
	p->what = missing(o, NULL, 0);
	return !p->what;
}

static bool has_ended(struct break_pending *p, struct session *r, int polled)
{
	if (!r->command)
		return polled == -ESRCH || program_has_ended(r->pid);
	if (!p->stall)
		return session_child_has_ended(r);
	r->child_ended = watch_stall_has_ended(p->stall, &r->child_status);
	return r->child_ended;
}

static const char *reason_to_end(struct break_pending *p, struct observe *o, int polled)
{
	struct session *r = &o->session;

	if (has_ended(p, r, polled))
		return "the process ended";
	if (asked_times)
		return RUN_ENDED_SIGNAL;
	if (r->for_ns && clock_now_ns() - r->started_ns >= r->for_ns)
		return RUN_ENDED_TIME;
	return NULL;
}

static int take_hits(struct break_pending *p, int timeout_ms)
{
	const struct timespec step = { 0, timeout_ms * 1000000 };

	if (!p->event) {
		nanosleep(&step, NULL);
		return 0;
	}
	if (!p->stall)
		return trapline_poll(p->target, timeout_ms, on_load);
	watch_stall_wait(p->stall, trapline_fd(p->target), timeout_ms);
	watch_stall_look(p->stall);
	return trapline_poll(p->target, 0, on_load);
}

/* NULL: the process has all, and the thread that loaded it is stalled still. Else why not. */
static const char *wait_for_all(struct break_pending *p, struct observe *o)
{
	for (int polled = 0;;) {
		const char *reason = NULL;

		if (has_all(p, o))
			return NULL;
		if (p->stall && watch_stall_look(p->stall)) {
			trapline_event_stop_next(p->event, 1);
			p->stalled_ns += watch_stall_go(p->stall);
		}
		reason = reason_to_end(p, o, polled);
		if (reason)
			return reason;
		polled = take_hits(p, LOOK_MS);
	}
}

static int not_loaded(const struct observe *o, const char *what, const char *reason)
{
	cli_note(o->set.name, "no library that has '%.200s' was loaded: %s", what, reason);
	return CLI_NO;
}

int break_pending_wait(struct break_pending *p, struct observe *o)
{
	struct session *r = &o->session;
	char why[500] = "";

	p->layout = targets_layout(r->pid);
	const char *what = missing(o, why, sizeof(why));
	if (!what)
		return 0;
	p->what = what;
	break_loaded_may_have(&p->loaded, r->pid, what);
	if (is_static(r->pid))
		return cli_wrong(o->set.name,
				 "cannot wait for '%.200s': %s is linked statically, and loads no "
				 "library",
				 what, symbols_program(o->symbols));
	output_clear_status(&o->to);
	cli_note(o->set.name, "%s; waiting for a library that has '%.200s'%s", why, what,
		 o->set.operand_count > 1 ? ", and all locations are observed from then on" : "");
	arm_loaded(p, o);
	r->started_ns = clock_now_ns();
	session_release(r, true);
	trace(p, o);
	output_progress(&o->to, "waiting for a library that has %s", what);
	const char *reason = wait_for_all(p, o);
	output_clear_status(&o->to);
	if (reason)
		return not_loaded(o, p->what, reason);
	/* --for includes the wait. */
	if (r->for_ns) {
		uint64_t waited = clock_now_ns() - r->started_ns;
		r->for_ns = waited < r->for_ns ? r->for_ns - waited : 1;
	}
	return 0;
}

void break_pending_armed(struct break_pending *p, struct observe *o)
{
	bool is_stalled = p->stall && watch_stall_look(p->stall);
	char before[64];
	char lag[64];

	if (!p->looks)
		return;
	run_duration_text(p->loaded_ns ? clock_now_ns() - p->loaded_ns : LOOK_MS * 1000000u, lag,
			  sizeof(lag));
	run_duration_text(p->stalled_ns, before, sizeof(before));
	if (is_stalled)
		cli_note(o->set.name,
			 "the library is loaded: armed before its code ran, after a stall of %s "
			 "(%s at other loads)",
			 lag, before);
	else
		cli_note(o->set.name,
			 "the library is loaded: armed %s%s later, and calls before that were not "
			 "seen",
			 p->loaded_ns ? "" : "up to ", lag);
	break_pending_release(p, &o->session);
}

void break_pending_release(struct break_pending *p, struct session *r)
{
	if (p->stall) {
		trapline_event_stop_next(p->event, 0);
		watch_stall_leave(p->stall);
		/* Its status is given once. */
		if (r->command && !r->child_ended)
			r->child_ended = watch_stall_has_ended(p->stall, &r->child_status);
	}
	watch_stall_close(p->stall);
	if (p->event)
		trapline_event_close(p->event);
	trapline_close(p->target);
	break_loaded_free(&p->loaded);
	*p = (struct break_pending){ .target = NULL };
}
