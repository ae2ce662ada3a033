/* SPDX-License-Identifier: MIT */
/* probe_util.c - what several probes share: texts, facts about the process, attributes.
 */
#include "check/probe_util.h"
#include "check/probe.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include <linux/hw_breakpoint.h>

#include "base/sys.h"
#include "check/probe_arch.h"

/* glibc before 2.37 has neither TRAP_PERF nor the members; the layout is LP64 kernel ABI.
 */
#define SI_CODE_TRAP_PERF 6
#define SI_OFFSET_DATA 24
#define SI_OFFSET_TYPE 32
#define SI_OFFSET_FLAGS 36
#define TRAP_FLAG_ASYNC 1u

__asm__(PROBE_SITE_ASM);

struct probe_trap probe_trap;
volatile uint64_t probe_word __attribute__((aligned(64)));

void probe_yes(struct probe_result *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->evidence, sizeof(r->evidence), fmt, ap);
	va_end(ap);
	r->remedy[0] = '\0';
	r->is_ok = 1;
}

void probe_no(struct probe_result *r, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->evidence, sizeof(r->evidence), fmt, ap);
	va_end(ap);
	snprintf(r->remedy, sizeof(r->remedy), "%s", remedy);
	r->is_ok = 0;
}

void probe_say(struct probe_result *r, int ok, const char *remedy, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->evidence, sizeof(r->evidence), fmt, ap);
	va_end(ap);
	snprintf(r->remedy, sizeof(r->remedy), "%s", ok ? "" : remedy);
	r->is_ok = ok;
	r->is_measured = !ok;
}

static void remedy_for_paranoid(char *remedy, int paranoid)
{
	int now = probe_paranoid();

	if (now <= paranoid)
		snprintf(remedy, PROBE_TEXT_MAX,
			 "perf_event_paranoid is %d, which allows it: look for a security "
			 "module (SELinux perf_event) or seccomp filter",
			 now);
	else
		/* The Debian patch checks CAP_SYS_ADMIN at 3 and above, not CAP_PERFMON.
		 */
		snprintf(remedy, PROBE_TEXT_MAX,
			 "sysctl kernel.perf_event_paranoid=%d (it is %d), or give "
			 "CAP_%s%s",
			 paranoid, now, now >= 3 ? "SYS_ADMIN" : "PERFMON",
			 probe_is_in_user_namespace() ? " outside user namespaces" : "");
}

static const char *remedy_for_error(int err)
{
	switch (-err) {
	case EPERM:
	case ENOSYS:
		if (probe_seccomp_mode() == 2)
			return "a seccomp filter blocks perf_event_open: docker run "
			       "--cap-add "
			       "PERFMON or --security-opt seccomp=unconfined";
		return "a security module, or a kernel without CONFIG_PERF_EVENTS, refuses "
		       "perf_event_open: allow it there, or use another kernel";
	case E2BIG:
	case EINVAL:
		return "use kernel 5.13 or later";
	case ENOSPC:
		return "end the debugger or perf session that uses the debug registers";
	case EMFILE:
		return "raise the limit of open files: ulimit -n";
	default:
		return "use another machine: this processor or virtual machine lacks it";
	}
}

/* EACCES is the kernel's own rule; EPERM and ENOSYS for an own event come from a filter.
 */
void probe_refused(struct probe_result *r, int err, const char *tried, int paranoid)
{
	char remedy[PROBE_TEXT_MAX];

	if (err == -EACCES)
		remedy_for_paranoid(remedy, paranoid);
	else
		snprintf(remedy, sizeof(remedy), "%s", remedy_for_error(err));
	probe_no(r, remedy, "%s: %s", tried, strerrorname_np(-err));
	r->is_refused = 1;
}

void probe_bpf_refused(struct probe_result *r, int err, const char *tried)
{
	int has_caps = probe_has_cap(CAP_SYS_ADMIN) ||
		       (probe_has_cap(CAP_BPF) && probe_has_cap(CAP_PERFMON));
	const char *remedy;

	if ((err == -EPERM || err == -EACCES) && probe_is_in_user_namespace())
		remedy = "capabilities of a user namespace do not count: give CAP_BPF and "
			 "CAP_PERFMON outside it";
	else if ((err == -EPERM || err == -EACCES) && !has_caps)
		remedy = "run as root, or give CAP_BPF and CAP_PERFMON: setcap "
			 "cap_bpf,cap_perfmon+ep on the program";
	else if ((err == -EPERM || err == -ENOSYS) && probe_seccomp_mode() == 2)
		remedy = "a seccomp filter blocks bpf(): docker run --cap-add BPF "
			 "--cap-add PERFMON "
			 "or --security-opt seccomp=unconfined";
	else if (err == -EPERM)
		remedy = "a security module or lockdown refuses bpf(): see "
			 "/sys/kernel/security/lockdown";
	else if (err == -ENOSYS)
		remedy = "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS";
	else
		remedy = "use kernel 5.15 or later, for vetoes 6.10";
	probe_no(r, remedy, "%s: %s", tried, strerrorname_np(-err));
	r->is_refused = 1;
}

