/* SPDX-License-Identifier: MIT */
/* dap_target.c - see dap_target.h. */
#include "cli/dap/dap_target.h"

#include "cli/cmd.h"
#include "cli/dap/dap_arm.h"
#include "cli/dap/dap_child.h"
#include "cli/dap/dap_hit.h"
#include "cli/dap/dap_point.h"
#include "cli/dap/dap_tree.h"
#include "cli/launch/process_name.h"
#include "cli/launch/program.h"
#include "cli/launch/start.h"
#include "cli/message.h"
#include "cli/observe/session.h"
#include "cli/observe/targets_find.h"
#include "report/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 4096
#define WORDS_MAX 1024
#define RECORDS_BYTES (16u << 20)
#define END_WAIT_US 10000
#define END_WAITS 50

static void keep_last(void *arg, bool is_note, const char *line)
{
	if (!is_note)
		snprintf(arg, DAP_WHY, "%s", line);
}

/* False with why; what was opened is closed by dap_target_leave(). */
static bool open_target(struct dap *d, char *why, size_t n)
{
	const struct session session = { .name = "dap", .pid = d->pid };
	TRAPLINE_OPTS(open, opts);
	char said[DAP_WHY] = "";
	uint64_t end;

	cli_set_listener(keep_last, said);
	int status = session_open_symbols(&session, &d->symbols);
	cli_set_listener(NULL, NULL);
	if (status) {
		snprintf(why, n, "%s", said);
		return false;
	}
	d->memory_fd = program_open_memory(d->pid);
	program_mapping(program_reader(d->pid), NULL, 0, &d->probe, &end);
	opts.records_bytes = RECORDS_BYTES;
	int err = trapline_open(d->pid, &opts, &d->target);
	if (err >= 0 && !d->follows)
		return true;
	d->set = (struct observe_settings){
		.name = "dap", .pid = d->pid, .is_break = 1, .follow = 1
	};
	if (err >= 0 && !targets_open(&d->targets, &d->set, d->symbols))
		return true;
	if (err >= 0)
		err = -ENOMEM;
	int used = snprintf(why, n, "cannot attach to process %d: ", d->pid);
	trapline_explain(err, why + used, n - (size_t)used);
	return false;
}

static void report_ready(struct dap *d, const json_t *request)
{
	char name[32];

	process_name(d->pid, name, sizeof(name));
	dap_send_response(&d->out, request, NULL);
	dap_send_event(&d->out, "process",
		       json_pack("{s:o, s:i, s:b, s:s}", "name", run_json_text(name),
				 "systemProcessId", d->pid, "isLocalProcess", 1, "startMethod",
				 d->is_launched ? "launch" : "attach"));
	dap_send_event(&d->out, "initialized", NULL);
}

/* A number, or a text that is one, as clients with a list of processes give it. */
static pid_t pid_of(const json_t *arguments)
{
	const json_t *value = json_object_get(arguments, "pid");
	char *end = NULL;

	if (!value)
		value = json_object_get(arguments, "processId");
	json_int_t pid = json_integer_value(value);
	if (json_is_string(value)) {
		pid = strtol(json_string_value(value), &end, 10);
		pid = *end ? 0 : pid;
	}
	return pid > 0 && pid < INT32_MAX ? (pid_t)pid : 0;
}

void dap_target_attach(struct dap *d, const json_t *request)
{
	char why[DAP_WHY] = "";
	const json_t *arguments = json_object_get(request, "arguments");
	pid_t pid = pid_of(arguments);

	if (d->pid) {
		dap_send_refusal(&d->out, request, "this session has a process already");
		return;
	}
	if (!pid || program_state(pid) == PROGRAM_IS_MISSING) {
		snprintf(why, sizeof(why),
			 pid ? "there is no process %d" :
			       "attach needs pid or processId, the number of a running process",
			 pid);
		dap_send_refusal(&d->out, request, why);
		return;
	}
	if (pid == getpid()) {
		dap_send_refusal(&d->out, request, "trapline dap cannot attach to itself");
		return;
	}
	d->pid = pid;
	d->follows = json_is_true(json_object_get(arguments, "followChildren"));
	if (open_target(d, why, sizeof(why))) {
		report_ready(d, request);
		return;
	}
	dap_target_leave(d, false);
	dap_send_refusal(&d->out, request, why);
}

/* The program and its arguments. False: one of them is not a text. */
static bool words_of(const json_t *arguments, char **words)
{
	const json_t *args = json_object_get(arguments, "args");
	const char *program = json_string_value(json_object_get(arguments, "program"));
	size_t n = 0;

	if (!program || !*program || (args && !json_is_array(args) && !json_is_null(args)) ||
	    json_array_size(args) > WORDS_MAX - 2)
		return false;
	words[n++] = (char *)(uintptr_t)program;
	for (size_t i = 0; i < json_array_size(args); i++) {
		const char *word = json_string_value(json_array_get(args, i));
		if (!word)
			return false;
		words[n++] = (char *)(uintptr_t)word;
	}
	words[n] = NULL;
	return true;
}

