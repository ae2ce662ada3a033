/* SPDX-License-Identifier: MIT */
/* probe_util.h - what the probes share. */
#ifndef CHECK_PROBE_UTIL_H
#define CHECK_PROBE_UTIL_H

#include "base/clock.h"
#include "check/probe.h"
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/types.h>

/* How often each probe does its access. */
#define PROBE_HITS 20

__attribute__((format(printf, 2, 3))) void probe_yes(struct probe_result *r, const char *fmt, ...);
/* Each "no" has a remedy, or states that no remedy exists. */
__attribute__((format(printf, 3, 4))) void probe_no(struct probe_result *r, const char *remedy,
						    const char *fmt, ...);
/* ok decides which of the two. */
__attribute__((format(printf, 4, 5))) void probe_say(struct probe_result *r, int ok,
						     const char *remedy, const char *fmt, ...);
/* perf_event_open stated err (negative). paranoid is the highest level at which it would
 * work. */
void probe_refused(struct probe_result *r, int err, const char *tried, int paranoid);
/* bpf(2) stated err. */
void probe_bpf_refused(struct probe_result *r, int err, const char *tried);

/* Facts about this process. */
int probe_read_number(const char *path, int otherwise);
int probe_paranoid(void); /* -2 when unreadable */
int probe_is_in_user_namespace(void);
int probe_has_cap(int cap); /* effective, and of the initial user namespace */
int probe_is_rt_before_6_11(void);
int probe_seccomp_mode(void);
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

#endif
