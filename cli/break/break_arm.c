/* SPDX-License-Identifier: MIT */
/*
 * break_arm.c - put breakpoints on sites: uprobes where the code has a file and the kernel permits
 * them, else hardware breakpoints, of which there are four.
 *
 * The kernel accepts all uprobes of one event or none, and refuses some instructions. So one site
 * can prevent thousands. The bytes show most such sites, and one of each kind is tried. What is
 * left is found by bisection, which takes many tries. They are left out, and reported by name.
 */
#include "cli/break/break_arm.h"

#include "cli/message.h"
#include "cli/observe/targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/dwarf/instruction.h"

#define TRIES_MAX 400 /* each takes some milliseconds */
#define FEW_SITES 32  /* chosen one by one: then the refused ones may take registers */

enum fate {
	BY_UPROBE,
	BY_UPROBE_WITHOUT_RETURN, /* a function whose return instructions are not known */
	BY_HARDWARE,
	BY_REGISTER, /* a hardware breakpoint that has its location already */
	REFUSED
};

/* Which sites go into one event. */
enum group {
	WITH_RETURNS,
	WITHOUT_RETURNS,
	ALL
};

struct arming {
	const struct observe *run;
	const struct code_sites *sites;
	const struct trapline_event_opts *opts;
	struct break_armed *armed;
	unsigned char *fate; /* of each site */
	unsigned int tries;
	int error; /* the last one of a site */
};

static bool arm_is_in(const struct arming *a, size_t i, enum group group)
{
	bool returns = a->fate[i] == BY_UPROBE && a->sites->site[i].kind == CODE_SITE_FUNCTION;

	if (a->fate[i] != BY_UPROBE && a->fate[i] != BY_UPROBE_WITHOUT_RETURN)
		return false;
	return group == ALL || returns == (group == WITH_RETURNS);
}

/* What becomes of a site that the kernel refuses. */
static enum fate refused_fate(const struct code_site *site, int err)
{
	return site->is_certain && err != -ENOENT ? REFUSED : BY_HARDWARE;
}

/* The addresses of the sites of one group that have uprobes so far. */
static size_t collect(const struct arming *a, size_t from, size_t to, enum group group,
		      uint64_t *addresses)
{
	size_t n = 0;

	for (size_t i = from; i < to; i++)
		if (arm_is_in(a, i, group))
			addresses[n++] = a->sites->site[i].address;
	return n;
}

static int try_range(struct arming *a, size_t from, size_t to, enum group group,
		     uint64_t *addresses)
{
	TRAPLINE_OPTS(event, opts);
	struct trapline_event *event;
	size_t n = collect(a, from, to, group, addresses);

	if (!n)
		return 0;
	opts.flags = TRAPLINE_DISABLED | (group == WITH_RETURNS ? TRAPLINE_RETURNS : 0);
	a->tries++;
	int err = trapline_break_sites(a->run->target, addresses, n, &opts, &event);
	if (err >= 0)
		trapline_event_close(event);
	return err;
}

/* Find the sites that the kernel refuses, or the functions whose returns cannot be found. */
static void find_refused(struct arming *a, size_t from, size_t to, enum group group,
			 uint64_t *addresses)
{
	if (from == to || a->tries > TRIES_MAX)
		return;
	int err = try_range(a, from, to, group, addresses);
	if (err >= 0)
		return;
	if (to - from == 1) {
		a->error = err;
		a->fate[from] = group == WITH_RETURNS ? BY_UPROBE_WITHOUT_RETURN :
							refused_fate(&a->sites->site[from], err);
		return;
	}
	size_t middle = from + (to - from) / 2;
	find_refused(a, from, middle, group, addresses);
	find_refused(a, middle, to, group, addresses);
}

/* One site of each kind that looks refused is tried, and the others of its kind have its fate. */
static void try_refusals(struct arming *a, uint64_t *addresses)
{
	const struct code_site *site = a->sites->site;
	bool is_known[CODE_REFUSALS] = { false };

	for (size_t i = 0; i < a->sites->count; i++) {
		unsigned int refusal = site[i].refusal;

		if (!refusal || refusal >= CODE_REFUSALS || is_known[refusal] ||
		    a->fate[i] != BY_UPROBE)
			continue;
		int err = try_range(a, i, i + 1, ALL, addresses);
		if (err == -EPERM || err == -EACCES)
			return;
		is_known[refusal] = true;
		a->error = err < 0 ? err : a->error;
		for (size_t j = i; err < 0 && j < a->sites->count; j++)
			if (site[j].refusal == refusal && a->fate[j] == BY_UPROBE)
				a->fate[j] = refused_fate(&site[j], err);
	}
}

static int open_group(struct arming *a, enum group group, uint64_t *addresses)
{
	struct trapline_event_opts opts = *a->opts;
	struct break_armed *armed = a->armed;
	size_t n = collect(a, 0, a->sites->count, group, addresses);

	/* Only a whole function returns. */
	if (group != WITH_RETURNS)
		opts.flags &= ~TRAPLINE_RETURNS;
	if (!n)
		return 0;
	int err = trapline_break_sites(a->run->target, addresses, n, &opts,
				       &armed->event[armed->count]);
	if (err >= 0)
		armed->count++;
	return err;
}

