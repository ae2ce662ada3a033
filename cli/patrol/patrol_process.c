/* SPDX-License-Identifier: MIT */
/* patrol_process.c - see patrol_process.h. */
#include "cli/patrol/patrol_process.h"

#include "base/grow.h"
#include "base/hash.h"
#include "cli/launch/program.h"
#include "cli/observe/targets_find.h"
#include "cli/patrol/patrol_share.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STAT_START 22	    /* of proc(5) */
#define REFUSED_FIRST_S 600 /* until the next try */
#define REFUSED_MOST_S 86400
#define REFUSALS_MOST 1000

static bool has_one(cfg_t *rule, const char *option,
		    bool (*fits)(const char *text, const void *arg), const void *arg)
{
	unsigned int n = cfg_size(rule, option);

	for (unsigned int i = 0; i < n; i++)
		if (fits(cfg_getnstr(rule, option, i), arg))
			return true;
	return !n;
}

static bool fits_name(const char *name, const void *arg)
{
	return targets_has_name(arg, name);
}

static bool fits_cgroup(const char *pattern, const void *arg)
{
	return !fnmatch(pattern, arg, 0);
}

/* That of the one hierarchy; empty: none. */
static void read_cgroup(pid_t pid, char *text, size_t n)
{
	char path[64];
	char line[512];

	text[0] = 0;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "0::", 3))
			snprintf(text, n, "%s", line + 3);
	}
	if (f)
		fclose(f);
}

static bool has_user(const struct patrol_rule *rule, pid_t pid)
{
	char path[64];
	struct stat st;

	if (!rule->user_count)
		return true;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st))
		return false;
	for (size_t i = 0; i < rule->user_count; i++)
		if (rule->users[i] == st.st_uid)
			return true;
	return false;
}

/* The first rule that names it; rule_count: none does. */
static size_t rule_of(const struct patrol_rules *r, pid_t pid, const struct target_identity *id)
{
	char cgroup[512] = "";
	size_t i;

	for (i = 0; i < r->rule_count; i++) {
		const struct patrol_rule *rule = &r->rule[i];

		if (!has_one(rule->section, "name", fits_name, id) || !has_user(rule, pid))
			continue;
		if (cfg_size(rule->section, "cgroup") && !cgroup[0])
			read_cgroup(pid, cgroup, sizeof(cgroup));
		if (has_one(rule->section, "cgroup", fits_cgroup, cgroup))
			break;
	}
	return i;
}

static uint64_t program_id(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st))
		return 0;
	uint64_t hash = hash_step(HASH_START, st.st_dev);
	hash = hash_step(hash, st.st_ino);
	hash = hash_step(hash, (uint64_t)st.st_size);
	hash = hash_step(hash, (uint64_t)st.st_mtim.tv_sec);
	/* JSON has no larger numbers. */
	return hash >> 1;
}

static struct patrol_process *find(struct patrol_processes *p, pid_t pid, int64_t start)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->row[i].pid == pid && p->row[i].start == start)
			return &p->row[i];
	return NULL;
}

static int add(struct patrol_processes *p, const struct patrol_process *one)
{
	if (grow_room(p->row, p->count, p->capacity))
		return -ENOMEM;
	p->row[p->count++] = *one;
	return 0;
}

static uint64_t share_of(const struct patrol_processes *p, const struct patrol_process *one)
{
	uint64_t process = hash_step(HASH_START, (uint64_t)one->pid);

	return patrol_share(p->host, one->waits_from, hash_step(process, (uint64_t)one->start));
}

void patrol_process_begin(const struct patrol_processes *p, const struct patrol_rules *r,
			  struct patrol_process *one)
{
	const struct patrol_rule *rule = &r->rule[one->rule];
	uint64_t points = cfg_size(rule->section, "point");

	one->turns = share_of(p, one) % (rule->tool_count * (points ? points : 1));
}

struct look {
	struct patrol_processes *processes;
	const struct patrol_rules *rules;
	double now;
};

static int see(void *arg, pid_t pid, const struct target_identity *id)
{
	const struct look *look = arg;
	const struct patrol_rules *r = look->rules;
	struct patrol_processes *p = look->processes;
	int64_t start;
	size_t rule = rule_of(r, pid, id);

	if (rule == r->rule_count || !program_stat(pid, pid, STAT_START, &start))
		return 0;
	p->matches[rule]++;
	struct patrol_process *known = find(p, pid, start);
	if (known && !strcmp(known->program, id->exe)) {
		known->is_there = true;
		known->rule = rule;
		return 0;
	}
	/* It has executed another program. */
	if (known)
		known->start = 0;
	struct patrol_process new = { .pid = pid,
				      .start = start,
				      .program = strdup(id->exe),
				      .program_id = program_id(pid),
				      .rule = rule,
				      .waits_from = look->now,
				      .is_there = true };
	patrol_process_begin(p, r, &new);
	int err = new.program ? add(p, &new) : -ENOMEM;
	if (err)
		free(new.program);
	return err;
}