/* One variable; a number is written as a text. False: it is another thing. */
static bool set_variable(const char *name, const json_t *value)
{
	char *text = json_is_number(value) || json_is_boolean(value) ?
			     json_dumps(value, JSON_ENCODE_ANY) :
			     NULL;
	const char *is = text ? text : json_string_value(value);
	bool is_set = is ? !setenv(name, is, 1) : json_is_null(value) && !unsetenv(name);

	free(text);
	return is_set;
}

/* A list of NAME=VALUE, as other adapters have it. NULL, or what is wrong. */
static const char *set_rows(const json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)rows, i, row)
	{
		const char *text = json_string_value(row);
		const char *value = text ? strchr(text, '=') : NULL;
		char *name = value ? strndup(text, (size_t)(value - text)) : NULL;
		bool is_set = name && !setenv(name, value + 1, 1);

		free(name);
		if (!is_set)
			return text ? text : "a row";
	}
	return NULL;
}

/* What the child inherits: set before it starts. */
static bool set_environment(const json_t *environment, char *why, size_t n)
{
	const char *wrong = json_is_array(environment) ? set_rows(environment) : NULL;
	const char *name;
	json_t *value;

	if (environment && !json_is_array(environment) && !json_is_object(environment) &&
	    !json_is_null(environment))
		wrong = "its type";
	json_object_foreach((json_t *)(uintptr_t)environment, name, value)
	{
		if (!wrong && !set_variable(name, value))
			wrong = name;
	}
	if (wrong)
		snprintf(why, n,
			 "%.200s in env is wrong: give an object of names and texts, or a list of "
			 "NAME=VALUE",
			 wrong);
	return !wrong;
}

static bool start_program(struct dap *d, const json_t *arguments, char **words, char *why, size_t n)
{
	const char *folder = json_string_value(json_object_get(arguments, "cwd"));
	int here = open(".", O_PATH | O_CLOEXEC);
	char said[DAP_WHY] = "";

	if (folder && chdir(folder)) {
		snprintf(why, n, "cannot change to the folder %.300s: %s", folder, strerror(errno));
		close(here);
		return false;
	}
	struct dap_child *c = set_environment(json_object_get(arguments, "env"), why, n) ?
				      dap_child_begin(d, why, n) :
				      NULL;
	int status = CLI_NO;
	if (c) {
		cli_set_listener(keep_last, said);
		status = start_command("dap", words, &d->pid);
		cli_set_listener(NULL, NULL);
		if (status) {
			dap_child_close(c);
			snprintf(why, n, "%s", said);
		} else {
			dap_child_started(c, d->pid, false);
		}
	}
	if (here >= 0 && !fchdir(here))
		close(here);
	return !status;
}

void dap_target_launch(struct dap *d, const json_t *request)
{
	const json_t *arguments = json_object_get(request, "arguments");
	char *words[WORDS_MAX];
	char why[DAP_WHY] = "";

	if (d->pid) {
		dap_send_refusal(&d->out, request, "this session has a process already");
		return;
	}
	if (!words_of(arguments, words)) {
		dap_send_refusal(
			&d->out, request,
			"launch needs program, a path, and may have args, a list of texts");
		return;
	}
	if (json_is_true(json_object_get(arguments, "stopOnEntry"))) {
		dap_send_refusal(&d->out, request,
				 "trapline dap never stops a process: leave out stopOnEntry");
		return;
	}
	if (!start_program(d, arguments, words, why, sizeof(why))) {
		dap_send_refusal(&d->out, request, why);
		return;
	}
	d->is_launched = true;
	d->is_held = true;
	d->follows = json_is_true(json_object_get(arguments, "followChildren"));
	if (open_target(d, why, sizeof(why))) {
		report_ready(d, request);
		return;
	}
	dap_target_leave(d, true);
	dap_send_refusal(&d->out, request, why);
}

void dap_target_configured(struct dap *d)
{
	d->is_configured = true;
	if (d->is_held)
		start_go(d->pid);
	d->is_held = false;
}

/* The events of all arms know how many children are left. */
static bool children_are_left(struct dap *d)
{
	struct trapline_stats st = { .size = sizeof(st) };

	for (const struct dap_arm *arm = d->arms; arm; arm = arm->next)
		if (trapline_event_stats(arm->event, &st) >= 0 && st.followed)
			return true;
	return false;
}

static bool runs_or_has_children(struct dap *d)
{
	char state = program_thread_state(d->pid, d->pid);

	return (state && state != 'Z' && state != 'X') || children_are_left(d);
}

