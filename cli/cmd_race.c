// SPDX-License-Identifier: MIT
/*
 * cmd_race.c - `trapline race`: data races of an unmodified program.
 *
 * The search runs in the program, by the agent that is loaded into it; here records are read and
 * explained while it runs. The program keeps its terminal, its output and its exit status; a process
 * that ran before us goes on after us.
 */
#include "cli/clock.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/race.h"
#include "cli/session.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "race"
#define LOOK_EVERY_NS 10000000u
#define LOOK_LATER_NS 50000000u /* each look takes some time from the program */
#define LOOKS_AT_FIRST 20u
#define SURE_AFTER_NS 2000000000u
#define SWEEP_NS 10000000000u
#define GIVEN_NS 10000000000u /* to a run in progress when the time is over, at least */
#define KILL_AFTER_NS 2000000000u
#define STILL_RUNS 3u /* without a new site: then no other will be reached */

static const struct opt options[] = {
#define AT(member) offsetof(struct race_cli_settings, member)
	{ "pid", 'p', OPT_PID, AT(pid), "PID", "a running process, as it is" },
	{ "for", 0, OPT_SECONDS, AT(for_ns), "SECONDS", "end after this time (with -p)" },
	{ "overhead", 0, OPT_STRING, AT(overhead), "PERCENT",
	  "how much the search may cost (default: 2%; 300% with --sweep)" },
	{ "grade", 0, OPT_STRING, AT(grade), "A|B|C",
	  "report races down to this grade (default: B)" },
	{ "delay", 0, OPT_STRING, AT(delay), "SECONDS",
	  "hold each access so long (default: by how often its site was held)" },
	{ "sweep", 0, OPT_FLAG, AT(sweep), NULL,
	  "run CMD again and again, and hold every access in it" },
	{ "time", 0, OPT_STRING, AT(time), "SECONDS",
	  "with --sweep or --replay: begin no run after that time (default: 10 or 60), and end "
	  "one that hangs on" },
	{ "until-covered", 0, OPT_COUNT, AT(until_covered), "N",
	  "with --sweep: end when each access that is reached was held N times" },
	{ "vary", 0, OPT_LIST, AT(vary), "NAME=VALUE,...",
	  "with --sweep or --replay: runs differ in this variable of the environment; may be repeated" },
	{ "heap", 0, OPT_FLAG, AT(heap), NULL,
	  "tell who allocated a block that is raced for, and who freed it" },
	{ "replay", 0, OPT_STRING, AT(replay), "FINGERPRINT",
	  "show a race of an earlier run again: hold its two places only, for long" },
	{ "from", 0, OPT_STRING, AT(from), "FILE",
	  "with --replay: the JSON lines of that run" },
	{ "error-exitcode", 0, OPT_COUNT, AT(error_exitcode), "N",
	  "exit with N when a race was reported" },
	{ "suppressions", 0, OPT_LIST, AT(suppressions), "FILE",
	  "races not to report, as ThreadSanitizer and valgrind write them; may be repeated" },
	{ "gen-suppressions", 0, OPT_STRING, AT(gen_suppressions), "[=tsan|valgrind]",
	  "print a suppression with each race" },
	{ "baseline", 0, OPT_STRING, AT(baseline), "FILE",
	  "report only races that are not in FILE; written if it is not there" },
	{ "write-baseline", 0, OPT_FLAG, AT(write_baseline), NULL,
	  "add the races of this run to the baseline: they are known from now on" },
	{ "json", 0, OPT_FLAG, AT(json), NULL, "one JSON object a line, on stdout or in FILE" },
	{ "as", 0, OPT_STRING, AT(as), "FORM", "text, json or sarif" },
	{ "sarif", 0, OPT_STRING, AT(sarif), "FILE", "SARIF 2.1.0 into FILE, beside the report" },
	{ "output", 'o', OPT_STRING, AT(output), "FILE", "write the report to FILE" },
#undef AT
};

