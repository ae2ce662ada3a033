// SPDX-License-Identifier: MIT
/* session.c - see session.h. */
#include "cli/session.h"

#include "cli/clock.h"
#include "cli/cmd.h"
#include "cli/program.h"
#include "cli/start.h"

#include <trapline/trapline.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t interrupts; /* Ctrl-C */
static volatile sig_atomic_t terminated; /* SIGTERM, SIGHUP */

static void on_signal(int number)
{
	if (number == SIGINT)
		interrupts++;
	else
		terminated = 1;
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

int session_explain(const struct session *r, const char *doing, const char *what, int err)
{
	char text[600];

	trapline_explain(err, text, sizeof(text));
	return cli_wrong(r->name, "cannot %s %s in process %d: %s", doing, what, r->pid,
			 text);
}

int session_cut_command(const char *name, int argc, char **argv, char ***command)
{
	int n = 1;

	while (n < argc && strcmp(argv[n], "--") != 0)
		n++;
	if (n + 1 < argc)
		*command = &argv[n + 1];
	else if (n < argc)
		return cli_wrong(name, "no command after --"), -1;
	return n;
}

int session_check_target(const char *name, pid_t pid, char **command)
{
	if (pid && command)
		return cli_wrong(name, "either -p PID or -- CMD, not both");
	if (!pid && !command)
		return cli_wrong(
			name,
			"in which process? Give -p PID, or -- CMD ARG... to start one");
	if (pid && kill(pid, 0) && errno == ESRCH)
		return cli_wrong(name, "no process %d", pid);
	return 0;
}

int session_hold(struct session *r)
{
	return r->command ? start_command(r->name, r->command, &r->pid) : 0;
}

void session_release(struct session *r, bool wanted)
{
	catch_signals(); /* until here Ctrl-C ends us and, by EXITKILL, the command */
	if (!r->command)
		return;
	if (wanted)
		start_go(r->pid);
	else
		start_kill(r->pid);
}

/* Started by the user himself, and not his any more: it has privileges that he has not. */
static bool is_set_user_id(pid_t pid)
{
	unsigned int effective;
	unsigned int real;
	char text[64];

	return program_status(pid, pid, "Uid", text, sizeof(text)) &&
	       sscanf(text, "%u %u", &real, &effective) == 2 && real != effective &&
	       real == getuid();
}

void session_note_without_bpf(const struct session *r)
{
	cli_note(r->name, "without BPF, which needs root, or CAP_BPF and CAP_PERFMON: values and text "
		 "are read after the hit, and a hit that is rejected costs a record");
}

int session_open_symbols(const struct session *r, struct symbols **out)
{
	int err = symbols_open(r->pid, out);

	if ((err == -EACCES || err == -EPERM) && is_set_user_id(r->pid))
		return cli_wrong(
			r->name,
			"not permitted to read the memory map of process %d: it is set-user-ID, and "
			"what it does is for root alone to see; run as root",
			r->pid);
	if (err == -EACCES || err == -EPERM)
		return cli_wrong(
			r->name,
			"not permitted to read the memory map of process %d: run as "
			"its user or as root",
			r->pid);
	if (err)
		return cli_wrong(
			r->name,
			"process %d has no program that could be read (%s): a kernel "
			"thread, or it is ending",
			r->pid, strerror(-err));
	return 0;
}

void session_open_memory(struct session *r)
{
	char path[64];
	char byte;

	snprintf(path, sizeof(path), "/proc/%d/mem", r->pid);
	r->memory_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (r->memory_fd >= 0 && pread(r->memory_fd, &byte, 1, (off_t)r->probe) != 1)
		cli_note(r->name, "nothing can be read at 0x%llx in process %d now",
			 (unsigned long long)r->probe, r->pid);
}

static int wait_ms(const struct session *r, int tick_ms)
{
	if (!r->for_ns)
		return tick_ms;
	uint64_t passed = now_ns() - r->started_ns;
	uint64_t left_ms = passed < r->for_ns ? (r->for_ns - passed) / 1000000u : 0;
	return left_ms < (uint64_t)tick_ms ? (int)left_ms : tick_ms;
}

/* Memory of a replaced program reads as empty; a page that was unmapped gives an error. */
static bool target_replaced(const struct session *r)
{
	char byte;

	return r->memory_fd >= 0 && pread(r->memory_fd, &byte, 1, (off_t)r->probe) == 0;
}

static bool child_has_ended(struct session *r)
{
	if (r->command && !r->child_ended)
		r->child_ended = waitpid(r->pid, &r->child_status, WNOHANG) == r->pid;
	return r->child_ended;
}

/* One that is ending, or waits for its parent, has none. */
static bool has_program(pid_t pid)
{
	char path[64];
	char target[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, target, sizeof(target)) > 0;
}

static const char *reason_to_stop(struct session *r, int polled, uint64_t hits)
{
	/* Ctrl-C reaches a command of ours too: the first is for it, and we see how it ends. */
	int enough = r->command ? 2 : 1;

	if (polled == -ESRCH || child_has_ended(r))
		return "the process ended";
	if (polled < 0 && polled != -EINTR && polled != -EAGAIN)
		return "reading the records failed";
	if ((r->limit && hits >= r->limit) || (r->is_enough && r->is_enough(r->arg)))
		return "the limit was reached";
	if (terminated || interrupts >= enough)
		return "interrupted";
	if (r->output_broken)
		return "nobody reads the output any more";
	if (r->for_ns && now_ns() - r->started_ns >= r->for_ns)
		return "the time is over";
	if (target_replaced(r))
		return has_program(r->pid) ? "the process ran another program (exec)" :
					     "the process ended";
	return NULL;
}

const char *session_loop(struct session *r, struct trapline *target, struct pace *pace,
			 struct output *o, trapline_callback fn, const uint64_t *hits)
{
	const char *reason = NULL;

	r->started_ns = now_ns();
	o->started_ns = r->started_ns;
	while (!reason) {
		int tick_ms = pace_tick(pace);
		int more_ms = r->tick ? r->tick(r->arg) : tick_ms;

		tick_ms = more_ms < tick_ms ? more_ms : tick_ms;
		int polled = trapline_poll(target, wait_ms(r, tick_ms), fn);
		if (!output_flush(o, *hits, pace->paused_since_ns != 0))
			r->output_broken = true;
		reason = reason_to_stop(r, polled, *hits);
	}
	pace_end(pace);
	while (trapline_poll(target, 0, fn) > 0)
		;
	return reason;
}

void session_describe_command(struct session *r, char *buf, size_t n)
{
	buf[0] = 0;
	if (!child_has_ended(r))
		return;
	if (WIFSIGNALED(r->child_status))
		snprintf(buf, n, "killed by SIG%s",
			 sigabbrev_np(WTERMSIG(r->child_status)));
	else if (WEXITSTATUS(r->child_status))
		snprintf(buf, n, "exited with status %d", WEXITSTATUS(r->child_status));
}

void session_wait_for_command(struct session *r)
{
	if (!r->command || terminated || interrupts || child_has_ended(r))
		return;
	cli_note(r->name, "no longer looking; waiting for %s (process %d) to end",
		 r->command[0], r->pid);
	while (!terminated && !interrupts && waitpid(r->pid, NULL, 0) < 0 &&
	       errno == EINTR)
		;
}

void session_close(struct session *r)
{
	if (r->memory_fd >= 0)
		close(r->memory_fd);
	r->memory_fd = -1;
}