static void drop_ended(struct patrol_processes *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->count; i++) {
		if (p->row[i].is_there)
			p->row[kept++] = p->row[i];
		else
			free(p->row[i].program);
	}
	p->count = kept;
}

int patrol_processes_look(struct patrol_processes *p, const struct patrol_rules *r, double now)
{
	struct look look = { p, r, now };

	if (!p->matches)
		p->matches = calloc(r->rule_count, sizeof(*p->matches));
	if (!p->matches)
		return -ENOMEM;
	memset(p->matches, 0, r->rule_count * sizeof(*p->matches));
	for (size_t i = 0; i < p->count; i++)
		p->row[i].is_there = false;
	int err = targets_each(see, &look);
	if (!err)
		drop_ended(p);
	return err;
}

void patrol_processes_free(struct patrol_processes *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->row[i].program);
	for (size_t i = 0; i < p->refusal_count; i++)
		free(p->refusal[i].program);
	free(p->row);
	free(p->refusal);
	free(p->matches);
	*p = (struct patrol_processes){ 0 };
}

bool patrol_process_runs(const struct patrol_process *p)
{
	int64_t start;

	return program_stat(p->pid, p->pid, STAT_START, &start) && start == p->start &&
	       program_thread_state(p->pid, p->pid) != 'Z';
}

/* --- whose turn it is --- */

static bool is_in_hours(const struct patrol_rule *rule, double now)
{
	time_t seconds = (time_t)now;
	struct tm local;

	if (!rule->from_minute && !rule->to_minute)
		return true;
	localtime_r(&seconds, &local);
	unsigned int minute = 60 * (unsigned int)local.tm_hour + (unsigned int)local.tm_min;
	if (rule->from_minute < rule->to_minute)
		return minute >= rule->from_minute && minute < rule->to_minute;
	return minute >= rule->from_minute || minute < rule->to_minute;
}

static struct patrol_refusal *refusal_of(struct patrol_processes *p, uint64_t program,
					 enum patrol_tool tool)
{
	for (size_t i = 0; i < p->refusal_count; i++)
		if (p->refusal[i].program_id == program && p->refusal[i].tool == tool)
			return &p->refusal[i];
	return NULL;
}

/* The next tool of the rule that the program does not refuse. */
static bool choose_tool(struct patrol_processes *p, const struct patrol_rules *r,
			struct patrol_process *one, double now, struct patrol_turn *out)
{
	const struct patrol_rule *rule = &r->rule[one->rule];
	unsigned int points = cfg_size(rule->section, "point");

	for (size_t i = 0; i < rule->tool_count; i++) {
		uint64_t turn = one->turns + i;
		enum patrol_tool tool = rule->tools[turn % rule->tool_count];
		const struct patrol_refusal *no = refusal_of(p, one->program_id, tool);

		if (no && now - no->at < no->wait_s && now >= no->at)
			continue;
		*out = (struct patrol_turn){ .process = one, .tool = tool };
		if (tool == PATROL_POINTS)
			out->point = cfg_getnstr(rule->section, "point",
						 (unsigned int)(turn / rule->tool_count % points));
		one->turns = turn;
		return true;
	}
	return false;
}

static bool waits_longer(const struct patrol_processes *p, const struct patrol_process *one,
			 const struct patrol_process *other)
{
	if (one->waits_from != other->waits_from)
		return one->waits_from < other->waits_from;
	return share_of(p, one) < share_of(p, other);
}

bool patrol_processes_next(struct patrol_processes *p, const struct patrol_rules *r, double now,
			   struct patrol_turn *out)
{
	struct patrol_turn turn;
	bool has = false;

	for (size_t i = 0; i < p->count; i++) {
		struct patrol_process *one = &p->row[i];
		const struct patrol_rule *rule = &r->rule[one->rule];
		double waited = now - one->waits_from;

		if (has && !waits_longer(p, one, out->process))
			continue;
		/* A clock that was set back must not stop the patrol. */
		if (one->visits && waited >= 0 && waited < rule->every_s)
			continue;
		if (is_in_hours(rule, now) && choose_tool(p, r, one, now, &turn)) {
			*out = turn;
			has = true;
		}
	}
	return has;
}

void patrol_processes_visited(struct patrol_processes *p, const struct patrol_turn *turn,
			      double now)
{
	struct patrol_process *one = find(p, turn->process->pid, turn->process->start);

	if (!one)
		return;
	one->visits++;
	one->turns++;
	one->waits_from = now;
}

/* The oldest one makes room. */
static struct patrol_refusal *new_refusal(struct patrol_processes *p)
{
	size_t oldest = 0;

	if (p->refusal_count < REFUSALS_MOST) {
		if (grow_room(p->refusal, p->refusal_count, p->refusal_capacity))
			return NULL;
		return &p->refusal[p->refusal_count++];
	}
	for (size_t i = 1; i < p->refusal_count; i++)
		if (p->refusal[i].at < p->refusal[oldest].at)
			oldest = i;
	free(p->refusal[oldest].program);
	return &p->refusal[oldest];
}

