/* SPDX-License-Identifier: MIT */
/*
 * cmd_observe.c - `trapline watch`, `trapline break`, and `trapline record`, which writes the hits
 * of either to a file. They share one table of options.
 */
#include "base/clock.h"
#include "cli/act/then.h"
#include "cli/break/break_kernel.h"
#include "cli/break/break_run.h"
#include "cli/cmd.h"
#include "cli/code/record_code.h"
#include "cli/message.h"
#include "cli/observe/condition_option.h"
#include "cli/observe/last.h"
#include "cli/observe/observe.h"
#include "cli/observe/observe_settings.h"
#include "cli/observe/session.h"
#include "cli/observe/targets.h"
#include "cli/observe/threads_option.h"
#include "cli/opts.h"
#include "cli/output.h"
#include "cli/watch/watch_run.h"
#include "report/dwarf/debuginfod.h"
#include "report/run/groups.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RATE_NOT_GIVEN UINT64_MAX
#define LIMIT_NOT_GIVEN UINT64_MAX
#define BUDGET_NOT_GIVEN (-1)
#define BUDGET_PERCENT 10
#define LINES_PER_SECOND 1000u

/* Which command has an option; for `record` also which kind of recording. */
enum {
	WATCH = OPT_ONLY(1),
	BREAK = OPT_ONLY(2),
	RECORD_HITS = OPT_ONLY(4),
	RECORD_CALLS = OPT_ONLY(8),
	RECORD = RECORD_HITS | RECORD_CALLS,
	PRINT = WATCH | BREAK,
	HITS = WATCH | RECORD_HITS,
	CALLS = BREAK | RECORD_CALLS,
};

