/* SPDX-License-Identifier: MIT */
/*
 * cmd_patch.c - `trapline patch`: replace functions of a running program.
 *
 * Names are found and checked here, outside the process. The agent in the process loads the object
 * and makes the change, in a thread of its own that continues when this command has been killed.
 */
#include "base/own_proc.h"
#include "cli/cmd.h"
#include "cli/inject/inject.h"
#include "cli/launch/process_room.h"
#include "cli/message.h"
#include "cli/observe/session.h"
#include "cli/opts.h"
#include "cli/patch/patch_plan.h"
#include "cli/patch/patch_print.h"
#include "cli/patch/patch_request.h"
#include "cli/watchdog.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define TIMEOUT_NS 10000000000u
#define CONSISTENCIES "immediate|no-thread-inside|per-thread"

static const struct opt options[] = {
#define AT(member) offsetof(struct patch_settings, member)
	{ "pid", 'p', OPT_PID, AT(pid), "PID", "patch this running process" },
	{ "undo", 0, OPT_STRING, AT(undo), "NAME",
	  "undo the patch of this object, or the one that replaces this function" },
	{ "list", 'l', OPT_FLAG, AT(list), NULL, "print the patches of the process" },
	{ "dry-run", 'n', OPT_FLAG, AT(dry_run), NULL,
	  "check everything and print what would change, without change" },
	{ "consistency", 0, OPT_CHOICE, AT(consistency), CONSISTENCIES,
	  "choose when a thread runs the new code (default: no-thread-inside)" },
	{ "timeout", 0, OPT_TIME, AT(timeout_ns), "TIME",
	  "give up after TIME and change nothing (default: 10)" },
	{ "leave-copies", 0, OPT_FLAG, AT(leave_copies), NULL,
	  "replace a function although inlined copies or clones of it stay old" },
	{ "folded", 0, OPT_FLAG, AT(folded), NULL,
	  "replace a function although others have the same code, and change with it" },
	{ "json", 'j', OPT_FLAG, AT(json), NULL, "print JSON lines instead of text" },
#undef AT
};

const struct opt_syntax patch_syntax = {
	.command = PATCH_COMMAND,
	.usage = "-p PID (OBJECT.so [OPTION...] | --undo NAME | --list)",
	.about =
		"Replaces functions of a running program by those of a shared object, which names them "
		"by TRAPLINE_PATCH() of <trapline/tools.h>. No thread is stopped. The patch stays "
		"until --undo, or until the process ends.",
	.tail = "examples:\n"
		"  cc -shared -fPIC -O2 -o fix.so fix.c\n"
		"  trapline patch -p $(pidof server) fix.so --dry-run\n"
		"  trapline patch -p $(pidof server) fix.so\n"
		"  trapline patch -p $(pidof server) --undo fix.so",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

static int check_action(const struct patch_settings *set)
{
	int actions = (set->object != NULL) + (set->undo != NULL) + (set->list != 0);

	if (!set->pid)
		return cli_wrong(PATCH_COMMAND,
				 "no process: give -p PID (example: -p $(pidof server))");
	if (!actions)
		return cli_wrong(PATCH_COMMAND,
				 "nothing to do: give a shared object, --undo NAME or --list");
	if (actions > 1)
		return cli_wrong(PATCH_COMMAND, "%s cannot be combined with %s",
				 set->undo ? "--undo" : "--list",
				 set->object		? "a shared object" :
				 set->undo && set->list ? "--list" :
							  "--undo");
	if (set->dry_run && !set->object)
		return cli_wrong(PATCH_COMMAND, "--dry-run needs a shared object to check");
	if (set->undo && strlen(set->undo) >= PATCH_NAME_BYTES)
		return cli_wrong(PATCH_COMMAND, "invalid --undo: expected at most %d bytes",
				 PATCH_NAME_BYTES - 1);
	return CLI_OK;
}

static int patch_settings_read(struct patch_settings *set, int argc, char **argv)
{
	int status = 0;
	int first = opts_parse(&patch_syntax, argc, argv, set, &status);

	if (first < 0)
		return status ? status : -1;
	if (first < argc)
		set->object = argv[first++];
	if (first < argc)
		return cli_wrong(PATCH_COMMAND,
				 "unexpected argument '%s': one object is applied at a time",
				 argv[first]);
	if (!set->consistency)
		set->consistency = "no-thread-inside";
	if (!set->timeout_ns)
		set->timeout_ns = TIMEOUT_NS;
	status = check_action(set);
	if (status)
		return status;
	if (!own_proc_is_mounted())
		return cli_wrong(PATCH_COMMAND, "cannot find processes: " OWN_PROC_REMEDY);
	if (kill(set->pid, 0) && errno == ESRCH)
		return cli_wrong(PATCH_COMMAND, "there is no process %d", set->pid);
	return CLI_OK;
}

/* What would be refused when the object is loaded. */
static int check_process(const struct patch_settings *set)
{
	char why[512];
	int status = process_room_check(PATCH_COMMAND, set->pid, "patch");

	if (!status && inject_check(set->pid, why, sizeof(why)))
		status = cli_wrong(PATCH_COMMAND, "process %d: %s", set->pid, why);
	return status;
}

static int apply(const struct patch_settings *set)
{
	static struct patch_answer answer;
	const struct session session = { .name = PATCH_COMMAND, .pid = set->pid };
	struct patch_plan plan = { 0 };
	struct symbols *s;
	int status = session_open_symbols(&session, &s);

	if (status)
		return status;
	status = patch_plan_make(set, s, &plan);
	if (!status && set->dry_run) {
		status = check_process(set);
		if (!status)
			patch_print_plan(set, &plan);
	} else if (!status) {
		status = patch_request(set, PATCH_APPLY, &plan, &answer);
		if (!status)
			patch_print_applied(set, &plan, &answer);
	}
	patch_plan_free(&plan);
	symbols_close(s);
	return status;
}

static int undo_or_list(const struct patch_settings *set)
{
	static struct patch_answer answer;
	int status = patch_request(set, set->undo ? PATCH_UNDO : PATCH_LIST, NULL, &answer);

	if (!status && set->undo)
		patch_print_undone(set, &answer);
	else if (!status)
		patch_print_list(set, &answer);
	return status;
}

int cmd_patch(int argc, char **argv)
{
	static struct patch_settings set;
	int status = patch_settings_read(&set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	status = agent_is_for_this(PATCH_COMMAND);
	if (status)
		return status;
	watchdog_start(PATCH_COMMAND, false);
	return set.object ? apply(&set) : undo_or_list(&set);
}
