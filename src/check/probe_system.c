/* SPDX-License-Identifier: MIT */
/* probe_system.c - what surrounds us: a real-time kernel, filters, capabilities. */
#include "check/probe_system.h"
#include "check/probe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/sys.h"

void probe_preempt_rt_safe(struct probe_result *r)
{
	struct utsname u;
	int is_rt = !uname(&u) && strstr(u.version, "PREEMPT_RT");

	probe_say(r, !probe_is_rt_before_6_11(),
		  "use kernel 6.11 or later, or one without PREEMPT_RT", "%s, kernel %.100s",
		  is_rt ? "PREEMPT_RT" : "not PREEMPT_RT", u.release);
}

/* A filter shows by an errno that the kernel itself does not give here. */
void probe_seccomp(struct probe_result *r)
{
	struct perf_event_attr attr;
	union bpf_attr battr;
	int mode = probe_seccomp_mode();

	probe_attr_counter(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0);
	int perf = probe_open(&attr, 0, -1);
	/*
	 * An unknown command is EINVAL to users that may use bpf at all, EPERM to others.
	 */
	memset(&battr, 0, sizeof(battr));
	int bpf = sys_bpf(9999, &battr, sizeof(battr));
	int may_bpf = probe_has_cap(CAP_BPF) || probe_has_cap(CAP_SYS_ADMIN);
	int is_blocked = perf == -EPERM || perf == -ENOSYS || bpf == -ENOSYS ||
			 (bpf == -EPERM && may_bpf);
	probe_say(r, !is_blocked,
		  mode ? "docker run --cap-add PERFMON --cap-add BPF, or --security-opt "
			 "seccomp=unconfined" :
			 "allow it in the security module or lockdown that refuses it",
		  "mode %d; perf_event_open %s, bpf %s", mode,
		  perf < 0 ? strerrorname_np(-perf) : "answered",
		  bpf == -EINVAL ? "answered" : strerrorname_np(-bpf));
}

void probe_capabilities(struct probe_result *r)
{
	static const struct {
		int cap;
		const char *name;
	} wanted[] = {
		{ CAP_PERFMON, "PERFMON" },	  { CAP_BPF, "BPF" },
		{ CAP_SYS_ADMIN, "SYS_ADMIN" },	  { CAP_KILL, "KILL" },
		{ CAP_SYS_PTRACE, "SYS_PTRACE" },
	};
	char have[PROBE_TEXT_MAX] = "";
	char lack[PROBE_TEXT_MAX] = "";

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		char *list = probe_has_cap(wanted[i].cap) ? have : lack;
		size_t used = strlen(list);

		snprintf(list + used, PROBE_TEXT_MAX - used, "%s%s", used ? " " : "",
			 wanted[i].name);
	}
	probe_say(r, !lack[0],
		  "needed only for BPF, uprobes and other users' processes: run as root",
		  "%s%s%s%s%s", probe_is_in_user_namespace() ? "user namespace; " : "",
		  have[0] ? "effective: " : "none effective", have, lack[0] ? "; missing: " : "",
		  lack);
}
