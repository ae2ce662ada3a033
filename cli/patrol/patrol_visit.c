/* SPDX-License-Identifier: MIT */
/* patrol_visit.c - see patrol_visit.h. */
#include "cli/patrol/patrol_visit.h"

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/launch/program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LATE_NS UINT64_C(60000000000) /* for the attach and the report */
#define CHILD_EXPECTED_NS 5e8
#define STAT_UTIME 14 /* of proc(5) */
#define STAT_STIME 15
#define STAT_CSTIME 17
#define SAYS "trapline "
#define NOTE ": note: "

const char *patrol_end_name(enum patrol_end end)
{
	static const char *const names[] = {
		[PATROL_END_TIME] = "time",	[PATROL_END_STOP] = "stop",
		[PATROL_END_LOAD] = "load",	[PATROL_END_BUDGET] = "budget",
		[PATROL_END_TARGET] = "target", [PATROL_END_REFUSED] = "refused",
		[PATROL_END_FAILED] = "failed",
	};

	return names[end];
}

double patrol_visit_expected_ns(const struct patrol_rule *rule)
{
	return CHILD_EXPECTED_NS + (double)rule->for_ns * rule->overhead / 100;
}

/* CPU time, from the field first to the field last; 0: it has ended. */
static uint64_t cpu_ns(pid_t pid, int last)
{
	const double unit = 1e9 / (double)sysconf(_SC_CLK_TCK);
	int64_t sum = 0;
	int64_t one;

	for (int field = STAT_UTIME; field <= last; field++)
		if (program_stat(pid, pid, field, &one))
			sum += one;
	return (uint64_t)((double)sum * unit);
}

/* LOCATION [TEXT] */
static void point_words(struct child_words *w, const char *point)
{
	size_t n = strcspn(point, " ");
	char *location = strndup(point, n);
	const char *text = point + n + strspn(point + n, " ");

	child_words_add(w, location ? location : "", NULL);
	if (*text)
		child_words_add(w, "--print", text);
	else
		child_words_add(w, "--args", NULL);
	w->is_short = w->is_short || !location;
	free(location);
}

static void words_of(struct child_words *w, const struct patrol_visit *v)
{
	char pid[16];
	char time[32];
	char overhead[32];

	snprintf(pid, sizeof(pid), "%d", v->who.pid);
	snprintf(time, sizeof(time), "%" PRIu64 "ns", v->rule->for_ns);
	snprintf(overhead, sizeof(overhead), "%g%%", v->rule->overhead);
	child_words_add(w, "trapline", NULL);
	child_words_add(w, v->tool == PATROL_POINTS ? "break" : patrol_tool_name(v->tool), NULL);
	if (v->tool == PATROL_POINTS)
		point_words(w, v->point);
	child_words_add(w, "--pid", pid);
	child_words_add(w, "--for", time);
	child_words_add(w, v->tool == PATROL_POINTS ? "--budget" : "--overhead", overhead);
	child_words_add(w, "--json", NULL);
}

int patrol_visit_begin(struct patrol_visit *v, const struct patrol_turn *turn,
		       const struct patrol_rule *rule, double now)
{
	struct child_words w = { .count = 0 };
	const struct patrol_visit before = *v;

	*v = (struct patrol_visit){ .number = before.number + 1,
				    .who = *turn->process,
				    .rule = rule,
				    .tool = turn->tool,
				    .point = turn->point,
				    .began = now,
				    .began_ns = clock_now_ns(),
				    .child = CHILD_NONE,
				    .on_finding = before.on_finding,
				    .arg = before.arg };
	v->who.program = strdup(turn->process->program);
	if (!v->who.program)
		return -ENOMEM;
	patrol_process_build_id(v->who.pid, v->build_id, sizeof(v->build_id));
	v->target_from_ns = cpu_ns(v->who.pid, STAT_STIME);
	words_of(&w, v);
	int err = child_start(&v->child, NULL, &w, -1);
	child_words_free(&w);
	v->runs = !err;
	if (err)
		patrol_visit_release(v);
	return err;
}

static void on_line(void *arg, const char *line, size_t n)
{
	struct patrol_visit *v = arg;
	json_t *j = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
	const char *type = json_string_value(json_object_get(j, "type"));

	if (type && !strcmp(type, "summary")) {
		json_decref(v->summary);
		v->summary = json_incref(j);
	} else if (type) {
		v->findings++;
		v->on_finding(v->arg, j);
	}
	json_decref(j);
}

