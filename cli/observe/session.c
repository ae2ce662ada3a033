/* SPDX-License-Identifier: MIT */
/* session.c - see session.h. */
#include "cli/observe/session.h"

#include "base/clock.h"
#include "base/own_proc.h"
#include "cli/launch/process_name.h"
#include "cli/launch/program.h"
#include "cli/launch/start.h"
#include "cli/launch/start_search.h"
#include "cli/message.h"
#include "cli/watchdog.h"

#include <trapline/trapline.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_LOOK_NS 100000000u
#define ENDED_LOOK_MS 50
#define VFORK_STEP_NS 10000000
#define LATE_TICK_MS 10 /* so long a thread that stops late may have to wait */

int session_explain(const struct session *r, const char *doing, const char *what, int err)
{
	char text[600];

	/* The library names the events of this process, which the user cannot close. */
	if (err == -ENOSPC)
		return cli_wrong(r->name,
				 "cannot %s %s in process %d: no debug register is free; end "
				 "the debugger or the other tool that uses them, or watch less",
				 doing, what, r->pid);
	trapline_explain(err, text, sizeof(text));
	return cli_wrong(r->name, "cannot %s %s in process %d: %s", doing, what, r->pid, text);
}

int session_cut_command(const char *name, int argc, char **argv, char ***command)
{
	int n = 1;

	while (n < argc && strcmp(argv[n], "--") != 0)
		n++;
	if (n + 1 < argc)
		*command = &argv[n + 1];
	else if (n < argc)
		return cli_wrong(name, "CMD is missing after --"), -1;
	return n;
}

int session_check_program(const char *name, const char *extra, pid_t pid, char *const *command)
{
	if (extra)
		return cli_wrong(name, "unexpected argument '%s': a command goes after --", extra);
	if (pid && command)
		return cli_wrong(name, "-p PID cannot be combined with -- CMD");
	if (!pid && !command)
		return cli_wrong(name, "no program: give -p PID, or -- CMD ARG... to start one");
	if (!own_proc_is_mounted())
		return cli_wrong(name, "cannot find processes: " OWN_PROC_REMEDY);
	return CLI_OK;
}

int session_check_target(const char *name, pid_t pid, char **command)
{
	if (pid && command)
		return cli_wrong(name, "give -p PID or -- CMD, not both");
	if (!pid && !command)
		return cli_wrong(name, "a process is missing: give -p PID, or -- CMD to start one");
	if (!own_proc_is_mounted())
		return cli_wrong(name, "cannot find processes: " OWN_PROC_REMEDY);
	if (pid && kill(pid, 0) && errno == ESRCH)
		return cli_wrong(name, "there is no process %d", pid);
	return 0;
}

int session_hold(struct session *r)
{
	if (!r->command)
		return 0;
	int status = r->hold ? r->hold(r->arg) : start_command(r->name, r->command, &r->pid);
	r->child = r->pid;
	return status;
}

void session_release(struct session *r, bool wanted)
{
	if (r->is_released)
		return;
	r->is_released = true;
	r->runs_on = wanted;
	/* Before this Ctrl-C ends trapline and, by EXITKILL, the command. */
	watchdog_start(r->name, false);
	if (!r->command)
		return;
	if (start_search_has_ended(&r->child_status))
		r->child_ended = true;
	if (!wanted && !r->child_ended)
		start_kill(r->child);
	if (wanted && r->go)
		r->go(r->arg);
	else if (wanted && !r->hold)
		start_go(r->pid);
	start_search_end(!wanted);
}

/* The user started it, and it has privileges that the user does not have. */
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
	cli_note(r->name,
		 "without BPF (%s): values and text are read after the hit, and a rejected "
		 "hit costs a record",
		 geteuid() ? "it needs root, or CAP_BPF and CAP_PERFMON" :
			     "it is not permitted here; see trapline check");
}

static int no_program(const struct session *r, int err)
{
	enum program_state what = program_state(r->pid);

	if (what == PROGRAM_IS_KERNEL)
		return cli_wrong(r->name,
				 "process %d is a kernel thread: it has no program to observe",
				 r->pid);
	if (what == PROGRAM_HAS_ENDED || what == PROGRAM_LOST_FIRST)
		return cli_wrong(r->name,
				 "process %d has ended: it is a zombie, which its parent has "
				 "not waited for",
				 r->pid);
	return cli_wrong(r->name, "cannot read the program of process %d: %s", r->pid,
			 strerror(-err));
}

int session_open_symbols(const struct session *r, struct symbols **out)
{
	int err = symbols_open(program_reader(r->pid), out);

	if (err == -EACCES || err == -EPERM)
		return cli_wrong(r->name,
				 "cannot read the memory map of process %d: not permitted%s",
				 r->pid,
				 is_set_user_id(r->pid) ? ", it is set-user-ID; run as root" :
				 !geteuid() ? " even to this root; a container or a security "
					      "module forbids it" :
					      "; run as its user or as root");
	return err ? no_program(r, err) : 0;
}

