/* SPDX-License-Identifier: MIT */
/*
 * cmd_check.c - `trapline check`: which commands work here, what does not, why, and the remedy.
 * With --verbose also the evidence of each feature, and what it costs.
 */
#include "cli/at/at_regs.h"
#include "cli/cmd.h"
#include "cli/commands/check_code.h"
#include "cli/commands/check_process.h"
#include "cli/launch/agent_start.h"
#include "cli/message.h"
#include "cli/opts.h"
#include "cli/terminal.h"

#include <trapline/trapline.h>

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define NAME_WIDTH 20
/* name, two blanks, "yes", two blanks */
#define TEXT_AT (NAME_WIDTH + 7)
#define WORDS_AT 20 /* of a command */

/* The operation that each cost is of. */
static const struct {
	const char *name;
	const char *meaning;
} meanings[] = {
	{ "clock", "read CLOCK_MONOTONIC" },
	{ "syscall", "cheapest system call" },
	{ "hardware_trap", "hit of a watched variable, only counted" },
	{ "signal", "hit of a watched variable, SIGTRAP handler and back" },
	{ "bpf_reject", "hit that a BPF program rejects" },
	{ "bpf_record", "hit that a BPF program records, with the value" },
	{ "uprobe", "call of a function with a uprobe, counted" },
	{ "uprobe_bpf", "call of a function with a uprobe, rejected by a BPF program" },
	{ "int3", "trap instruction, SIGTRAP handler and back" },
	{ "poke", "write of an instruction by /proc/self/mem" },
	{ "membarrier", "membarrier sync-core, no other thread running" },
	{ "move", "move a watchpoint, one thread" },
	{ "enable_disable", "disable and enable a watchpoint, one thread" },
	{ "open_close", "open and close a watchpoint, own thread" },
	{ "arm_per_thread", "open and close a watchpoint in each of 50 idle threads, per thread" },
};

#define NEEDS_MAX 3
#define WORDS_MAX 5

/*
 * A command works when the features that it needs do, of "A or B" one of the two; each further one
 * adds an ability.
 */
static const struct ability {
	const char *command;
	const char *needs[NEEDS_MAX];
	struct {
		const char *feature;
		const char *words;
	} adds[WORDS_MAX];
} abilities[] = {
	{ "watch",
	  { "watch_write", "other_process" },
	  { { "inherit_thread", "new threads" },
	    { "bpf_condition", "conditions in the kernel" },
	    { "access_in_syscalls", "accesses in system calls" } } },
	{ "break",
	  { "uprobe or other_process" },
	  { { "uprobe", "any number of functions" },
	    { "uprobe_multi", "thousands of functions at once" },
	    { "bpf_condition", "conditions in the kernel" } } },
	{ "record", { "uprobe or other_process" }, { { "bpf_ringbuf", "values at the hit" } } },
	{ "race",
	  { "sigtrap or uprobe_multi", "watch_write or uprobe_multi", "counter_task_clock" },
	  { { "watch_write", "accesses in any code" },
	    { "other_process_signal", "running processes" },
	    { "patch_text", "--sweep" } } },
	{ "heap",
	  { NULL },
	  { { "watch_write", "reads before a block" }, { "patch_text", "running processes" } } },
	{ "flow", { "patch_text" }, { { "watch_write", "copies that are kept" } } },
	{ "at",
	  { "uprobe", "bpf_condition", "break_execute" },
	  { { "point_syscalls", "--counter syscalls" },
	    { "point_branches", "branches" },
	    { "point_instructions", "instructions" },
	    { "point_cycles", "cycles" } } },
	{ "throttle",
	  { "counter_task_clock", "counter_page_faults" },
	  { { "pmu_instructions", "--counter instructions" },
	    { "pmu_cycles", "cycles" },
	    { "pmu_branches", "branches" } } },
	{ "patch",
	  { "patch_text", "text_by_mem or text_by_tracee" },
	  { { "membarrier_sync_core", "code that threads execute" } } },
	{ "dap",
	  { "uprobe or other_process" },
	  { { "uprobe", "any number of breakpoints" },
	    { "bpf_condition", "conditions in the kernel" } } },
};

/* Where their agent is not built. */
static const struct {
	const char *command;
	const char *why;
} by_agent[] = {
	{ "race", "its agent, and its search from outside, decode accesses of x86-64 only" },
	{ "heap", "its agent is for x86-64 only" },
	{ "flow", "its agent, which translates code, is for x86-64 only" },
	{ "throttle", "its agent is for x86-64 only" },
	{ "patch", "its agent is for x86-64 only; a program can call trapline_patch()" },
};

