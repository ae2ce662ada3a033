/* SPDX-License-Identifier: MIT */
/* branch_api.c - the entry points of <trapline/branch.h>: check arguments, call down. */
#include <errno.h>

#include <trapline/code.h>

#include "code/branch/branch_keys.h"
#include "core/code_start.h"
#include "core/explain.h"

static int change(struct trapline_branch_key *key,
		  int (*by)(struct trapline_branch_key *, struct code_problem *))
{
	struct code_problem problem = { NULL, 0 };
	int err = key ? 0 : failed(-EINVAL, FAILED_ARGUMENT, "the key is NULL");

	if (!err)
		err = code_start();
	if (err)
		return err;
	err = by(key, &problem);
	return err ? failed(err, FAILED_CODE, problem.why) : 0;
}

TRAPLINE_API int trapline_branch_enable(struct trapline_branch_key *key)
{
	return change(key, branch_enable);
}

TRAPLINE_API int trapline_branch_disable(struct trapline_branch_key *key)
{
	return change(key, branch_disable);
}

/* SIGTRAP stays the program's until a branch has to change. */
TRAPLINE_API int trapline_branch_register(const void *start, const void *end)
{
	struct code_problem problem = { NULL, 0 };
	size_t due = 0;

	if (start == end)
		return 0;
	code_add_fork_handlers();
	int err = branch_add_object(start, end, &due, &problem);

	if (!err && due)
		err = code_start();
	if (!err && due)
		err = branch_settle(start, end, &problem);
	return err ? failed(err, FAILED_CODE, problem.why) : 0;
}

TRAPLINE_API void trapline_branch_unregister(const void *start)
{
	branch_forget_object(start);
}
