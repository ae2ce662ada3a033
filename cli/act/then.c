/* SPDX-License-Identifier: MIT */
/* then.c - see then.h. */
#include "cli/act/then.h"
#include "cli/act/signal_number.h"

#include "base/clock.h"
#include "cli/act/core_file.h"
#include "cli/act/snapshot.h"
#include "cli/message.h"
#include "report/plural.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMANDS_WAIT_MS 5000
#define WHY_BYTES 400

/* One hit that is acted on. */
struct moment {
	pid_t pid;
	pid_t tid;
	uint64_t hit_ns;
	uint64_t stopped_ns; /* when this command stopped it; 0: it was stopped at the hit */
	uint64_t continued_ns;
	bool was_stopped; /* by something else, which also continues it */
	char why[WHY_BYTES];
};

static const struct {
	const char *word;
	enum then_kind kind;
	const char *argument; /* NULL: none */
} words[] = {
	{ "stop", THEN_STOP, NULL },   { "signal", THEN_SIGNAL, "NAME" },
	{ "core", THEN_CORE, "FILE" }, { "snapshot", THEN_SNAPSHOT, NULL },
	{ "exec", THEN_EXEC, "CMD" },
};

#define WORDS (sizeof(words) / sizeof(words[0]))

int then_parse(const char *command, const char *text, struct then *out)
{
	size_t n = text ? strcspn(text, " ") : 0;
	size_t i = 0;

	*out = (struct then){ .name = command };
	if (!text)
		return CLI_OK;
	while (i < WORDS && (strlen(words[i].word) != n || strncmp(words[i].word, text, n) != 0))
		i++;
	if (i == WORDS)
		return cli_wrong(command,
				 "invalid --then '%s': expected stop, 'signal NAME', 'core FILE', "
				 "snapshot or 'exec CMD'",
				 text);
	out->kind = words[i].kind;
	out->text = text + n + strspn(text + n, " ");
	if (words[i].argument && !out->text[0])
		return cli_wrong(command, "invalid --then '%s': expected '%s %s'", text,
				 words[i].word, words[i].argument);
	if (!words[i].argument && out->text[0])
		return cli_wrong(command, "invalid --then '%s': nothing follows %s", text,
				 words[i].word);
	if (strlen(out->text) >= THEN_TEXT_MAX / 2)
		return cli_wrong(command, "invalid --then: it is too long");
	if (out->kind == THEN_SIGNAL && !(out->signal = signal_number(out->text)))
		return cli_wrong(command, "no signal is named '%s'; such as SIGUSR1 or 10",
				 out->text);
	return CLI_OK;
}

int then_start(struct then *t, pid_t pid)
{
	bool continues = t->kind == THEN_SIGNAL || t->kind == THEN_CORE || t->kind == THEN_SNAPSHOT;
	int err = continues ? act_guard_start(&t->guard, pid) : 0;

	if (t->kind == THEN_CORE || t->kind == THEN_SNAPSHOT)
		snapshot_prepare(pid);
	return err ? cli_wrong(t->name, "cannot watch over process %d: %s", pid, strerror(-err)) :
		     0;
}

/* ` at the hit`, or ` 1.2 ms after the hit`. */
static void when_text(const struct moment *m, char *buf, size_t n)
{
	if (m->stopped_ns)
		snprintf(buf, n, "%.1f ms after the hit",
			 (double)(m->stopped_ns - m->hit_ns) / 1e6);
	else
		snprintf(buf, n, "at the hit");
}

/* What the process was kept from running. */
static uint64_t pause_ns(const struct moment *m)
{
	uint64_t from = m->stopped_ns ? m->stopped_ns : m->hit_ns;

	return m->continued_ns > from ? m->continued_ns - from : 0;
}

__attribute__((format(printf, 2, 3))) static void then_say(struct then *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(t->result, sizeof(t->result), format, args);
	va_end(args);
	t->has_result = true;
	t->done++;
}

static void then_fail(struct then *t, const char *what, const char *why)
{
	t->failed++;
	json_object_set_new(t->json, "error", json_sprintf("%s: %s", what, why));
	cli_wrong(t->name, "cannot %s: %s", what, why);
}

static void go_on(struct moment *m)
{
	if (!m->was_stopped && !m->continued_ns)
		kill(m->pid, SIGCONT);
	if (!m->continued_ns)
		m->continued_ns = clock_now_ns();
}

