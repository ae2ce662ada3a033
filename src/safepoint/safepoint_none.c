/* SPDX-License-Identifier: MIT */
/* safepoint_none.c - every call refuses, on processors for which this is not done. */
#define TRAPLINE_SAFEPOINT_NO_SITES
#include <errno.h>

#include <trapline/safepoint.h>

#include "core/explain.h"

__thread uint32_t trapline_safepoint_wanted __attribute__((tls_model("initial-exec")));

static int refuse(void)
{
	return failed(-EOPNOTSUPP, FAILED_CODE, "safepoints are done on x86-64 only");
}

TRAPLINE_API int trapline_safepoint_open(const struct trapline_safepoint_opts *opts,
					 struct trapline_safepoint **out)
{
	return refuse();
}

TRAPLINE_API int trapline_safepoint_close(struct trapline_safepoint *domain)
{
	return domain ? refuse() : 0;
}

TRAPLINE_API int trapline_safepoint_register(struct trapline_safepoint *domain, void *user)
{
	return refuse();
}

TRAPLINE_API int trapline_safepoint_unregister(void)
{
	return refuse();
}

TRAPLINE_API int trapline_safepoint_enter_native(void)
{
	return refuse();
}

TRAPLINE_API int trapline_safepoint_leave_native(void)
{
	return refuse();
}

TRAPLINE_API int trapline_safepoint_stop(struct trapline_safepoint *domain, int timeout_ms,
					 trapline_safepoint_visitor visitor, void *arg)
{
	return refuse();
}

TRAPLINE_API int trapline_safepoint_resume(struct trapline_safepoint *domain)
{
	return refuse();
}

TRAPLINE_API int trapline_safepoint_handshake(struct trapline_safepoint *domain, pid_t tid,
					      int timeout_ms, trapline_safepoint_function function,
					      void *arg)
{
	return refuse();
}

TRAPLINE_API int trapline_safepoint_stats(struct trapline_safepoint *domain,
					  struct trapline_safepoint_stats *out)
{
	return refuse();
}

TRAPLINE_API void trapline_safepoint_arrive(void)
{
}

TRAPLINE_API void trapline_safepoint_sites(const struct trapline_safepoint_site *begin,
					   const struct trapline_safepoint_site *end, int is_loaded)
{
}