static const char *why_no_agent(const char *command)
{
	if (agent_is_built())
		return NULL;
	for (size_t i = 0; i < sizeof(by_agent) / sizeof(by_agent[0]); i++)
		if (!strcmp(by_agent[i].command, command))
			return by_agent[i].why;
	return NULL;
}

#define ABILITIES (sizeof(abilities) / sizeof(abilities[0]))

static const char *cost_meaning(const char *name)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (!strcmp(meanings[i].name, name))
			return meanings[i].meaning;
	}
	return "";
}

enum answer {
	NO,
	UNKNOWN,
	YES
};

/* What is in a column: UNKNOWN has a row of its own with the reason. */
static const char *const answer_words[] = { "no", "?", "yes" };

static enum answer answer_of(const struct trapline_feature *f)
{
	return f->ok ? YES : f->is_known ? NO : UNKNOWN;
}

static enum answer ask(const struct trapline_caps *caps, const char *name)
{
	for (uint32_t i = 0; i < caps->feature_count; i++) {
		if (!strcmp(caps->features[i].name, name))
			return answer_of(&caps->features[i]);
	}
	return NO;
}

static enum answer ask_need(const struct trapline_caps *caps, const char *need)
{
	const char *other = strstr(need, " or ");
	char name[64];

	if (!other)
		return ask(caps, need);
	snprintf(name, sizeof(name), "%.*s", (int)(other - need), need);
	enum answer first = ask(caps, name);
	enum answer second = ask(caps, other + strlen(" or "));
	return first > second ? first : second;
}

static void print_features(const struct trapline_caps *caps)
{
	printf("\n%-*s  %-3s  %s\n", NAME_WIDTH, "feature", "", "evidence");
	for (uint32_t i = 0; i < caps->feature_count; i++) {
		const struct trapline_feature *f = &caps->features[i];

		printf("%-*s  %-3s  ", NAME_WIDTH, f->name, answer_words[answer_of(f)]);
		terminal_wrap(stdout, f->evidence, TEXT_AT);
	}
}

static void print_costs(const struct trapline_caps *caps)
{
	printf("\n%-*s  %8s\n", NAME_WIDTH, "cost", "ns");
	for (uint32_t i = 0; i < caps->cost_count; i++) {
		const struct trapline_cost *c = &caps->costs[i];

		if (c->ns <= 0)
			continue;
		printf("%-*s  %8.0f  ", NAME_WIDTH, c->name, c->ns);
		terminal_wrap(stdout, cost_meaning(c->name), NAME_WIDTH + 12);
	}
}

/* Adds a word to a list: `a, b, c`. */
static void add_word(char *text, size_t size, const char *word)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s%s", used ? ", " : "", word);
}

/* What the command can do here, and what it cannot. */
static void abilities_text(const struct trapline_caps *caps, const struct ability *a, char *text,
			   size_t size)
{
	char has[256] = "";
	char lacks[256] = "";

	for (size_t i = 0; i < WORDS_MAX && a->adds[i].feature; i++) {
		bool ok = ask(caps, a->adds[i].feature) == YES;
		add_word(ok ? has : lacks, ok ? sizeof(has) : sizeof(lacks), a->adds[i].words);
	}
	if (!strcmp(a->command, "at") && !at_can_step)
		add_word(lacks, sizeof(lacks), "+K");
	snprintf(text, size, "%s%s%s%s%s", has[0] ? "with " : "", has,
		 has[0] && lacks[0] ? "; " : "", lacks[0] ? "without " : "", lacks);
}

/* What this machine permits, and in words why or how. */
static enum answer command_answer(const struct trapline_caps *caps, const struct ability *a,
				  char *words, size_t size)
{
	const char *no_agent = why_no_agent(a->command);
	enum answer worst = YES;
	char missing[128] = "";
	char unknown[128] = "";

	if (no_agent) {
		snprintf(words, size, "%s", no_agent);
		return NO;
	}
	for (size_t i = 0; i < NEEDS_MAX && a->needs[i]; i++) {
		enum answer answer = ask_need(caps, a->needs[i]);
		worst = answer < worst ? answer : worst;
		if (answer == NO)
			add_word(missing, sizeof(missing), a->needs[i]);
		if (answer == UNKNOWN)
			add_word(unknown, sizeof(unknown), a->needs[i]);
	}
	if (worst == NO)
		snprintf(words, size, "needs %s", missing);
	else if (worst == UNKNOWN)
		snprintf(words, size, "not known, the machine is busy: %s", unknown);
	else
		abilities_text(caps, a, words, size);
	return worst;
}

