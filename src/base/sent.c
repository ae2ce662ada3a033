/* SPDX-License-Identifier: MIT */
/* sent.c - see sent.h. A thread's own, and its handlers nest: plain accesses in this order do. */
#include "base/sent.h"

#include <stddef.h>

#include "base/sys.h"
#include "base/trap_path.h"

static __thread struct sent_hold *held __attribute__((tls_model("initial-exec")));

TRAP_PATH void sent_hold(struct sent_hold *hold)
{
	hold->outer = held;
	hold->count = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	held = hold;
}

TRAP_PATH void sent_let(struct sent_hold *hold)
{
	held = hold->outer;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < hold->count; i++)
		sent_again(&hold->infos[i]);
}

/* To the process, unless it was sent to this thread alone. */
TRAP_PATH void sent_again(const siginfo_t *info)
{
	pid_t pid = sys_getpid();
	pid_t tid = sys_gettid();

	if (info->si_code == SI_TKILL || info->si_code > 0) {
		sys4(SYS_rt_tgsigqueueinfo, pid, tid, info->si_signo, info);
	} else if (sys3(SYS_rt_sigqueueinfo, pid, info->si_signo, info)) {
		/* kill(2) is forged by the first thread only. */
		siginfo_t like = *info;

		like.si_code = SI_QUEUE;
		if (info->si_pid == pid || sys3(SYS_rt_sigqueueinfo, pid, info->si_signo, &like))
			sys2(SYS_kill, pid, info->si_signo);
	}
}

TRAP_PATH int sent_waits(const siginfo_t *info)
{
	struct sent_hold *hold = held;

	if (!hold)
		return 0;
	for (uint32_t i = 0; i < hold->count; i++)
		if (hold->infos[i].si_signo == info->si_signo)
			return 1;
	if (hold->count < SENT_MOST)
		hold->infos[hold->count++] = *info;
	return 1;
}
