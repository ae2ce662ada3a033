/* SPDX-License-Identifier: MIT */
/* window_api.c - the public side of windows: checks arguments and calls down. */
#include <errno.h>
#include <string.h>

#include <trapline/window.h>

#include "base/clock.h"
#include "code/window/window.h"
#include "core/opts_copy.h"

_Static_assert((int)WINDOW_TRAP == (int)TRAPLINE_WINDOW_TRAP, "one list of reasons");

static void set_hooks(const struct trapline_window_opts *opts, struct window_request *request)
{
	struct window_hooks *hooks = &request->hooks;

	request->user_block = opts->on_block;
	request->user_access = opts->on_access;
	request->arg = opts->arg;
	hooks->keeps_vectors = !!(opts->flags & TRAPLINE_WINDOW_GENERAL);
	if (opts->on_block)
		hooks->block = window_block_before;
	if (opts->on_access) {
		hooks->choose = window_access_choose;
		hooks->before = window_access_before;
	}
}

int trapline_window(const struct trapline_window_opts *opts)
{
	const uint32_t flags = TRAPLINE_WINDOW_BLOCKS | TRAPLINE_WINDOW_GENERAL;
	struct trapline_window_opts o = { 0 };
	struct window_request request = { 0 };
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (o.flags & ~flags || o.reserved)
		return -EINVAL;
	request.instructions = o.max_instructions;
	if (o.max_ns)
		request.deadline_ns = clock_now_ns() + o.max_ns;
	request.may_block = !!(o.flags & TRAPLINE_WINDOW_BLOCKS);
	set_hooks(&o, &request);
	return o.context ? window_enter_context(&request, o.context) : window_enter(&request);
}

int trapline_window_end(void)
{
	return window_end();
}

int trapline_window_stats(struct trapline_window_stats *out)
{
	const struct window_area *a = window_own();

	if (!out || out->size < sizeof(*out))
		return -EINVAL;
	if (!a)
		return -ESRCH;
	const struct window_result *r = &a->result;
	const struct trapline_window_stats stats = {
		.size = sizeof(stats),
		.reason = r->reason,
		.pc = r->pc,
		.instructions = r->instructions,
		.translated = r->translated,
		.blocks = r->blocks,
		.flushes = r->flushes,
		.changed = r->changed,
		.system_calls = r->system_calls,
	};
	*out = stats;
	memcpy(out->bytes, r->bytes, sizeof(out->bytes));
	return 0;
}
