/* SPDX-License-Identifier: MIT */
/* safepoint_api.c - public functions that check their arguments and call down. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/explain.h"
#include "core/opts_copy.h"
#include "safepoint/safepoint_backend.h"
#include "safepoint/safepoint_domain.h"
#include "safepoint/safepoint_sites.h"
#include "safepoint/safepoint_stop.h"
#include "safepoint/safepoint_threads.h"
#include "safepoint/safepoint_wait.h"

static int check_opts(struct trapline_safepoint_opts *o)
{
	if (!o->backend)
		o->backend = TRAPLINE_SAFEPOINT_BY_POLL;
	if (o->backend > TRAPLINE_SAFEPOINT_BY_SIGNAL)
		return failed(-EINVAL, FAILED_ARGUMENT, "unknown back end");
	if (o->flags & ~TRAPLINE_SAFEPOINT_INT3 ||
	    (o->flags && o->backend != TRAPLINE_SAFEPOINT_BY_POKE))
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "unknown flag, or TRAPLINE_SAFEPOINT_INT3 without the poke back end");
	if ((o->address || o->length) && o->backend != TRAPLINE_SAFEPOINT_BY_WATCH)
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "address and length are for the watch back end");
	if (o->signal && o->backend != TRAPLINE_SAFEPOINT_BY_SIGNAL)
		return failed(-EINVAL, FAILED_ARGUMENT, "signal is for the signal back end");
	return 0;
}

TRAPLINE_API int trapline_safepoint_open(const struct trapline_safepoint_opts *opts,
					 struct trapline_safepoint **out)
{
	struct trapline_safepoint_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (!err)
		err = check_opts(&o);
	if (err)
		return err;
	if (!out)
		return failed(-EINVAL, FAILED_ARGUMENT, "out is NULL");
	struct trapline_safepoint *domain = calloc(1, sizeof(*domain));
	if (!domain)
		return failed(-ENOMEM, FAILED_ARGUMENT, NULL);
	domain->backend = o.backend;
	domain->flags = o.flags;
	domain->address = o.address;
	domain->length = o.length;
	domain->signal = o.signal;
	err = threads_start();
	if (!err)
		err = backend_open(domain);
	if (err) {
		free(domain);
		return err;
	}
	threads_add_domain(domain);
	*out = domain;
	return 0;
}

TRAPLINE_API int trapline_safepoint_close(struct trapline_safepoint *domain)
{
	if (!domain)
		return 0;
	if (threads_remove_domain(domain))
		return failed(
			-EBUSY, FAILED_CODE,
			"a thread of the domain is registered, or a stop lasts; unregister the "
			"threads first");
	backend_close(domain);
	free(domain);
	return 0;
}

TRAPLINE_API int trapline_safepoint_register(struct trapline_safepoint *domain, void *user)
{
	return domain ? threads_register(domain, user) :
			failed(-EINVAL, FAILED_ARGUMENT, "domain is NULL");
}

TRAPLINE_API int trapline_safepoint_unregister(void)
{
	if (safepoint_self.inside)
		return failed(-EDEADLK, FAILED_CODE,
			      "the call comes from a handshake, or a signal handler that "
			      "interrupted the library");
	int err = threads_unregister();

	return err == -EPERM ? failed(err, FAILED_CODE, "the thread is not registered") : err;
}

TRAPLINE_API int trapline_safepoint_stats(struct trapline_safepoint *domain,
					  struct trapline_safepoint_stats *out)
{
	struct trapline_safepoint_stats s;
	size_t size = out->size;

	if (!domain || size < sizeof(size_t) || size > sizeof(s))
		return failed(-EINVAL, FAILED_ARGUMENT, "domain is NULL, or size");
	lock_take(&domain->list, safepoint_tid(), NO_DEADLINE);
	stop_note_last(domain);
	s = domain->stats;
	for (struct safepoint_thread *t = domain->threads; t; t = t->next)
		s.threads += atomic_get(t->state) != SAFEPOINT_GONE;
	lock_give(&domain->list);
	s.size = size;
	s.sites = domain->backend == TRAPLINE_SAFEPOINT_BY_POKE ? sites_count() : 0;
	memcpy(out, &s, size);
	return 0;
}
