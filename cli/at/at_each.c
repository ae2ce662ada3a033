/* SPDX-License-Identifier: MIT */
/*
 * at_each.c - see at_each.h.
 *
 * Each run is a `trapline at` of its own, several at once. Its -o file is empty until the point is
 * reached, so the exit status of the program is never mistaken for that of `trapline at`. The files
 * have no names: nothing is left of them when this command is killed.
 */
#include "cli/at/at_each.h"
#include "cli/act/signal_number.h"

#include "base/clock.h"
#include "cli/at/at.h"
#include "cli/cmd.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "report/safe/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "at"
#define JOBS_MAX 64
#define RUNS_DEFAULT 200
#define TIMEOUT_DEFAULT_NS 10000000000u
#define VERDICT_MAX 96
#define POINT_TEXT (2 * AT_TEXT + 32)

struct job {
	pid_t pid;    /* 0: free */
	int output;   /* what it printed */
	int reached;  /* what `trapline at` printed at the point */
	uint64_t nth; /* 0: the command alone */
	uint64_t deadline_ns;
	bool is_hung;
};

struct runs {
	struct at_each set;
	struct at_point point;
	char self[PATH_MAX];
	struct job jobs[JOBS_MAX];
	uint64_t next;
	uint64_t end; /* the first occurrence that does not exist; 0: not known */
	uint64_t done;
	uint64_t broken;
	uint64_t first_broken;
	char first_verdict[VERDICT_MAX];
	int good_status;      /* without a signal */
	int failed;	      /* of Trapline's own */
	FILE *out;	      /* of the results */
	struct output status; /* the line on the terminal */
};

static int each_settings_check(struct runs *s)
{
	struct at_each *set = &s->set;
	char text[AT_TEXT + 32];

	if (!set->command)
		return cli_wrong(COMMAND, AT_COMMAND_MISSING);
	if (!set->signal)
		return cli_wrong(COMMAND, "--each needs --signal SIG (example: --signal SIGALRM)");
	if (set->limit == AT_EACH_DEFAULT)
		set->limit = RUNS_DEFAULT;
	if (set->timeout_ns == AT_EACH_DEFAULT)
		set->timeout_ns = TIMEOUT_DEFAULT_NS;
	if (set->jobs == AT_EACH_DEFAULT)
		set->jobs = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	if (!set->limit)
		return cli_wrong(COMMAND, "invalid --limit '0': expected at least 1");
	if (set->jobs < 1 || set->jobs > JOBS_MAX)
		return cli_wrong(COMMAND, "invalid --jobs '%llu': expected 1 to %d",
				 (unsigned long long)set->jobs, JOBS_MAX);
	const char *condition = strstr(set->location, " if ");
	const char *hash = strchr(set->location, '#');
	if (hash && (!condition || hash < condition))
		return cli_wrong(COMMAND,
				 "invalid --each '%s': expected a location without #N "
				 "(example: write)",
				 set->location);
	snprintf(text, sizeof(text), "%.*s#1%s",
		 (int)(condition ? condition - set->location : (long)strlen(set->location)),
		 set->location, condition ? condition : "");
	return at_parse(COMMAND, text, &s->point);
}

/* The point of one occurrence, as `trapline at` takes it. */
static void point_text(const struct runs *s, uint64_t nth, char *text, size_t n)
{
	snprintf(text, n, "%s#%llu%s%s", s->point.location, (unsigned long long)nth,
		 s->point.condition[0] ? " if " : "", s->point.condition);
}

static volatile sig_atomic_t ended_by;

static void on_end(int number)
{
	ended_by = number;
}

/* A file without a name. A descriptor or -1. */
static int nameless_file(void)
{
	char path[] = "/tmp/trapline-at-XXXXXX";
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0) {
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	return fd;
}

/* In the child. */
static void each_run_child(const struct runs *s, const struct job *job)
{
	uint64_t nth = job->nth;
	char point[POINT_TEXT];
	char reached[64];
	char *at[256] = { (char *)(uintptr_t)s->self,
			  "at",
			  point,
			  "--signal",
			  (char *)(uintptr_t)s->set.signal,
			  "--json",
			  "-o",
			  reached,
			  "--" };
	int n = 9;

	/*
	 * By way of this command's descriptor: the program has none that it would not have alone.
	 */
	snprintf(reached, sizeof(reached), "/proc/%d/fd/%d", getppid(), job->reached);
	point_text(s, nth, point, sizeof(point));
	dup2(job->output, 1);
	dup2(job->output, 2);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!nth)
		execvp(s->set.command[0], s->set.command);
	for (char **arg = s->set.command; nth && *arg && n < 255; arg++)
		at[n++] = *arg;
	if (nth)
		execv(s->self, at);
	_exit(127);
}