/* The process decides where the machine permits the command. */
static enum answer answer_for(const struct trapline_caps *caps, const struct ability *a,
			      const struct check_process *p, char *words, size_t size)
{
	enum answer worst = command_answer(caps, a, words, size);
	bool is_possible;

	if (!p || worst != YES)
		return worst;
	/* It needs none from outside, and nothing of the process matters there. */
	if (!strcmp(a->command, "race") && ask(caps, "watch_write") != YES && !p->hidden[0]) {
		snprintf(words, size, "from outside, since no debug register works");
		return YES;
	}
	snprintf(words, size, "%s", check_process_words(p, a->command, &is_possible));
	return is_possible ? YES : NO;
}

/* At a process, a reason that was there already is not repeated. */
static void print_commands(const struct trapline_caps *caps, const struct check_process *p)
{
	static char words[ABILITIES][640];
	enum answer answers[ABILITIES];

	printf("%-10s  %s\n", "command", p ? "possible" : "works");
	for (size_t i = 0; i < ABILITIES; i++) {
		size_t first = 0;

		answers[i] = answer_for(caps, &abilities[i], p, words[i], sizeof(words[i]));
		while (answers[first] != answers[i] || strcmp(words[first], words[i]) != 0)
			first++;
		printf("%-10s  %-6s  ", abilities[i].command, answer_words[answers[i]]);
		if (p && answers[i] == NO && first < i)
			printf("as for %s\n", abilities[first].command);
		else
			terminal_wrap(stdout, words[i], WORDS_AT);
	}
}

static bool is_same(const struct trapline_feature *a, const struct trapline_feature *b)
{
	return answer_of(a) == answer_of(b) && !a->ok && !strcmp(a->evidence, b->evidence) &&
	       !strcmp(a->remedy, b->remedy);
}

/* Features with the same reason are one entry. */
static void print_missing(const struct trapline_caps *caps, uint32_t first)
{
	const struct trapline_feature *f = &caps->features[first];
	char names[512] = "";

	for (uint32_t i = 0; i < caps->feature_count; i++) {
		if (i < first && is_same(f, &caps->features[i]))
			return;
		if (is_same(f, &caps->features[i]))
			add_word(names, sizeof(names), caps->features[i].name);
	}
	printf("  ");
	terminal_wrap(stdout, names, 2);
	printf("    why:    ");
	terminal_wrap(stdout, f->evidence, 12);
	printf("    remedy: ");
	terminal_wrap(stdout, f->remedy, 12);
}

static void print_all_missing(const struct trapline_caps *caps, enum answer answer,
			      const char *title)
{
	if (title)
		printf("\n%s\n", title);
	for (uint32_t i = 0; i < caps->feature_count; i++)
		if (answer_of(&caps->features[i]) == answer)
			print_missing(caps, i);
}

static void check_print_text(const struct trapline_caps *caps, const struct utsname *u,
			     bool verbose)
{
	uint32_t counts[YES + 1] = { 0 };

	printf("trapline %s, kernel %s, %s\n", TRAPLINE_VERSION_STRING, u->release, u->machine);
	if (verbose) {
		print_features(caps);
		print_costs(caps);
	}
	printf("\n");
	print_commands(caps, NULL);
	for (uint32_t i = 0; i < caps->feature_count; i++)
		counts[answer_of(&caps->features[i])]++;
	print_all_missing(caps, NO, counts[NO] ? "not available here:" : NULL);
	print_all_missing(caps, UNKNOWN,
			  counts[UNKNOWN] ? "not known, since the machine is busy:" : NULL);
	printf("\n%u of %u features work", counts[YES], caps->feature_count);
	if (counts[UNKNOWN])
		printf(", %u not known", counts[UNKNOWN]);
	printf("%s\n", verbose ? "" : "; trapline check -v prints all, and what they cost");
}

static void print_process(const struct trapline_caps *caps, const struct check_process *p)
{
	printf("process %d (%s), %zu thread%s\n\n", p->pid, p->name, p->threads,
	       p->threads == 1 ? "" : "s");
	print_commands(caps, p);
}

