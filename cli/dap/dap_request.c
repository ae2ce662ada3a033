/* SPDX-License-Identifier: MIT */
/*
 * dap_request.c - see dap_request.h.
 *
 * Whether a breakpoint is verified is decided before the answer: names are looked up and events are
 * opened in the request. Nothing is decided by a time-out.
 */
#include "cli/dap/dap_request.h"

#include "cli/dap/dap_arm.h"
#include "cli/dap/dap_evaluate.h"
#include "cli/dap/dap_find.h"
#include "cli/dap/dap_hit.h"
#include "cli/dap/dap_point.h"
#include "cli/dap/dap_target.h"
#include "cli/dap/dap_tree.h"
#include "report/run/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS_MAX 100000
#define DATA_BYTES 600 /* of the text that states what is watched */
#define NEVER_STOPS "trapline never stops a process: "

/* When a request may come. */
enum needs {
	NEEDS_NOTHING,
	NEEDS_TOKEN, /* has it, if one is needed */
	NEEDS_PROCESS,
	NEEDS_RUNNING, /* the process has not ended */
};

struct row {
	const char *command;
	enum needs needs;
	void (*handle)(struct dap *d, const json_t *request);
	const char *refusal; /* instead of a handler */
};

static const json_t *arguments_of(const json_t *request)
{
	return json_object_get(request, "arguments");
}

static void on_initialize(struct dap *d, const json_t *request)
{
	static const char *const supported[] = {
		"supportsConfigurationDoneRequest",
		"supportsFunctionBreakpoints",
		"supportsConditionalBreakpoints",
		"supportsHitConditionalBreakpoints",
		"supportsLogPoints",
		"supportsDataBreakpoints",
		"supportsDataBreakpointBytes",
		"supportsEvaluateForHovers",
		"supportsTerminateRequest",
		"supportTerminateDebuggee",
	};
	const json_t *lines = json_object_get(arguments_of(request), "linesStartAt1");
	const char *form = json_string_value(json_object_get(arguments_of(request), "pathFormat"));

	if (form && strcmp(form, "path") != 0) {
		dap_send_refusal(&d->out, request,
				 "trapline dap knows files by their path: set pathFormat to path");
		return;
	}
	json_t *body = json_object();
	d->is_initialized = true;
	d->counts_lines_from_0 = json_is_false(lines);
	for (size_t i = 0; i < sizeof(supported) / sizeof(supported[0]); i++)
		json_object_set_new(body, supported[i], json_true());
	dap_send_response(&d->out, request, body);
}

/* In a time that does not depend on where the two differ. */
static bool is_equal(const char *a, const char *b)
{
	size_t n = strlen(a);
	unsigned int differs = strlen(b) != n;

	for (size_t i = 0; !differs && i < n; i++)
		differs |= (unsigned int)(a[i] ^ b[i]) << 8;
	return !differs;
}

static bool shows_token(struct dap *d, const json_t *request)
{
	const char *token = json_string_value(json_object_get(arguments_of(request), "token"));

	if (d->is_trusted)
		return true;
	d->is_trusted = token && is_equal(token, d->token);
	if (d->is_trusted) {
		d->in.max = DAP_MESSAGE_MAX;
		return true;
	}
	dap_send_refusal(
		&d->out, request,
		"the token is missing or wrong: give token, which trapline dap has printed");
	d->ended = "the client has no token";
	return false;
}

static void on_attach(struct dap *d, const json_t *request)
{
	if (shows_token(d, request))
		dap_target_attach(d, request);
}

static void on_launch(struct dap *d, const json_t *request)
{
	if (shows_token(d, request))
		dap_target_launch(d, request);
}

static void on_configuration_done(struct dap *d, const json_t *request)
{
	dap_target_configured(d);
	dap_send_response(&d->out, request, NULL);
}

/* Rows of a request that are breakpoints by now. */
struct rows {
	struct dap_point **point; /* of each row, in its order; NULL: no memory */
	struct dap_point **fresh; /* those that are to be armed */
	size_t count;
	size_t fresh_count;
};

