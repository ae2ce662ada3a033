/* SPDX-License-Identifier: MIT */
/* cmd_check.c - `trapline check`: what works here, why not, what to do, and what it
 * costs. */
#include "cli/cmd.h"

#include <trapline/trapline.h>

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define COLUMNS 100
#define NAME_WIDTH 20
/* name, two blanks, "yes", two blanks */
#define TEXT_AT (NAME_WIDTH + 7)

/* What each price is the price of, for the text table. */
static const struct {
	const char *name;
	const char *meaning;
} meanings[] = {
	{"clock", "read CLOCK_MONOTONIC"},
	{"syscall", "cheapest system call"},
	{"hardware_trap", "hit of a watched variable, only counted"},
	{"signal", "hit of a watched variable, SIGTRAP handler and back"},
	{"bpf_reject", "hit that a program rejects in the kernel"},
	{"bpf_record", "hit that a program records, with the value, in a ring"},
	{"uprobe", "call of a function with a uprobe, counted"},
	{"uprobe_bpf", "call of a function with a uprobe, rejected by a program"},
	{"int3", "trap instruction, SIGTRAP handler and back"},
	{"poke", "write of an instruction by /proc/self/mem"},
	{"membarrier", "membarrier sync-core, no other thread running"},
	{"move", "move a watch, one thread"},
	{"enable_disable", "disable and enable a watch, one thread"},
	{"open_close", "open and close a watch, own thread"},
	{"arm_per_thread",
	 "open and close a watch in each of 50 idle threads, per thread"},
};

static const char *cost_meaning(const char *name)
{
	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (!strcmp(meanings[i].name, name))
			return meanings[i].meaning;
	}
	return "";
}

static int is_ok(const struct trapline_caps *caps, const char *name)
{
	for (uint32_t i = 0; i < caps->feature_count; i++) {
		if (!strcmp(caps->features[i].name, name))
			return caps->features[i].ok;
	}
	return 0;
}

/* Prints text from the current column `indent` on, broken at blanks, further lines
 * indented. */
static void print_wrapped(const char *text, int indent)
{
	int width = COLUMNS - indent;

	while ((int)strlen(text) > width) {
		int cut = width;

		while (cut > 0 && text[cut] != ' ')
			cut--;
		if (!cut)
			cut = width;
		printf("%.*s\n%*s", cut, text, indent, "");
		text += cut;
		text += strspn(text, " ");
	}
	printf("%s\n", text);
}

static void print_features(const struct trapline_caps *caps)
{
	const char *last = "";

	for (uint32_t i = 0; i < caps->feature_count; i++) {
		const struct trapline_feature *f = &caps->features[i];

		printf("%-*s  %-3s  ", NAME_WIDTH, f->name, f->ok ? "yes" : "no");
		print_wrapped(f->evidence, TEXT_AT);
		if (f->ok || !f->remedy[0])
			continue;
		printf("%*sremedy: ", TEXT_AT, "");
		print_wrapped(strcmp(f->remedy, last) ? f->remedy : "as above",
			      TEXT_AT + 8);
		last = f->remedy;
	}
}

static void print_costs(const struct trapline_caps *caps)
{
	printf("\n%-*s  %8s\n", NAME_WIDTH, "cost", "ns");
	for (uint32_t i = 0; i < caps->cost_count; i++) {
		const struct trapline_cost *c = &caps->costs[i];

		if (c->ns > 0)
			printf("%-*s  %8.0f  %s\n", NAME_WIDTH, c->name, c->ns,
			       cost_meaning(c->name));
	}
}

static const char *yes_no(int yes)
{
	return yes ? "yes" : "no";
}