int session_check_width(const struct session *r, struct symbols *s, const char *given)
{
	if (!given || !symbols_is_32bit(s))
		return 0;
	return cli_wrong(r->name,
			 "cannot use %s: %s is a 32-bit program, whose registers and stack "
			 "would be read wrong",
			 given, symbols_program(s));
}

/* Programs that run others. */
static bool is_wrapper(const char *program)
{
	static const char *const names[] = { "sh",     "bash",	  "dash",    "ash",	"zsh",
					     "ksh",    "env",	  "make",    "timeout", "nice",
					     "sudo",   "time",	  "doas",    "su",	"xargs",
					     "nohup",  "setpriv", "unshare", "chroot",	"strace",
					     "ltrace", "gdb" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], basename(program)))
			return true;
	return false;
}

int session_not_found(const char *name, char **command, const char *what, bool can_follow)
{
	if (!command || !is_wrapper(command[0]))
		return 0;
	return cli_wrong(name,
			 "cannot find '%.200s' in %s: a program that %s runs is not observed; "
			 "give %sthat program after --, or use -p PID",
			 what, command[0], command[0], can_follow ? "--follow, or " : "");
}

void session_open_memory(struct session *r)
{
	char byte;

	if (!r->probe)
		return;
	r->memory_fd = program_open_memory(r->pid);
	if (r->memory_fd >= 0 && pread(r->memory_fd, &byte, 1, (off_t)r->probe) != 1)
		cli_note(r->name, "no memory is mapped at 0x%llx in process %d now",
			 (unsigned long long)r->probe, r->pid);
}

static int wait_ms(const struct session *r, int tick_ms)
{
	if (!r->for_ns)
		return tick_ms;
	uint64_t passed = clock_now_ns() - r->started_ns;
	uint64_t left_ms = passed < r->for_ns ? (r->for_ns - passed) / 1000000u : 0;
	return left_ms < (uint64_t)tick_ms ? (int)left_ms : tick_ms;
}

bool (*session_late)(int *status);

