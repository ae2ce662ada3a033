/* SPDX-License-Identifier: MIT */
/* round.c - see round.h. */
#include "round.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "child.h"

#define START_MS 60000
#define HITS_MS 120000
#define END_MS 10000

struct place {
	int pid;
	char addr[32];
};

__attribute__((format(printf, 2, 3))) static void set_wrong(struct outcome *out,
							    const char *form, ...)
{
	va_list args;

	if (out->wrong[0] != '\0')
		return;
	va_start(args, form);
	vsnprintf(out->wrong, sizeof(out->wrong), form, args);
	va_end(args);
}

static int begins(const char *line, const char *word)
{
	return strncmp(line, word, strlen(word)) == 0;
}

/* What both may say. 1 when it was understood. */
static int understand(const char *line, struct outcome *out)
{
	if (begins(line, "skip ")) {
		snprintf(out->skipped, sizeof(out->skipped), "%s",
			 line + strlen("skip "));
		return 1;
	}
	if (sscanf(line, "true %" SCNu64, &out->true_value) == 1) {
		out->true_count++;
		return 1;
	}
	if (sscanf(line, "taken %" SCNu64, &out->taken) == 1) {
		out->is_taken_known = 1;
		return 1;
	}
	return 0;
}

/* 1 when it is ready; else why not is in *out. */
static int start_target(struct child *target, const struct contender *contender,
			const struct round *round, struct outcome *out,
			struct place *place)
{
	int is_watch = round->event == BENCH_WATCH;
	char program[512];
	char hits[32];
	char true_on[32];
	char word[32];
	char site[32];
	const char *line;

	snprintf(program, sizeof(program), "%s/bench_conditions_target", round->folder);
	snprintf(hits, sizeof(hits), "%" PRIu64, round->hits);
	snprintf(true_on, sizeof(true_on), "%" PRIu64, round->true_on);

	char *argv[] = { program, is_watch ? "watch" : "break", hits,
			 true_on, (char *)contender->mode,	NULL };

	if (child_start(target, argv, round->target_cpu) < 0) {
		set_wrong(out, "the target was not started");
		return 0;
	}
	while ((line = child_line(target, START_MS)) != NULL) {
		if (sscanf(line, "ready %d %31s %31s", &place->pid, word, site) == 3) {
			snprintf(place->addr, sizeof(place->addr), "%s",
				 is_watch ? word : site);
			return 1;
		}
		understand(line, out);
	}
	if (out->skipped[0] == '\0')
		set_wrong(out, "the target did not get ready");
	return 0;
}

/* 1 when it is armed. What it said last is the reason if it is not. */
static int start_peer(struct child *peer, const struct contender *contender,
		      const struct round *round, const struct place *place,
		      struct outcome *out)
{
	char program[512];
	char target[512];
	char pid[32];
	char value[32];
	char chatter[200] = "no word from it";
	const char *line;

	snprintf(program, sizeof(program), "%s/%s", round->folder, contender->peer);
	snprintf(target, sizeof(target), "%s/bench_conditions_target", round->folder);
	snprintf(pid, sizeof(pid), "%d", place->pid);
	snprintf(value, sizeof(value), "%" PRIu64, round->true_on);

	char *argv[] = { program,
			 round->event == BENCH_WATCH ? "watch" : "break",
			 pid,
			 (char *)place->addr,
			 value,
			 target,
			 (char *)contender->mechanism,
			 NULL };

	if (child_start(peer, argv, round->peer_cpu) < 0) {
		set_wrong(out, "the supervisor was not started");
		return 0;
	}
	while ((line = child_line(peer, START_MS)) != NULL) {
		if (strcmp(line, "armed") == 0)
			return 1;
		if (!understand(line, out) && line[0] != '\0')
			snprintf(chatter, sizeof(chatter), "%s", line);
	}
	if (out->skipped[0] == '\0')
		set_wrong(out, "%s is not armed: %s", contender->peer, chatter);
	return 0;
}

static void make_hits(struct child *target, struct outcome *out)
{
	const char *line;

	if (child_say(target, "go\n") < 0) {
		set_wrong(out, "the target is gone");
		return;
	}
	while ((line = child_line(target, HITS_MS)) != NULL) {
		if (sscanf(line, "ns %lf %lf", &out->ns, &out->mean_ns) == 2)
			return;
		understand(line, out);
	}
	set_wrong(out, "the target did not come to its end");
}

static void judge(const struct contender *contender, const struct round *round,
		  struct outcome *out)
{
	uint32_t expected = !contender->is_unconditional && round->true_on <= round->hits;

	if (out->true_count != expected)
		set_wrong(out, "true %u times, not %u", out->true_count, expected);
	else if (expected && out->true_value != round->true_on)
		set_wrong(out, "true on hit %" PRIu64 ", not %" PRIu64, out->true_value,
			  round->true_on);
	if (out->is_taken_known && out->taken != round->hits)
		set_wrong(out, "saw %" PRIu64 " hits of %" PRIu64, out->taken,
			  round->hits);
}

void round_run(const struct contender *contender, const struct round *round,
	       struct outcome *out)
{
	struct child target = { 0 };
	struct child peer = { 0 };
	struct place place;
	const char *line;

	*out = (struct outcome){ 0 };
	if (!start_target(&target, contender, round, out, &place))
		goto out_target;
	if (contender->peer != NULL && !start_peer(&peer, contender, round, &place, out))
		goto out_peer;
	make_hits(&target, out);
	/* Who has an event in the target ends with it and tells the rest then. */
	child_close_input(&target);
	while (peer.pid != 0 && (line = child_line(&peer, END_MS)) != NULL)
		understand(line, out);
	if (out->skipped[0] == '\0')
		judge(contender, round, out);

out_peer:
	child_end(&peer, END_MS);
out_target:
	if (child_end(&target, END_MS) != 0 && out->skipped[0] == '\0')
		set_wrong(out, "the target failed");
}