static const char *why_ended(struct dap *d)
{
	char path[64];
	char target[8];

	if (d->is_launched && !d->has_exited && !d->is_held)
		d->has_exited = waitpid(d->pid, &d->exit_status, WNOHANG) == d->pid;
	if (d->has_exited)
		return "the process ended";
	if (d->is_held || !program_is_gone(d->memory_fd, d->probe))
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/exe", program_reader(d->pid));
	if (readlink(path, target, sizeof(target)) > 0)
		return "the process ran another program (exec)";
	/* Its parent gets the status; of a child, this process is the parent. */
	return d->is_launched && kill(d->pid, 0) == 0 ? NULL : "the process ended";
}

static void read_rest(struct dap *d)
{
	for (size_t i = 0; i < DAP_CHILDREN; i++)
		for (int k = 0; k < 2; k++)
			if (d->child[i].pid && !d->child[i].is_command && d->child[i].fd[k] >= 0)
				dap_child_read(d, &d->child[i], k);
}

static void say_line(void *arg, bool is_note, const char *line)
{
	dap_note(arg, "%s", line);
}

/* What was not seen of the children. */
static void report_targets(struct dap *d)
{
	struct trapline_event **events = calloc(d->arm_count + 1, sizeof(struct trapline_event *));
	size_t n = 0;

	for (const struct dap_arm *arm = d->arms; events && arm; arm = arm->next)
		events[n++] = arm->event;
	cli_set_listener(say_line, d);
	if (events)
		targets_end(&d->targets, events, n);
	cli_set_listener(NULL, NULL);
	free(events);
}

static void report_end(struct dap *d, const char *why)
{
	dap_arms_stop(d);
	read_rest(d);
	dap_hit_sum_all(d);
	dap_note(d, "%s", why);
	if (d->follows)
		report_targets(d);
	dap_balance_say(d);
	if (d->has_exited)
		dap_send_event(&d->out, "exited",
			       json_pack("{s:i}", "exitCode", cli_status_of(d->exit_status)));
	dap_send_event(&d->out, "terminated", json_pack("{s:o}", "balance", dap_balance(d)));
	d->is_terminated = true;
}

void dap_target_look(struct dap *d)
{
	const char *why = d->target && !d->is_terminated ? why_ended(d) : NULL;

	if (d->target && d->follows)
		target_names_look(&d->targets.names);
	if (why && d->follows && runs_or_has_children(d)) {
		if (!d->first_has_gone)
			dap_note(d, "%s: its children are still observed", why);
		d->first_has_gone = true;
	} else if (why) {
		report_end(d, why);
	}
}

static void end_program(struct dap *d)
{
	if (d->has_exited)
		return;
	if (d->is_held) {
		start_kill(d->pid);
		return;
	}
	kill(d->pid, SIGTERM);
	for (int i = 0; i < END_WAITS && !d->has_exited; i++) {
		d->has_exited = waitpid(d->pid, &d->exit_status, WNOHANG) == d->pid;
		if (!d->has_exited)
			usleep(END_WAIT_US);
	}
	if (!d->has_exited)
		start_kill(d->pid);
}

void dap_target_leave(struct dap *d, bool ends)
{
	if (d->target && !d->is_terminated)
		report_end(d, "the session ended");
	dap_points_free(d);
	trapline_close(d->target);
	d->target = NULL;
	if (d->is_launched && ends)
		end_program(d);
	else if (d->is_held)
		start_go(d->pid);
	if (d->is_launched && !ends && !d->has_exited)
		dap_child_leave(d);
	dap_child_end(d);
	if (d->memory_fd >= 0)
		close(d->memory_fd);
	d->memory_fd = -1;
	dap_tree_free(d);
	if (d->targets.set)
		targets_release(&d->targets);
	d->targets = (struct targets){ 0 };
	symbols_close(d->symbols);
	d->symbols = NULL;
	d->pid = 0;
	d->is_launched = d->is_held = d->follows = d->first_has_gone = false;
}

static void add_threads(struct dap *d, pid_t pid, json_t *rows)
{
	static pid_t tids[THREADS_MAX];
	size_t n = program_threads(pid, tids, THREADS_MAX);

	for (size_t i = 0; i < n; i++) {
		struct trapline_hit thread = { .pid = pid, .tid = tids[i] };
		char name[64];

		thread_names_fill(&d->names, &thread);
		snprintf(name, sizeof(name), "%s/%d", thread.thread, tids[i]);
		json_array_append_new(rows, json_pack("{s:i, s:o}", "id", tids[i], "name",
						      run_json_text(name)));
	}
}

json_t *dap_target_threads(struct dap *d)
{
	struct opt_pids all = { 0 };
	json_t *rows = json_array();

	if (d->follows && !targets_list_descendants(&d->set, &all))
		for (size_t i = 0; i < all.count; i++)
			add_threads(d, all.pid[i], rows);
	else if (d->pid)
		add_threads(d, d->pid, rows);
	free(all.pid);
	return json_pack("{s:o}", "threads", rows);
}
