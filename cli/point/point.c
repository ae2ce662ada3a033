/* SPDX-License-Identifier: MIT */
/* point.c - see point.h. */
#include "cli/point/point.h"

#include "base/clock.h"
#include "cli/opts.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_SECOND UINT64_C(1000000000)
#define RATE_MOST 1000000000u

static const char *const state_names[] = {
	[POINT_WAITS] = "waiting",
	[POINT_ARMING] = "arming",
	[POINT_ARMED] = "armed",
	[POINT_REFUSED] = "refused",
};
_Static_assert(sizeof(state_names) / sizeof(*state_names) == POINT_STATES, "one name each");

const char *point_state_name(enum point_state state)
{
	return state_names[state];
}

json_t *point_to_json(const struct point *p)
{
	/* A member that is not given is absent. */
	json_t *j = json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:s*, s:f}", "name", p->name,
			      "location", p->location, "print", p->print, "if", p->condition,
			      "budget", p->budget, "to", p->to, "added", p->added);

	if (j && p->args)
		json_object_set_new(j, "args", json_true());
	if (j && p->ret)
		json_object_set_new(j, "ret", json_true());
	if (j && p->stack)
		json_object_set_new(j, "stack", json_true());
	if (j && p->rate) {
		json_object_set_new(j, "rate", json_integer((json_int_t)p->rate));
		json_object_set_new(j, "rate_ns", json_integer((json_int_t)p->rate_ns));
	}
	if (j && p->expires > 0)
		json_object_set_new(j, "expires", json_real(p->expires));
	if (j && p->redact)
		json_object_set(j, "redact", p->redact);
	return j;
}

/* Names in an array, or nothing. */
static bool is_list_of_names(const json_t *list)
{
	size_t i;
	json_t *name;

	json_array_foreach(list, i, name) if (!json_is_string(name)) return false;
	return !list || (json_is_array(list) && json_array_size(list) <= OPT_LIST_MAX);
}

int point_from_json(json_t *json, struct point *out, char *why, size_t n)
{
	struct point p = { .json = json };
	json_error_t error;
	json_int_t id = 0;
	json_int_t rate = 0;
	json_int_t rate_ns = 0;
	int args = 0;
	int ret = 0;
	int stack = 0;

	if (json_unpack_ex(json, &error, 0,
			   "{s?I, s:s, s:s, s?s, s?s, s?s, s?s, s?b, s?b, s?b, s?I, s?I, s?F, s?F, "
			   "s?o}",
			   "id", &id, "name", &p.name, "location", &p.location, "print", &p.print,
			   "if", &p.condition, "budget", &p.budget, "to", &p.to, "args", &args,
			   "ret", &ret, "stack", &stack, "rate", &rate, "rate_ns", &rate_ns,
			   "added", &p.added, "expires", &p.expires, "redact", &p.redact)) {
		snprintf(why, n, "%s", error.text);
		json_decref(json);
		return -1;
	}
	p.id = (uint64_t)id;
	p.args = args;
	p.ret = ret;
	p.stack = stack;
	p.rate = (uint64_t)rate;
	p.rate_ns = (uint64_t)rate_ns;
	if (id < 0 || rate < 0 || (rate && rate_ns <= 0) || !p.name[0] || !p.location[0] ||
	    p.location[0] == '-' || !is_list_of_names(p.redact)) {
		snprintf(why, n, "a member has a value that is not possible");
		json_decref(json);
		return -1;
	}
	*out = p;
	return 0;
}

void point_free(struct point *p)
{
	json_decref(p->json);
	*p = (struct point){ 0 };
}

json_t *point_status_to_json(const struct point_status *s)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "state",
			 point_state_name(s->state), "hits", (json_int_t)s->hits, "sent",
			 (json_int_t)s->sent, "suppressed", (json_int_t)s->suppressed, "failed",
			 (json_int_t)s->failed, "lost", (json_int_t)s->lost, "broken",
			 (json_int_t)s->broken, "processes", (json_int_t)s->processes, "reason",
			 s->reason);
}

static uint64_t count_of(const json_t *json, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(json, name));

	return value > 0 ? (uint64_t)value : 0;
}

void point_status_from_json(const json_t *json, struct point_status *out)
{
	const char *state = json_string_value(json_object_get(json, "state"));
	const char *reason = json_string_value(json_object_get(json, "reason"));

	*out = (struct point_status){ .hits = count_of(json, "hits"),
				      .sent = count_of(json, "sent"),
				      .suppressed = count_of(json, "suppressed"),
				      .failed = count_of(json, "failed"),
				      .lost = count_of(json, "lost"),
				      .broken = count_of(json, "broken"),
				      .processes = count_of(json, "processes") };
	snprintf(out->reason, sizeof(out->reason), "%s", reason ? reason : "");
	for (int i = 0; state && i < POINT_STATES; i++)
		if (!strcmp(state, state_names[i]))
			out->state = (enum point_state)i;
}

int point_rate_read(const char *text, uint64_t *count, uint64_t *ns)
{
	static const struct {
		const char *unit;
		uint64_t seconds;
	} units[] = { { "", 1 }, { "/s", 1 }, { "/m", 60 }, { "/h", 3600 } };
	size_t digits = strspn(text, "0123456789");
	unsigned long long number;
	char copy[16];

	snprintf(copy, sizeof(copy), "%.*s", (int)digits, text);
	if (digits >= sizeof(copy) || opts_number(copy, 10, &number) || !number ||
	    number > RATE_MOST)
		return -1;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(text + digits, units[i].unit) != 0)
			continue;
		*count = number;
		*ns = units[i].seconds * NS_PER_SECOND;
		return 0;
	}
	return -1;
}