static const struct opt options[] = {
#define AT(member) offsetof(struct observe_settings, member)
	{ "output", 'o', OPT_STRING | RECORD, AT(record), "FILE", "write the recording to FILE" },
	{ "pid", 'p', OPT_PIDS | WATCH, AT(pids), "PID", "observe a running process" },
	{ "pid", 'p', OPT_PIDS | BREAK | RECORD, AT(pids), "PID[,PID...]",
	  "observe running processes" },
	{ "name", 0, OPT_STRING | CALLS, AT(process_name), "NAME",
	  "observe all processes of that name, those of today and those to come" },
	{ "follow", 0, OPT_FLAG | CALLS, AT(follow), NULL,
	  "observe the children too, and what they execute" },
	{ "break", 'b', OPT_FLAG | RECORD, AT(is_break), NULL,
	  "record calls of LOCATION, as trapline break reports them" },
	{ "code", 0, OPT_FLAG | RECORD, AT(is_code), NULL,
	  "record each change of code that the library makes in CMD" },
	{ "from", 0, OPT_STRING | HITS, AT(from), "FUNC[:ret]",
	  "watch each object that FUNC gets (arg0->x) or returns (ret->x)" },
	{ "until", 0, OPT_STRING | HITS, AT(until), "FUNC[:argN]",
	  "with --from: release an object when FUNC gets it (default: arg0)" },
	{ "stall", 0, OPT_PERCENT | HITS, AT(stall), "SHARE",
	  "with --from or FUNC:VARIABLE: stall threads until the watch is armed (default: 10%)" },
	{ "no-stall", 0, OPT_FLAG | HITS, AT(no_stall), NULL,
	  "with --from or FUNC:VARIABLE: do not stall threads" },
	{ "multiplex", 0, OPT_SLICE | HITS, AT(slice_ns), "TIME",
	  "share the debug registers in time slices, such as 10ms" },
	{ "thread", 't', OPT_STRING | HITS, AT(thread), "TID|NAME",
	  "choose the thread of a thread-local variable" },
	{ "on", 0, OPT_CHOICE | HITS, AT(on), "r|w|rw", "choose the accesses (default: w)" },
	{ "if", 0, OPT_STRING, AT(condition), "COND",
	  "report only hits for which COND is true; see trapline-condition(7)" },
	{ "threads", 0, OPT_STRING, AT(threads), "NAME|TID,...",
	  "observe only these threads, also later ones of a name; NAME* is a beginning" },
	{ "explain", 0, OPT_FLAG | PRINT, AT(explain), NULL,
	  "print the program made of --if, and exit" },
	{ "kernel", 'k', OPT_FLAG | HITS, AT(kernel), NULL,
	  "report accesses by system calls too, such as read(2)" },
	{ "at-writers", 0, OPT_FLAG | WATCH, AT(at_writers), NULL,
	  "find the instructions that write, and probe these: --if then costs nanoseconds" },
	{ "pending", 0, OPT_FLAG | CALLS, AT(pending), NULL,
	  "wait until the process has loaded a library that has LOCATION" },
	{ "args", 'a', OPT_FLAG | CALLS, AT(args), NULL, "print the arguments" },
	{ "ret", 'r', OPT_FLAG | CALLS, AT(ret), NULL, "print each call's result and duration" },
	{ "print", 0, OPT_STRING | BREAK, AT(print), "TEXT",
	  "print TEXT for each hit, with values in braces: 'open {path} of {conn->id}'" },
	{ "redact", 0, OPT_LIST | BREAK, AT(redact), "NAME",
	  "print <redacted> instead of this argument: a name, arg0 to arg5, or ret" },
	{ "trace", 0, OPT_FLAG | BREAK, AT(trace), NULL,
	  "print the calls below the first call of LOCATION, as a tree, with durations" },
	{ "depth", 0, OPT_COUNT | BREAK, AT(depth), "N",
	  "with --trace: print calls down to this depth (default: all)" },
	{ "limit", 'n', OPT_COUNT, AT(limit), "N", "stop after N hits" },
	{ "for", 0, OPT_TIME, AT(for_ns), "TIME", "stop after TIME, such as 10s or 500ms" },
	{ "then", 0, OPT_STRING | PRINT, AT(then), "ACTION",
	  "at a hit: stop, 'signal NAME', 'core FILE', snapshot or 'exec CMD'; --limit is then 1" },
	{ "list", 'l', OPT_FLAG | WATCH, AT(list), NULL,
	  "list the variables that match EXPR, a pattern, and exit" },
	{ "list", 'l', OPT_FLAG | BREAK, AT(list), NULL,
	  "list the functions and lines that LOCATION means, and exit" },
	{ "inlined", 0, OPT_FLAG | CALLS, AT(inlined), NULL,
	  "with a pattern: include inlined copies of functions" },
	{ "last", 0, OPT_COUNT | PRINT, AT(last), "N",
	  "keep the last N hits in memory, and print them when the run ends" },
	{ "until-hit", 0, OPT_STRING | PRINT, AT(until_hit), "LOCATION",
	  "end when a thread reaches 'LOCATION [if COND]'" },
	{ "summary", 0, OPT_FLAG | PRINT, AT(summary), NULL,
	  "print no hits, only the tables at the end" },
	{ "by", 0, OPT_CHOICE | WATCH, AT(by), RUN_GROUPS_BY,
	  "make one table of the hits, by this; includes --summary" },
	{ "by", 0, OPT_STRING | BREAK, AT(by), RUN_GROUPS_BY "|EXPR",
	  "make one table of the hits, by this or a variable; includes --summary" },
	{ "top", 0, OPT_COUNT | PRINT, AT(top), "N",
	  "print N rows of each table at the end (default: 20)" },
	{ "stack", 's', OPT_FLAG | PRINT, AT(stack), NULL, "print the call stack of each hit" },
	{ "frames", 0, OPT_COUNT | PRINT, AT(frames), "N",
	  "print at most N frames of each stack; includes --stack" },
	{ "no-stack", 0, OPT_FLAG | RECORD, AT(no_stack), NULL, "leave out the call stacks" },
	{ "json", 'j', OPT_FLAG | PRINT, AT(json), NULL, "print JSON, one object a line" },
	{ "output", 'o', OPT_STRING | PRINT, AT(output), "FILE",
	  "write the JSON lines to FILE, beside the text" },
	{ "max-rate", 0, OPT_COUNT, AT(max_rate), "N",
	  "pause above N hits a second (default: 0, never)" },
	{ "budget", 0, OPT_BUDGET, AT(budget), "PERCENT|none",
	  "rest in turns where hits cost the target more of a CPU (default: 10%)" },
	{ "no-bpf", 0, OPT_FLAG | WATCH | RECORD, AT(no_bpf), NULL, "do not use BPF" },
	{ "no-bpf", 0, OPT_FLAG | BREAK, AT(no_bpf), NULL,
	  "use hardware breakpoints, of which there are four" },
	{ "mechanism", 0, OPT_CHOICE | CALLS, AT(mechanism), "uprobe|probe|hardware",
	  "choose how calls are seen (default: probe for CMD, uprobe for -p)" },
	{ "debuginfod", 0, OPT_FLAG, AT(debuginfod), NULL,
	  "fetch missing debug information from the servers of DEBUGINFOD_URLS, as root too" },
	{ "verbose", 'v', OPT_FLAG, AT(verbose), NULL, "print the full bookkeeping at the end" },
#undef AT
};

