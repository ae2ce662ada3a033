/* SPDX-License-Identifier: MIT */
/*
 * dap_arm.c - see dap_arm.h.
 *
 * The kernel accepts all breakpoints of an event or none. Where a batch is refused, its halves are
 * tried, until those that the kernel refuses are alone.
 */
#include "cli/dap/dap_arm.h"

#include "base/table_size.h"
#include "cli/dap/dap_hit.h"
#include "cli/dap/dap_point.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALONE_MAX 8	    /* breakpoints of one request that get an event each */
#define ARMS_FEW 64	    /* beyond, those that can share an event do */
#define ARMS_MAX 200	    /* the library has 256 events, and the console needs some */
#define DATA_RATE_MAX 20000 /* hits a second: a watched write costs some microseconds */
#define DRAIN_ROUNDS 64

static bool arm_is_single(const struct dap_point *p)
{
	return p->made || p->limit || p->skip;
}

static int site_compare(const void *a, const void *b)
{
	const struct dap_site *x = a;
	const struct dap_site *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static struct dap_arm *arm_new(struct dap *d, struct dap_point **point, size_t n)
{
	struct dap_arm *arm = calloc(1, sizeof(*arm));
	size_t sites = 0;

	for (size_t i = 0; i < n; i++)
		sites += point[i]->sites.count;
	if (arm)
		arm->site = calloc(sites ? sites : 1, sizeof(*arm->site));
	if (!arm || !arm->site) {
		free(arm);
		return NULL;
	}
	arm->dap = d;
	arm->points = n;
	arm->is_shared = n > 1;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < point[i]->sites.count; k++)
			arm->site[arm->count++] = (struct dap_site){
				.address = point[i]->sites.site[k].address,
				.point = point[i],
				.index = k,
			};
	qsort(arm->site, arm->count, sizeof(*arm->site), site_compare);
	return arm;
}

static void arm_free(struct dap_arm *arm)
{
	free(arm->site);
	free(arm);
}

static uint32_t arm_texts(const struct dap_arm *arm)
{
	uint32_t texts = 0;

	for (size_t i = 0; i < arm->count; i++) {
		const struct dap_point *p = arm->site[i].point;
		texts |= dap_hit_texts(p, arm->site[i].index);
	}
	/* The kernel copies 8 at most. */
	while (__builtin_popcount(texts) > 8)
		texts &= texts - 1;
	return texts;
}

static void arm_copies(const struct dap_arm *arm, struct hit_copies *c)
{
	for (size_t i = 0; i < arm->count; i++)
		dap_hit_copies(arm->site[i].point, arm->site[i].index, c);
}

static bool arm_wants_stack(const struct dap_arm *arm)
{
	for (size_t i = 0; i < arm->count; i++)
		if (dap_hit_wants_stack(arm->site[i].point, arm->site[i].index))
			return true;
	return false;
}

static int open_sites(struct dap *d, struct dap_arm *arm, const struct trapline_event_opts *opts)
{
	uint64_t *addresses = calloc(arm->count, sizeof(*addresses));
	size_t n = 0;

	if (!addresses)
		return -ENOMEM;
	for (size_t i = 0; i < arm->count; i++)
		if (!n || addresses[n - 1] != arm->site[i].address)
			addresses[n++] = arm->site[i].address;
	int err = trapline_break_sites(d->target, addresses, n, opts, &arm->event);
	/* Without privilege there are the debug registers, one for each site. */
	if ((err == -EPERM || err == -EACCES) && n == 1 && geteuid() && !d->follows) {
		struct trapline_event_opts plain = *opts;
		plain.texts = 0;
		err = trapline_break(d->target, addresses[0], &plain, &arm->event);
	}
	free(addresses);
	if (err >= 0 && d->follows && targets_cover(&d->targets, &arm->event, 1)) {
		trapline_event_close(arm->event);
		err = -EOPNOTSUPP;
	}
	return err;
}

static void arm_link(struct dap *d, struct dap_arm *arm)
{
	arm->next = d->arms;
	d->arms = arm;
	d->arm_count++;
}

static int arm_together(struct dap *d, struct dap_point **point, size_t n)
{
	TRAPLINE_OPTS(event, opts);
	struct hit_copies copies = { .is_several = d->follows };
	struct dap_arm *arm = arm_new(d, point, n);

	if (!arm)
		return -ENOMEM;
	opts.arg = arm;
	opts.texts = arm_texts(arm);
	copies.texts = opts.texts;
	arm_copies(arm, &copies);
	opts.memory = copies.row;
	opts.memory_count = copies.count;
	opts.flags = arm_wants_stack(arm) ? TRAPLINE_STACK_BYTES : 0;
	if (d->follows)
		targets_opts(&d->set, &opts);
	if (n == 1) {
		opts.condition = point[0]->made;
		opts.limit = point[0]->limit;
		opts.skip = point[0]->skip;
	}
	int err = open_sites(d, arm, &opts);
	if (err < 0) {
		arm_free(arm);
		return err;
	}
	arm_link(d, arm);
	for (size_t i = 0; i < n; i++) {
		point[i]->arm = arm;
		point[i]->is_verified = true;
	}
	return 0;
}