static bool rows_begin(struct rows *r, const json_t *list)
{
	size_t n = json_array_size(list);

	*r = (struct rows){ 0 };
	r->point = n <= ROWS_MAX ? calloc(n + 1, sizeof(*r->point)) : NULL;
	r->fresh = r->point ? calloc(n + 1, sizeof(*r->fresh)) : NULL;
	return r->fresh != NULL;
}

static void rows_free(struct rows *r)
{
	free(r->point);
	free(r->fresh);
}

/* New rows, looked up. What the client's list has no longer is removed before anything is armed. */
static void rows_take(struct dap *d, struct rows *r, enum dap_kind kind, const char *path,
		      const json_t *list)
{
	int newest = d->next_id;
	json_t *row;
	size_t i;

	dap_points_mark(d, kind, path);
	json_array_foreach((json_t *)(uintptr_t)list, i, row)
		r->point[r->count++] = dap_point_take(d, kind, path, row);
	dap_points_sweep(d);
	for (i = 0; i < r->count; i++)
		if (r->point[i] && r->point[i]->id > newest)
			r->fresh[r->fresh_count++] = r->point[i];
}

/* Those that are found are armed. */
static void rows_find(struct dap *d, struct rows *r, const char *path)
{
	struct code_lines *lines = NULL;
	size_t found = 0;

	if (!r->fresh_count)
		return;
	symbols_refresh(d->symbols);
	if (path && code_lines_open(d->symbols, path, true, &lines)) {
		for (size_t i = 0; i < r->fresh_count; i++)
			dap_point_refuse(r->fresh[i], "out of memory");
		return;
	}
	for (size_t i = 0; i < r->fresh_count; i++) {
		if (dap_find_code(d, r->fresh[i], lines))
			r->fresh[found++] = r->fresh[i];
		dap_hit_meanwhile(d);
	}
	code_lines_close(lines);
	dap_arm_code(d, r->fresh, found);
}

static void rows_answer(struct dap *d, const struct rows *r, const json_t *request)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < r->count; i++)
		json_array_append_new(rows, r->point[i] ? dap_point_json(d, r->point[i]) :
							  json_pack("{s:b, s:s}", "verified", 0,
								    "message", "out of memory"));
	dap_send_response(&d->out, request, json_pack("{s:o}", "breakpoints", rows));
}

static void set_code(struct dap *d, const json_t *request, enum dap_kind kind, const char *path)
{
	const json_t *list = json_object_get(arguments_of(request), "breakpoints");
	struct rows r;

	if (!rows_begin(&r, list)) {
		dap_send_refusal(&d->out, request, "that is too many breakpoints");
		return;
	}
	rows_take(d, &r, kind, path, list);
	rows_find(d, &r, path);
	rows_answer(d, &r, request);
	rows_free(&r);
}

static void on_set_breakpoints(struct dap *d, const json_t *request)
{
	const json_t *source = json_object_get(arguments_of(request), "source");
	const char *path = json_string_value(json_object_get(source, "path"));

	if (!path)
		path = json_string_value(json_object_get(source, "name"));
	if (path && *path)
		set_code(d, request, DAP_LINE, path);
	else
		dap_send_refusal(&d->out, request, "setBreakpoints needs source.path");
}

static void on_set_function_breakpoints(struct dap *d, const json_t *request)
{
	set_code(d, request, DAP_FUNCTION, NULL);
}

static void on_set_data_breakpoints(struct dap *d, const json_t *request)
{
	const json_t *list = json_object_get(arguments_of(request), "breakpoints");
	struct rows r;

	if (!rows_begin(&r, list)) {
		dap_send_refusal(&d->out, request, "that is too many breakpoints");
		return;
	}
	rows_take(d, &r, DAP_DATA, NULL, list);
	symbols_refresh(d->symbols);
	for (size_t i = 0; i < r.fresh_count; i++)
		if (dap_find_data(d, r.fresh[i]))
			dap_arm_data(d, r.fresh[i]);
	rows_answer(d, &r, request);
	rows_free(&r);
}

/* An address is another one in the next run. */
static bool has_number(const char *id)
{
	return (id[0] >= '0' && id[0] <= '9') || strstr(id, "0x");
}