int probe_read_number(const char *path, int otherwise)
{
	FILE *f = fopen(path, "re");

	if (!f)
		return otherwise;
	int n;
	int got = fscanf(f, "%d", &n);
	fclose(f);
	return got == 1 ? n : otherwise;
}

int probe_paranoid(void)
{
	return probe_read_number("/proc/sys/kernel/perf_event_paranoid", -2);
}

/* key with its colon; returns 0 or -ENOENT. */
static int status_field(const char *key, char *out, size_t n)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	int err = -ENOENT;

	if (!f)
		return err;
	while (err && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)))
			continue;
		const char *value = line + strlen(key);
		value += strspn(value, " \t");
		snprintf(out, n, "%.*s", (int)strcspn(value, "\n"), value);
		err = 0;
	}
	fclose(f);
	return err;
}

/* A user namespace other than the initial one does not map all of the user ids. */
int probe_is_in_user_namespace(void)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long long inside;
	unsigned long long outside;
	unsigned long long count;

	if (!f)
		return 0;
	int got = fscanf(f, "%llu %llu %llu", &inside, &outside, &count);
	fclose(f);
	return got == 3 && (outside != 0 || count != 4294967295u);
}

int probe_has_cap(int cap)
{
	char value[32];

	/* perfmon_capable() and bpf_capable() ask the initial namespace. */
	if (probe_is_in_user_namespace())
		return 0;
	if (status_field("CapEff:", value, sizeof(value)))
		return 0;
	return strtoull(value, NULL, 16) >> cap & 1;
}

int probe_seccomp_mode(void)
{
	char value[32];

	if (status_field("Seccomp:", value, sizeof(value)))
		return 0;
	return atoi(value);
}

/* x86-64 processors report a hypervisor to their guests. */
int probe_is_virtual(void)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[8192];
	int is_virtual = 0;

	while (f && !is_virtual && fgets(line, sizeof(line), f))
		is_virtual = !strncmp(line, "flags", 5) && strstr(line, " hypervisor") != NULL;
	if (f)
		fclose(f);
	return is_virtual;
}

/*
 * The one question asked of a version: there, trying is what does the damage. SIGTRAP was
 * sent from an irq_work with a sleeping lock until Linux commit c5d93d23a260, v6.11.
 */
int probe_is_rt_before_6_11(void)
{
	struct utsname u;
	int major;
	int minor;

	if (uname(&u) || !strstr(u.version, "PREEMPT_RT"))
		return 0;
	if (sscanf(u.release, "%d.%d", &major, &minor) != 2)
		return 0;
	return major < 6 || (major == 6 && minor < 11);
}

static void on_trap(int signo, siginfo_t *si, void *context)
{
	const char *raw = (const char *)si;
	uint64_t data;
	uint32_t type;
	uint32_t flags;

	(void)signo;
	if (si->si_code != SI_CODE_TRAP_PERF) {
		probe_trap.others++;
		probe_step_past_trap(context);
		return;
	}
	memcpy(&data, raw + SI_OFFSET_DATA, sizeof(data));
	memcpy(&type, raw + SI_OFFSET_TYPE, sizeof(type));
	memcpy(&flags, raw + SI_OFFSET_FLAGS, sizeof(flags));
	probe_trap.data = data;
	probe_trap.type = type;
	probe_trap.flags = flags;
	probe_trap.addr = (uintptr_t)si->si_addr;
	probe_trap.tid = sys_gettid();
	probe_trap.signals++;
	if (type == PERF_TYPE_BREAKPOINT && !(flags & TRAP_FLAG_ASYNC))
		probe_step_past(context);
}

void probe_catch(void)
{
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigaction(SIGTRAP, &sa, NULL);
}

void probe_attr_counting(struct perf_event_attr *attr, const volatile void *addr, uint32_t type,
			 uint64_t len)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->type = PERF_TYPE_BREAKPOINT;
	attr->bp_type = type;
	attr->bp_addr = (uintptr_t)addr;
	attr->bp_len = type == HW_BREAKPOINT_X ? sizeof(long) : len;
	attr->exclude_kernel = 1;
	attr->exclude_hv = 1;
}

void probe_attr(struct perf_event_attr *attr, const volatile void *addr, uint32_t type,
		uint64_t len)
{
	probe_attr_counting(attr, addr, type, len);
	attr->sample_period = 1;
	attr->sigtrap = 1;
	attr->remove_on_exec = 1;
	attr->sig_data = 0x7a70;
}

void probe_attr_counter(struct perf_event_attr *attr, uint32_t type, uint64_t config,
			uint64_t period)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->type = type;
	attr->config = config;
	attr->exclude_kernel = 1;
	attr->exclude_hv = 1;
	if (!period)
		return;
	attr->sample_period = period;
	attr->sigtrap = 1;
	attr->remove_on_exec = 1;
}

int probe_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	attr->size = sizeof(*attr);
	return sys_perf_event_open(attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

uint64_t probe_count(int fd)
{
	uint64_t n = 0;

	if (sys_read(fd, &n, sizeof(n)) != sizeof(n))
		return 0;
	return n;
}

void probe_write_word(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		probe_store(&probe_word, 8, i);
}
