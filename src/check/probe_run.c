/* SPDX-License-Identifier: MIT */
/*
 * probe_run.c - the tables, and running one row in a child that may die or hang.
 *
 * The caller may have threads, handlers and children. Its SIGTRAP disposition is never touched,
 * only that of the child. A SIGCHLD handler that reaps everything costs only the exit status.
 */
#include "check/probe_run.h"
#include "check/probe.h"
#include "check/probe_bpf.h"
#include "check/probe_busy.h"
#include "check/probe_code.h"
#include "check/probe_cost.h"
#include "check/probe_counter.h"
#include "check/probe_event.h"
#include "check/probe_fires.h"
#include "check/probe_process.h"
#include "check/probe_slots.h"
#include "check/probe_system.h"
#include "check/probe_uprobe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

#define TRIES 3
#define BUSY_REMEDY "run trapline check again when the machine is less busy"
#define RT_REMEDY "use kernel 6.11 or later, or one without PREEMPT_RT"

const struct probe probe_table[] = {
	{ "perf_event_open", probe_perf_event_open, 0, 0 },
	{ "sigtrap", probe_sigtrap, 1, 1 },
	{ "sigtrap_blocked", probe_sigtrap_blocked, 1, 1 },
	{ "inherit_thread", probe_inherit_thread, 1, 1 },
	{ "remove_on_exec", probe_remove_on_exec, 1, 0 },
	{ "watchpoint_slots", probe_watchpoint_slots, 0, 0 },
	{ "watch_write", probe_watch_write, 0, 1 },
	{ "watch_read_write", probe_watch_read_write, 0, 1 },
	{ "watch_read_only", probe_watch_read_only, 0, 0 },
	{ "watch_lengths", probe_watch_lengths, 0, 1 },
	{ "watch_together", probe_watch_together, 0, 1 },
	{ "break_execute", probe_break_execute, 0, 1 },
	{ "move", probe_move, 0, 1 },
	{ "signal_generation", probe_signal_generation, 1, 1 },
	{ "access_in_syscalls", probe_access_in_syscalls, 1, 1 },
	{ "cpu_wide", probe_cpu_wide, 0, 1 },
	{ "other_process", probe_other_process, 0, 1 },
	{ "other_process_signal", probe_other_process_signal, 1, 1 },
	{ "bpf_condition", probe_bpf_condition, 0, 1 },
	{ "bpf_veto", probe_bpf_veto, 1, 1 },
	{ "bpf_task_storage", probe_bpf_task_storage, 0, 1 },
	{ "bpf_ringbuf", probe_bpf_ringbuf, 0, 1 },
	{ "uprobe", probe_uprobe, 0, 0 },
	{ "uprobe_multi", probe_uprobe_multi, 0, 0 },
	{ "uprobe_nops", probe_uprobe_nops, 0, 0 },
	{ "counter_task_clock", probe_counter_task_clock, 1, 0 },
	{ "counter_page_faults", probe_counter_page_faults, 1, 0 },
	{ "overflow_signals", probe_overflow_signals, 1, 0 },
	{ "pmu_instructions", probe_pmu_instructions, 0, 0 },
	{ "pmu_cycles", probe_pmu_cycles, 0, 0 },
	{ "pmu_branches", probe_pmu_branches, 0, 0 },
	{ "pmu_overflow", probe_pmu_overflow, 1, 0 },
	{ "membarrier_sync_core", probe_membarrier_sync_core, 0, 0 },
	{ "patch_text", probe_patch_text, 0, 0 },
	{ "text_by_mem", probe_text_by_mem, 0, 0 },
	{ "text_by_tracee", probe_text_by_tracee, 0, 0 },
	{ "text_by_mprotect", probe_text_by_mprotect, 0, 0 },
	{ "preempt_rt_safe", probe_preempt_rt_safe, 0, 0 },
	{ "seccomp", probe_seccomp, 0, 0 },
	{ "capabilities", probe_capabilities, 0, 0 },
	{ 0 },
};

const struct probe_cost probe_cost_table[] = {
	{ "clock", probe_cost_clock, 0 },
	{ "syscall", probe_cost_syscall, 0 },
	{ "hardware_trap", probe_cost_hardware_trap, 0 },
	{ "signal", probe_cost_signal, 1 },
	{ "bpf_reject", probe_cost_bpf_reject, 1 },
	{ "bpf_record", probe_cost_bpf_record, 0 },
	{ "uprobe", probe_cost_uprobe, 0 },
	{ "uprobe_bpf", probe_cost_uprobe_bpf, 0 },
	{ "int3", probe_cost_int3, 0 },
	{ "poke", probe_cost_poke, 0 },
	{ "membarrier", probe_cost_membarrier, 0 },
	{ "move", probe_cost_move, 0 },
	{ "enable_disable", probe_cost_enable_disable, 0 },
	{ "open_close", probe_cost_open_close, 0 },
	{ "arm_per_thread", probe_cost_arm_per_thread, 0 },
	{ 0 },
};

/* What parent and child share. */
struct share {
	struct probe_result result;
	double ns;
};