#define SHARED .options = options, .count = sizeof(options) / sizeof(*options)

#define EXPR_TEXT                                                                                    \
	"EXPR is a variable or a path that begins with one: counter, server.clients, conn->state,\n" \
	"table[3].next, file.c:count, ns::Class::total, libc.so.6:environ, symbol+16, 0xADDRESS,\n"  \
	"*(struct foo *)0xADDRESS. A suffix :N chooses N bytes. Quote what the shell would read."
#define LOCATION_TEXT                                                                             \
	"LOCATION is a function, file:line, 0xADDRESS, function+offset, object:function, or a\n"  \
	"pattern such as 'conn_*' or 'libc.so.6:mem*'. Of the kernel: syscall:NAME, fd:NUMBER,\n" \
	"signal:NAME, exec, fork, exit, oom."

const struct opt_syntax watch_syntax = {
	.command = "watch",
	.usage = "EXPR... [OPTION...] { -p PID | -- CMD [ARG...] }",
	.about =
		"Prints each access to a variable of a process: the thread, the code and both values.",
	.tail = EXPR_TEXT
	"\n\n"
	"examples:\n"
	"  trapline watch -p $(pidof redis-server) server:8 --stack\n"
	"  trapline watch -p 4711 'conn->state' --on rw --json\n"
	"  trapline watch -p 4711 --list 'server.stat_*'\n"
	"  trapline watch -p 4711 --from conn_open:ret 'ret->state' --until conn_close\n"
	"  trapline watch -p 4711 --multiplex 10ms server.clients stat_a stat_b errors hits\n"
	"  trapline watch counter --if 'new < old' --limit 10 -- ./program",
	.bits = WATCH,
	SHARED,
};

const struct opt_syntax break_syntax = {
	.command = "break",
	.usage = "LOCATION... [OPTION...] { -p PID | -- CMD [ARG...] }",
	.about =
		"Prints each call of a function, or each execution of a line, with thread and caller.",
	.tail = LOCATION_TEXT
	"\n\n"
	"examples:\n"
	"  trapline break -p $(pidof redis-server) call --limit 10\n"
	"  trapline break -p 4711 libc.so.6:open64 --args --ret --if 'str(arg0) == \"/etc/passwd\"'\n"
	"  trapline break -p 4711 'conn_*' --ret --for 10 --json\n"
	"  trapline break -p 4711 read_conn --ret --if 'ret < 0 && c->state == OPEN'\n"
	"  trapline break parse_request --trace --depth 3 -p 4711\n"
	"  trapline break server.c:120 --stack -- ./program",
	.bits = BREAK,
	SHARED,
};

const struct opt_syntax record_syntax = {
	.command = "record",
	.usage = "-o FILE [--break] EXPR|LOCATION... [OPTION...] { -p PID | -- CMD [ARG...] }",
	.about =
		"Writes the hits of watch or break, with their call stacks, to a file for trapline report.",
	.tail = EXPR_TEXT
	"\n"
	"With --break: " LOCATION_TEXT "\n"
	"--args, --ret and --inlined need --break. --from, --until, --multiplex, --thread, --on and\n"
	"--kernel are for EXPR; with --code, --kernel records the kernel's own changes too.\n\n"
	"examples:\n"
	"  trapline record -o hits.trapline -p 4711 'conn->state' --for 10\n"
	"  trapline record -o refs.trapline -p 4711 --from conn_open:ret 'ret->refs' \\\n"
	"    --until conn_close --for 10\n"
	"  trapline record -o calls.trapline -p 4711 --break 'conn_*' --args --ret --for 10\n"
	"  trapline record -o code.log --code --kernel -- ./program\n"
	"  trapline report hits.trapline --as html -o hits.html",
	.bits = RECORD,
	SHARED,
};