/*
 * A variable of a branch of the tree, an address, or what an address is written as: &name, or a
 * pointer.
 */
static bool data_id(struct dap *d, const json_t *arguments, const char *name, char *buf, size_t n)
{
	json_int_t branch = json_integer_value(json_object_get(arguments, "variablesReference"));
	json_int_t bytes = json_integer_value(json_object_get(arguments, "bytes"));
	bool is_address = json_is_true(json_object_get(arguments, "asAddress"));
	int used;

	name += strspn(name, " ");
	if (branch > 0 && branch <= INT32_MAX) {
		if (!dap_variable_named(d, (int)branch, name, buf, n - 16))
			return false;
		used = (int)strlen(buf);
	} else if (is_address && *name == '&') {
		used = snprintf(buf, n, "%s", name + 1);
	} else {
		used = snprintf(buf, n, "%s%s", is_address && !has_number(name) ? "*" : "", name);
	}
	if (bytes > 0 && bytes <= 4096)
		snprintf(buf + used, n - (size_t)used, ":%d", (int)bytes);
	return true;
}

/* `counter`, or `0x5581c0:4`, which states what is watched without a frame. */
static void on_data_breakpoint_info(struct dap *d, const json_t *request)
{
	const json_t *arguments = arguments_of(request);
	const char *name = json_string_value(json_object_get(arguments, "name"));
	struct watch_expr expr = { 0 };
	char id[DATA_BYTES];
	char text[DATA_BYTES + 200];

	if (!name || !*name || strlen(name) > 300) {
		dap_send_refusal(&d->out, request, "dataBreakpointInfo needs name, a short text");
		return;
	}
	symbols_refresh(d->symbols);
	if (!data_id(d, arguments, name, id, sizeof(id))) {
		dap_send_refusal(&d->out, request,
				 "no variable of that name is in variablesReference");
		return;
	}
	if (dap_find_expr(d, id, "write", &expr, text, sizeof(text))) {
		dap_send_response(&d->out, request,
				  json_pack("{s:n, s:o}", "dataId", "description",
					    run_json_text(text)));
		return;
	}
	int used = snprintf(text, sizeof(text), "%s: ", expr.name);
	watch_expr_describe(&expr, text + used, sizeof(text) - (size_t)used);
	dap_send_response(&d->out, request,
			  json_pack("{s:o, s:o, s:[s, s], s:b}", "dataId", run_json_text(id),
				    "description", run_json_text(text), "accessTypes", "write",
				    "readWrite", "canPersist", !has_number(id)));
}

static void on_set_exception_breakpoints(struct dap *d, const json_t *request)
{
	dap_send_response(&d->out, request, json_pack("{s:[]}", "breakpoints"));
}

static void on_threads(struct dap *d, const json_t *request)
{
	dap_send_response(&d->out, request, dap_target_threads(d));
}

static void on_continue(struct dap *d, const json_t *request)
{
	dap_send_response(&d->out, request, json_pack("{s:b}", "allThreadsContinued", 1));
}

static void on_cancel(struct dap *d, const json_t *request)
{
	dap_send_response(&d->out, request, NULL);
}

static void on_terminate(struct dap *d, const json_t *request)
{
	if (!d->is_launched) {
		dap_send_refusal(
			&d->out, request,
			"the process was not started by this session: disconnect leaves it "
			"as it is");
		return;
	}
	if (d->is_held)
		dap_target_configured(d);
	if (!d->has_exited)
		kill(d->pid, SIGTERM);
	dap_send_response(&d->out, request, NULL);
}

static void on_disconnect(struct dap *d, const json_t *request)
{
	const json_t *ends = json_object_get(arguments_of(request), "terminateDebuggee");

	if (d->target && !d->is_launched && json_is_true(ends))
		dap_note(d, "process %d was not started by this session, and continues", d->pid);
	if (d->target || d->is_launched)
		dap_target_leave(d, json_is_boolean(ends) ? json_is_true(ends) : d->is_launched);
	dap_send_response(&d->out, request, NULL);
	d->ended = "the client has disconnected";
}