static int open_uprobes(struct arming *a, uint64_t *addresses)
{
	if (!(a->opts->flags & TRAPLINE_RETURNS))
		return open_group(a, ALL, addresses);
	int err = open_group(a, WITH_RETURNS, addresses);
	return err < 0 ? err : open_group(a, WITHOUT_RETURNS, addresses);
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

	armed->sites.emulated = armed->sites.stepped = armed->sites.hardware =
		armed->sites.refused = 0;
	for (size_t i = 0; i < a->sites->count; i++) {
		const struct code_site *site = &a->sites->site[i];
		size_t used = strlen(armed->refused_names);
		armed->sites.emulated += arm_is_in(a, i, ALL) && site->is_emulated;
		armed->sites.stepped += arm_is_in(a, i, ALL) && !site->is_emulated;
		armed->sites.hardware += a->fate[i] == BY_HARDWARE || a->fate[i] == BY_REGISTER;
		armed->left_out[i] = a->fate[i] == REFUSED;
		armed->sites.refused += a->fate[i] == REFUSED;
		if (a->fate[i] == REFUSED &&
		    used + strlen(site->name) + 4 < sizeof(armed->refused_names))
			snprintf(armed->refused_names + used, sizeof(armed->refused_names) - used,
				 "%s%s", used ? ", " : "", site->name);
	}
}

/*
 * The returns of some functions cannot be found: their code is not understood. These are observed
 * without; where it is all of them, returns are refused.
 */
static int leave_out_returns(struct arming *a, uint64_t *addresses)
{
	size_t before = collect(a, 0, a->sites->count, WITH_RETURNS, addresses);

	if (!before)
		return 0;
	find_refused(a, 0, a->sites->count, WITH_RETURNS, addresses);
	return collect(a, 0, a->sites->count, WITH_RETURNS, addresses) ? 0 : a->error;
}

static int arm_uprobes(struct arming *a, uint64_t *addresses)
{
	try_refusals(a, addresses);
	if (!collect(a, 0, a->sites->count, ALL, addresses))
		return a->error;
	int err = open_uprobes(a, addresses);

	if (err >= 0 || err == -EPERM || err == -EACCES || err == -ENOMEM || err == -ESRCH)
		return err;
	close_all(a->armed);
	if (err == -EOPNOTSUPP && a->opts->flags & TRAPLINE_RETURNS) {
		err = leave_out_returns(a, addresses);
		if (!err)
			err = open_uprobes(a, addresses);
		if (err >= 0 || err == -EOPNOTSUPP)
			return err;
		close_all(a->armed);
	}
	find_refused(a, 0, a->sites->count, ALL, addresses);
	if (!collect(a, 0, a->sites->count, ALL, addresses)) {
		/* All are refused: the cause is not the sites. */
		err = a->error;
	} else {
		err = open_uprobes(a, addresses);
	}
	return err;
}

static size_t count_fate(const struct arming *a, enum fate fate)
{
	size_t n = 0;

	for (size_t i = 0; i < a->sites->count; i++)
		n += a->fate[i] == fate;
	return n;
}

/* A record of the kernel's own ring has the caller only in its copy of the stack. */
static int open_hardware(struct arming *a, uint64_t address, struct trapline_event_opts *opts,
			 struct trapline_event **out)
{
	int err = trapline_break(a->run->target, address, opts, out);

	if (err < 0 || trapline_event_mechanism(*out) != TRAPLINE_BY_RING ||
	    opts->flags & TRAPLINE_STACK_BYTES)
		return err;
	trapline_event_close(*out);
	opts->flags |= TRAPLINE_STACK_BYTES;
	return trapline_break(a->run->target, address, opts, out);
}

static int arm_hardware(struct arming *a)
{
	struct break_armed *armed = a->armed;
	struct trapline_event_opts opts = *a->opts;

	opts.texts = 0;
	opts.flags &= ~TRAPLINE_RETURNS;
	for (size_t i = 0; i < a->sites->count; i++) {
		const struct code_site *site = &a->sites->site[i];
		if (a->fate[i] != BY_HARDWARE)
			continue;
		int err = open_hardware(a, site->address, &opts, &armed->event[armed->count]);
		if (err < 0)
			return session_explain(&a->run->session, "break on", site->name, err);
		armed->count++;
	}
	return 0;
}

/*
 * Where sites are few, those that uprobes refuse get hardware breakpoints while registers are free.
 * The processor has four, and others may use them.
 */
static void take_registers(struct arming *a)
{
	struct break_armed *armed = a->armed;
	struct trapline_event_opts opts = *a->opts;
	const char *forced = a->run->set.mechanism;

	if (a->sites->count > FEW_SITES || (forced && !strcmp(forced, "uprobe")) ||
	    count_fate(a, REFUSED) + count_fate(a, BY_HARDWARE) > BREAK_REGISTERS_MAX)
		return;
	opts.texts = 0;
	opts.flags &= ~TRAPLINE_RETURNS;
	for (size_t i = 0; i < a->sites->count; i++) {
		if (a->fate[i] != REFUSED || open_hardware(a, a->sites->site[i].address, &opts,
							   &armed->event[armed->count]) < 0)
			continue;
		a->fate[i] = BY_REGISTER;
		armed->count++;
	}
}