int patrol_processes_refused(struct patrol_processes *p, const struct patrol_turn *turn,
			     const char *reason, double now)
{
	const struct patrol_process *one = turn->process;
	struct patrol_refusal *no = refusal_of(p, one->program_id, turn->tool);

	if (!no) {
		char *program = strdup(one->program);
		no = program ? new_refusal(p) : NULL;
		if (!no) {
			free(program);
			return -ENOMEM;
		}
		*no = (struct patrol_refusal){ .program_id = one->program_id,
					       .program = program,
					       .tool = turn->tool };
	}
	no->at = now;
	no->wait_s = no->wait_s ? 2 * no->wait_s : REFUSED_FIRST_S;
	if (no->wait_s > REFUSED_MOST_S)
		no->wait_s = REFUSED_MOST_S;
	snprintf(no->reason, sizeof(no->reason), "%s", reason);
	return 0;
}

void patrol_processes_worked(struct patrol_processes *p, const struct patrol_turn *turn)
{
	struct patrol_refusal *no = refusal_of(p, turn->process->program_id, turn->tool);

	if (!no)
		return;
	free(no->program);
	*no = p->refusal[--p->refusal_count];
}

/* Read, not mapped: a file that is truncated at this moment is an error, and no signal. */
void patrol_process_build_id(pid_t pid, char *text, size_t n)
{
	char path[64];
	const void *bytes = NULL;

	text[0] = 0;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	ssize_t size = elf ? dwelf_elf_gnu_build_id(elf, &bytes) : 0;
	for (ssize_t i = 0; i < size && (size_t)(2 * i + 3) <= n; i++)
		snprintf(text + 2 * i, n - (size_t)(2 * i), "%02x",
			 ((const unsigned char *)bytes)[i]);
	elf_end(elf);
	close(fd);
}

/* --- over restarts --- */

json_t *patrol_processes_to_json(const struct patrol_processes *p)
{
	json_t *rows = json_array();
	json_t *refusals = json_array();

	for (size_t i = 0; i < p->count; i++) {
		const struct patrol_process *one = &p->row[i];
		json_array_append_new(
			rows, json_pack("{s:i, s:I, s:s, s:I, s:f, s:I, s:I}", "pid", one->pid,
					"start", (json_int_t)one->start, "program", one->program,
					"program_id", (json_int_t)one->program_id, "waits_from",
					one->waits_from, "visits", (json_int_t)one->visits, "turns",
					(json_int_t)one->turns));
	}
	for (size_t i = 0; i < p->refusal_count; i++) {
		const struct patrol_refusal *no = &p->refusal[i];
		json_array_append_new(
			refusals, json_pack("{s:s, s:I, s:s, s:s, s:f, s:f}", "program",
					    no->program, "program_id", (json_int_t)no->program_id,
					    "tool", patrol_tool_name(no->tool), "reason",
					    no->reason, "at", no->at, "wait_s", no->wait_s));
	}
	return json_pack("{s:o, s:o}", "processes", rows, "refusals", refusals);
}

static void read_process(struct patrol_processes *p, json_t *row)
{
	struct patrol_process one = { .pid = 0 };
	const char *program = NULL;
	json_int_t start;
	json_int_t id;
	json_int_t visits;
	json_int_t turns;

	if (json_unpack(row, "{s:i, s:I, s:s, s:I, s:F, s:I, s:I}", "pid", &one.pid, "start",
			&start, "program", &program, "program_id", &id, "waits_from",
			&one.waits_from, "visits", &visits, "turns", &turns))
		return;
	one.start = start;
	one.program_id = (uint64_t)id;
	one.visits = (uint64_t)visits;
	one.turns = (uint64_t)turns;
	one.program = strdup(program);
	if (!one.program || add(p, &one))
		free(one.program);
}

static void read_refusal(struct patrol_processes *p, json_t *row)
{
	struct patrol_process one = { .pid = 0 };
	struct patrol_turn turn = { .process = &one };
	const char *tool = NULL;
	const char *reason = NULL;
	const char *program = NULL;
	json_int_t id;
	double at;
	double wait_s;

	if (json_unpack(row, "{s:s, s:I, s:s, s:s, s:F, s:F}", "program", &program, "program_id",
			&id, "tool", &tool, "reason", &reason, "at", &at, "wait_s", &wait_s))
		return;
	one.program_id = (uint64_t)id;
	one.program = (char *)(uintptr_t)program;
	for (size_t i = 0; i < PATROL_TOOLS; i++)
		if (!strcmp(tool, patrol_tool_name((enum patrol_tool)i)))
			turn.tool = (enum patrol_tool)i;
	struct patrol_refusal *no = patrol_processes_refused(p, &turn, reason, at) ?
					    NULL :
					    refusal_of(p, one.program_id, turn.tool);
	if (no)
		no->wait_s = wait_s;
}

void patrol_processes_from_json(struct patrol_processes *p, const json_t *json)
{
	size_t i;
	json_t *row;

	json_array_foreach(json_object_get(json, "processes"), i, row) read_process(p, row);
	json_array_foreach(json_object_get(json, "refusals"), i, row) read_refusal(p, row);
}