static void print_verdict(const struct trapline_caps *caps, int works)
{
	int in_kernel = is_ok(caps, "bpf_condition") && is_ok(caps, "bpf_veto");

	printf("\nwatch: %s, all threads: %s, other processes: %s, conditions in the "
	       "kernel: %s\n",
	       yes_no(works), yes_no(works && is_ok(caps, "inherit_thread")),
	       yes_no(is_ok(caps, "other_process")), yes_no(in_kernel));
	printf("breakpoints: %s, uprobes: %s, counters: %s, PMU: %s, patching: %s\n",
	       yes_no(works && is_ok(caps, "break_execute")),
	       yes_no(is_ok(caps, "uprobe")), yes_no(is_ok(caps, "counter_task_clock")),
	       yes_no(is_ok(caps, "pmu_cycles")), yes_no(is_ok(caps, "patch_text")));
}

static void print_text(const struct trapline_caps *caps, const struct utsname *u,
		       int works)
{
	printf("trapline %s, kernel %s, %s\n\n", TRAPLINE_VERSION_STRING, u->release,
	       u->machine);
	print_features(caps);
	print_costs(caps);
	print_verdict(caps, works);
}

static json_t *features_json(const struct trapline_caps *caps)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < caps->feature_count; i++) {
		const struct trapline_feature *f = &caps->features[i];

		json_array_append_new(list, json_pack("{s:s, s:b, s:s, s:s}", "name",
						      f->name, "ok", f->ok, "evidence",
						      f->evidence, "remedy", f->remedy));
	}
	return list;
}

static json_t *costs_json(const struct trapline_caps *caps)
{
	json_t *costs = json_object();

	for (uint32_t i = 0; i < caps->cost_count; i++) {
		double ns = caps->costs[i].ns;

		/* A tenth of a nanosecond is more than anybody knows. */
		if (ns > 0)
			json_object_set_new(
				costs, caps->costs[i].name,
				json_real((double)(long long)(ns * 10 + 0.5) / 10));
	}
	return costs;
}

/* Returns 0, or -1 when it could not be written. */
static int print_json(const struct trapline_caps *caps, const struct utsname *u)
{
	json_t *root =
		json_pack("{s:s, s:s, s:s, s:o, s:o}", "version", TRAPLINE_VERSION_STRING,
			  "kernel", u->release, "arch", u->machine, "features",
			  features_json(caps), "costs_ns", costs_json(caps));

	if (!root)
		return -1;
	int err = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	printf("\n");
	json_decref(root);
	return err;
}

static void print_help(void)
{
	printf("usage: trapline check [--json]\n\n"
	       "Tries each feature in this kernel, as this user, and measures its "
	       "price.\n\n"
	       "options:\n"
	       "  -j, --json  one JSON object instead of a table\n"
	       "  -h, --help  this text\n\n"
	       "Exit status: 0 watching works, 1 it does not, 2 wrong usage.\n");
}

/* Returns 1 for JSON, 0 for text, or -1 with *status set when the command ends here. */
static int parse(int argc, char **argv, int *status)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int is_json = 0;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
		if (c == 'h') {
			print_help();
			*status = CLI_OK;
			return -1;
		}
		if (c != 'j') {
			*status = cli_wrong(
				"check", "unknown option '%s'; see trapline check --help",
				argv[optind - 1]);
			return -1;
		}
		is_json = 1;
	}
	if (optind == argc)
		return is_json;
	*status =
		cli_wrong("check", "takes no argument, but was given '%s'", argv[optind]);
	return -1;
}

int cmd_check(int argc, char **argv)
{
	static struct trapline_caps caps;
	struct utsname u;
	int status;
	int is_json = parse(argc, argv, &status);

	if (is_json < 0)
		return status;
	if (uname(&u))
		memset(&u, 0, sizeof(u));
	caps.size = sizeof(caps);
	int works = trapline_check(&caps);
	if (works < 0) {
		fprintf(stderr, "trapline check: %s\n", strerror(-works));
		return CLI_NO;
	}
	int err = 0;
	if (is_json)
		err = print_json(&caps, &u);
	else
		print_text(&caps, &u, works);
	if (err || fflush(stdout)) {
		fprintf(stderr, "trapline check: cannot write the result\n");
		return CLI_NO;
	}
	return works ? CLI_OK : CLI_NO;
}
