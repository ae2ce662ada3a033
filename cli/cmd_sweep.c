// SPDX-License-Identifier: MIT
/*
 * cmd_sweep.c - `trapline sweep`: a signal at every pass of a place, one run for each; which of
 * them break the program?
 *
 * Each run is a `trapline at` of its own, some at once. Its -o file says whether the point was
 * reached, so that the program's own exit status is never taken for ours.
 */
#include "cli/at.h"
#include "cli/cmd.h"
#include "cli/opts.h"
#include "cli/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "sweep"
#define JOBS_MAX 64
#define VERDICT_MAX 96
#define POINT_TEXT (2 * AT_TEXT + 32)

struct settings {
	const char *signal;
	const char *each;
	const char *check;
	uint64_t runs;
	uint64_t jobs;
	uint64_t timeout_ns;
	int json;
	char **command;
};

static const struct opt options[] = {
#define AT(member) offsetof(struct settings, member)
	{ "signal", 's', OPT_STRING, AT(signal), "SIG", "the signal to deliver" },
	{ "each", 'e', OPT_STRING, AT(each), "PLACE[ if COND]", "at each pass of this place" },
	{ "runs", 'n', OPT_COUNT, AT(runs), "N", "at most so many passes (default: 200)" },
	{ "check", 'c', OPT_STRING, AT(check), "CMD",
	  "run by sh with the program's output as input and $STATUS: is the run good?" },
	{ "jobs", 'j', OPT_COUNT, AT(jobs), "N", "runs at the same time (default: processors)" },
	{ "timeout", 0, OPT_SECONDS, AT(timeout_ns), "SECONDS", "a run that lasts longer hangs (default: 10)" },
	{ "json", 0, OPT_FLAG, AT(json), NULL, "one JSON object for each broken run, and a last one" },
#undef AT
};

static const struct opt_syntax syntax = {
	.command = COMMAND,
	.usage = "--signal SIG --each PLACE [OPTION...] -- CMD ARG...",
	.about = "Runs a command once for each pass of a place, delivers a signal there, and tells which\n"
		 "passes break it: killed, hung, another exit status than without the signal, or --check\n"
		 "says no.",
	.tail = "example:\n"
		"  trapline sweep --signal SIGALRM --each write --check 'grep -q done' -- ./program",
	.options = options,
	.count = sizeof(options) / sizeof(options[0]),
};

struct job {
	pid_t pid; /* 0: free */
	uint64_t nth;
	uint64_t deadline_ns;
	bool is_hung;
};

struct sweep {
	struct settings set;
	struct at_point place;
	char folder[64];
	char self[PATH_MAX];
	struct job jobs[JOBS_MAX];
	uint64_t next;
	uint64_t end; /* the first pass that there is not; 0: not known */
	uint64_t done;
	uint64_t broken;
	uint64_t first_broken;
	char first_verdict[VERDICT_MAX];
	int good_status; /* without a signal */
	int failed;	 /* of our own */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int settings_read(struct sweep *s, int argc, char **argv)
{
	char text[AT_TEXT + 32];
	int status = 0;
	int n;

	s->set = (struct settings){ .runs = 200, .timeout_ns = 10000000000u,
				    .jobs = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) };
	n = session_cut_command(COMMAND, argc, argv, &s->set.command);
	if (n < 0)
		return CLI_USAGE;
	int first = opts_parse(&syntax, n, argv, &s->set, &status);
	if (first < 0)
		return status ? status : -1;
	if (!s->set.command || first < n)
		return cli_wrong(COMMAND, "a command goes after --, and nothing else stands alone");
	if (!s->set.signal || !at_signal(s->set.signal))
		return cli_wrong(COMMAND, "which signal? --signal SIGALRM, for instance");
	if (!s->set.each)
		return cli_wrong(COMMAND, "where? --each write, for instance");
	if (s->set.jobs < 1 || s->set.jobs > JOBS_MAX || !s->set.runs)
		return cli_wrong(COMMAND, "--jobs is 1 to %d, and --runs at least 1", JOBS_MAX);
	const char *condition = strstr(s->set.each, " if ");
	snprintf(text, sizeof(text), "%.*s#1%s",
		 (int)(condition ? condition - s->set.each : (long)strlen(s->set.each)),
		 s->set.each, condition ? condition : "");
	return at_parse(COMMAND, text, &s->place);
}

