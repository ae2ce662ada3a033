/* SPDX-License-Identifier: MIT */
/* point_served.c - see point_served.h. */
#include "cli/point/point_served.h"

#include "base/clock.h"
#include "cli/message.h"
#include "cli/observe/targets_find.h"
#include "cli/point/point_processes.h"
#include "report/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define FIRST_WAIT_NS UINT64_C(1000000000)
#define MOST_WAIT_NS UINT64_C(60000000000)
#define BREAK_SAYS "trapline break: "

static void set_state(struct served *s, enum point_state state, const char *reason)
{
	if (s->status.state == state && !strcmp(s->status.reason, reason))
		return;
	s->status.state = state;
	snprintf(s->status.reason, sizeof(s->status.reason), "%s", reason);
	s->is_dirty = true;
	cli_note(POINT_COMMAND, "point %" PRIu64 ", %s in %s: %s%s%s", s->point.id,
		 s->point.location, s->point.name, point_state_name(state), reason[0] ? ": " : "",
		 reason);
}

/* A receiver that takes nothing is reported once, until it takes a line again. */
static void note_sent(struct served *s, int err)
{
	char why[POINT_REASON_BYTES] = "";

	s->is_dirty = true;
	if (!err)
		s->status.sent++;
	else
		s->status.failed++;
	if (err)
		snprintf(why, sizeof(why), "cannot write %s: %s",
			 s->point.to ? s->point.to : s->sinks->file, strerror(-err));
	if (s->status.state == POINT_ARMED)
		set_state(s, POINT_ARMED, why);
}

static void send_line(struct served *s, const char *line, size_t n)
{
	char head[96];
	char *text = NULL;
	int used = snprintf(head, sizeof(head), "{\"point\":%" PRIu64 ",", s->point.id);

	if (s->left_out)
		used += snprintf(head + used, sizeof(head) - (size_t)used,
				 "\"suppressed\":%" PRIu64 ",", s->left_out);
	/* The line begins with a brace: the child is this program. */
	int size = asprintf(&text, "%.*s%s", used, head, line + 1);
	int err = size < 0 ? -ENOMEM : point_sink_send(s->sinks, &s->point, text, (size_t)size);
	if (size >= 0)
		free(text);
	if (!err)
		s->left_out = 0;
	note_sent(s, err);
}

static bool is_within_rate(struct served *s)
{
	uint64_t now = clock_now_ns();

	if (!s->point.rate)
		return true;
	if (!s->rate_from_ns || now - s->rate_from_ns >= s->point.rate_ns) {
		s->rate_from_ns = now;
		s->rate_used = 0;
	}
	return s->rate_used++ < s->point.rate;
}

static uint64_t sum_of(const json_t *value)
{
	uint64_t sum = (uint64_t)json_integer_value(value);
	const char *name;
	json_t *part;

	json_object_foreach((json_t *)(uintptr_t)value, name, part)
		sum += (uint64_t)json_integer_value(part);
	return sum;
}

/* The last line of an child: what did not arrive. */
static void on_summary(struct served *s, const char *line, size_t n)
{
	json_t *j = json_loadb(line, n, JSON_ALLOW_NUL, NULL);

	s->status.lost += sum_of(json_object_get(j, "lost"));
	s->status.lost += sum_of(json_object_get(j, "unread"));
	s->is_dirty = true;
	json_decref(j);
}

static void on_line(void *arg, const char *line, size_t n)
{
	static const char hit[] = "{\"type\":\"hit\"";
	static const char summary[] = "{\"type\":\"summary\"";
	struct served *s = arg;

	if (!strncmp(line, summary, sizeof(summary) - 1)) {
		on_summary(s, line, n);
	} else if (!strncmp(line, hit, sizeof(hit) - 1)) {
		s->status.hits++;
		s->is_dirty = true;
		if (is_within_rate(s)) {
			send_line(s, line, n);
		} else {
			s->status.suppressed++;
			s->left_out++;
		}
	}
}

/* What the child reports: that it is armed, why it is not, and notes. */
static void on_message(void *arg, const char *line, size_t n)
{
	static const char armed[] = "breaking on ";
	struct served *s = arg;
	size_t says = strlen(BREAK_SAYS);

	if (!strncmp(line, armed, sizeof(armed) - 1)) {
		s->wait_ns = 0;
		s->is_starting = false;
		set_state(s, POINT_ARMED, "");
	} else if (!strncmp(line, BREAK_SAYS, says) && s->status.state != POINT_ARMED) {
		snprintf(s->refusal, sizeof(s->refusal), "%s", line + says);
	} else {
		cli_note(POINT_COMMAND, "point %" PRIu64 ": %.800s", s->point.id, line);
	}
}

static void on_end(struct served *s, int status)
{
	char why[64];

	child_release(&s->observer);
	s->layout = 0;
	s->is_starting = false;
	if (s->is_over || s->is_stale) {
		s->is_stale = false;
		if (!s->is_over)
			set_state(s, POINT_WAITS, "");
		return;
	}
	s->wait_ns = s->wait_ns ? 2 * s->wait_ns : FIRST_WAIT_NS;
	s->wait_ns = s->wait_ns < MOST_WAIT_NS ? s->wait_ns : MOST_WAIT_NS;
	s->next_ns = clock_now_ns() + s->wait_ns;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CLI_USAGE && s->refusal[0]) {
		set_state(s, POINT_REFUSED, s->refusal);
		return;
	}
	if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "its trapline break was killed by SIG%s",
			 sigabbrev_np(WTERMSIG(status)));
	else
		snprintf(why, sizeof(why), "its trapline break ended with status %d",
			 WEXITSTATUS(status));
	s->status.broken++;
	s->is_dirty = true;
	/* A refusal is one until the next try has had another answer. */
	if (s->status.state != POINT_REFUSED)
		set_state(s, POINT_WAITS, why);
}