static void print_process_json(const struct trapline_caps *caps, const struct check_process *p)
{
	json_t *commands = json_array();
	char words[640];

	for (size_t i = 0; i < ABILITIES; i++) {
		enum answer answer = answer_for(caps, &abilities[i], p, words, sizeof(words));

		json_array_append_new(commands, json_pack("{s:s, s:o, s:s}", "command",
							  abilities[i].command, "possible",
							  answer == UNKNOWN ? json_null() :
									      json_boolean(answer),
							  "why", words));
	}
	json_t *root = json_pack("{s:i, s:s, s:I, s:o}", "pid", p->pid, "name", p->name, "threads",
				 (json_int_t)p->threads, "commands", commands);
	json_dumpf(root, stdout, JSON_INDENT(2));
	printf("\n");
	json_decref(root);
}

static json_t *features_json(const struct trapline_caps *caps)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < caps->feature_count; i++) {
		const struct trapline_feature *f = &caps->features[i];

		json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:s, s:s}", "name", f->name,
						      "ok", f->ok, "known", f->is_known, "evidence",
						      f->evidence, "remedy", f->remedy));
	}
	return list;
}

static json_t *costs_json(const struct trapline_caps *caps)
{
	json_t *costs = json_object();

	for (uint32_t i = 0; i < caps->cost_count; i++) {
		double ns = caps->costs[i].ns;

		/* In tenths: no measurement is more exact. */
		if (ns > 0)
			json_object_set_new(costs, caps->costs[i].name,
					    json_real((double)(long long)(ns * 10 + 0.5) / 10));
	}
	return costs;
}

static void check_print_json(const struct trapline_caps *caps, const struct utsname *u)
{
	json_t *root = json_pack("{s:s, s:s, s:s, s:o, s:o}", "version", TRAPLINE_VERSION_STRING,
				 "kernel", u->release, "arch", u->machine, "features",
				 features_json(caps), "costs_ns", costs_json(caps));

	json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	printf("\n");
	json_decref(root);
}

#define CODE_FOR_NS 20000000000u

struct settings {
	int code;
	uint64_t for_ns;
	int json;
	int verbose;
	pid_t pid;
};

static const struct opt options[] = {
	{ "code", 0, OPT_FLAG, offsetof(struct settings, code), NULL,
	  "change instructions under threads that run them, and count what they ran instead" },
	{ "for", 0, OPT_TIME, offsetof(struct settings, for_ns), "TIME",
	  "with --code: stop after TIME (20s)" },
	{ "json", 'j', OPT_FLAG, offsetof(struct settings, json), NULL,
	  "print one JSON object instead of text" },
	{ "pid", 'p', OPT_PID, offsetof(struct settings, pid), "PID",
	  "print which commands are possible at a running process, and why others are not" },
	{ "verbose", 'v', OPT_FLAG, offsetof(struct settings, verbose), NULL,
	  "print each feature with its evidence, and what the mechanisms cost" },
};

const struct opt_syntax check_syntax = {
	.command = "check",
	.usage = "[-p PID | --code [--for TIME]] [--json | --verbose]",
	.about =
		"Tries each feature that Trapline uses, in this kernel, as this user and in this container. "
		"Prints which commands work, what does not work, why, and the remedy.",
	.tail = "Exit status: 0 if a watched variable can raise a signal, 1 if not or not known, 2 for wrong usage. With --pid 0. With --code 1 if a thread ran something else.",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

int cmd_check(int argc, char **argv)
{
	static struct trapline_caps caps;
	struct utsname u;
	int status;
	struct settings set = { 0 };
	struct check_process process;
	int first = opts_parse(&check_syntax, argc, argv, &set, &status);

	if (first < 0)
		return status;
	if (first < argc)
		return cli_wrong("check", "unexpected argument '%s': check takes only options",
				 argv[first]);
	if (set.code && (set.pid || set.verbose))
		return cli_wrong("check", "--code excludes --pid and --verbose");
	if (set.for_ns && !set.code)
		return cli_wrong("check", "--for needs --code");
	if (set.code)
		return check_code(set.for_ns ? set.for_ns : CODE_FOR_NS, set.json);
	status = set.pid ? check_process_read(set.pid, &process) : CLI_OK;
	if (status)
		return status;
	if (uname(&u))
		memset(&u, 0, sizeof(u));
	caps.size = sizeof(caps);
	int works = trapline_check(&caps);
	if (works < 0) {
		cli_wrong("check", "cannot try the features: %s", strerror(-works));
		return CLI_NO;
	}
	if (set.pid && set.json)
		print_process_json(&caps, &process);
	else if (set.pid)
		print_process(&caps, &process);
	else if (set.json)
		check_print_json(&caps, &u);
	else
		check_print_text(&caps, &u, set.verbose);
	return works || set.pid ? CLI_OK : CLI_NO;
}
