/* SPDX-License-Identifier: MIT */
/*
 * rest.c - see rest.h.
 *
 * The share is income, and each hit is paid from it. A run in debt rests until it can pay for a
 * turn. What a turn costs beyond its income is paid by the next rest. So the share is right over
 * the run, however late an inspection is.
 */
#include "cli/observe/rest.h"

#include "base/clock.h"

#define WINDOW_NS UINT64_C(50000000)
#define LOOK_BUSY_NS UINT64_C(10000000)
#define LOOK_IDLE_NS UINT64_C(50000000)
#define LOOK_SHARE 50 /* a look takes at most one part in so many of the time between looks */
#define WINDOW_SWITCHES 4

/* What is left is at most the income of a window. */
static double left_max(const struct rest *r)
{
	return r->share * (double)r->window_ns;
}

void rest_start(struct rest *r, double share, double (*spent_ns)(void *arg), void *arg)
{
	*r = (struct rest){ .share = share,
			    .spent_ns = spent_ns,
			    .arg = arg,
			    .window_ns = WINDOW_NS,
			    .looked_ns = clock_now_ns() };
	/* What came before the first look has no time that it could be a share of. */
	r->seen_ns = spent_ns(arg);
	/* A turn is paid already, and a look has to have some time to inspect. */
	r->debt_ns = -left_max(r);
	r->next_ns = r->looked_ns + LOOK_BUSY_NS;
}

static void pay_by_grant(struct rest *r)
{
	double paid = r->debt_ns < r->grant_ns ? r->debt_ns : r->grant_ns;

	if (paid <= 0)
		return;
	r->debt_ns -= paid;
	r->grant_ns -= paid;
	r->granted_ns += paid;
}

static void account(struct rest *r, uint64_t now)
{
	uint64_t elapsed = now - r->looked_ns;
	double spent = r->spent_ns(r->arg);
	double cost = spent > r->seen_ns ? spent - r->seen_ns : 0;
	double income = r->share * (double)elapsed;
	uint64_t took = clock_now_ns() - now;

	r->seen_ns = spent;
	r->looked_ns = now;
	r->cost_share = elapsed ? cost / (double)elapsed : 0;
	r->debt_ns += cost - income;
	pay_by_grant(r);
	if (r->debt_ns < -left_max(r))
		r->debt_ns = -left_max(r);
	r->next_ns = now + (cost > income / 4 || r->since_ns ? LOOK_BUSY_NS : LOOK_IDLE_NS);
	if (r->next_ns < now + LOOK_SHARE * took)
		r->next_ns = now + LOOK_SHARE * took;
}

bool rest_look(struct rest *r, uint64_t now)
{
	if (r->share <= 0)
		return false;
	if (now < r->next_ns)
		return r->since_ns != 0;
	account(r, now);
	/* A rest ends when a turn can be paid. */
	return r->since_ns ? r->debt_ns > -left_max(r) : r->debt_ns > 0;
}

void rest_switched(struct rest *r, bool rests, uint64_t started, uint64_t ended)
{
	uint64_t window = WINDOW_SWITCHES * (ended - started);

	if (window > r->window_ns)
		r->window_ns = window;
	if (rests) {
		r->since_ns = started;
		r->rests++;
	} else if (r->since_ns) {
		r->rested_ns += ended - r->since_ns;
		r->since_ns = 0;
	}
	r->next_ns = ended + LOOK_BUSY_NS;
}

void rest_cost_is_known(struct rest *r)
{
	double spent = r->spent_ns(r->arg);

	if (r->seen_ns > 0)
		r->cost_share *= spent / r->seen_ns;
	r->debt_ns += spent - r->seen_ns;
	/* What was granted for the estimate is granted for what it is. */
	if (r->granted_ns > 0) {
		r->debt_ns += r->granted_ns;
		r->grant_ns += r->granted_ns;
		r->granted_ns = 0;
		pay_by_grant(r);
	}
	r->seen_ns = spent;
}

void rest_end(struct rest *r, uint64_t now)
{
	if (r->since_ns)
		r->rested_ns += now - r->since_ns;
	r->since_ns = 0;
	r->share = 0;
}
