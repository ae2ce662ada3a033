// SPDX-License-Identifier: MIT
/*
 * break_arm.c - put breakpoints on places: uprobes where there is a file behind the code and the
 * kernel lets us, else hardware breakpoints, of which there are four.
 *
 * Uprobes of one event are placed all or none. One instruction that the kernel does not take
 * would spoil thousands: it is found by halves, and left out by name.
 */
#include "cli/break.h"
#include "cli/cmd.h"
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND break_command
#define TRIES_MAX 400 /* each takes some milliseconds */

enum fate {
	BY_UPROBE,
	BY_HARDWARE,
	REFUSED
};

struct arming {
	struct trapline *target;
	const struct code_sites *sites;
	const struct trapline_event_opts *opts;
	struct break_armed *armed;
	unsigned char *fate; /* of each site */
	unsigned int tries;
	int error; /* the last, of a place */
};

/* Those of the sites that are of a group and have uprobes so far. */
static size_t collect(const struct arming *a, size_t from, size_t to, bool functions,
		      bool all, uint64_t *addresses)
{
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		const struct code_site *site = &a->sites->site[i];
		if (a->fate[i] == BY_UPROBE &&
		    (all || (site->kind == CODE_SITE_FUNCTION) == functions))
			addresses[n++] = site->address;
	}
	return n;
}

static int try_range(struct arming *a, size_t from, size_t to, uint64_t *addresses)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	size_t n = collect(a, from, to, false, true, addresses);

	if (!n)
		return 0;
	opts.flags = TRAPLINE_DISABLED;
	a->tries++;
	int err = trapline_break_sites(a->target, addresses, n, &opts, &event);
	if (err >= 0)
		trapline_event_close(event);
	return err;
}

/* Find the places that spoil the rest. */
static void find_refused(struct arming *a, size_t from, size_t to, uint64_t *addresses)
{
	if (from == to || a->tries > TRIES_MAX)
		return;
	int err = try_range(a, from, to, addresses);
	if (err >= 0)
		return;
	if (to - from == 1) {
		a->error = err;
		a->fate[from] = a->sites->site[from].is_certain && err != -ENOENT ?
					REFUSED :
					BY_HARDWARE;
		return;
	}
	size_t middle = from + (to - from) / 2;
	find_refused(a, from, middle, addresses);
	find_refused(a, middle, to, addresses);
}

static int open_group(struct arming *a, bool functions, bool all, uint64_t *addresses)
{
	struct trapline_event_opts opts = *a->opts;
	struct break_armed *armed = a->armed;
	size_t n = collect(a, 0, a->sites->count, functions, all, addresses);

	/* What is no whole function does not return. */
	if (!functions)
		opts.flags &= ~TRAPLINE_RETURNS;
	if (!n)
		return 0;
	int err = trapline_break_sites(a->target, addresses, n, &opts,
				       &armed->event[armed->count]);
	if (err >= 0)
		armed->count++;
	return err;
}

static int open_uprobes(struct arming *a, uint64_t *addresses)
{
	bool returns = a->opts->flags & TRAPLINE_RETURNS;
	int err = open_group(a, true, !returns, addresses);

	return err < 0 || !returns ? err : open_group(a, false, false, addresses);
}

static void close_all(struct break_armed *armed)
{
	for (size_t i = 0; i < armed->count; i++)
		trapline_event_close(armed->event[i]);
	armed->count = 0;
}

static void count_fates(struct arming *a)
{
	struct break_armed *armed = a->armed;

	armed->emulated = armed->stepped = armed->hardware = armed->refused = 0;
	for (size_t i = 0; i < a->sites->count; i++) {
		const struct code_site *site = &a->sites->site[i];
		size_t used = strlen(armed->refused_names);
		armed->emulated += a->fate[i] == BY_UPROBE && site->is_emulated;
		armed->stepped += a->fate[i] == BY_UPROBE && !site->is_emulated;
		armed->hardware += a->fate[i] == BY_HARDWARE;
		armed->refused += a->fate[i] == REFUSED;
		if (a->fate[i] == REFUSED &&
		    used + strlen(site->name) + 4 < sizeof(armed->refused_names))
			snprintf(armed->refused_names + used,
				 sizeof(armed->refused_names) - used, "%s%s",
				 used ? ", " : "", site->name);
	}
}

static int arm_uprobes(struct arming *a, uint64_t *addresses)
{
	int err = open_uprobes(a, addresses);

	if (err >= 0 || err == -EPERM || err == -EACCES || err == -ENOMEM ||
	    err == -ESRCH)
		return err;
	close_all(a->armed);
	find_refused(a, 0, a->sites->count, addresses);
	if (!collect(a, 0, a->sites->count, true, true, addresses)) {
		/* None of them: it is not the places. */
		err = a->error;
	} else {
		err = open_uprobes(a, addresses);
	}
	return err;
}