/* The point of one pass, as `trapline at` takes it. */
static void point_text(const struct sweep *s, uint64_t nth, char *text, size_t n)
{
	snprintf(text, n, "%s#%llu%s%s", s->place.place, (unsigned long long)nth,
		 s->place.condition[0] ? " if " : "", s->place.condition);
}

static void file_of(const struct sweep *s, const char *kind, uint64_t nth, char *path, size_t n)
{
	snprintf(path, n, "%s/%s-%llu", s->folder, kind, (unsigned long long)nth);
}

/* In the child. nth 0: the command alone. */
static void run_child(const struct sweep *s, uint64_t nth)
{
	char output[128];
	char point[POINT_TEXT];
	char reached[128];
	char *at[256] = { (char *)(uintptr_t)s->self, "at", point, "--signal",
			  (char *)(uintptr_t)s->set.signal, "--json", "-o", reached, "--" };
	int n = 9;

	file_of(s, "out", nth, output, sizeof(output));
	file_of(s, "point", nth, reached, sizeof(reached));
	point_text(s, nth, point, sizeof(point));
	int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dup2(fd, 1);
	dup2(fd, 2);
	setpgid(0, 0);
	if (!nth)
		execvp(s->set.command[0], s->set.command);
	for (char **arg = s->set.command; nth && *arg && n < 255; arg++)
		at[n++] = *arg;
	if (nth)
		execv(s->self, at);
	_exit(127);
}

static pid_t start_run(const struct sweep *s, uint64_t nth)
{
	fflush(NULL);
	pid_t pid = fork();

	if (pid == 0)
		run_child(s, nth);
	setpgid(pid, pid);
	return pid;
}

/* 0: the check says good, or there is none. */
static int check_output(const struct sweep *s, uint64_t nth, int status)
{
	char output[128];
	char number[16];
	int result = 0;

	if (!s->set.check)
		return 0;
	file_of(s, "out", nth, output, sizeof(output));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(output, O_RDONLY);
		int null = open("/dev/null", O_WRONLY);

		snprintf(number, sizeof(number), "%d", status);
		setenv("STATUS", number, 1);
		dup2(fd, 0);
		dup2(null, 1);
		execl("/bin/sh", "sh", "-c", s->set.check, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &result, 0);
	return result;
}

static int status_of(int raw)
{
	return WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
}

/* Why a run is broken; empty when it is good. */
static void judge(const struct sweep *s, const struct job *job, int status, char *verdict)
{
	verdict[0] = '\0';
	if (job->is_hung)
		snprintf(verdict, VERDICT_MAX, "hung");
	else if (status > 128 && status < 128 + 65 && status != s->good_status)
		snprintf(verdict, VERDICT_MAX, "killed by SIG%s", sigabbrev_np(status - 128));
	else if (status != s->good_status)
		snprintf(verdict, VERDICT_MAX, "exit status %d instead of %d", status,
			 s->good_status);
	else if (check_output(s, job->nth, status))
		snprintf(verdict, VERDICT_MAX, "--check says no");
}

static bool was_reached(const struct sweep *s, uint64_t nth)
{
	char path[128];
	struct stat st;

	file_of(s, "point", nth, path, sizeof(path));
	return !stat(path, &st) && st.st_size > 0;
}

static void tell(struct sweep *s, uint64_t nth, const char *verdict)
{
	char point[POINT_TEXT];

	point_text(s, nth, point, sizeof(point));
	if (s->set.json)
		printf("{\"type\":\"broken\",\"point\":\"%s\",\"nth\":%llu,\"verdict\":\"%s\"}\n", point,
		       (unsigned long long)nth, verdict);
	else
		printf("%s: %s\n", point, verdict);
	s->broken++;
	if (s->first_broken && s->first_broken < nth)
		return;
	s->first_broken = nth;
	snprintf(s->first_verdict, sizeof(s->first_verdict), "%s", verdict);
}

/* What `trapline at` said instead of running the program to the point. */
static void tell_refusal(struct sweep *s, uint64_t nth)
{
	char path[128];
	char line[512] = "";

	file_of(s, "out", nth, path, sizeof(path));
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && !strstr(line, "trapline at:"))
		;
	if (f)
		fclose(f);
	if (strstr(line, "the program ended before")) {
		if (!s->end || nth < s->end)
			s->end = nth;
		return;
	}
	s->failed = cli_wrong(COMMAND, "%s", line[0] ? line : "a run could not be started");
}