static void do_stop(struct then *t, struct moment *m)
{
	char when[64];

	when_text(m, when, sizeof(when));
	then_say(
		t,
		"process %d is stopped, %s in thread %d: inspect it with gdb -p %d, resume it with "
		"kill -CONT %d",
		m->pid, when, m->tid, m->tid, m->pid);
}

static void do_signal(struct then *t, struct moment *m)
{
	char when[64];
	int err = syscall(SYS_tgkill, m->pid, m->tid, t->signal) ? errno : 0;

	go_on(m);
	when_text(m, when, sizeof(when));
	if (err)
		then_fail(t, "send the signal", strerror(err));
	else
		then_say(t, "SIG%s sent to thread %d, %s",
			 sigabbrev_np(t->signal) ? sigabbrev_np(t->signal) : t->text, m->tid, when);
	json_object_set_new(t->json, "signal", json_integer(t->signal));
}

static void do_snapshot(struct then *t, struct moment *m)
{
	char when[64];
	struct snapshot s;
	int err = snapshot_take(m->pid, m->tid, !m->was_stopped, NULL, &s, m->why, sizeof(m->why));

	m->continued_ns = s.continued_ns;
	go_on(m);
	when_text(m, when, sizeof(when));
	if (s.left)
		cli_note(t->name, "process %d keeps a zombie that it does not see, until it ends",
			 m->pid);
	if (err) {
		then_fail(t, "make a snapshot", m->why);
		return;
	}
	json_object_set_new(t->json, "snapshot_pid", json_integer(s.pid));
	json_object_set_new(t->json, "fork_ns", json_integer((json_int_t)s.fork_ns));
	then_say(t,
		 "process %d is a frozen copy, %s: gdb -p %d inspects it, kill -KILL "
		 "%d ends it; the process was stopped for %.1f ms, of which %.1f ms to fork",
		 s.pid, when, s.pid, s.pid, (double)pause_ns(m) / 1e6, (double)s.fork_ns / 1e6);
}

/* Each core has its number, unless there is one only, or the name states where it belongs. */
static int core_name(const struct then *t, const struct moment *m, char *path, size_t n)
{
	const struct act_words replaced = { m->pid, m->tid, t->done + t->failed + 1 };
	int err = act_expand(t->text, &replaced, path, n);
	size_t used = err ? 0 : strlen(path);

	if (!err && !t->is_one && !strstr(t->text, "%n") && n - used > 24)
		snprintf(path + used, n - used, ".%" PRIu64, replaced.number);
	return err;
}

struct core_writing {
	const char *path;
	const struct core_notes *notes;
	uint64_t *bytes;
	int err;
};

static void write_from(pid_t copy, void *arg)
{
	struct core_writing *w = arg;

	w->err = core_write(w->path, w->notes, copy, w->bytes);
}

/* The memory is that of a copy where one can be made, so that the process need not wait. */
static int write_core(struct then *t, struct moment *m, const char *path, uint64_t *bytes)
{
	struct core_notes *notes;
	struct snapshot s = { 0 };
	char unused[WHY_BYTES];

	int err = core_notes_read(m->pid, m->tid, &notes, m->why, sizeof(m->why));
	if (err)
		return err;
	struct core_writing w = { path, notes, bytes, 0 };
	const struct snapshot_use use = { write_from, &w };
	if (snapshot_take(m->pid, m->tid, !m->was_stopped, &use, &s, unused, sizeof(unused)))
		write_from(m->pid, &w);
	m->continued_ns = s.continued_ns;
	err = w.err;
	if (err)
		snprintf(m->why, sizeof(m->why), "%s",
			 err == -ECANCELED ?
				 "ended by a signal before all of the memory was written" :
				 strerror(-err));
	core_notes_free(notes);
	return err;
}

static void do_core(struct then *t, struct moment *m)
{
	char path[THEN_TEXT_MAX];
	char what[THEN_TEXT_MAX + 32];
	char when[64];
	uint64_t bytes = 0;

	if (core_name(t, m, path, sizeof(path)))
		snprintf(path, sizeof(path), "%s", t->text);
	int err = write_core(t, m, path, &bytes);
	go_on(m);
	when_text(m, when, sizeof(when));
	json_object_set_new(t->json, "file", run_json_text(path));
	snprintf(what, sizeof(what), "write the core %s", path);
	if (err)
		then_fail(t, what, m->why);
	else
		then_say(t, "core %s, %s, %.1f MiB; the process was stopped for %.1f ms", path,
			 when, (double)bytes / 1048576, (double)pause_ns(m) / 1e6);
}