/* Signals as in a new program, no core file, and an end however the probe hangs. */
static void child_prepare(int budget_ms)
{
	static const int reset[] = { SIGALRM, SIGCHLD, SIGTRAP, SIGSEGV,
				     SIGBUS,  SIGILL,  SIGFPE,	SIGPIPE };
	const struct rlimit no_core = { 0, 0 };
	struct itimerval limit = { { 0, 0 }, { budget_ms / 1000, budget_ms % 1000 * 1000 } };
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < sizeof(reset) / sizeof(reset[0]); i++)
		signal(reset[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setrlimit(RLIMIT_CORE, &no_core);
	setitimer(ITIMER_REAL, &limit, NULL);
}

/* Wait for pid, killing it when even its own timer did not end it. Returns a wait status.
 */
static int child_wait(pid_t pid, int budget_ms)
{
	int pidfd = (int)sys2(SYS_pidfd_open, pid, 0);
	int status = 0;

	if (pidfd >= 0) {
		struct pollfd p = { .fd = pidfd, .events = POLLIN };
		uint64_t end = clock_now_ns() + (uint64_t)(budget_ms + 500) * 1000000u;
		int n;

		do {
			n = poll(&p, 1, budget_ms + 500);
		} while (n < 0 && errno == EINTR && clock_now_ns() < end);
		if (n <= 0)
			kill(pid, SIGKILL);
		sys_close(pidfd);
		/*
		 * A child that hangs in the kernel is left to the caller's reaper: this function
		 * must return.
		 */
		if (n <= 0 && waitpid(pid, &status, WNOHANG) != pid)
			return SIGKILL;
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return 0;
	}
	return status;
}

static void report_death(struct probe_result *r, int status)
{
	int sig = WTERMSIG(status);

	if (sig == SIGALRM || sig == SIGKILL) {
		probe_no(r, "none known: report it with this output",
			 "the probe did not end in time");
		r->is_measured = 1;
	} else if (sig == SIGTRAP) {
		probe_no(r, "use kernel 5.19 or later (a stable kernel with commit 78ed93d72ded)",
			 "the probe died by signal %d (SIGTRAP was forced)", sig);
	} else {
		probe_no(r, "none known: report it with this output", "the probe died by signal %d",
			 sig);
	}
}

/* Exactly one of p and c is set. */
static int run_child(const struct probe *p, const struct probe_cost *c, int budget_ms,
		     struct share *share)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		child_prepare(budget_ms);
		if (p)
			p->try(&share->result);
		else if (c)
			share->ns = c->measure();
		_exit(0);
	}
	return child_wait(pid, budget_ms);
}

static struct share *share_map(void)
{
	void *p = mmap(NULL, sizeof(struct share), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void run_once(const struct probe *p, int budget_ms, struct probe_result *out)
{
	struct share *share = share_map();

	if (!share) {
		probe_no(out, "free some memory", "not tried: no memory");
		return;
	}
	int status = run_child(p, NULL, budget_ms, share);
	if (status < 0)
		probe_no(out, "allow one more process: ulimit -u", "not tried: fork: %s",
			 strerrorname_np(-status));
	else if (WIFSIGNALED(status))
		report_death(out, status);
	else
		*out = share->result;
	munmap(share, sizeof(*share));
	if (!out->is_ok && !out->is_refused && p->uses_registers && !probe_breakpoints_fire())
		probe_no(out, "use a machine or virtual machine whose debug registers work",
			 "a watchpoint missed a write: the debug registers do not work");
}

/* What a busy machine made of a feature is not an answer. */
static void make_unknown(struct probe_result *r)
{
	char seen[PROBE_TEXT_MAX];

	snprintf(seen, sizeof(seen), "%s", r->evidence);
	probe_no(r, BUSY_REMEDY, "not known, the machine is busy: %.120s", seen);
	r->is_unknown = 1;
}

void probe_run(const struct probe *p, int budget_ms, struct probe_result *out)
{
	const uint64_t end = clock_now_ns() + (uint64_t)(budget_ms > 0 ? budget_ms : 0) * 1000000u;
	struct probe_busy busy;

	if (budget_ms <= 0) {
		probe_no(out, BUSY_REMEDY, "not known, the machine is busy: not tried in time");
		out->is_unknown = 1;
		return;
	}
	if (p->uses_signal && probe_is_rt_before_6_11()) {
		probe_no(out, RT_REMEDY, "not tried: PREEMPT_RT before 6.11 breaks on SIGTRAP");
		return;
	}
	for (int i = 0; i < TRIES && budget_ms > 0; i++) {
		probe_busy_begin(&busy);
		memset(out, 0, sizeof(*out));
		run_once(p, budget_ms, out);
		if (!out->is_measured)
			return;
		budget_ms = (int)((int64_t)(end - clock_now_ns()) / 1000000);
	}
	if (probe_was_busy(&busy))
		make_unknown(out);
}

double probe_measure(const struct probe_cost *c, int budget_ms)
{
	if (budget_ms <= 0 || (c->uses_signal && probe_is_rt_before_6_11()))
		return -1;
	struct share *share = share_map();
	if (!share)
		return -1;
	share->ns = -1;
	int status = run_child(NULL, c, budget_ms, share);
	double ns = status < 0 || WIFSIGNALED(status) ? -1 : share->ns;
	munmap(share, sizeof(*share));
	return ns;
}