static const struct row rows[] = {
	{ "initialize", NEEDS_NOTHING, on_initialize, NULL },
	{ "attach", NEEDS_NOTHING, on_attach, NULL },
	{ "launch", NEEDS_NOTHING, on_launch, NULL },
	{ "disconnect", NEEDS_NOTHING, on_disconnect, NULL },
	{ "cancel", NEEDS_TOKEN, on_cancel, NULL },
	{ "setExceptionBreakpoints", NEEDS_TOKEN, on_set_exception_breakpoints, NULL },
	{ "configurationDone", NEEDS_PROCESS, on_configuration_done, NULL },
	{ "setBreakpoints", NEEDS_PROCESS, on_set_breakpoints, NULL },
	{ "setFunctionBreakpoints", NEEDS_PROCESS, on_set_function_breakpoints, NULL },
	{ "dataBreakpointInfo", NEEDS_RUNNING, on_data_breakpoint_info, NULL },
	{ "setDataBreakpoints", NEEDS_PROCESS, on_set_data_breakpoints, NULL },
	{ "threads", NEEDS_PROCESS, on_threads, NULL },
	{ "evaluate", NEEDS_PROCESS, dap_evaluate, NULL },
	{ "continue", NEEDS_PROCESS, on_continue, NULL },
	{ "terminate", NEEDS_PROCESS, on_terminate, NULL },
	{ "pause", NEEDS_TOKEN, NULL, NEVER_STOPS "use a logpoint to see what it does" },
	{ "next", NEEDS_TOKEN, NULL, NEVER_STOPS "there is no step" },
	{ "stepIn", NEEDS_TOKEN, NULL, NEVER_STOPS "there is no step" },
	{ "stepOut", NEEDS_TOKEN, NULL, NEVER_STOPS "there is no step" },
	{ "stepBack", NEEDS_TOKEN, NULL, NEVER_STOPS "there is no step" },
	{ "reverseContinue", NEEDS_TOKEN, NULL, NEVER_STOPS "there is no step" },
	{ "goto", NEEDS_TOKEN, NULL, NEVER_STOPS "its threads go where they go" },
	{ "stackTrace", NEEDS_TOKEN, NULL, NEVER_STOPS "there is no stack to show" },
	{ "scopes", NEEDS_RUNNING, dap_scopes, NULL },
	{ "variables", NEEDS_RUNNING, dap_variables, NULL },
	{ "setVariable", NEEDS_TOKEN, NULL, "trapline dap does not change memory" },
	{ "setExpression", NEEDS_TOKEN, NULL, "trapline dap does not change memory" },
	{ "writeMemory", NEEDS_TOKEN, NULL, "trapline dap does not change memory" },
};

static const struct row *row_named(const char *command)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].command, command))
			return &rows[i];
	return NULL;
}

void dap_request(struct dap *d, const json_t *message)
{
	const char *type = json_string_value(json_object_get(message, "type"));
	const char *command = json_string_value(json_object_get(message, "command"));
	const struct row *row = command ? row_named(command) : NULL;
	char why[200];

	/* A response to a request that was never made. */
	if (type && !strcmp(type, "response"))
		return;
	if (!type || strcmp(type, "request") != 0 || !command ||
	    !json_is_integer(json_object_get(message, "seq"))) {
		d->ended = "a message is not a request";
		return;
	}
	if (row && row->needs >= NEEDS_TOKEN && !d->is_trusted) {
		dap_send_refusal(&d->out, message, "attach or launch with the token comes first");
	} else if (row && row->needs >= NEEDS_PROCESS && !d->target) {
		dap_send_refusal(&d->out, message, "attach or launch comes first");
	} else if (row && row->needs == NEEDS_RUNNING && d->is_terminated) {
		dap_send_refusal(&d->out, message, DAP_HAS_ENDED);
	} else if (row && row->handle) {
		row->handle(d, message);
	} else if (row) {
		dap_send_refusal(&d->out, message, row->refusal);
	} else {
		snprintf(why, sizeof(why), "trapline dap has no request '%.100s'", command);
		/* Its user did not ask for it. */
		dap_send_refusal_quiet(&d->out, message, why);
	}
}