/* What was written before the end is read after it. */
static void read_rest(struct served *s)
{
	for (int i = 0; i < 64 && (s->observer.out.fd >= 0 || s->observer.err.fd >= 0); i++) {
		s->status.lost += child_lines_read(&s->observer.err, on_message, s);
		s->status.lost += child_lines_read(&s->observer.out, on_line, s);
	}
}

void served_read(struct served *s)
{
	int status;

	if (served_is_idle(s))
		return;
	child_lines_read(&s->observer.err, on_message, s);
	s->status.lost += child_lines_read(&s->observer.out, on_line, s);
	if (s->is_over || s->is_stale)
		child_end(&s->observer);
	if (!child_has_ended(&s->observer, &status))
		return;
	read_rest(s);
	on_end(s, status);
}

bool served_is_idle(const struct served *s)
{
	return !s->observer.pid;
}

static void words_of(struct child_words *w, const struct point *p)
{
	size_t i;
	json_t *name;

	child_words_add(w, "trapline", NULL);
	child_words_add(w, "break", NULL);
	child_words_add(w, p->location, NULL);
	child_words_add(w, "--name", p->name);
	child_words_add(w, "--json", NULL);
	if (p->print)
		child_words_add(w, "--print", p->print);
	if (p->condition)
		child_words_add(w, "--if", p->condition);
	if (p->budget)
		child_words_add(w, "--budget", p->budget);
	if (p->args)
		child_words_add(w, "--args", NULL);
	if (p->ret)
		child_words_add(w, "--ret", NULL);
	if (p->stack)
		child_words_add(w, "--stack", NULL);
	json_array_foreach(p->redact, i, name)
		child_words_add(w, "--redact", json_string_value(name));
}

static void start(struct served *s, pid_t pid)
{
	struct child_words w = { .count = 0 };

	words_of(&w, &s->point);
	int err = child_start(&s->observer, NULL, &w, -1);
	child_words_free(&w);

	s->first = pid;
	s->files = point_process_files(pid);
	s->refusal[0] = 0;
	s->is_stale = false;
	s->is_starting = !err;
	/* A refusal is shown until the next try has had another answer. */
	if (!err && s->status.state != POINT_REFUSED)
		set_state(s, POINT_ARMING, "");
	if (!err)
		return;
	s->next_ns = clock_now_ns() + FIRST_WAIT_NS;
	set_state(s, POINT_WAITS, strerror(-err));
}

static bool has(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Its libraries are mapped: the map is as it was at the look before. */
static bool has_begun(struct served *s, pid_t pid)
{
	uint64_t layout = targets_layout(pid);
	bool is_same = layout && layout == s->layout;

	s->layout = layout;
	return is_same;
}

/*
 * The child has the files of its first process. When all of those have gone and the program
 * comes back from other files, as after an update, another child begins.
 */
static void look_for_update(struct served *s, const pid_t *pids, size_t count)
{
	if (!count || has(pids, count, s->first) || !has_begun(s, pids[0]))
		return;
	if (point_process_files(pids[0]) != s->files) {
		s->is_stale = true;
		cli_note(POINT_COMMAND,
			 "point %" PRIu64 ": process %d runs other files: arming again",
			 s->point.id, pids[0]);
	}
	s->first = pids[0];
}

void served_look(struct served *s, const pid_t *pids, size_t count, bool may_start)
{
	if (s->status.processes != count)
		s->is_dirty = true;
	s->status.processes = count;
	if (s->is_invalid || s->is_over)
		return;
	if (!served_is_idle(s)) {
		if (s->status.state == POINT_ARMED && !s->is_stale)
			look_for_update(s, pids, count);
		/* The process has ended: the collector waits for the next one, for all points. */
		s->is_stale = s->is_stale || (s->is_starting && !count);
		return;
	}
	if (!count) {
		s->first = 0;
		s->next_ns = 0;
		set_state(s, POINT_WAITS, "");
		return;
	}
	/* Another process may run what the last one did not have. */
	if (s->status.state == POINT_REFUSED && pids[0] != s->first)
		s->next_ns = 0;
	if (may_start && clock_now_ns() >= s->next_ns && has_begun(s, pids[0]))
		start(s, pids[0]);
}

void served_report(struct served *s, const char *event)
{
	json_t *j = json_pack("{s:I, s:s, s:s, s:s, s:s, s:o*}", "point", (json_int_t)s->point.id,
			      "type", "point", "event", event, "name", s->point.name, "location",
			      s->point.location, "time", run_json_time(clock_ns(CLOCK_REALTIME)));
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	if (text)
		point_sink_send(s->sinks, &s->point, text, strlen(text));
	free(text);
	json_decref(j);
}

void served_release(struct served *s)
{
	child_release(&s->observer);
	point_free(&s->point);
}
