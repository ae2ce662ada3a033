/* SPDX-License-Identifier: MIT */
/*
 * check_process.c - see check_process.h.
 *
 * The checks are those of the commands: an event is opened as watch and break do, and what an
 * attach would refuse is asked of inject_check().
 */
#include "cli/commands/check_process.h"

#include "base/dummy_event.h"
#include "base/sys.h"
#include "cli/cmd.h"
#include "cli/inject/inject.h"
#include "cli/launch/process_name.h"
#include "cli/launch/program.h"
#include "cli/message.h"

#include <trapline/trapline.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MOST 4096

/* Whether the kernel lets this user observe the process. The event counts nothing. */
static int try_event(pid_t pid)
{
	int fd = dummy_event_open(pid);

	if (fd >= 0)
		sys_close(fd);
	return fd < 0 ? fd : 0;
}

int check_process_read(pid_t pid, struct check_process *out)
{
	static pid_t tids[THREADS_MOST];
	char path[64];
	int err;

	*out = (struct check_process){ .pid = pid };
	if (kill(pid, 0) && errno == ESRCH)
		return cli_wrong("check", "there is no process %d", pid);
	process_name(pid, out->name, sizeof(out->name));
	out->threads = program_threads(pid, tids, THREADS_MOST);
	const char *why = program_why_not(pid, &err);
	if (why)
		return cli_wrong("check", "cannot check process %d: %s", pid, why);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	out->is_go = program_is_go(path);
	err = try_event(pid);
	if (err)
		trapline_explain(err, out->hidden, sizeof(out->hidden));
	if (inject_check(pid, out->sealed, sizeof(out->sealed)) && !out->sealed[0])
		snprintf(out->sealed, sizeof(out->sealed),
			 "its memory and libraries cannot be read");
	return CLI_OK;
}

static bool is_one_of(const char *word, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(word, words[i]))
			return true;
	return false;
}

const char *check_process_words(const struct check_process *p, const char *command,
				bool *is_possible)
{
	static const char *const searches[] = { "race", "heap", "flow" };
	static const char *const others[] = { "throttle", "patch" };
	bool is_race = !strcmp(command, "race");
	bool is_search = is_one_of(command, searches, sizeof(searches) / sizeof(searches[0]));
	bool is_within = is_search ||
			 is_one_of(command, others, sizeof(others) / sizeof(others[0]));
	bool is_sealed = p->sealed[0] || (is_search && p->is_go);
	*is_possible = !p->hidden[0];
	if (!*is_possible)
		return p->hidden;
	if (!is_within)
		return "from outside: nothing is loaded into it";
	if (!is_sealed)
		return "loads its agent into it";
	*is_possible = is_race && !geteuid() && !program_tracer(p->pid, p->pid);
	return *is_possible ? "from outside, since its agent cannot be loaded" :
	       p->sealed[0] ? p->sealed :
			      "it is a Go program";
}