/* Uprobes do not work here at all: four sites are possible. */
static int all_by_hardware(struct arming *a, bool have_uprobes, const char *why)
{
	size_t count = a->sites->count;
	const char *forced = a->run->set.mechanism;

	if (forced && !strcmp(forced, "uprobe"))
		return cli_wrong(a->run->set.name,
				 "cannot use --mechanism uprobe: %s; --mechanism probe needs no "
				 "privilege",
				 why);
	if (a->opts->flags & TRAPLINE_SEVERAL)
		return targets_wrong_without_uprobes(&a->run->set, why);
	if (a->opts->flags & TRAPLINE_RETURNS)
		return cli_wrong(a->run->set.name, "%s: %s",
				 have_uprobes ? "cannot use --ret" : "--ret needs uprobes", why);
	if (count > BREAK_REGISTERS_MAX)
		return cli_wrong(a->run->set.name,
				 "cannot break on %zu sites: without uprobes there are %d hardware "
				 "breakpoints; uprobes are not possible: %s",
				 count, BREAK_REGISTERS_MAX, why);
	memset(a->fate, BY_HARDWARE, count);
	return 0;
}

static int choose_and_arm(struct arming *a, uint64_t *addresses)
{
	const struct observe_settings *set = &a->run->set;
	int status = 0;
	int err = 0;
	bool returns_are_unknown;
	char why[600];

	for (size_t i = 0; i < a->sites->count; i++)
		a->fate[i] = a->sites->site[i].is_certain ? BY_UPROBE : BY_HARDWARE;
	if (!set->no_bpf)
		err = arm_uprobes(a, addresses);
	if (err == -EINVAL && a->opts->condition)
		return session_explain(&a->run->session, "break on", set->operands[0], err);
	returns_are_unknown = err == -EOPNOTSUPP &&
			      !collect(a, 0, a->sites->count, WITH_RETURNS, addresses);
	if (err < 0 || set->no_bpf) {
		targets_explain_uprobes(err, why, sizeof(why));
		close_all(a->armed);
		status = all_by_hardware(a, returns_are_unknown, set->no_bpf ? "--no-bpf" : why);
	}
	if (status)
		return status;
	take_registers(a);
	count_fates(a);
	if (a->armed->sites.hardware > BREAK_REGISTERS_MAX)
		return cli_wrong(
			a->run->set.name,
			"cannot break on %zu sites by hardware breakpoint: there are %d; a "
			"uprobe needs a file behind the code and a known function around it",
			a->armed->sites.hardware, BREAK_REGISTERS_MAX);
	if (a->armed->sites.hardware && a->opts->flags & TRAPLINE_RETURNS)
		cli_note(a->run->set.name,
			 "%zu site%s by hardware breakpoint: without results and durations",
			 a->armed->sites.hardware, a->armed->sites.hardware == 1 ? "" : "s");
	return arm_hardware(a);
}

static void note_without_returns(const struct arming *a)
{
	char names[200] = "";
	size_t n = 0;

	for (size_t i = 0; i < a->sites->count; i++) {
		size_t used = strlen(names);
		a->armed->no_return[i] = !arm_is_in(a, i, WITH_RETURNS);
		if (a->fate[i] != BY_UPROBE_WITHOUT_RETURN)
			continue;
		n++;
		if (used + strlen(a->sites->site[i].name) + 4 < sizeof(names))
			snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
				 a->sites->site[i].name);
	}
	if (n)
		cli_note(a->run->set.name,
			 "%zu function%s without results and durations, because their return "
			 "instructions cannot be found: %s",
			 n, n == 1 ? "" : "s", names);
}

int break_arm(const struct observe *o, const struct code_sites *sites,
	      const struct trapline_event_opts *opts, struct break_armed *armed)
{
	struct arming a = { .run = o, .sites = sites, .opts = opts, .armed = armed };
	uint64_t *addresses = calloc(sites->count, sizeof(*addresses));
	int status = CLI_NO;

	a.fate = calloc(sites->count, 1);
	armed->no_return = calloc(sites->count, sizeof(*armed->no_return));
	armed->left_out = calloc(sites->count, sizeof(*armed->left_out));
	if (addresses && a.fate && armed->no_return && armed->left_out)
		status = choose_and_arm(&a, addresses);
	else
		cli_wrong(o->set.name, "out of memory");
	if (!status && opts->flags & TRAPLINE_RETURNS)
		note_without_returns(&a);
	free(a.fate);
	free(addresses);
	if (!status && armed->sites.refused)
		cli_note(
			o->set.name,
			"left out %zu site%s where the kernel refuses a uprobe or would execute it wrongly: %s",
			armed->sites.refused, armed->sites.refused == 1 ? "" : "s",
			armed->refused_names);
	return status;
}
