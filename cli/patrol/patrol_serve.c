/* SPDX-License-Identifier: MIT */
/* patrol_serve.c - see patrol_serve.h. */
#include "cli/patrol/patrol_serve.h"

#include "base/clock.h"
#include "cli/message.h"
#include "cli/patrol/patrol_finding.h"
#include "cli/patrol/patrol_share.h"
#include "cli/service/wall_time.h"
#include "cli/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_MS 100
#define SECOND_NS UINT64_C(1000000000)
#define LOOK_NS (5 * SECOND_NS)
#define METRICS_NS (15 * SECOND_NS)
#define END_NS (12 * SECOND_NS)
#define FINDINGS_MOST 1000 /* of a visit: a target must not fill disks and databases */
#define LOOK_SHARE 0.1	   /* of the budget, for reading /proc */
#define LOG_BYTES (UINT64_C(16) << 20)
#define LOG_KEEP 2

struct serve {
	struct patrol_state state;
	struct rotated_file log;
	char log_path[4096];
	uint64_t look_ns; /* the next */
	uint64_t wrote_ns;
	uint64_t metrics_ns;
	bool is_log_noted;
	int metrics_err;
};

static void log_line(struct serve *v, json_t *line)
{
	char *text = line ? json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	int err = text ? rotated_file_send(&v->log, text, strlen(text)) : -ENOMEM;

	if (err && !v->is_log_noted)
		cli_note(PATROL_COMMAND, "cannot write %s: %s", v->log_path, strerror(-err));
	v->is_log_noted = err;
	free(text);
	json_decref(line);
}

static void log_visit(struct serve *v, const char *event)
{
	const struct patrol_visit *one = &v->state.visit;
	bool has_ended = !one->runs;
	json_t *line = json_pack("{s:s, s:s, s:o, s:I, s:s, s:i, s:s, s:s}", "type", "visit",
				 "event", event, "time", patrol_time(wall_time()), "visit",
				 (json_int_t)one->number, "rule", one->rule->title, "pid",
				 one->who.pid, "program", one->who.program, "tool",
				 patrol_tool_name(one->tool));
	if (line && has_ended) {
		json_object_set_new(line, "end", json_string(patrol_end_name(one->end)));
		json_object_set_new(line, "seconds",
				    json_real((double)(clock_now_ns() - one->began_ns) / 1e9));
		json_object_set_new(line, "cpu_seconds", json_real(one->cost_ns / 1e9));
		json_object_set_new(line, "findings", json_integer((json_int_t)one->findings));
		json_object_set_new(line, "reason",
				    one->reason[0] ? json_string(one->reason) : json_null());
		json_object_set(line, "summary", one->summary ? one->summary : json_null());
	}
	log_line(v, line);
}

/* Takes the finding; NULL: no memory. */
static void send(struct patrol_state *s, json_t *finding)
{
	if (finding)
		patrol_finding_hide(s->rules, s->visit.point, finding);
	json_t *safe = finding ? patrol_finding_without_values(finding) : NULL;
	if (!safe)
		s->findings_lost++;
	for (size_t i = 0; safe && i < s->rules->road_count; i++)
		if (s->rules->road[i].kind != ROAD_PROMETHEUS)
			road_add(&s->road[i], s->rules->road[i].hides_values ? safe : finding);
	json_decref(finding);
	json_decref(safe);
}

static void on_finding(void *arg, json_t *line)
{
	struct serve *v = arg;
	struct patrol_state *s = &v->state;

	patrol_state_count(s, line);
	if (s->visit.findings > FINDINGS_MOST) {
		s->findings_lost++;
		return;
	}
	send(s, patrol_finding_of(s->rules, &s->visit, line, wall_time()));
}

static bool is_stopped(const struct patrol_state *s)
{
	return !faccessat(s->folder.fd, PATROL_STOP, F_OK, AT_SYMLINK_NOFOLLOW);
}

static bool is_loaded(const struct patrol_state *s)
{
	double load;

	return getloadavg(&load, 1) == 1 && load > s->rules->load * s->account.cpus;
}