/* The last line has the reason of a refusal, if notes are left out. */
static void on_message(void *arg, const char *line, size_t n)
{
	struct patrol_visit *v = arg;
	const char *colon = strstr(line, ": ");

	if (strncmp(line, SAYS, strlen(SAYS)) != 0 || !colon || !strncmp(colon, NOTE, strlen(NOTE)))
		return;
	snprintf(v->reason, sizeof(v->reason), "%s", colon + 2);
}

static void read_lines(struct patrol_visit *v)
{
	child_lines_read(&v->child.err, on_message, v);
	v->lines_lost += child_lines_read(&v->child.out, on_line, v);
}

static double number_of(const json_t *j, const char *name)
{
	return json_number_value(json_object_get(j, name));
}

/* As the tool measured it. What it states as the most is taken, so that the budget is kept. */
static double measured_ns(const struct patrol_visit *v)
{
	if (v->tool == PATROL_HEAP)
		return number_of(v->summary, "cost_most_ns");
	if (v->tool == PATROL_RACE)
		return number_of(v->summary, "overhead") * number_of(v->summary, "run_ns");
	return v->target_ns;
}

static void charge(struct patrol_visit *v, struct patrol_account *a)
{
	uint64_t child_ns = v->child.pid ? cpu_ns(v->child.pid, STAT_CSTIME) : 0;
	uint64_t target_ns = cpu_ns(v->who.pid, STAT_STIME);
	double cost = 0;

	if (child_ns > v->child_ns) {
		patrol_account_spend(a, (double)(child_ns - v->child_ns));
		v->child_ns = child_ns;
	}
	if (target_ns > v->target_from_ns)
		cost = (double)(target_ns - v->target_from_ns) * v->rule->overhead / 100;
	if (cost > v->target_ns) {
		patrol_account_spend(a, cost - v->target_ns);
		v->target_ns = cost;
	}
}

/* The CPU time of the child is that of this process's children now: the account has it there. */
static void settle(struct patrol_visit *v, struct patrol_account *a)
{
	double before = a->total;

	patrol_account_step(a, clock_now_ns());
	v->cost_ns = a->total - before;
	patrol_account_spend(a, -(double)v->child_ns);
	if (!v->summary)
		v->cost_ns += v->target_ns;
	else {
		double measured = measured_ns(v);
		patrol_account_spend(a, measured - v->target_ns);
		v->cost_ns += measured;
	}
}

static void name_end(struct patrol_visit *v, int status)
{
	bool is_well = WIFEXITED(status) && v->summary;

	if (v->asked != PATROL_END_TIME)
		v->end = v->asked;
	else if (!patrol_process_runs(&v->who))
		v->end = PATROL_END_TARGET;
	else if (is_well)
		v->end = PATROL_END_TIME;
	else
		v->end = WIFEXITED(status) && v->reason[0] ? PATROL_END_REFUSED : PATROL_END_FAILED;
	if (v->end == PATROL_END_FAILED && !v->reason[0])
		snprintf(v->reason, sizeof(v->reason), "trapline %s ended by itself, status %d",
			 patrol_tool_name(v->tool), cli_status_of(status));
	if (v->end != PATROL_END_FAILED && v->end != PATROL_END_REFUSED)
		v->reason[0] = 0;
}

bool patrol_visit_step(struct patrol_visit *v, struct patrol_account *a)
{
	int status;

	read_lines(v);
	charge(v, a);
	if (clock_now_ns() - v->began_ns > v->rule->for_ns + LATE_NS) {
		snprintf(v->reason, sizeof(v->reason),
			 "trapline %s did not end in time, and was stopped",
			 patrol_tool_name(v->tool));
		patrol_visit_stop(v, PATROL_END_FAILED);
	}
	if (!child_has_ended(&v->child, &status))
		return false;
	for (int i = 0; i < 64 && v->child.out.fd >= 0; i++)
		read_lines(v);
	child_lines_read(&v->child.err, on_message, v);
	settle(v, a);
	name_end(v, status);
	v->runs = false;
	return true;
}

void patrol_visit_stop(struct patrol_visit *v, enum patrol_end why)
{
	if (v->asked == PATROL_END_TIME)
		v->asked = why;
	child_end(&v->child);
}

void patrol_visit_release(struct patrol_visit *v)
{
	child_release(&v->child);
	json_decref(v->summary);
	free(v->who.program);
	v->who.program = NULL;
	v->summary = NULL;
	v->runs = false;
}
