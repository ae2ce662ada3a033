/* SPDX-License-Identifier: MIT */
/* code_api.c - the entry points of <trapline/code.h>: check arguments, call down. */
#include <errno.h>
#include <string.h>

#include <trapline/code.h>

#include "code/poke/poke.h"
#include "code/poke/region.h"
#include "code/poke/traps.h"
#include "core/code_start.h"
#include "core/create.h"
#include "core/explain.h"
#include "core/open.h"
#include "core/opts_copy.h"

#define WRITERS (TRAPLINE_WRITE_ALIAS | TRAPLINE_WRITE_MEM | TRAPLINE_WRITE_MPROTECT)
#define POKE_FLAGS (TRAPLINE_POKE_SPIN | TRAPLINE_POKE_SINGLE_STORE | TRAPLINE_POKE_QUIESCENT)

static int tell(int err, const struct code_problem *problem, size_t *failed_site)
{
	if (!err)
		return 0;
	if (failed_site)
		*failed_site = problem->site;
	return failed(err, FAILED_CODE, problem->why);
}

TRAPLINE_API int trapline_poke(const struct trapline_poke_site *sites, size_t n,
			       const struct trapline_poke_opts *opts)
{
	struct code_problem problem = { NULL, 0 };
	struct trapline_poke_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (!sites || !n)
		return failed(-EINVAL, FAILED_ARGUMENT, "no sites");
	if (o.flags & ~POKE_FLAGS || o.writers & ~(WRITERS | TRAPLINE_WRITE_EXCHANGE))
		return failed(-EINVAL, FAILED_ARGUMENT, "unknown flag or writer");
	if (o.flags & TRAPLINE_POKE_SPIN && o.flags & TRAPLINE_POKE_SINGLE_STORE)
		return failed(-EINVAL, FAILED_ARGUMENT, "spin and single store exclude each other");
	err = code_start();
	if (err)
		return err;
	err = poke_commit(sites, n, o.flags, o.writers, &problem);
	return tell(err, &problem, o.failed);
}

TRAPLINE_API int trapline_traps_set(const uint64_t *addresses, size_t n,
				    const struct trapline_traps_opts *opts,
				    struct trapline_traps **out)
{
	struct trapline_traps_opts o;
	struct code_problem problem = { NULL, 0 };
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (!addresses || !n || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "no addresses, or out is NULL");
	if (o.flags & ~(uint32_t)TRAPLINE_TRAPS_ANY_MASK || o.writers & ~WRITERS)
		return failed(-EINVAL, FAILED_ARGUMENT, "unknown flag or writer");
	err = code_start();
	if (err)
		return err;
	err = traps_set(addresses, n, &o, out, &problem);
	return tell(err, &problem, o.failed);
}

TRAPLINE_API int trapline_traps_hits(const struct trapline_traps *traps, size_t index,
				     uint64_t *nested, uint64_t *out)
{
	return traps && out ? traps_hits(traps, index, nested, out) : -EINVAL;
}

TRAPLINE_API int trapline_traps_remove(struct trapline_traps *traps)
{
	struct code_problem problem = { NULL, 0 };

	return traps ? tell(traps_remove(traps, &problem), &problem, NULL) : 0;
}

TRAPLINE_API int trapline_code_alloc(uint64_t near, size_t bytes, void **out)
{
	struct code_problem problem = { NULL, 0 };

	if (!bytes || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "no bytes, or out is NULL");
	int err = code_start();
	if (err)
		return err;
	return tell(region_alloc(near, bytes, out, &problem), &problem, NULL);
}

TRAPLINE_API int trapline_code_free(void *code)
{
	struct code_problem problem = { "not the start of memory from trapline_code_alloc()", 0 };

	return code ? tell(region_free(code), &problem, NULL) : 0;
}

TRAPLINE_API int trapline_code_write(void *code, const void *bytes, size_t n)
{
	struct code_problem problem = { NULL, 0 };

	if (!code || !bytes)
		return failed(-EINVAL, FAILED_ARGUMENT, "code or bytes is NULL");
	return tell(region_write(code, bytes, n, &problem), &problem, NULL);
}

TRAPLINE_API int trapline_code_stats(struct trapline_code_stats *stats)
{
	if (!stats || stats->size < sizeof(*stats))
		return failed(-EINVAL, FAILED_ARGUMENT, "stats.size is not set");
	poke_read_stats(stats);
	return 0;
}

TRAPLINE_API int trapline_log_code(trapline_code_log log, void *arg)
{
	struct code_problem problem = { NULL, 0 };
	int err = code_start();

	return err ? err : tell(poke_set_log(log, arg, &problem), &problem, NULL);
}

TRAPLINE_API int trapline_probe(struct trapline *t, uint64_t address,
				const struct trapline_event_opts *opts, struct trapline_event **out)
{
	struct wish wish = { .addr = address, .access = TRAPLINE_EXECUTE, .in_code = 1 };
	struct trapline_event_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (!o.callback && (o.stack_depth || o.count_of))
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "stack_depth and count_of of a probe need a callback");
	if (o.scope != TRAPLINE_PROCESS || o.filter_fd || o.texts || o.memory_count ||
	    o.flags & ~(TRAPLINE_DISABLED | TRAPLINE_NO_VALUES))
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "a probe covers all threads of this process, and takes neither "
			      "filter_fd, texts, memory nor flags but TRAPLINE_DISABLED");
	return event_create(t, &wish, opts, out);
}
