/* SPDX-License-Identifier: MIT */
/* break_go.c - see break_go.h. The register and the layout are those of ABIInternal on x86-64. */
#include "cli/break/break_go.h"

#include "cli/message.h"
#include "cli/observe/hit_memory.h"
#include "report/code/code_sites_priv.h"
#include "report/dwarf/instruction.h"
#include "report/dwarf/types.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GOROUTINE_REGISTER 14
#define EXITS_MAX 4096 /* of one function */

static int go_by_address(const void *a, const void *b)
{
	const struct break_exit *x = a;
	const struct break_exit *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static int go_add(struct break_go *go, const uint64_t *addresses, size_t n, size_t site)
{
	struct break_exit *more = reallocarray(go->exit, go->count + n, sizeof(*more));

	if (!more)
		return -ENOMEM;
	go->exit = more;
	for (size_t i = 0; i < n; i++)
		go->exit[go->count++] = (struct break_exit){ addresses[i], site };
	return 0;
}

/* 0, or why the function's returns cannot be seen. */
static int go_find_one(struct break_go *go, struct symbols *s, const struct code_site *site,
		       size_t index)
{
	uint64_t *addresses = calloc(EXITS_MAX, sizeof(*addresses));
	uint64_t size = 0;
	size_t n = 0;

	if (!addresses)
		return -ENOMEM;
	int err = code_function_start(s, site->function, &size) == site->function && size ?
			  code_returns(s, site->function, size, addresses, EXITS_MAX, &n) :
			  -ENOENT;
	if (!err)
		err = n ? go_add(go, addresses, n, index) : -ENOENT;
	free(addresses);
	return err;
}

static const char *go_reason(int err)
{
	return err == -EOPNOTSUPP ? "a jump leads out of it" :
	       err == -ENOENT	  ? "it has no return instruction, or its size is not known" :
	       err == -ENOMEM	  ? "out of memory" :
				    "it has bytes that are not instructions";
}

/* A goroutine leaves its calls by a panic that is recovered, or by its end. */
static int add_unwinders(struct break_go *go, struct symbols *s)
{
	static const char *const names[] = { "runtime.gopanic", "runtime.Goexit" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct variable v;
		if (symbols_find(s, names[i], &v) || !v.is_function)
			continue;
		uint64_t at = code_entry(s, v.address);
		if (go_add(go, &at, 1, BREAK_GO_UNWINDS))
			return -ENOMEM;
	}
	return 0;
}

int break_go_find(struct break_go *go, const struct observe *o, const struct code_sites *sites)
{
	const char *refused = NULL;
	size_t others = 0;
	size_t without = 0;
	int last = 0;

	for (size_t i = 0; o->set.ret && i < sites->count; i++) {
		const struct code_site *site = &sites->site[i];
		if (site->kind != CODE_SITE_FUNCTION || !symbols_is_go(o->symbols, site->address)) {
			others += site->kind == CODE_SITE_FUNCTION;
			continue;
		}
		int err = go_find_one(go, o->symbols, site, i);
		last = err ? err : last;
		refused = err && !refused ? site->name : refused;
		without += err != 0;
	}
	if (refused && !go->count)
		return cli_wrong(o->set.name,
				 "cannot use --ret: the returns of %s are not known: %s; "
				 "leave out --ret",
				 refused, go_reason(last));
	if (go->count && others)
		return cli_wrong(o->set.name, "cannot use --ret on functions of Go and of other "
					      "languages in one run; break on one of them");
	if (without)
		cli_note(o->set.name,
			 "%zu function%s without results and durations, because their return "
			 "instructions are not known: %s%s",
			 without, without == 1 ? "" : "s", refused, without > 1 ? ", ..." : "");
	if (go->count && add_unwinders(go, o->symbols))
		return cli_wrong(o->set.name, "out of memory");
	if (go->count)
		qsort(go->exit, go->count, sizeof(*go->exit), go_by_address);
	return 0;
}

static void go_note_sites(const struct break_go *go, const struct code_sites *sites,
			  struct break_armed *armed)
{
	for (size_t i = 0; i < sites->count; i++)
		armed->no_return[i] = true;
	for (size_t i = 0; i < go->count; i++)
		if (go->exit[i].site != BREAK_GO_UNWINDS)
			armed->no_return[go->exit[i].site] = false;
}

int break_go_arm(struct break_go *go, const struct observe *o,
		 const struct trapline_event_opts *opts)
{
	struct trapline_event_opts all = *opts;
	uint64_t *addresses = calloc(go->count, sizeof(*addresses));

	if (!addresses)
		return cli_wrong(o->set.name, "out of memory");
	for (size_t i = 0; i < go->count; i++)
		addresses[i] = go->exit[i].address;
	/*
	 * The condition and the limit are of calls, and a return belongs to a call or is left out.
	 */
	all.condition = NULL;
	all.limit = 0;
	all.flags &= ~(uint32_t)TRAPLINE_RETURNS;
	int err = trapline_break_sites(o->target, addresses, go->count, &all, &go->event);
	free(addresses);
	return err < 0 ? session_explain(&o->session, "break on returns of", o->title, err) : 0;
}

void break_go_join(struct break_go *go, const struct code_sites *sites, struct break_armed *armed)
{
	memmove(armed->event + 1, armed->event, armed->count * sizeof(armed->event[0]));
	armed->event[0] = go->event;
	armed->count++;
	go_note_sites(go, sites, armed);
}

const struct break_exit *break_go_exit(struct break_go *go, const struct observe *o,
				       struct break_calls *calls, const struct trapline_hit *hit)
{
	const struct break_exit key = { .address = hit->address };

	if (!go->event)
		return NULL;
	/* In a pause calls return unseen. */
	if (go->pauses != pace_times_off(&o->pace) || pace_is_off(&o->pace))
		break_calls_forget(calls, 0);
	go->pauses = pace_times_off(&o->pace);
	if (hit->event != go->event)
		return NULL;
	const struct break_exit *exit =
		bsearch(&key, go->exit, go->count, sizeof(key), go_by_address);
	if (exit && exit->site == BREAK_GO_UNWINDS)
		break_calls_forget(calls, break_go_frame(o->symbols, hit).owner);
	return exit;
}

struct break_frame break_go_frame(struct symbols *s, const struct trapline_hit *hit)
{
	struct break_frame frame = { .owner = (uint64_t)hit->tid, .depth = hit->sp };
	uint64_t stack[2]; /* lowest address and end, the first members of the runtime's struct */
	uint64_t goroutine;
	bool is_later = false;

	if (trapline_hit_register(hit, GOROUTINE_REGISTER, &goroutine) || !goroutine)
		return frame;
	frame.owner = goroutine;
	/* Read later, it may have moved since the hit: then the location itself is compared. */
	if (!hit_memory_read(s, hit, goroutine, stack, sizeof(stack), &is_later) &&
	    hit->sp > stack[0] && hit->sp <= stack[1])
		frame.depth = stack[1] - hit->sp;
	return frame;
}

static void find_id(struct break_go *go, struct symbols *s)
{
	const struct type *t = type_find(s, "runtime.g");
	struct type_place place;

	go->id = ID_UNKNOWN;
	if (!t || type_member_find(t, "goid", &place) || place.type->size != 8)
		return;
	go->id_offset = place.offset;
	go->id = ID_KNOWN;
}

void break_go_copies(struct break_go *go, struct symbols *s, struct hit_copies *c)
{
	const struct trapline_memory stack = { .reg = GOROUTINE_REGISTER, .bytes = 16 };
	struct trapline_memory id = { .reg = GOROUTINE_REGISTER, .bytes = 8 };

	if (go->id == ID_NOT_LOOKED_UP)
		find_id(go, s);
	id.base = go->id_offset;
	c->row[c->count++] = stack;
	if (go->id == ID_KNOWN)
		c->row[c->count++] = id;
}

void break_go_name(struct break_go *go, struct symbols *s, struct trapline_hit *hit)
{
	uint64_t goroutine;
	bool is_later = false;
	uint64_t id;

	if (go->id == ID_NOT_LOOKED_UP)
		find_id(go, s);
	if (go->id != ID_KNOWN || trapline_hit_register(hit, GOROUTINE_REGISTER, &goroutine) ||
	    hit_memory_read(s, hit, goroutine + go->id_offset, &id, sizeof(id), &is_later))
		return;
	/* The runtime's own goroutine of a thread has none. */
	if (id && id < 100000)
		snprintf(hit->thread, sizeof(hit->thread), "goroutine %u", (unsigned int)id);
	else if (id && id < UINT64_C(10000000000000))
		snprintf(hit->thread, sizeof(hit->thread), "g%" PRIu64, id);
}

void break_go_free(struct break_go *go)
{
	free(go->exit);
	go->exit = NULL;
	go->count = 0;
}