static void set_idle(struct patrol_state *s, const char *why)
{
	s->is_dirty = s->is_dirty || !s->idle != !why || (why && strcmp(s->idle, why) != 0);
	s->idle = why;
}

static void on_end(struct serve *v)
{
	struct patrol_state *s = &v->state;
	struct patrol_visit *one = &s->visit;
	const struct patrol_turn turn = { .process = &one->who, .tool = one->tool };
	double now = wall_time();

	s->visits[one->tool][one->end]++;
	s->findings_lost += one->lines_lost;
	patrol_processes_visited(&s->processes, &turn, now);
	if (one->end == PATROL_END_REFUSED || one->end == PATROL_END_FAILED) {
		patrol_processes_refused(&s->processes, &turn, one->reason, now);
		cli_note(PATROL_COMMAND, "process %d (%s): %s %s: %s", one->who.pid,
			 one->who.program, patrol_tool_name(one->tool), patrol_end_name(one->end),
			 one->reason);
	} else if (one->end == PATROL_END_TIME) {
		patrol_processes_worked(&s->processes, &turn);
	}
	log_visit(v, "end");
	send(s, patrol_finding_of_visit(s->rules, one, now));
	patrol_visit_release(one);
	set_idle(s, "begins");
	patrol_state_write(s);
}

static void begin(struct serve *v, const struct patrol_turn *turn)
{
	struct patrol_state *s = &v->state;
	const struct patrol_rule *rule = &s->rules->rule[turn->process->rule];
	int err = patrol_visit_begin(&s->visit, turn, rule, wall_time());

	if (err) {
		set_idle(s, strerror(-err));
		return;
	}
	set_idle(s, NULL);
	log_visit(v, "begin");
	patrol_state_write(s);
}

/* One visit at a time: never two in one process. */
static void visit_next(struct serve *v)
{
	struct patrol_state *s = &v->state;
	struct patrol_turn turn;

	if (is_stopped(s))
		set_idle(s, "it is stopped, until 'trapline patrol resume'");
	else if (is_loaded(s))
		set_idle(s, "the load is high");
	else if (!s->processes.count)
		set_idle(s, "no process fits a rule");
	else if (!patrol_processes_next(&s->processes, s->rules, wall_time(), &turn))
		set_idle(s, "each process had its turn, or is outside of its hours");
	else if (!patrol_account_has(&s->account,
				     patrol_visit_expected_ns(&s->rules->rule[turn.process->rule])))
		set_idle(s, "the budget is used up for now");
	else if (!patrol_process_runs(turn.process))
		v->look_ns = 0;
	else
		begin(v, &turn);
}

static void visit(struct serve *v)
{
	struct patrol_state *s = &v->state;

	if (!s->visit.runs) {
		visit_next(v);
		return;
	}
	if (patrol_visit_step(&s->visit, &s->account)) {
		on_end(v);
		return;
	}
	if (s->visit.asked != PATROL_END_TIME)
		patrol_visit_stop(&s->visit, s->visit.asked);
	else if (is_stopped(s) || asked_times)
		patrol_visit_stop(&s->visit, PATROL_END_STOP);
	else if (is_loaded(s))
		patrol_visit_stop(&s->visit, PATROL_END_LOAD);
	else if (s->account.credit < -s->account.most / 2)
		patrol_visit_stop(&s->visit, PATROL_END_BUDGET);
}

/* As often as a tenth of the budget permits. */
static void look(struct serve *v)
{
	struct patrol_state *s = &v->state;
	uint64_t now = clock_now_ns();

	if (now < v->look_ns)
		return;
	int err = patrol_processes_look(&s->processes, s->rules, wall_time());
	if (err)
		cli_note(PATROL_COMMAND, "cannot read /proc: %s", strerror(-err));
	double cost = (double)(clock_now_ns() - now) / LOOK_SHARE / s->account.rate;
	v->look_ns = now + (cost > (double)LOOK_NS ? (uint64_t)cost : LOOK_NS);
}