static void do_exec(struct then *t, struct moment *m)
{
	const struct act_words replaced = { m->pid, m->tid, t->done + t->failed + 1 };
	char text[THEN_TEXT_MAX];
	pid_t pid;
	int err = act_expand(t->text, &replaced, text, sizeof(text));

	if (!err)
		err = act_command_start(&t->commands, text, &pid);
	if (err == -EAGAIN)
		return;
	if (err) {
		then_fail(t, "start the command", strerror(-err));
		return;
	}
	json_object_set_new(t->json, "command", run_json_text(text));
	json_object_set_new(t->json, "command_pid", json_integer(pid));
	then_say(t, "started: %s", text);
}

static void act(struct then *t, struct moment *m)
{
	static void (*const how[])(struct then * t, struct moment * m) = {
		[THEN_STOP] = do_stop,	       [THEN_SIGNAL] = do_signal, [THEN_CORE] = do_core,
		[THEN_SNAPSHOT] = do_snapshot, [THEN_EXEC] = do_exec,
	};

	t->json = json_object();
	json_object_set_new(t->json, "type", json_string("action"));
	json_object_set_new(t->json, "action", json_string(words[t->kind - 1].word));
	json_object_set_new(t->json, "pid", json_integer(m->pid));
	json_object_set_new(t->json, "tid", json_integer(m->tid));
	how[t->kind](t, m);
	if (t->kind == THEN_EXEC)
		return;
	json_object_set_new(t->json, "late_ns",
			    json_integer(m->stopped_ns ? (json_int_t)(m->stopped_ns - m->hit_ns) :
							 0));
	json_object_set_new(t->json, "stopped_ns",
			    m->continued_ns ? json_integer((json_int_t)pause_ns(m)) : json_null());
}

void then_at_hit(struct then *t, const struct trapline_hit *record, bool is_wanted)
{
	struct moment m = { .pid = record->pid, .tid = record->tid, .hit_ns = record->time_ns };
	int err = act_wait_stopped(m.pid, m.tid);

	json_decref(t->json);
	t->json = NULL;
	if (!is_wanted || err == -ESRCH) {
		kill(m.pid, SIGCONT);
		if (err)
			cli_note(t->name, "thread %d ended at the hit, before it could be stopped",
				 m.tid);
		return;
	}
	act(t, &m);
}

void then_after(struct then *t, const struct run_hit *hit)
{
	struct moment m = { .pid = hit->pid, .tid = hit->tid, .hit_ns = hit->time_ns };

	json_decref(t->json);
	t->json = NULL;
	if (t->kind != THEN_EXEC) {
		m.was_stopped = act_is_stopped(m.pid, m.tid);
		int err = m.was_stopped || !kill(m.pid, SIGSTOP) ? act_wait_stopped(m.pid, m.tid) :
								   -errno;
		m.stopped_ns = clock_now_ns();
		if (err == -ESRCH) {
			kill(m.pid, SIGCONT);
			cli_note(t->name, "thread %d has ended since its hit", m.tid);
			return;
		}
		if (err == -EPERM) {
			t->json = json_object();
			then_fail(t, "stop the process", strerror(-err));
			return;
		}
	}
	act(t, &m);
}

void then_print(struct then *t, FILE *text, FILE *json)
{
	if (text && t->has_result)
		fprintf(text, "    %s\n", t->result);
	if (json && t->json)
		run_jsonl_line(json, json_incref(t->json));
	json_decref(t->json);
	t->json = NULL;
	t->has_result = false;
}

bool then_end(struct then *t, FILE *text, int (*is_over)(void))
{
	struct act_commands *c = &t->commands;

	act_guard_end(&t->guard);
	act_commands_wait(c, COMMANDS_WAIT_MS, is_over);
	if (text && c->started)
		fprintf(text, "--then started %" PRIu64 " command%s", c->started,
			plural(c->started));
	if (text && c->failed)
		fprintf(text, ", %" PRIu64 " failed", c->failed);
	if (text && c->skipped)
		fprintf(text, ", and none at %" PRIu64 " hit%s, since %d were running", c->skipped,
			plural(c->skipped), ACT_COMMANDS_MAX);
	if (text && c->started)
		fputc('\n', text);
	if (c->count)
		cli_note(t->name, "%zu command%s still running", c->count,
			 c->count == 1 ? " is" : "s are");
	return !t->failed;
}