/* EXPR was once the argument of an option: removes `--watch` and `-w`. Returns the new argc. */
static int cut_old(int argc, char **argv)
{
	int kept = 1;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--watch") || !strcmp(argv[i], "-w"))
			continue;
		argv[kept++] = argv[i] + (strncmp(argv[i], "--watch=", 8) ? 0 : 8);
	}
	return kept;
}

/* An option of the other kind of recording; NULL: there is none. */
static const char *misplaced(const struct observe_settings *set)
{
	unsigned int kind = set->is_break ? RECORD_CALLS : RECORD_HITS;

	for (const struct opt *o = NULL; (o = opts_next(&record_syntax, o));) {
		uint64_t value = 0;

		if (o->kind < OPT_KINDS || o->kind & kind)
			continue;
		memcpy(&value, (const char *)set + o->offset,
		       o->kind % OPT_KINDS == OPT_FLAG ? sizeof(int) : sizeof(value));
		if (value)
			return o->name;
	}
	return NULL;
}

static int record_check(const struct observe_settings *set)
{
	if (!set->record)
		return cli_wrong(set->name, "-o FILE is missing: give the file to write");
	const char *name = misplaced(set);
	if (name)
		return cli_wrong(set->name,
				 set->is_break ? "--%s cannot be combined with --break" :
						 "--%s needs --break",
				 name);
	return 0;
}

/*
 * --budget protects the process, and a terminal gets so many lines. Nothing else limits a run,
 * unless --max-rate is given.
 */
static void set_rates(struct observe_settings *set)
{
	if (set->max_rate != RATE_NOT_GIVEN)
		return;
	set->max_rate = 0;
	set->lines_per_second = LINES_PER_SECOND;
}

/* A run without any pause gets no rest either. */
static double budget_of(const struct observe_settings *set)
{
	if (set->budget >= 0)
		return set->budget;
	return set->max_rate == 0 ? 0 : BUDGET_PERCENT;
}

/* One way to name processes, and options that go together. */
static int targets_check(const struct observe_settings *set)
{
	const char *several = set->process_name		   ? "--name" :
			      set->pids.count > 1	   ? "-p with several processes" :
			      set->follow && set->is_break ? "--follow" :
							     NULL;

	if (set->process_name && (set->pids.count || set->command))
		return cli_wrong(set->name, "--name cannot be combined with -p PID or -- CMD");
	if (set->pids.count > 1 && !set->is_break)
		return cli_wrong(
			set->name,
			"several processes are for calls: watch one process at a time, or use "
			"break");
	if (several && (set->no_bpf || (set->mechanism && strcmp(set->mechanism, "uprobe") != 0)))
		return cli_wrong(set->name, "%s needs uprobes: leave out --%s", several,
				 set->no_bpf ? "no-bpf" : "mechanism");
	if (several && (set->then || set->until_hit))
		return cli_wrong(set->name, "%s cannot be combined with %s: it is for one process",
				 set->then ? "--then" : "--until-hit", several);
	if (set->process_name && !set->process_name[0])
		return cli_wrong(set->name, "--name is empty: give the name of a program");
	if (set->process_name || (set->is_break && break_kernel_is_everywhere(set)))
		return 0;
	return session_check_target(set->name, set->pids.count ? set->pids.pid[0] : 0,
				    set->command);
}