/* Records of the kernel's own ring tell the caller only by the stack. */
static int open_hardware(struct arming *a, uint64_t address,
			 struct trapline_event_opts *opts, struct trapline_event **out)
{
	int err = trapline_break(a->target, address, opts, out);

	if (err < 0 || trapline_event_mechanism(*out) != TRAPLINE_BY_RING ||
	    opts->flags & TRAPLINE_STACK_BYTES)
		return err;
	trapline_event_close(*out);
	opts->flags |= TRAPLINE_STACK_BYTES;
	return trapline_break(a->target, address, opts, out);
}

static int arm_hardware(struct arming *a, const struct session *session)
{
	struct break_armed *armed = a->armed;
	struct trapline_event_opts opts = *a->opts;

	opts.texts = 0;
	opts.flags &= ~TRAPLINE_RETURNS;
	for (size_t i = 0; i < a->sites->count; i++) {
		const struct code_site *site = &a->sites->site[i];
		if (a->fate[i] != BY_HARDWARE)
			continue;
		int err = open_hardware(a, site->address, &opts,
					&armed->event[armed->count]);
		if (err < 0)
			return session_explain(session, "break on", site->name, err);
		armed->count++;
	}
	return 0;
}

/* Uprobes as a whole do not work here: four places are all there is. */
static int all_by_hardware(struct arming *a, const char *why)
{
	size_t count = a->sites->count;

	if (a->opts->flags & TRAPLINE_RETURNS)
		return cli_wrong(COMMAND, "--ret needs uprobes: %s", why);
	if (count > BREAK_REGISTERS_MAX)
		return cli_wrong(
			COMMAND,
			"%zu places need uprobes, since the processor has %d registers "
			"for breakpoints: %s",
			count, BREAK_REGISTERS_MAX, why);
	memset(a->fate, BY_HARDWARE, count);
	return 0;
}

static int choose_and_arm(struct arming *a, const struct session *session,
			  const struct break_settings *set, uint64_t *addresses)
{
	int status = 0;
	int err = 0;
	char why[600];

	for (size_t i = 0; i < a->sites->count; i++)
		a->fate[i] = a->sites->site[i].is_certain ? BY_UPROBE : BY_HARDWARE;
	if (!set->no_bpf)
		err = arm_uprobes(a, addresses);
	if (err == -EINVAL && a->opts->condition)
		return session_explain(session, "break on", set->where[0], err);
	if (err < 0 || set->no_bpf) {
		if (geteuid() && (err == -EPERM || err == -EACCES))
			snprintf(why, sizeof(why),
				 "they are for root (CAP_SYS_ADMIN and CAP_BPF)");
		else
			trapline_explain(err, why, sizeof(why));
		close_all(a->armed);
		status = all_by_hardware(a, set->no_bpf ? "--no-bpf" : why);
	}
	if (status)
		return status;
	count_fates(a);
	if (a->armed->hardware > BREAK_REGISTERS_MAX)
		return cli_wrong(
			COMMAND,
			"%zu places need hardware breakpoints, for lack of a file behind "
			"the code or of a known function around them, and there are %d",
			a->armed->hardware, BREAK_REGISTERS_MAX);
	if (a->armed->hardware && a->opts->flags & TRAPLINE_RETURNS)
		cli_note(
			COMMAND,
			"%zu place%s by hardware breakpoint: without results and durations",
			a->armed->hardware, a->armed->hardware == 1 ? "" : "s");
	return arm_hardware(a, session);
}

int break_arm(struct trapline *target, const struct session *session,
	      const struct break_settings *set, const struct code_sites *sites,
	      const struct trapline_event_opts *opts, struct break_armed *armed)
{
	struct arming a = {
		.target = target, .sites = sites, .opts = opts, .armed = armed
	};
	uint64_t *addresses = calloc(sites->count, sizeof(*addresses));
	int status = CLI_NO;

	a.fate = calloc(sites->count, 1);
	if (addresses && a.fate)
		status = choose_and_arm(&a, session, set, addresses);
	else
		cli_wrong(COMMAND, "out of memory");
	free(a.fate);
	free(addresses);
	if (!status && armed->refused)
		cli_note(
			COMMAND,
			"%zu place%s left out, since the kernel takes no breakpoint there: %s",
			armed->refused, armed->refused == 1 ? "" : "s",
			armed->refused_names);
	return status;
}
