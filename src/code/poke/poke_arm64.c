/* SPDX-License-Identifier: MIT */
/*
 * poke_arm64.c - poke.h where it is not done yet: every call refuses, with the reason.
 *
 * What it would take: 4-byte stores, a brk for all but branches and nops (Arm ARM B2.2.5), and
 * stepping past a brk by emulation or a copy.
 */
#include <errno.h>
#include <string.h>

#include "code/log/code_stream_to.h"
#include "code/poke/poke.h"
#include "code/poke/poke_any_mask.h"
#include "code/poke/region.h"
#include "code/poke/traps.h"

int (*poke_take_trap)(void);

static int refuse(struct code_problem *problem)
{
	problem->why = "changing code under running threads is done on x86-64 only so far; on "
		       "arm64 use hardware breakpoints (trapline_break)";
	return -EOPNOTSUPP;
}

int poke_start(struct code_problem *problem)
{
	return refuse(problem);
}

int poke_commit(const struct trapline_poke_site *sites, size_t n, uint32_t flags, uint32_t writers,
		struct code_problem *problem)
{
	return refuse(problem);
}

int traps_set(const uint64_t *addresses, size_t n, const struct trapline_traps_opts *opts,
	      struct trapline_traps **out, struct code_problem *problem)
{
	return refuse(problem);
}

int traps_hits(const struct trapline_traps *traps, size_t index, uint64_t *nested, uint64_t *out)
{
	return -EOPNOTSUPP;
}

int traps_remove(struct trapline_traps *traps, struct code_problem *problem)
{
	return refuse(problem);
}

int region_alloc(uint64_t near, size_t bytes, void **out, struct code_problem *problem)
{
	return refuse(problem);
}

int region_free(void *code)
{
	return -EOPNOTSUPP;
}

int region_write(void *code, const void *bytes, size_t n, struct code_problem *problem)
{
	return refuse(problem);
}

int poke_set_log(trapline_code_log log, void *arg, struct code_problem *problem)
{
	return refuse(problem);
}

int code_stream_to(int fd, struct code_problem *problem)
{
	return refuse(problem);
}

void code_stream_by_environment(void)
{
}

void poke_read_stats(struct trapline_code_stats *stats)
{
	memset(&stats->batches, 0, sizeof(*stats) - offsetof(struct trapline_code_stats, batches));
}

void poke_before_fork(void)
{
}

void poke_after_fork_in_parent(void)
{
}

void poke_after_fork_in_child(void)
{
}