static const struct opt_syntax syntax = {
	.command = COMMAND,
	.usage = "[OPTION...] (-p PID | -- CMD ARG...)",
	.about = "Finds data races in a program as it is, built without any special flag: a thread that\n"
		 "is about to touch memory is held for a moment, and another that touches the same\n"
		 "memory meanwhile is caught in the act.\n\n"
		 "Grades: A is a race for certain; B is one unless both sides are meant to be atomic,\n"
		 "which an aligned mov cannot tell; C is likely meant so.",
	.tail = "The report goes to stderr, the program's own output is left alone. Exit status: the\n"
		"program's, or what --error-exitcode says.\n\n"
		"examples:\n"
		"  trapline race --json -o races.jsonl -- ./server --threads 8\n"
		"  trapline race -p $(pidof server) --for 60",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

struct race_cli {
	struct race_cli_settings set;
	struct race_run run;
	struct race_policy policy;
	struct race_replay_run replay;
	struct race_report *report;
	FILE *out;
	uint64_t torn;
	uint64_t started_ns;
	uint64_t first_ns; /* when the first race that is shown was caught; 0: none */
	uint64_t runs;
	uint64_t reached;  /* sites, at the end of the last run */
	uint64_t still_runs; /* since that was another number */
	struct race_vary vary;
	/* Of each value of the first variable: which sites matter in a run depends on it. */
	struct race_focus focus[RACE_VALUES_MAX];
	uint64_t run_ns;     /* when this run began */
	uint64_t longest_ns; /* of the runs that ended by themselves */
	uint64_t cut_ns;     /* when this one was told to end; 0: it was not */
	uint64_t runs_cut;
	uint64_t rows_at;	  /* processes that had begun when rows were given back */
	struct race_totals gone;  /* of processes whose rows were given back */
	bool is_ended; /* by a signal to us */
	int status; /* of the child, as waitpid() tells; of the first that failed */
};

static volatile sig_atomic_t ended_by; /* a signal for us that the program gets too */
static volatile sig_atomic_t is_to_forward; /* it does not get it without us */

static void on_signal(int number, siginfo_t *info, void *context)
{
	is_to_forward = !cli_is_from_terminal(info);
	ended_by = number;
}

/* "2%", "2" or "0.5%". */
static int read_overhead(struct race_cli_settings *set)
{
	const char *text = set->overhead ? set->overhead : set->sweep ? "300%" : "2%";
	char *end;
	double percent = strtod(text, &end);

	if (end == text || (*end && strcmp(end, "%") != 0) || !isfinite(percent) ||
	    percent <= 0 || percent > 1000)
		return cli_wrong(COMMAND, "--overhead %s: a percentage above 0 and up to 1000, such as "
				 "2%%", text);
	set->budget_ppm = (uint64_t)(percent * 10000.0);
	return 0;
}

static int read_grade(struct race_cli_settings *set)
{
	const char *text = set->grade ? set->grade : "B";

	if (strlen(text) != 1 || !strchr("ABCabc", text[0]))
		return cli_wrong(COMMAND, "--grade %s: A, B or C", text);
	set->grade_max = (enum race_grade)((text[0] | 0x20) - 'a');
	return 0;
}

static int read_delay(struct race_cli_settings *set)
{
	char *end;

	if (!set->delay)
		return 0;
	double seconds = strtod(set->delay, &end);
	if (end == set->delay || *end || !isfinite(seconds) || seconds <= 0 || seconds > 10)
		return cli_wrong(COMMAND, "--delay %s: seconds, above 0 and up to 10, such as 0.001",
				 set->delay);
	set->delay_ns = (uint64_t)(seconds * 1e9);
	return 0;
}

static int read_form(struct race_cli_settings *set)
{
	if (!set->as)
		return 0;
	set->is_sarif = !strcmp(set->as, "sarif");
	if (!strcmp(set->as, "json"))
		set->json = 1;
	else if (!set->is_sarif && strcmp(set->as, "text") != 0)
		return cli_wrong(COMMAND, "--as %s: text, json or sarif", set->as);
	if (set->json && strcmp(set->as, "json") != 0)
		return cli_wrong(COMMAND, "--json and --as %s: one form only", set->as);
	return 0;
}

static int read_sweep(struct race_cli_settings *set)
{
	char *end;

	if (!set->sweep && ((set->time && !set->replay) || set->until_covered))
		return cli_wrong(COMMAND, "--time and --until-covered go with --sweep");
	if (!set->sweep && !set->replay && set->vary.count)
		return cli_wrong(COMMAND, "--vary goes with --sweep or --replay, which run CMD again and "
				 "again");
	if (!set->time) {
		set->time_ns = set->until_covered ? UINT64_MAX : SWEEP_NS;
		return 0;
	}
	double seconds = strtod(set->time, &end);
	if (end == set->time || (*end && strcmp(end, "s") != 0) || !isfinite(seconds) ||
	    seconds <= 0 || seconds > 1e9)
		return cli_wrong(COMMAND, "--time %s: seconds, above 0, such as 30", set->time);
	set->time_ns = (uint64_t)(seconds * 1e9);
	return 0;
}

static void name_program(struct race_cli_settings *set)
{
	char link[64];

	if (set->command) {
		snprintf(set->program, sizeof(set->program), "%s", set->command[0]);
		return;
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", set->pid);
	ssize_t n = readlink(link, set->program, sizeof(set->program) - 1);
	set->program[n > 0 ? n : 0] = '\0';
}

static int settings_read(struct race_cli_settings *set, int argc, char **argv)
{
	int status = 0;
	int n = session_cut_command(COMMAND, argc, argv, &set->command);

	if (n < 0)
		return CLI_USAGE;
	int first = opts_parse(&syntax, n, argv, set, &status);
	if (first < 0)
		return status ? status : -1;
	if (first < n)
		return cli_wrong(COMMAND, "'%s' is no option; the command goes after --",
				 argv[first]);
	status = session_check_target(COMMAND, set->pid, set->command);
	if (status)
		return status;
	if (set->pid && (set->sweep || set->replay))
		return cli_wrong(COMMAND, "--%s runs a command again and again: give -- CMD ARG..., not "
				 "-p", set->sweep ? "sweep" : "replay");
	if (set->pid && set->heap)
		return cli_wrong(COMMAND, "--heap notes blocks from the beginning on: give -- CMD ARG..., "
				 "not -p");
	if (set->for_ns && !set->pid)
		return cli_wrong(COMMAND, "--for goes with -p: a command is searched until it ends");
	if (set->error_exitcode > 255)
		return cli_wrong(COMMAND, "--error-exitcode: 0 to 255");
	status = read_overhead(set);
	if (!status)
		status = read_grade(set);
	if (!status)
		status = read_delay(set);
	if (!status)
		status = read_form(set);
	if (!status)
		status = read_sweep(set);
	if (!status && set->command)
		status = race_command_check(set);
	name_program(set);
	return status;
}

static int open_output(struct race_cli *c)
{
	c->out = c->set.json || c->set.is_sarif ? stdout : stderr;
	if (!c->set.output)
		return 0;
	c->out = fopen(c->set.output, "we");
	if (!c->out)
		return cli_wrong(COMMAND, "cannot write %s: %s", c->set.output, strerror(errno));
	return 0;
}

/* The table of processes is large, but a sweep of a shell script fills it. */
static void give_back_rows(struct race_cli *c)
{
	uint64_t count = __atomic_load_n(&c->run.region->process_count, __ATOMIC_RELAXED);

	if (count < RACE_PROCESSES / 2 || count - c->rows_at < RACE_PROCESSES / 16)
		return;
	c->rows_at = count;
	race_give_back_rows(c->run.region, &c->gone);
}

static void read_records(struct race_cli *c)
{
	struct race_record record;
	struct race_view *v;

	race_look(&c->run);
	give_back_rows(c);
	while (race_read(c->run.region, &record, &c->torn)) {
		if (race_report_add(c->report, &record, &v))
			continue;
		if (v->is_new)
			snprintf(v->varied, sizeof(v->varied), "%s", c->vary.now);
		if (!c->first_ns && race_verdict(v, c->set.grade_max) == RACE_SHOWN)
			c->first_ns = record.time_ns;
	}
}

/*
 * In text as soon as it is sure: what looks like a race at first sight may turn out to be atomic,
 * so grade B waits a moment. JSON lines come at the end, when it is known how often.
 */
static void tell(struct race_cli *c, bool is_over)
{
	uint64_t now = now_ns();

	race_report_settle(c->report);
	for (size_t i = 0; i < race_report_count(c->report); i++) {
		struct race_view *v = race_report_view(c->report, i);

		if (c->set.json || c->set.is_sarif || v->is_told ||
		    race_verdict(v, c->set.grade_max) != RACE_SHOWN ||
		    (!is_over && v->grade > RACE_GRADE_A && now - v->seen_ns < SURE_AFTER_NS))
			continue;
		v->is_told = true;
		race_print_text(c->report, v, c->out);
		fflush(c->out);
	}
}

/* Of the run in progress. */
static struct race_focus *focus_of(struct race_cli *c)
{
	return &c->focus[c->vary.count ? c->vary.variables[0].at : 0];
}

/* Another run? The time is asked between them: a test that is cut off might look as if it failed. */
static bool sweep_goes_on(struct race_cli *c)
{
	struct race_coverage coverage;

	if (c->set.replay && race_replay_is_seen(&c->replay, c->report, c->runs))
		return false;
	if (c->set.replay)
		race_replay_widen(&c->replay, c->run.region);
	if (!c->set.sweep || c->is_ended || now_ns() - c->started_ns >= c->set.time_ns)
		return false;
	if (!c->set.until_covered)
		return true;
	if (focus_of(c)->is_on) /* it was not for those that nobody has come to yet */
		return true;
	race_coverage(c->run.region, c->set.until_covered, &coverage);
	bool is_still = coverage.reached == c->reached && race_vary_all_ran(&c->vary);
	c->still_runs = is_still ? c->still_runs + 1 : 0;
	c->reached = coverage.reached;
	return c->still_runs < STILL_RUNS || coverage.held < coverage.reached;
}

/*
 * A run that hangs on: it had twice the time of any before. By SIGTERM, and later by SIGKILL; the
 * processes that it started, too.
 */
static void cut_off(struct race_cli *c)
{
	uint64_t now = now_ns();
	uint64_t given = 2 * c->longest_ns > GIVEN_NS ? 2 * c->longest_ns : GIVEN_NS;

	if (!c->set.time || now - c->started_ns < c->set.time_ns)
		return;
	uint64_t over = c->started_ns + c->set.time_ns;
	if (!c->cut_ns && now - (c->run_ns > over ? c->run_ns : over) > given) {
		c->cut_ns = now;
		c->runs_cut++;
		cli_note(COMMAND, "a run hangs on %.0f s after --time: SIGTERM, and SIGKILL %.0f s "
			 "later", (double)given / 1e9, (double)KILL_AFTER_NS / 1e9);
		race_others_signal(&c->run, SIGTERM);
		kill(c->run.pid, SIGTERM);
	} else if (c->cut_ns && now - c->cut_ns > KILL_AFTER_NS) {
		race_others_signal(&c->run, SIGKILL);
		kill(c->run.pid, SIGKILL);
	}
}

/* Until the next look, a signal, or the end of the process. */
static void wait_for_look(int pidfd, uint64_t looks)
{
	struct timespec pause = { 0, looks < LOOKS_AT_FIRST ? LOOK_EVERY_NS : LOOK_LATER_NS };
	struct pollfd end = { .fd = pidfd, .events = POLLIN };

	ppoll(&end, 1, &pause, NULL);
}

/* Signals reach the program: those of the terminal by themselves, others by us. */
static int wait_for_end(struct race_cli *c)
{
	int pidfd = (int)syscall(SYS_pidfd_open, c->run.pid, 0);
	bool is_over = false;
	int status = 0;

	c->run_ns = now_ns();
	c->cut_ns = 0;
	for (uint64_t n = 0; !is_over; n++) {
		int forward = ended_by;

		if (forward && is_to_forward)
			kill(c->run.pid, forward);
		c->is_ended |= forward != 0;
		ended_by = 0;
		is_over = waitpid(c->run.pid, &status, WNOHANG) == c->run.pid;
		if (!is_over)
			cut_off(c);
		race_pace(&c->set, &c->run);
		read_records(c);
		tell(c, false);
		if (!is_over)
			wait_for_look(pidfd, n);
	}
	if (pidfd >= 0)
		close(pidfd);
	c->runs++;
	uint64_t took = now_ns() - c->run_ns;
	if (c->cut_ns) {
		race_others_signal(&c->run, SIGKILL); /* what it left behind */
		return 0;
	}
	race_focus_ran(focus_of(c), took);
	race_vary_ran(&c->vary, took);
	if (took > c->longest_ns)
		c->longest_ns = took;
	return status;
}

/* Until it ends, or we do: it goes on. */
static void wait_attached(struct race_cli *c)
{
	uint64_t end_ns = c->set.for_ns ? now_ns() + c->set.for_ns : UINT64_MAX;

	for (uint64_t n = 0; !ended_by && now_ns() < end_ns && !race_attach_is_over(&c->run); n++) {
		read_records(c);
		tell(c, false);
		wait_for_look(-1, n);
	}
	c->runs++;
	race_attach_end(&c->run);
}

static void run(struct race_cli *c)
{
	struct timespec pause = { 0, LOOK_EVERY_NS };

	if (c->set.pid)
		wait_attached(c);
	else
		c->status = wait_for_end(c);
	while (sweep_goes_on(c)) {
		race_vary_choose(&c->vary);
		if (!c->set.replay)
			race_focus_choose(focus_of(c), c->run.region);
		if (race_command_start(&c->set, &c->run) != CLI_OK)
			break;
		int status = wait_for_end(c);

		if (!c->status)
			c->status = status;
	}
	/* Records that another one is writing just now. */
	if (race_others_search(&c->run))
		nanosleep(&pause, NULL);
	read_records(c);
	tell(c, true);
	race_replay_is_seen(&c->replay, c->report, c->runs);
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGQUIT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

/* A sweep without its sites is a search by the timer, and finds less. */
static void say_refusal(const struct race_cli *c, const struct race_totals *t)
{
	const char *why = c->run.region->sites_why;

	if (t->sites_refused)
		cli_note(COMMAND, "sites could not be trapped in %llu of %llu processes, in part or at "
			 "all: %.*s. There the timer alone chose what was held",
			 (unsigned long long)t->sites_refused, (unsigned long long)t->processes,
			 (int)strnlen(why, sizeof(c->run.region->sites_why)),
			 *why ? why : "no memory");
}

/* Where the search could not run it must not look as if nothing was there. */
static int say_blindness(const struct race_totals *t)
{
	unsigned int step = t->step < RACE_STEPS ? t->step : 0;

	if (!t->processes) {
		cli_note(COMMAND, "the agent came to no process: a static or setuid program, or one "
			 "that clears its environment. Nothing was searched");
		return CLI_NO;
	}
	bool is_partly = t->error == -ECANCELED;
	if (t->failed)
		cli_note(COMMAND, "%llu of %llu processes were searched %s: %s%s%s",
			 (unsigned long long)t->failed, (unsigned long long)t->processes,
			 is_partly ? "only in part" : "not at all", race_step_names[step],
			 is_partly ? "" : ": ", is_partly ? "" : strerror(-t->error));
	return t->failed == t->processes && !is_partly ? CLI_NO : CLI_OK;
}

static int exit_status(const struct race_cli *c, size_t shown, int blind)
{
	if (shown && c->set.error_exitcode)
		return (int)c->set.error_exitcode;
	if (WIFSIGNALED(c->status))
		return 128 + WTERMSIG(c->status);
	return WEXITSTATUS(c->status) ? WEXITSTATUS(c->status) : blind;
}

static int finish(struct race_cli *c)
{
	struct race_totals totals = c->gone;
	struct race_end end = { .totals = &totals, .child_status = c->status };
	size_t shown = 0;

	totals.torn = c->torn;
	totals.runs = c->runs;
	totals.runs_cut = c->runs_cut;
	totals.is_varied = c->vary.count != 0;
	end.wall_s = (uint64_t)time(NULL);
	totals.wall_ns = now_ns() - c->started_ns;
	if (c->first_ns > c->started_ns)
		totals.first_race_ns = c->first_ns - c->started_ns;
	race_totals(c->run.region, &totals);
	race_count_sites(c->run.region, &totals);
	for (size_t i = 0; i < race_report_count(c->report); i++) {
		const struct race_view *v = race_report_view(c->report, i);

		if (race_verdict(v, c->set.grade_max) != RACE_SHOWN)
			continue;
		shown++;
		if (c->set.json)
			race_print_json(c->report, v, c->out);
	}
	int blind = say_blindness(&totals);
	say_refusal(c, &totals);
	if (!c->set.is_sarif)
		(c->set.json ? race_vary_json : race_vary_text)(&c->vary, c->out);
	if (c->set.replay && !c->set.is_sarif)
		(c->set.json ? race_replay_json : race_replay_text)(&c->replay, c->run.region, &totals,
								    c->out);
	if (c->set.json)
		race_summary_json(c->report, &totals, c->set.grade_max, c->out);
	else if (!c->set.is_sarif)
		race_summary_text(c->report, &totals, c->set.grade_max, c->out);
	end.blind = blind ? "No process could be searched: what is not reported may be there." : NULL;
	int failed = race_policy_end(&c->set, c->report, &end, c->out);
	return exit_status(c, c->set.write_baseline ? 0 : shown, blind ? blind : failed);
}

static void release(struct race_cli *c)
{
	race_report_close(c->report);
	race_policy_close(&c->policy);
	race_vary_close(&c->vary);
	race_region_close(&c->run);
	if (c->out && c->set.output)
		fclose(c->out);
	fflush(stdout);
}

int cmd_race(int argc, char **argv)
{
	struct race_cli c = { .run.region_fd = -1, .run.ticks = { .map_fd = -1, .task_fd = -1 },
			      .run.cpus = RACE_CPUS_NONE };
	int status = settings_read(&c.set, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	status = race_vary_open(&c.set.vary, &c.vary);
	if (!status)
		status = race_replay_open(&c.set, &c.replay);
	if (!status)
		status = race_vary_like(&c.vary, c.replay.race.varied);
	if (!status)
		status = race_policy_open(&c.set, &c.policy);
	if (!status)
		status = open_output(&c);
	if (!status)
		status = race_region_open(&c.set, &c.run);
	if (!status)
		status = race_replay_arm(&c.set, &c.replay, c.run.region);
	if (!status && race_report_open(c.run.region, &c.report))
		status = cli_wrong(COMMAND, "no memory");
	if (!status)
		race_report_set_policy(c.report, &c.policy);
	catch_signals();
	race_vary_choose(&c.vary);
	c.started_ns = now_ns();
	if (!status)
		status = c.set.pid ? race_attach_start(&c.set, &c.run) :
				     race_command_start(&c.set, &c.run);
	if (!status) {
		run(&c);
		status = finish(&c);
	}
	release(&c);
	return status;
}
