/* SPDX-License-Identifier: MIT */
/* branch_arm64.c - branches where code cannot be changed yet: each loads the count of its key. */
#include <errno.h>

#include "base/atomic.h"
#include "code/branch/branch_keys.h"

int branch_add_object(const void *start, const void *end, size_t *due, struct code_problem *problem)
{
	*due = 0;
	return 0;
}

int branch_settle(const void *start, const void *end, struct code_problem *problem)
{
	return 0;
}

void branch_forget_object(const void *start)
{
}

int branch_enable(struct trapline_branch_key *key, struct code_problem *problem)
{
	uint32_t count = atomic_get(&key->count);

	do {
		problem->why = "the key was enabled too often";
		if (count == UINT32_MAX)
			return -EINVAL;
	} while (!atomic_cas(&key->count, &count, count + 1));
	return 0;
}

int branch_disable(struct trapline_branch_key *key, struct code_problem *problem)
{
	uint32_t count = atomic_get(&key->count);

	do {
		problem->why = "the key is off already";
		if (!count)
			return -EINVAL;
	} while (!atomic_cas(&key->count, &count, count - 1));
	return 0;
}

int branch_is_code(void)
{
	return 0;
}

void branch_before_fork(void)
{
}

void branch_after_fork_in_parent(void)
{
}

void branch_after_fork_in_child(void)
{
}
