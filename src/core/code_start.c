/* SPDX-License-Identifier: MIT */
/* code_start.c - see code_start.h. */
#include "core/code_start.h"

#include <errno.h>
#include <pthread.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "code/branch/branch_keys.h"
#include "code/log/code_stream_to.h"
#include "code/poke/poke.h"
#include "code/poke/poke_any_mask.h"
#include "core/explain.h"
#include "trap/install.h"

/* The lock of branches first: a thread that switches one takes the other lock inside. */
AT_FORK static void before_fork(void)
{
	branch_before_fork();
	poke_before_fork();
}

AT_FORK static void after_fork_in_parent(void)
{
	poke_after_fork_in_parent();
	branch_after_fork_in_parent();
}

AT_FORK static void after_fork_in_child(void)
{
	poke_after_fork_in_child();
	branch_after_fork_in_child();
}

static void add_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void code_add_fork_handlers(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, add_fork_handlers);
}

int code_prepare(void)
{
	static pthread_once_t environment = PTHREAD_ONCE_INIT;
	struct code_problem problem = { NULL, 0 };
	int err = poke_start(&problem);

	if (err)
		return failed(err, FAILED_CODE, problem.why);
	atomic_set(&poke_take_trap, trap_install);
	code_add_fork_handlers();
	pthread_once(&environment, code_stream_by_environment);
	return 0;
}

int code_start(void)
{
	int err = code_prepare();

	if (err)
		return err;
	err = trap_install();
	return err ? failed(err, FAILED_CODE, "cannot handle SIGTRAP") : 0;
}