/* waitpid() would take a stop from the tracer that waits for it, for an end. */
static bool is_over(struct session *r)
{
	siginfo_t info = { .si_pid = 0 };

	if (session_late && session_late(&r->child_status))
		return true;
	if (waitid(P_PID, (id_t)r->child, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid ||
	    info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED)
		return false;
	return waitpid(r->child, &r->child_status, WNOHANG) == r->child;
}

bool session_child_has_ended(struct session *r)
{
	if (r->command && !r->child_ended && !r->is_waited_by_poll)
		r->child_ended = start_search_has_ended(&r->child_status) ||
				 (!start_search_holds() && is_over(r));
	return r->child_ended;
}

/* A process that is ending, or is a zombie, has no program. */
static bool has_program(pid_t pid)
{
	char path[64];
	char target[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", program_reader(pid));
	return readlink(path, target, sizeof(target)) > 0;
}

static const char *reason_to_stop(struct session *r, int polled, uint64_t hits)
{
	/*
	 * Ctrl-C reaches the started command too. The first is for the command, whose end is
	 * observed.
	 */
	int enough = r->command ? 2 : 1;

	if (!r->command && session_late)
		session_late(&r->child_status);
	if (r->have_ended) {
		session_child_has_ended(r);
		if (r->have_ended(r->arg))
			return r->is_one ? "the process ended" : "the processes ended";
	} else if (polled == -ESRCH || session_child_has_ended(r))
		return "the process ended";
	if (polled == -ENOLINK)
		return "the process closed the agent's descriptors, and the probes ended";
	if (polled < 0 && polled != -ESRCH && polled != -EINTR && polled != -EAGAIN)
		return "reading the records failed";
	if (r->limit && hits >= r->limit)
		return RUN_ENDED_LIMIT;
	if (r->is_enough && r->is_enough(r->arg))
		return r->enough ? r->enough : RUN_ENDED_LIMIT;
	if (asked_times > asked_interrupts || asked_interrupts >= enough)
		return RUN_ENDED_SIGNAL;
	if (r->output_broken)
		return RUN_ENDED_OUTPUT;
	if (r->is_reached)
		return "the location of --until-hit was reached";
	if (r->for_ns && clock_now_ns() - r->started_ns >= r->for_ns)
		return RUN_ENDED_TIME;
	if (!r->have_ended && program_is_gone(r->memory_fd, r->probe))
		return has_program(r->pid) ? "the process ran another program (exec)" :
					     "the process ended";
	return NULL;
}

static void note_stop(struct session *r)
{
	pid_t pid = program_tracer(r->pid, r->pid);
	char name[32];

	r->has_noted_stop = true;
	if (pid) {
		process_name(pid, name, sizeof(name));
		cli_note(r->name,
			 "process %d is stopped by %s (process %d): it makes no hit until it "
			 "continues",
			 r->pid, name, pid);
	} else {
		cli_note(r->name,
			 "process %d is stopped: it makes no hit until it continues; kill "
			 "-CONT %d continues it",
			 r->pid, r->pid);
	}
}

/*
 * A stopped process looks like one that makes no hit. It is stopped when two checks in a row find
 * it stopped and it did not run in between: a tracer such as strace stops a process for moments
 * only.
 */
static void look_for_stop(struct session *r)
{
	uint64_t now = clock_now_ns();
	char switches[sizeof(r->switches)];
	char state;

	if (now - r->looked_ns < STOP_LOOK_NS)
		return;
	r->looked_ns = now;
	state = program_thread_state(r->pid, r->pid);
	if (!state ||
	    !program_status(r->pid, r->pid, "voluntary_ctxt_switches", switches, sizeof(switches)))
		return;
	bool is_stopped = state == 'T' || state == 't';
	r->is_stopped = is_stopped && !strcmp(switches, r->switches);
	snprintf(r->switches, sizeof(r->switches), "%s", is_stopped ? switches : "");
	if (r->is_stopped && !r->has_noted_stop)
		note_stop(r);
}

static int session_poll(struct session *r, struct trapline *target, int timeout_ms,
			trapline_callback fn)
{
	struct pollfd records = { .fd = trapline_fd(target), .events = POLLIN };

	if (r->poll)
		return r->poll(r->arg, timeout_ms, fn);
	if (!r->have_ended)
		return trapline_poll(target, timeout_ms, fn);
	/* When the first process has ended, the library no longer waits for the others. */
	if (timeout_ms)
		poll(&records, 1, timeout_ms < ENDED_LOOK_MS ? timeout_ms : ENDED_LOOK_MS);
	return trapline_poll(target, 0, fn);
}

const char *session_loop(struct session *r, struct trapline *target, struct pace *pace,
			 struct output *o, trapline_callback fn, const uint64_t *hits)
{
	const char *reason = NULL;
	char state[64];

	watchdog_printed(hits, " hits were printed, and any later ones were not\n");
	watchdog_time(r->for_ns);
	r->started_ns = clock_now_ns();
	o->started_ns = r->started_ns;
	while (!reason) {
		int tick_ms = pace_tick(pace);
		int more_ms = r->tick ? r->tick(r->arg) : tick_ms;

		tick_ms = more_ms < tick_ms ? more_ms : tick_ms;
		if (session_late && tick_ms > LATE_TICK_MS)
			tick_ms = LATE_TICK_MS;
		int polled = session_poll(r, target, wait_ms(r, tick_ms), fn);
		pace_describe(pace, r->started_ns, state, sizeof(state));
		if (!output_flush(o, *hits, state))
			r->output_broken = true;
		reason = reason_to_stop(r, polled, *hits);
		if (!r->child_ended && !r->have_ended)
			look_for_stop(r);
	}
	pace_end(pace);
	while (session_poll(r, target, 0, fn) > 0)
		;
	return reason;
}

void session_describe_command(struct session *r, char *buf, size_t n)
{
	buf[0] = 0;
	if (!session_child_has_ended(r))
		return;
	if (WIFSIGNALED(r->child_status))
		snprintf(buf, n, "killed by SIG%s", sigabbrev_np(WTERMSIG(r->child_status)));
	else if (WEXITSTATUS(r->child_status))
		snprintf(buf, n, "exited with status %d", WEXITSTATUS(r->child_status));
}

static void wait_for_vfork(const struct session *r)
{
	const struct timespec step = { 0, VFORK_STEP_NS };
	pid_t pid = asked_times ? 0 : start_search_holds();

	if (pid)
		cli_note(
			r->name,
			"the observation has ended; process %d waits in vfork for its child: waiting "
			"for it (kill %d ends it)",
			pid, pid);
	while (!asked_times && start_search_holds())
		nanosleep(&step, NULL);
}

void session_wait_for_command(struct session *r)
{
	const struct timespec step = { 0, VFORK_STEP_NS };

	wait_for_vfork(r);
	if (!r->command || asked_times || session_child_has_ended(r))
		return;
	cli_note(r->name,
		 "the observation has ended and %s continues: waiting for its end (kill %d "
		 "ends it)",
		 r->command[0], r->child);
	while (session_late && !asked_times && !session_child_has_ended(r))
		nanosleep(&step, NULL);
	while (!asked_times && !r->child_ended && waitpid(r->child, NULL, 0) < 0 && errno == EINTR)
		;
}

void session_close(struct session *r)
{
	if (r->memory_fd >= 0)
		close(r->memory_fd);
	r->memory_fd = -1;
}