/* What watch and break have in common. */
static int observe_check(const struct observe_settings *set)
{
	struct then unused;

	if (!set->operand_count && set->is_break)
		return cli_wrong(
			set->name,
			"LOCATION is missing: give a function, file:line or an address, such "
			"as main or server.c:120; see trapline %s --help",
			set->name);
	if (!set->operand_count && !set->list)
		return cli_wrong(set->name,
				 "EXPR is missing: give a variable or an address, such as "
				 "counter or 0x7ffe1000:8; see trapline %s --help",
				 set->name);
	int status = targets_check(set);
	if (!status && set->explain && !set->condition)
		return cli_wrong(set->name, "--explain needs --if");
	if (!status && set->last > LAST_MAX)
		return cli_wrong(set->name, "invalid --last: expected at most %d", LAST_MAX);
	if (!status && set->last && set->summary)
		return cli_wrong(set->name, "--last cannot be combined with --summary");
	if (!status && set->until_hit && set->mechanism && !strcmp(set->mechanism, "probe"))
		return cli_wrong(set->name,
				 "--until-hit cannot be combined with --mechanism probe");
	if (!status)
		status = then_parse(set->name, set->then, &unused);
	if (!status && set->by && set->is_break && !strcmp(set->by, "value") && !set->args &&
	    !set->ret)
		return cli_wrong(set->name, "--by value needs --ret (results) or --args");
	return status;
}

/* The stack has the caller of an access, and each record of a call its own. */
static bool needs_stack(const struct observe_settings *set)
{
	return set->by &&
	       (!strcmp(set->by, "stack") || (!strcmp(set->by, "caller") && !set->is_break));
}

/* On a terminal: a server may take its time. */
static void show_fetching(const char *text)
{
	static struct output terminal = { .status = true };

	if (text && isatty(STDERR_FILENO))
		output_progress(&terminal, "%s", text);
	else
		output_clear_status(&terminal);
}

/* They are options of break alone, and are not reported as unknown. */
static int refuse_service(const char *command, int argc, char **argv)
{
	static const char *const names[] = { "--name", "--follow" };

	for (int i = 1; i < argc; i++)
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			size_t n = strlen(names[k]);

			if (strncmp(argv[i], names[k], n) != 0 || (argv[i][n] && argv[i][n] != '='))
				continue;
			return cli_wrong(
				command,
				"cannot use %s: an address is a variable of one process only; run a "
				"watch for each process, or break %s on a function that writes it",
				names[k], names[k]);
		}
	return 0;
}

static int observe(const struct opt_syntax *syntax, int argc, char **argv)
{
	struct observe_settings set = { .name = syntax->command,
					.is_break = syntax == &break_syntax,
					.limit = LIMIT_NOT_GIVEN,
					.budget = BUDGET_NOT_GIVEN,
					.max_rate = RATE_NOT_GIVEN };
	int status = CLI_OK;
	int n = session_cut_command(set.name, argc, argv, &set.command);

	if (n < 0)
		return CLI_USAGE;
	if (syntax != &break_syntax)
		n = cut_old(n, argv);
	if (syntax == &watch_syntax && refuse_service(set.name, n, argv))
		return CLI_USAGE;
	int first = opts_parse(syntax, n, argv, &set, &status);
	if (first < 0)
		return status;
	debuginfod_show(show_fetching);
	if (set.debuginfod)
		debuginfod_allow(true);
	set.operands = argv + first;
	set.operand_count = (size_t)(n - first);
	set.stack |= set.frames || (syntax == &record_syntax && !set.no_stack);
	set.stack |= needs_stack(&set);
	/* With --last the hits are wanted too. */
	set.summary |= set.by && !set.last;
	set.budget = budget_of(&set);
	set_rates(&set);
	if (set.limit == LIMIT_NOT_GIVEN)
		set.limit = set.then ? 1 : 0;
	if (syntax == &record_syntax)
		status = record_check(&set);
	if (!status && set.is_code && set.threads)
		return cli_wrong(set.name, "--threads cannot be combined with --code");
	if (!status && set.is_code)
		return record_code_run(&set);
	if (!status)
		status = observe_check(&set);
	if (status)
		return status;
	for (const uint64_t start = clock_now_ns();; set.waits_again = true) {
		status = targets_choose(&set, start);
		if (!status)
			status = threads_option_choose(&set);
		if (!status)
			status = !set.is_break	       ? watch_run(&set) :
				 break_kernel_is(&set) ? break_kernel_run(&set) :
							 break_run(&set);
		if (status != OBSERVE_AGAIN) {
			free(set.only_threads);
			return status;
		}
	}
}

int cmd_watch(int argc, char **argv)
{
	return observe(&watch_syntax, argc, argv);
}

int cmd_break(int argc, char **argv)
{
	return observe(&break_syntax, argc, argv);
}

int cmd_record(int argc, char **argv)
{
	return observe(&record_syntax, argc, argv);
}
