/* SPDX-License-Identifier: MIT */
/*
 * cmd_patrol.c - `trapline patrol`: goes from process to process by rules, as a service.
 *
 * stop, resume and status need no more than the folder of its state.
 */
#include "cli/cmd.h"
#include "cli/message.h"
#include "cli/opts.h"
#include "cli/patrol/patrol_serve.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STOP_STEPS 200
#define STOP_STEP_NS 100000000

struct settings {
	const char *state;
	int json;
};

static const struct opt options[] = {
#define AT(member) offsetof(struct settings, member)
	{ "state", 0, OPT_STRING, AT(state), "DIR",
	  "keep the state in DIR (default: " PATROL_FOLDER ")" },
	{ "json", 'j', OPT_FLAG, AT(json), NULL, "status: print JSON" },
#undef AT
};

const struct opt_syntax patrol_syntax = {
	.command = PATROL_COMMAND,
	.usage = "RULES | check RULES | status | stop | resume",
	.about =
		"Goes from process to process by the rules in the file RULES, and searches each for "
		"some minutes, within a budget of this machine. Findings go to the journal, an "
		"OTLP collector, PostgreSQL or a file.",
	.tail = "examples:\n"
		"  trapline patrol check /etc/trapline/patrol.conf\n"
		"  trapline patrol /etc/trapline/patrol.conf &\n"
		"  trapline patrol status\n"
		"  trapline patrol stop",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

static char host_name[HOST_NAME_MAX + 1];

static int read_rules(const char *path, struct patrol_rules *rules)
{
	int status = patrol_rules_read(path, rules);

	if (!status && !rules->host) {
		if (gethostname(host_name, sizeof(host_name) - 1))
			snprintf(host_name, sizeof(host_name), "localhost");
		rules->host = host_name;
	}
	return status;
}

static const char *folder_of(const struct settings *set, const struct patrol_rules *rules)
{
	if (set->state)
		return set->state;
	return rules && rules->state ? rules->state : PATROL_FOLDER;
}

static int serve(const struct settings *set, const char *path)
{
	struct patrol_rules rules;
	struct folder folder;
	int status = read_rules(path, &rules);

	if (status)
		return status;
	status = folder_open(PATROL_COMMAND, folder_of(set, &rules), true, &folder);
	int err = status ? 0 : folder_serve(&folder);
	if (err)
		status = cli_wrong(PATROL_COMMAND,
				   err == -EAGAIN ?
					   "another patrol runs with the state %s; end it, "
					   "or give another --state DIR" :
					   "cannot write in %s",
				   folder.path);
	if (!status)
		status = patrol_serve(&rules, &folder);
	folder_close(&folder);
	patrol_rules_free(&rules);
	return status;
}

/* Which processes the rules name, without a visit. */
static int check(const char *path)
{
	struct patrol_rules rules;
	struct patrol_processes found = { .row = NULL };
	int status = read_rules(path, &rules);

	if (status)
		return status;
	int err = patrol_processes_look(&found, &rules, 0);
	if (err)
		status = cli_wrong(PATROL_COMMAND, "cannot read /proc: %s", strerror(-err));
	for (size_t i = 0; i < rules.rule_count && !status; i++) {
		printf("rule %s: %zu process%s\n", rules.rule[i].title, found.matches[i],
		       found.matches[i] == 1 ? "" : "es");
		for (size_t k = 0; k < found.count; k++) {
			if (found.row[k].rule != i)
				continue;
			clean_text(found.row[k].program);
			printf("  %d %s\n", found.row[k].pid, found.row[k].program);
		}
	}
	patrol_processes_free(&found);
	patrol_rules_free(&rules);
	return status;
}

/* What the patrol last wrote: does it visit a process? */
static bool is_visiting(const struct folder *folder)
{
	int err;
	json_t *j = folder_read(folder, PATROL_STATE, PATROL_STATE_BYTES, &err);
	bool visits = json_is_object(json_object_get(j, "visiting"));

	json_decref(j);
	return visits;
}

static int stop(const struct folder *folder)
{
	const struct timespec step = { 0, STOP_STEP_NS };
	int fd = folder_file(folder, PATROL_STOP, O_WRONLY | O_CREAT);

	if (fd < 0)
		return cli_wrong(PATROL_COMMAND, "cannot write in %s: %s", folder->path,
				 strerror(errno));
	close(fd);
	if (!folder_is_served(folder)) {
		cli_note(PATROL_COMMAND,
			 "no patrol runs; the next one begins when 'trapline patrol "
			 "resume' permits it");
		return CLI_OK;
	}
	/* One that began at this moment is in the state after a step. */
	nanosleep(&step, NULL);
	for (int i = 0; i < STOP_STEPS && is_visiting(folder) && folder_is_served(folder); i++)
		nanosleep(&step, NULL);
	if (is_visiting(folder) && folder_is_served(folder))
		return cli_wrong(PATROL_COMMAND,
				 "the visit has not ended yet; see 'trapline patrol status'"),
		       CLI_NO;
	printf("stopped\n");
	return CLI_OK;
}

static int resume(const struct folder *folder)
{
	if (unlinkat(folder->fd, PATROL_STOP, 0) && errno != ENOENT)
		return cli_wrong(PATROL_COMMAND, "cannot remove %s/" PATROL_STOP ": %s",
				 folder->path, strerror(errno));
	if (!folder_is_served(folder))
		cli_note(PATROL_COMMAND, "no patrol runs: start it with 'systemctl start "
					 "trapline-patrol', or with 'trapline patrol RULES'");
	return CLI_OK;
}

static int of_folder(const struct settings *set, const char *action)
{
	struct folder folder;
	bool makes = !strcmp(action, "stop");
	int status = folder_open(PATROL_COMMAND, folder_of(set, NULL), makes, &folder);

	if (!status && !strcmp(action, "status"))
		status = patrol_status_print(&folder, set->json);
	else if (!status && makes)
		status = stop(&folder);
	else if (!status)
		status = resume(&folder);
	folder_close(&folder);
	return status;
}

int cmd_patrol(int argc, char **argv)
{
	struct settings set = { .state = NULL };
	int status = CLI_OK;
	int first = opts_parse(&patrol_syntax, argc, argv, &set, &status);

	if (first < 0)
		return status;
	if (first == argc)
		return cli_wrong(PATROL_COMMAND,
				 "RULES is missing: give the file with the rules, or "
				 "check, status, stop or resume");
	const char *action = argv[first++];
	bool is_check = !strcmp(action, "check");
	bool is_of_folder = !strcmp(action, "status") || !strcmp(action, "stop") ||
			    !strcmp(action, "resume");
	if (is_check && first == argc)
		return cli_wrong(PATROL_COMMAND, "RULES is missing: give the file with the rules");
	if (set.json && strcmp(action, "status") != 0)
		return cli_wrong(PATROL_COMMAND, "--json is for 'trapline patrol status'");
	if (first + is_check != argc)
		return cli_wrong(PATROL_COMMAND, "unexpected argument '%s'",
				 argv[first + is_check]);
	if (is_of_folder)
		return of_folder(&set, action);
	return is_check ? check(argv[first]) : serve(&set, action);
}