static void write_metrics(struct serve *v)
{
	struct patrol_state *s = &v->state;
	uint64_t now = clock_now_ns();

	if (v->metrics_ns && now - v->metrics_ns < METRICS_NS && !asked_times)
		return;
	v->metrics_ns = now;
	for (size_t i = 0; i < s->rules->road_count; i++) {
		if (s->rules->road[i].kind != ROAD_PROMETHEUS)
			continue;
		int err = patrol_metrics_write(s, s->rules->road[i].to);
		if (err && err != v->metrics_err)
			cli_note(PATROL_COMMAND, "road %s: cannot write %s: %s",
				 s->rules->road[i].title, s->rules->road[i].to, strerror(-err));
		v->metrics_err = err;
		snprintf(s->road[i].reason, sizeof(s->road[i].reason), "%s",
			 err ? strerror(-err) : "");
	}
}

static void wait_for_lines(struct serve *v)
{
	const struct child *c = &v->state.visit.child;
	struct pollfd fds[] = { { .fd = v->state.visit.runs ? c->out.fd : -1, .events = POLLIN },
				{ .fd = v->state.visit.runs ? c->err.fd : -1, .events = POLLIN } };

	poll(fds, 2, STEP_MS);
}

static void step(struct serve *v)
{
	struct patrol_state *s = &v->state;
	uint64_t now = clock_now_ns();

	patrol_account_step(&s->account, now);
	look(v);
	visit(v);
	for (size_t i = 0; i < s->rules->road_count; i++) {
		road_step(&s->road[i]);
		s->is_dirty = s->is_dirty || s->road[i].has_news;
		s->road[i].has_news = false;
	}
	write_metrics(v);
	if (s->is_dirty && now - v->wrote_ns >= SECOND_NS) {
		v->wrote_ns = now;
		patrol_state_write(s);
	}
	wait_for_lines(v);
}

static void note_rules(const struct serve *v)
{
	const struct patrol_state *s = &v->state;

	cli_note(PATROL_COMMAND, "rules of %s, state in %s, %g%% of %g CPUs", s->rules->path,
		 s->folder.path, s->rules->budget, s->account.cpus);
	for (size_t i = 0; i < s->rules->rule_count; i++)
		if (!s->processes.matches || !s->processes.matches[i])
			cli_note(PATROL_COMMAND, "rule %s fits no process now: it waits for one",
				 s->rules->rule[i].title);
	if (!s->rules->road_count)
		cli_note(PATROL_COMMAND,
			 "no road is given: findings are counted, and stay in no file; add one "
			 "(example: road journal { })");
}

static void end(struct serve *v)
{
	struct patrol_state *s = &v->state;
	uint64_t from = clock_now_ns();

	while (s->visit.runs && clock_now_ns() - from < END_NS)
		step(v);
	patrol_account_step(&s->account, clock_now_ns());
	write_metrics(v);
	set_idle(s, "it has ended");
	patrol_state_write(s);
	for (size_t i = 0; i < s->rules->road_count; i++)
		road_close(&s->road[i]);
	patrol_visit_release(&s->visit);
	patrol_processes_free(&s->processes);
	rotated_file_close(&v->log);
	free(s->road);
}

int patrol_serve(const struct patrol_rules *rules, struct folder *folder)
{
	struct serve v = { .state = {
				   .rules = rules,
				   .folder = *folder,
				   .visit = { .on_finding = on_finding, .child = CHILD_NONE } } };
	struct patrol_state *s = &v.state;

	s->visit.arg = &v;
	s->road = calloc(rules->road_count + 1, sizeof(*s->road));
	if (!s->road)
		return cli_wrong(PATROL_COMMAND, "out of memory");
	snprintf(v.log_path, sizeof(v.log_path), "%s/" PATROL_LOG, folder->path);
	rotated_file_open(&v.log, v.log_path, LOG_BYTES, LOG_KEEP);
	watchdog_start(PATROL_COMMAND, false);
	patrol_account_start(&s->account, rules->budget, clock_now_ns());
	for (size_t i = 0; i < rules->road_count; i++)
		road_open(&s->road[i], &rules->road[i], &s->folder);
	patrol_state_read(s);
	s->processes.host = patrol_share_host(PATROL_MACHINE_ID, rules->host);
	set_idle(s, "begins");
	look(&v);
	note_rules(&v);
	while (!asked_times)
		step(&v);
	end(&v);
	return CLI_OK;
}