static int start_run(struct runs *s, struct job *job)
{
	job->output = nameless_file();
	job->reached = nameless_file();
	if (job->output < 0 || job->reached < 0)
		return cli_wrong(COMMAND, "cannot make a file in /tmp: %s", strerror(errno));
	fflush(NULL);
	job->pid = fork();
	if (job->pid == 0)
		each_run_child(s, job);
	if (job->pid < 0) {
		job->pid = 0;
		return cli_wrong(COMMAND, "cannot start a run: %s", strerror(errno));
	}
	setpgid(job->pid, job->pid);
	return CLI_OK;
}

static void close_run(struct job *job)
{
	if (job->output >= 0)
		close(job->output);
	if (job->reached >= 0)
		close(job->reached);
	job->pid = 0;
}

/* 0: --check is content with the run, or was not given. */
static int each_check_output(const struct runs *s, const struct job *job, int status)
{
	char output[64];
	char number[16];
	int result = 0;

	if (!s->set.check)
		return 0;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		/* Opened again: it is read from its beginning. */
		snprintf(output, sizeof(output), "/proc/self/fd/%d", job->output);
		int fd = open(output, O_RDONLY | O_CLOEXEC);
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

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

/* Why a run is broken; empty when it is good. */
static void judge(const struct runs *s, const struct job *job, int status, char *verdict)
{
	/* What a crash leaves behind is for the check to judge. */
	bool dies_of_it = s->set.check && status == 128 + signal_number(s->set.signal);

	verdict[0] = '\0';
	if (job->is_hung)
		snprintf(verdict, VERDICT_MAX, "hung");
	else if (!dies_of_it && status > 128 && status < 128 + 65 && status != s->good_status)
		snprintf(verdict, VERDICT_MAX, "killed by SIG%s", sigabbrev_np(status - 128));
	else if (!dies_of_it && status != s->good_status)
		snprintf(verdict, VERDICT_MAX, "exit status %d instead of %d", status,
			 s->good_status);
	else if (each_check_output(s, job, status))
		snprintf(verdict, VERDICT_MAX, "--check failed");
}

static bool was_reached(const struct job *job)
{
	struct stat st;

	return !fstat(job->reached, &st) && st.st_size > 0;
}

static void print_run(struct runs *s, uint64_t nth, const char *verdict)
{
	char point[POINT_TEXT];

	point_text(s, nth, point, sizeof(point));
	output_clear_status(&s->status);
	if (s->set.json && verdict[0])
		fprintf(s->out,
			"{\"type\":\"broken\",\"point\":\"%s\",\"nth\":%llu,\"verdict\":\"%s\"}\n",
			point, (unsigned long long)nth, verdict);
	else if (!s->set.json && (verdict[0] || s->set.verbose))
		fprintf(s->out, "%s: %s\n", point, verdict[0] ? verdict : "not broken");
	if (!verdict[0])
		return;
	s->broken++;
	if (s->first_broken && s->first_broken < nth)
		return;
	s->first_broken = nth;
	snprintf(s->first_verdict, sizeof(s->first_verdict), "%s", verdict);
}

/* The line that `trapline at` printed when it did not run the program to the point. */
static void read_refusal(struct runs *s, const struct job *job)
{
	const char prefix[] = "trapline " COMMAND ": ";
	char line[512] = "";
	int fd = fcntl(job->output, F_DUPFD_CLOEXEC, 0);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (f)
		rewind(f);
	while (f && fgets(line, sizeof(line), f) && strncmp(line, prefix, strlen(prefix)) != 0)
		line[0] = '\0';
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = '\0';
	if (strstr(line, AT_NOT_REACHED)) {
		if (!s->end || job->nth < s->end)
			s->end = job->nth;
		return;
	}
	/* Runs at the same time end with the same line. */
	output_clear_status(&s->status);
	if (!s->failed)
		s->failed = cli_wrong(COMMAND, "%s",
				      line[0] ? line + strlen(prefix) : "cannot start a run");
}

static void finish_job(struct runs *s, struct job *job, int raw)
{
	char verdict[VERDICT_MAX];

	if (!was_reached(job) && !job->is_hung) {
		read_refusal(s, job);
	} else {
		judge(s, job, cli_status_of(raw), verdict);
		s->done++;
		print_run(s, job->nth, verdict);
	}
	close_run(job);
}

static bool is_more(const struct runs *s)
{
	return !s->failed && !ended_by && s->next <= s->set.limit && (!s->end || s->next < s->end);
}

/* With what it started. */
static void end_run(struct job *job)
{
	kill(-job->pid, SIGKILL);
	while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close_run(job);
}

/* Starts, ends or kills a job if it is time. Returns whether it is busy. */
static bool step(struct runs *s, struct job *job)
{
	int raw;

	if (!job->pid && is_more(s)) {
		*job = (struct job){ .nth = s->next++,
				     .deadline_ns = clock_now_ns() + s->set.timeout_ns };
		s->failed = start_run(s, job);
		if (s->failed)
			close_run(job);
	}
	if (!job->pid)
		return false;
	if (ended_by) {
		end_run(job);
		return false;
	}
	if (waitpid(job->pid, &raw, WNOHANG) == job->pid) {
		finish_job(s, job, raw);
	} else if (clock_now_ns() > job->deadline_ns && !job->is_hung) {
		job->is_hung = true;
		kill(-job->pid, SIGKILL);
	}
	return true;
}

static void run_all(struct runs *s)
{
	const struct timespec pause = { 0, 1000000 };
	bool busy = true;

	s->next = 1;
	while (busy) {
		busy = false;
		for (uint64_t i = 0; i < s->set.jobs; i++)
			busy |= step(s, &s->jobs[i]);
		output_progress(&s->status, "%llu runs, %llu broken; Ctrl-C ends",
				(unsigned long long)s->done, (unsigned long long)s->broken);
		nanosleep(&pause, NULL);
	}
	output_clear_status(&s->status);
}

/* What the program does undisturbed. */
static int run_good(struct runs *s)
{
	struct job job = { 0 };
	int raw = 0;
	int status = start_run(s, &job);

	while (!status && waitpid(job.pid, &raw, 0) < 0 && errno == EINTR)
		if (ended_by)
			kill(-job.pid, SIGKILL);
	s->good_status = cli_status_of(raw);
	if (!status && s->good_status == 127)
		status = cli_wrong(COMMAND, "cannot start %s", s->set.command[0]);
	if (!status && !ended_by && each_check_output(s, &job, s->good_status))
		status = cli_wrong(
			COMMAND,
			"--check fails for a run without a signal; it must succeed for that run");
	close_run(&job);
	return status;
}

static void print_reproducer(const struct runs *s)
{
	char point[POINT_TEXT];

	point_text(s, s->first_broken, point, sizeof(point));
	fprintf(s->out, "reproduce: trapline at '%s' --signal %s --", point, s->set.signal);
	for (char **arg = s->set.command; *arg; arg++)
		fprintf(s->out, strpbrk(*arg, " '\"$*?") ? " '%s'" : " %s", *arg);
	fputc('\n', s->out);
}

static int summary(const struct runs *s)
{
	if (s->failed)
		return s->failed;
	if (!s->done)
		return cli_wrong(COMMAND, "the program never reached %s", s->point.location);
	if (s->set.json) {
		fprintf(s->out,
			"{\"type\":\"summary\",\"place\":\"%s\",\"runs\":%llu,\"broken\":%llu,"
			"\"first\":%llu}\n",
			s->point.location, (unsigned long long)s->done,
			(unsigned long long)s->broken, (unsigned long long)s->first_broken);
		return s->broken ? CLI_NO : CLI_OK;
	}
	fprintf(s->out, "%s: %llu run%s, ", s->point.location, (unsigned long long)s->done,
		s->done == 1 ? "" : "s");
	fprintf(s->out, s->broken ? "%llu broken" : "none broken", (unsigned long long)s->broken);
	fputs(s->end ? "\n" : "; more occurrences may follow (--limit N)\n", s->out);
	if (s->broken)
		print_reproducer(s);
	return s->broken ? CLI_NO : CLI_OK;
}

static int each_open_output(struct runs *s)
{
	s->status = (struct output){ .status = terminal_has_status(STDERR_FILENO) };
	s->out = s->set.output ? private_file(s->set.output) : stdout;
	if (!s->out)
		return cli_wrong(COMMAND, "cannot write %s: %s", s->set.output, strerror(errno));
	if (readlink("/proc/self/exe", s->self, sizeof(s->self) - 1) < 0)
		return cli_wrong(COMMAND, "cannot read /proc/self/exe: %s", strerror(errno));
	return CLI_OK;
}

static int close_output(struct runs *s)
{
	bool is_bad = fflush(s->out) || ferror(s->out);

	if (s->set.output)
		is_bad |= fclose(s->out) != 0;
	if (!is_bad)
		return CLI_OK;
	cli_wrong(COMMAND, "cannot write %s: %s", s->set.output ? s->set.output : "standard output",
		  strerror(errno));
	return CLI_NO;
}

/* The runs are in groups of their own, which the terminal's signals do not reach. */
static void catch_end(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction end = { .sa_handler = on_end };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &end, NULL);
}

int at_each(struct at_each *each)
{
	static struct runs s;
	int status;

	s.set = *each;
	status = each_settings_check(&s);
	if (!status)
		status = each_open_output(&s);
	if (status)
		return status;
	catch_end();
	status = run_good(&s);
	if (!status) {
		run_all(&s);
		if (s.done && s.good_status)
			cli_note(
				COMMAND,
				"without a signal the command ends with status %d, which counts as "
				"right",
				s.good_status);
		status = ended_by && !s.done ? 128 + ended_by : summary(&s);
	}
	int written = close_output(&s);
	return ended_by ? 128 + ended_by : status ? status : written;
}
