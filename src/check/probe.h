/* SPDX-License-Identifier: MIT */
/*
 * probe.h - tries what this kernel, user and container allow, and measures what it costs.
 *
 * Each probe and each measurement runs in a forked child of its own: a feature that
 * kills, hangs or changes signal handling does so there. Results come back in shared
 * memory, so that they survive the child. Nothing here runs on the trap path of a user's
 * events.
 */
#ifndef CHECK_PROBE_H
#define CHECK_PROBE_H

#include "base/clock.h"

#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/types.h>

#define PROBE_TEXT_MAX 160

struct probe_result {
	int is_ok;
	int is_refused; /* a call that it needs was: the reason is its own */
	char evidence[PROBE_TEXT_MAX];
	char remedy[PROBE_TEXT_MAX];
};

struct probe {
	const char *name;
	void (*try)(struct probe_result *r);
	/* 1: not run where SIGTRAP from events is known to break the kernel. */
	int uses_signal;
	/* 1: fails without a reason of its own where breakpoints do not fire. */
	int uses_registers;
};

/* measure() returns nanoseconds, or a negative number when it cannot be done here. */
struct probe_cost {
	const char *name;
	double (*measure)(void);
	int uses_signal;
};

/* The tables end with a NULL name. */
extern const struct probe probe_table[];
extern const struct probe_cost probe_cost_table[];

/* Run one row in a child. budget_ms is how long it may take. */
void probe_run(const struct probe *p, int budget_ms, struct probe_result *out);
double probe_measure(const struct probe_cost *c, int budget_ms);

/* --- for the probes themselves --- */

/* How often each probe does its access. */
#define PROBE_HITS 20

__attribute__((format(printf, 2, 3))) void probe_yes(struct probe_result *r, const char *fmt, ...);
/* Each "no" has a remedy, or says that there is none. */
__attribute__((format(printf, 3, 4))) void probe_no(struct probe_result *r, const char *remedy,
						    const char *fmt, ...);
/* ok decides which of the two. */
__attribute__((format(printf, 4, 5))) void probe_say(struct probe_result *r, int ok,
						     const char *remedy, const char *fmt, ...);
/* perf_event_open said err (negative). paranoid is the highest level at which it would
 * work. */
void probe_refused(struct probe_result *r, int err, const char *tried, int paranoid);
/* bpf(2) said err. */
void probe_bpf_refused(struct probe_result *r, int err, const char *tried);

/* Facts about this process. */
int probe_read_number(const char *path, int otherwise);
int probe_paranoid(void); /* -2 when unreadable */
int probe_is_in_user_namespace(void);
int probe_has_cap(int cap); /* effective, and of the initial user namespace */
int probe_is_rt_before_6_11(void);
int probe_seccomp_mode(void);
/*
 * 0 if a watchpoint of this thread misses a write: tried once in each process, in some 20 us. 1 also if
 * none can be opened.
 */
int probe_breakpoints_fire(void);
int probe_is_virtual(void);
/* `this virtual machine has no hardware counters (PMU)`, and the remedy. */
const char *probe_no_pmu(const char **remedy);

/* What the SIGTRAP handler of a probe saw. */
struct probe_trap {
	volatile uint32_t signals; /* si_code TRAP_PERF */
	volatile uint32_t others;
	volatile uint32_t type;
	volatile uint32_t flags;
	volatile uint64_t data;
	volatile uint64_t addr;
	volatile pid_t tid;
};
extern struct probe_trap probe_trap;
void probe_catch(void); /* installs the handler */

/* A data watch or breakpoint of this thread, raising SIGTRAP, exclude_kernel, enabled. */
void probe_attr(struct perf_event_attr *attr, const volatile void *addr, uint32_t type,
		uint64_t len);
/* The same without the signal: it only counts. */
void probe_attr_counting(struct perf_event_attr *attr, const volatile void *addr, uint32_t type,
			 uint64_t len);
/* A software or hardware counter; period 0 only counts, else SIGTRAP. */
void probe_attr_counter(struct perf_event_attr *attr, uint32_t type, uint64_t config,
			uint64_t period);
int probe_open(struct perf_event_attr *attr, pid_t pid, int cpu);
uint64_t probe_count(int fd);

/* n calls of an action, timed; the median of several batches, per call. */
double probe_median(void (*action)(void *arg), void *arg, unsigned int n);

/* The variable that probes watch, alone in its cache line. */
extern volatile uint64_t probe_word;
void probe_write_word(unsigned int times);

/* probe_event.c */
void probe_perf_event_open(struct probe_result *r);
void probe_sigtrap(struct probe_result *r);
void probe_sigtrap_blocked(struct probe_result *r);
void probe_inherit_thread(struct probe_result *r);
void probe_move(struct probe_result *r);
void probe_signal_generation(struct probe_result *r);
void probe_access_in_syscalls(struct probe_result *r);
void probe_cpu_wide(struct probe_result *r);

/* probe_process.c */
void probe_remove_on_exec(struct probe_result *r);
void probe_other_process(struct probe_result *r);
void probe_other_process_signal(struct probe_result *r);

/* probe_slots.c */
void probe_watchpoint_slots(struct probe_result *r);
void probe_watch_write(struct probe_result *r);
void probe_watch_read_write(struct probe_result *r);
void probe_watch_read_only(struct probe_result *r);
void probe_watch_lengths(struct probe_result *r);
void probe_watch_together(struct probe_result *r);
void probe_break_execute(struct probe_result *r);

/* probe_counter.c */
void probe_counter_task_clock(struct probe_result *r);
void probe_counter_page_faults(struct probe_result *r);
void probe_pmu_instructions(struct probe_result *r);
void probe_pmu_cycles(struct probe_result *r);
void probe_pmu_branches(struct probe_result *r);
void probe_overflow_signals(struct probe_result *r);
void probe_pmu_overflow(struct probe_result *r);

/* probe_bpf.c */
void probe_bpf_condition(struct probe_result *r);
void probe_bpf_veto(struct probe_result *r);
void probe_bpf_task_storage(struct probe_result *r);
void probe_bpf_ringbuf(struct probe_result *r);
double probe_cost_bpf_reject(void);
double probe_cost_bpf_record(void);

/* probe_uprobe.c */
void probe_uprobe(struct probe_result *r);
void probe_uprobe_multi(struct probe_result *r);
double probe_cost_uprobe(void);
double probe_cost_uprobe_bpf(void);

/* probe_code.c */
void probe_membarrier_sync_core(struct probe_result *r);
void probe_patch_text(struct probe_result *r);
void probe_text_by_mem(struct probe_result *r);
void probe_text_by_tracee(struct probe_result *r);
void probe_text_by_mprotect(struct probe_result *r);
double probe_cost_int3(void);
double probe_cost_membarrier(void);
double probe_cost_poke(void);

/* probe_system.c */
void probe_preempt_rt_safe(struct probe_result *r);
void probe_seccomp(struct probe_result *r);
void probe_capabilities(struct probe_result *r);

/* probe_cost.c */
double probe_cost_clock(void);
double probe_cost_syscall(void);
double probe_cost_hardware_trap(void);
double probe_cost_signal(void);
double probe_cost_move(void);
double probe_cost_enable_disable(void);
double probe_cost_open_close(void);
double probe_cost_arm_per_thread(void);

#endif