static void refuse_by_library(struct dap *d, struct dap_point *p, int err)
{
	char name[200];
	char why[DAP_WHY - 250];

	dap_point_name(p, name, sizeof(name));
	trapline_explain(err, why, sizeof(why));
	for (char *at = why; (at = strchr(at, '\n'));)
		*at = ' ';
	if (err == -ENOSPC)
		dap_point_refuse(p,
				 "cannot watch %s: no debug register is free, of which there are "
				 "four; remove another data breakpoint, or end the debugger",
				 name);
	else if (geteuid() && (err == -EPERM || err == -EACCES))
		dap_point_refuse(p,
				 "cannot break on %s: %s; run trapline dap as root: sudo trapline "
				 "dap --port 4711",
				 name, why);
	else
		dap_point_refuse(p, "cannot %s %s: %s", p->kind == DAP_DATA ? "watch" : "break on",
				 name, why);
}

static void arm_range(struct dap *d, struct dap_point **point, size_t n)
{
	int err = n ? arm_together(d, point, n) : 0;

	if (err >= 0)
		return;
	if (n == 1 || err == -ENOMEM || err == -ESRCH) {
		for (size_t i = 0; i < n; i++)
			refuse_by_library(d, point[i], err);
		return;
	}
	arm_range(d, point, n / 2);
	arm_range(d, point + n / 2, n - n / 2);
}

static void arm_alone(struct dap *d, struct dap_point *p)
{
	if (d->arm_count < ARMS_MAX)
		arm_range(d, &p, 1);
	else
		dap_point_refuse(
			p,
			"cannot set more than %d breakpoints that each have a condition or "
			"a hit condition; remove some of them",
			ARMS_MAX);
}

void dap_arm_code(struct dap *d, struct dap_point **point, size_t n)
{
	size_t shared = 0;

	/* Those that can share come first, in their order. */
	for (size_t i = 0; i < n; i++) {
		struct dap_point *p = point[i];
		if (arm_is_single(p)) {
			arm_alone(d, p);
			continue;
		}
		point[shared++] = p;
	}
	if (shared > ALONE_MAX || d->arm_count > ARMS_FEW) {
		arm_range(d, point, shared);
		return;
	}
	for (size_t i = 0; i < shared; i++)
		arm_range(d, &point[i], 1);
}

void dap_arm_data(struct dap *d, struct dap_point *p)
{
	TRAPLINE_OPTS(event, opts);
	struct dap_arm *arm = arm_new(d, &p, 1);

	if (!arm) {
		dap_point_refuse(p, "out of memory");
		return;
	}
	opts.arg = arm;
	opts.condition = p->made;
	opts.limit = p->limit;
	opts.skip = p->skip;
	int err = trapline_watch(d->target, p->expr.address, p->expr.len, p->expr.access, &opts,
				 &arm->event);
	if (err < 0) {
		arm_free(arm);
		refuse_by_library(d, p, err);
		return;
	}
	arm->site[0] = (struct dap_site){ .address = p->expr.address, .point = p };
	arm->count = 1;
	arm_link(d, arm);
	pace_start(&arm->pace, &arm->event, 1, NULL, DATA_RATE_MAX);
	p->arm = arm;
	p->is_verified = true;
}

static uint64_t arm_unread(const struct dap_arm *arm)
{
	struct trapline_stats st = { .size = sizeof(st) };

	return trapline_event_stats(arm->event, &st) < 0 ? 0 : st.unread;
}

/* What was written before the event was disabled. */
static void arm_drain(struct dap *d, const struct dap_arm *arm)
{
	trapline_event_disable(arm->event);
	for (int i = 0; i < DRAIN_ROUNDS && arm_unread(arm); i++)
		if (trapline_poll(d->target, 0, dap_hit) < 0)
			return;
}

static void arm_unlink(struct dap *d, struct dap_arm *arm)
{
	struct dap_arm **at = &d->arms;

	while (*at != arm)
		at = &(*at)->next;
	*at = arm->next;
	d->arm_count--;
}

void dap_arm_leave(struct dap *d, struct dap_point *p)
{
	struct dap_arm *arm = p->arm;

	if (!arm)
		return;
	if (arm->points == 1)
		arm_drain(d, arm);
	dap_hit_sum(d, p);
	if (p->counts.hits && !d->is_terminated)
		dap_balance_point_say(d, p);
	p->arm = NULL;
	for (size_t i = 0; i < arm->count; i++)
		if (arm->site[i].point == p)
			arm->site[i].point = NULL;
	if (--arm->points)
		return;
	trapline_event_close(arm->event);
	arm_unlink(d, arm);
	arm_free(arm);
}

void dap_arms_stop(struct dap *d)
{
	for (struct dap_arm *arm = d->arms; arm; arm = arm->next) {
		if (arm->pace.event_count)
			pace_end(&arm->pace);
		trapline_event_disable(arm->event);
	}
	for (struct dap_arm *arm = d->arms; arm; arm = arm->next)
		arm_drain(d, arm);
}

int dap_arms_tick(struct dap *d)
{
	int least = 1000;

	for (struct dap_arm *arm = d->arms; arm; arm = arm->next) {
		int ms = arm->pace.event_count ? pace_tick(&arm->pace) : least;
		least = ms < least ? ms : least;
	}
	return least;
}
