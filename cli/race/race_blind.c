/* SPDX-License-Identifier: MIT */
/* race_blind.c - see race_blind.h. */
#include "cli/race/race_blind.h"

#include "cli/cmd.h"
#include "cli/message.h"
#include "record/race_words.h"

#include <errno.h>
#include <string.h>

#define COMMAND "race"

/* A sweep without traps stalls what the samples choose, and finds less. */
void race_say_refusal(const struct race_region *region, const struct race_totals *t)
{
	const char *why = region->sites_why;

	if (t->sites_refused)
		cli_note(COMMAND,
			 "cannot trap all sites in %llu of %llu processes: %.*s; there the samples "
			 "choose what is stalled",
			 (unsigned long long)t->sites_refused, (unsigned long long)t->processes,
			 (int)strnlen(why, sizeof(region->sites_why)),
			 *why ? why : "out of memory");
}

/* A search that could not run must not look like one that found no race. */
int race_say_blindness(const struct race_totals *t)
{
	if (!t->processes) {
		cli_note(COMMAND,
			 "nothing was searched: the agent was not loaded into any process (a "
			 "static or setuid program, or one that clears its environment)");
		return CLI_NO;
	}
	bool is_partly = t->error == -ECANCELED;
	if (t->failed)
		cli_note(COMMAND, "%llu of %llu processes %s: %s%s%s",
			 (unsigned long long)t->failed, (unsigned long long)t->processes,
			 is_partly ? "were searched only in part" : "were not searched",
			 race_step_name(t->step), is_partly ? "" : ": ",
			 is_partly ? "" : strerror(-t->error));
	return t->failed == t->processes && !is_partly ? CLI_NO : CLI_OK;
}