static void finish_job(struct sweep *s, struct job *job, int raw)
{
	char verdict[VERDICT_MAX];

	if (!was_reached(s, job->nth) && !job->is_hung) {
		tell_refusal(s, job->nth);
	} else {
		judge(s, job, status_of(raw), verdict);
		s->done++;
		if (verdict[0])
			tell(s, job->nth, verdict);
	}
	job->pid = 0;
}

static bool is_more(const struct sweep *s)
{
	return !s->failed && s->next <= s->set.runs && (!s->end || s->next < s->end);
}

/* One look at a job: start, end, or kill. Returns whether it is busy. */
static bool step(struct sweep *s, struct job *job)
{
	int raw;

	if (!job->pid && is_more(s)) {
		*job = (struct job){ .nth = s->next++,
				     .deadline_ns = now_ns() + s->set.timeout_ns };
		job->pid = start_run(s, job->nth);
	}
	if (!job->pid)
		return false;
	if (waitpid(job->pid, &raw, WNOHANG) == job->pid) {
		finish_job(s, job, raw);
	} else if (now_ns() > job->deadline_ns && !job->is_hung) {
		job->is_hung = true;
		kill(-job->pid, SIGKILL);
	}
	return true;
}

static void run_all(struct sweep *s)
{
	const struct timespec pause = { 0, 1000000 };
	bool busy = true;

	s->next = 1;
	while (busy) {
		busy = false;
		for (uint64_t i = 0; i < s->set.jobs; i++)
			busy |= step(s, &s->jobs[i]);
		nanosleep(&pause, NULL);
	}
}

/* What the program does undisturbed. */
static int run_good(struct sweep *s)
{
	int raw = 0;
	pid_t pid = start_run(s, 0);

	waitpid(pid, &raw, 0);
	s->good_status = status_of(raw);
	if (s->good_status == 127)
		return cli_wrong(COMMAND, "cannot start %s", s->set.command[0]);
	if (check_output(s, 0, s->good_status))
		return cli_wrong(COMMAND, "--check says no to a run without any signal");
	return CLI_OK;
}

static void print_reproducer(const struct sweep *s)
{
	char point[POINT_TEXT];

	point_text(s, s->first_broken, point, sizeof(point));
	printf("reproduce: trapline at '%s' --signal %s --", point, s->set.signal);
	for (char **arg = s->set.command; *arg; arg++)
		printf(strpbrk(*arg, " '\"$*?") ? " '%s'" : " %s", *arg);
	putchar('\n');
}

static int summary(const struct sweep *s)
{
	if (s->failed)
		return s->failed;
	if (s->set.json)
		printf("{\"type\":\"summary\",\"place\":\"%s\",\"runs\":%llu,\"broken\":%llu,"
		       "\"first\":%llu}\n", s->place.place, (unsigned long long)s->done,
		       (unsigned long long)s->broken, (unsigned long long)s->first_broken);
	else
		printf("%s: %llu run%s, %llu broken%s\n", s->place.place,
		       (unsigned long long)s->done, s->done == 1 ? "" : "s",
		       (unsigned long long)s->broken,
		       s->end ? "" : "; there may be further passes (--runs)");
	if (!s->done)
		return cli_wrong(COMMAND, "the program never came to %s", s->place.place);
	if (s->broken && !s->set.json)
		print_reproducer(s);
	return s->broken ? CLI_NO : CLI_OK;
}

static void remove_folder(const struct sweep *s)
{
	char path[128];

	for (uint64_t nth = 0; nth < s->next; nth++) {
		file_of(s, "out", nth, path, sizeof(path));
		unlink(path);
		file_of(s, "point", nth, path, sizeof(path));
		unlink(path);
	}
	rmdir(s->folder);
}

int cmd_sweep(int argc, char **argv)
{
	static struct sweep s;
	int status = settings_read(&s, argc, argv);

	if (status)
		return status < 0 ? CLI_OK : status;
	snprintf(s.folder, sizeof(s.folder), "/tmp/trapline-sweep-XXXXXX");
	ssize_t n = readlink("/proc/self/exe", s.self, sizeof(s.self) - 1);
	if (n < 0 || !mkdtemp(s.folder))
		return cli_wrong(COMMAND, "no place for the runs' output: %s", strerror(errno));
	status = run_good(&s);
	if (!status) {
		run_all(&s);
		status = summary(&s);
	}
	remove_folder(&s);
	return status;
}
