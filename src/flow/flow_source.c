/* SPDX-License-Identifier: MIT */
/*
 * flow_source.c - bytes become a source: they are kept as they are, and marked where they lie.
 *
 * A thread that reaches a source or a sink natively is in a trap, and continues in a window if it
 * has met followed bytes. In a window the same locations are seen without a trap.
 */
#include "base/general_regs.h"

#include "flow/flow_source.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "code/insn/insn_context.h"
#include "flow/flow_calls.h"
#include "flow/flow_locate.h"
#include "flow/flow_mapped.h"
#include "flow/flow_marks.h"
#include "flow/flow_open.h"
#include "flow/flow_peek.h"
#include "flow/flow_residue.h"
#include "flow/flow_sink.h"
#include "flow/flow_state.h"
#include "flow/flow_step.h"
#include "flow/flow_text.h"
#include "flow/flow_window.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define KEPT_BYTES (64u << 20)
#define OCCURRENCES 8u
#define STRING_MAX 65536u
#define PART 4096u

static uint8_t *kept;
static uint64_t kept_used;

static uint8_t *keep_room(uint64_t n)
{
	uint8_t *memory = atomic_get(&kept);

	if (!memory) {
		uint8_t *none = NULL;

		memory = memory_map_sparse(KEPT_BYTES);
		if (memory_failed(memory))
			return NULL;
		if (!atomic_cas(&kept, &none, memory)) {
			memory_unmap(memory, KEPT_BYTES);
			memory = none;
		}
	}
	const uint64_t at = atomic_add(&kept_used, n);
	return at + n <= KEPT_BYTES ? memory + at : NULL;
}

void flow_source_wipe(void)
{
	const uint64_t used = atomic_get(&kept_used);

	for (uint64_t i = 0; kept && i < used && i < KEPT_BYTES; i++)
		kept[i] = 0;
}

void flow_source_give(void)
{
	uint8_t *memory = atomic_swap(&kept, NULL);

	if (memory)
		memory_unmap(memory, KEPT_BYTES);
}

/* ---- one source ---- */

void flow_source_fill(const struct flow_moment *m, uint32_t number, enum flow_origin origin,
		      const char *name, int fd)
{
	struct flow_source *row = &flow_region->sources[number];
	const struct flow_site *site = flow_site_at(m->pc);

	row->origin = (uint8_t)origin;
	row->is_mapped = origin == FLOW_FROM_READ && site && site->kind == FLOW_SITE_MAP;
	row->pid = sys_getpid();
	row->fd = fd;
	row->time_ns = clock_ns(CLOCK_MONOTONIC);
	flow_copy_name(row->name, name, sizeof(row->name));
	flow_open_fill(fd, &row->open);
	flow_open_hide(number, &row->open);
	if (m->context)
		flow_stack_of(m->context, &row->stack);
	else
		flow_calls_stack(m->thread, m->pc, m->regs[INSN_RSP], &row->stack);
}

uint32_t flow_source_add(uint32_t n, uint8_t **bytes)
{
	uint32_t used = atomic_get(&flow_region->sources_used);

	do {
		if (used + 1 >= FLOW_SOURCES) {
			flow_count(FLOW_LOST_SOURCES, 1);
			return 0;
		}
	} while (!atomic_cas(&flow_region->sources_used, &used, used + 1));
	*bytes = keep_room(n);
	if (*bytes)
		return used + 1;
	flow_count(FLOW_LOST_SOURCES, 1);
	return 0;
}

static void mark_row(struct flow_thread *t, flow_mark first, uint64_t at, uint64_t n)
{
	flow_mark marks[64];

	for (uint64_t done = 0; done < n;) {
		const uint32_t part = n - done < 64 ? (uint32_t)(n - done) : 64;

		for (uint32_t i = 0; i < part; i++)
			marks[i] = first + done + i;
		flow_marks_store(t, at + done, part, marks);
		done += part;
	}
}

void flow_source_mark(struct flow_thread *t, uint32_t number, uint32_t offset, uint64_t at,
		      uint64_t n)
{
	mark_row(t, flow_mark_of(number, offset, 0), at, n);
}

void flow_source_found(struct flow_thread *t, uint32_t number, uint64_t at, uint64_t n)
{
	mark_row(t, flow_mark_of(number, 0, 0) | FLOW_IS_FOUND, at, n);
}

void flow_source_ready(const struct flow_moment *m, uint32_t number)
{
	if (m->context)
		atomic_set(&flow_region->sources[number].ready, 1u);
	else if (m->thread->sources_pending < FLOW_PENDING_SOURCES)
		m->thread->pending_sources[m->thread->sources_pending++] = number;
	flow_count(FLOW_MATCHED, 1);
	flow_follows();
}

static int take(const struct flow_moment *m, enum flow_origin origin, const char *name, int fd,
		uint64_t at, uint64_t n, uint64_t offset)
{
	uint8_t *bytes;

	if (!m->context && m->thread->sources_pending == FLOW_PENDING_SOURCES)
		return 0;
	const uint32_t number = flow_source_add((uint32_t)n, &bytes);
	if (!number)
		return 0;
	if (flow_peek(m, bytes, at, n) != n) {
		flow_count(FLOW_LOST_SOURCES, 1);
		return 0;
	}
	flow_texts[number] = (struct flow_text){ bytes, (uint32_t)n };
	flow_source_fill(m, number, origin, name, fd);
	struct flow_source *row = &flow_region->sources[number];
	row->address = at;
	row->bytes = n;
	row->offset = offset;
	/* The user has named the text, or the file that it is in. */
	if (flow_region->settings.match_bytes || flow_region->settings.path[0] ||
	    origin != FLOW_FROM_READ)
		flow_text_add(number);
	flow_source_mark(m->thread, number, 0, at, n);
	flow_source_ready(m, number);
	return 1;
}

/* A part at a time, each of which begins with the end of the one before. */
static int take_matches(const struct flow_moment *m, enum flow_origin origin, const char *name,
			int fd, uint64_t at, uint64_t bytes)
{
	const uint32_t match = flow_region->settings.match_bytes;
	const struct flow_searched *text = flow_text_at(0);
	uint8_t part[2 * PART];
	unsigned int found = 0;

	for (uint64_t done = 0; done + match <= bytes && found < OCCURRENCES; done += PART) {
		const size_t want = bytes - done < PART + match - 1 ? (size_t)(bytes - done) :
								      PART + match - 1;
		const size_t n = flow_peek(m, part, at + done, want);
		size_t i = flow_text_find(text, part, 0, n);

		for (; i < n && found < OCCURRENCES; i = flow_text_find(text, part, i + match, n)) {
			if (i >= PART)
				break;
			found += (unsigned int)take(m, origin, name, fd, at + done + i, match,
						    done + i);
		}
	}
	return found != 0;
}

int flow_source_memory(const struct flow_moment *m, enum flow_origin origin, const char *name,
		       int fd, uint64_t at, uint64_t bytes)
{
	const struct flow_settings *set = &flow_region->settings;

	if (set->match_length && bytes != set->match_length)
		return 0;
	if (set->match_bytes)
		return take_matches(m, origin, name, fd, at, bytes);
	return take(m, origin, name, fd, at, bytes < FLOW_SOURCE_BYTES ? bytes : FLOW_SOURCE_BYTES,
		    0);
}

/* ---- variables ---- */

struct flow_variable flow_variables[FLOW_VARIABLES];
uint32_t flow_variable_count;

/* What it has, without the zeros behind it. */
static uint32_t read_variable(const struct flow_moment *m, const struct flow_variable *v,
			      uint8_t *out)
{
	uint32_t n = (uint32_t)flow_peek(m, out, v->address, v->bytes < PART ? v->bytes : PART);

	while (n && !out[n - 1])
		n--;
	return n;
}

static int is_as_source(const struct flow_variable *v, const uint8_t *now, uint32_t n)
{
	const struct flow_text *text = &flow_texts[v->source];

	for (uint32_t i = 0; i < n && text->count == n; i++)
		if (now[i] != text->bytes[i])
			return 0;
	return text->count == n;
}

void flow_source_variable(const struct flow_moment *m, struct flow_variable *v)
{
	uint8_t now[PART];
	const uint32_t n = read_variable(m, v, now);

	if (v->source && is_as_source(v, now, n)) {
		flow_source_mark(m->thread, v->source, 0, v->address, n);
		return;
	}
	flow_count(FLOW_SEEN, 1);
	v->source = 0;
	if (n && take(m, v->origin, v->name, -1, v->address, n, 0))
		v->source = atomic_get(&flow_region->sources_used);
}

void flow_source_variables(const struct flow_moment *m)
{
	for (uint32_t i = 0; i < flow_variable_count; i++)
		if (flow_variables[i].source)
			flow_source_variable(m, &flow_variables[i]);
}

/* ---- what was read ---- */

int flow_source_wants(int fd)
{
	const struct flow_settings *set = &flow_region->settings;
	char path[256];

	if (set->fd >= 0 && set->fd != fd)
		return 0;
	if (!set->path[0])
		return 1;
	flow_open_path(fd, path, sizeof(path));
	for (unsigned int i = 0; i < sizeof(path); i++) {
		if (path[i] != set->path[i])
			return 0;
		if (!path[i])
			return 1;
	}
	return 0;
}

static int take_bytes(const struct flow_moment *m, const char *name, int fd, uint64_t at,
		      uint64_t bytes)
{
	const int is_joined = flow_join(m, name, fd, at, bytes);

	return is_joined || flow_source_memory(m, FLOW_FROM_READ, name, fd, at, bytes);
}

static int take_vector(const struct flow_moment *m, const char *name, int fd, uint64_t at,
		       uint64_t n, uint64_t bytes)
{
	struct iovec part;
	int found = 0;

	for (uint64_t i = 0; i < n && bytes; i++) {
		if (flow_peek(m, &part, at + i * sizeof(part), sizeof(part)) != sizeof(part))
			break;
		const uint64_t got = part.iov_len < bytes ? part.iov_len : bytes;
		const uint64_t base = (uint64_t)(uintptr_t)part.iov_base;

		flow_marks_clear(base, got);
		if (got)
			found |= take_bytes(m, name, fd, base, got);
		bytes -= got;
	}
	return found;
}

static int take_read(const struct flow_moment *m, const struct flow_site *site)
{
	const int64_t got = (int64_t)m->regs[INSN_RAX];
	const int fd = (int)m->regs[INSN_RDI];
	const uint64_t at = m->regs[INSN_RSI];
	struct msghdr message;

	if (got <= 0)
		return 0;
	flow_count(FLOW_SEEN, 1);
	/* What was there is gone, whether it is of a source or not. */
	if (site->kind == FLOW_SITE_READ)
		flow_marks_clear(at, (uint64_t)got);
	if (!flow_region->settings.from_read || !flow_source_wants(fd))
		return 0;
	if (site->kind == FLOW_SITE_READ)
		return take_bytes(m, site->name, fd, at, (uint64_t)got);
	if (site->kind == FLOW_SITE_READV)
		return take_vector(m, site->name, fd, at, m->regs[INSN_RDX], (uint64_t)got);
	if (flow_peek(m, &message, at, sizeof(message)) != sizeof(message))
		return 0;
	return take_vector(m, site->name, fd, (uint64_t)(uintptr_t)message.msg_iov,
			   message.msg_iovlen, (uint64_t)got);
}

/* ---- functions and the environment ---- */

static int take_string(const struct flow_moment *m, enum flow_origin origin, const char *name,
		       uint64_t at)
{
	const int64_t n = flow_string(m, at, STRING_MAX);

	flow_count(FLOW_SEEN, 1);
	return n > 0 && flow_source_memory(m, origin, name, -1, at, (uint64_t)n);
}

/* A value that leads to no memory is the source itself. */
static int take_value(const struct flow_moment *m, const struct flow_site *site, unsigned int reg)
{
	const enum flow_origin origin = site->kind == FLOW_SITE_RESULT ? FLOW_FROM_RESULT :
									 FLOW_FROM_ARGUMENT;

	return take_string(m, origin, site->name, m->regs[reg]);
}

static int is_equal(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (a[i] != b[i])
			return 0;
		if (!a[i])
			return 1;
	}
	return 0;
}

static int take_environment(const struct flow_moment *m, const struct flow_site *site)
{
	const char *wanted = flow_region->settings.environment;
	char name[sizeof(flow_region->settings.environment)] = "";
	size_t length = 0;

	flow_peek(m, name, m->regs[INSN_RDI], sizeof(name));
	name[sizeof(name) - 1] = '\0';
	if (!wanted[0] || !is_equal(name, wanted, sizeof(name)))
		return 0;
	while (wanted[length])
		length++;
	for (char **e = environ; e && *e; e++) {
		size_t i = 0;

		while (i < length && (*e)[i] == wanted[i])
			i++;
		if (i == length && (*e)[i] == '=')
			return take_string(m, FLOW_FROM_ENVIRONMENT, wanted,
					   (uint64_t)(uintptr_t)*e + i + 1);
	}
	return 0;
}

/* mremap(2), for a large block of realloc(3). 1: followed bytes have moved. */
static int take_move(const struct flow_moment *m)
{
	const uint64_t from = m->regs[INSN_RDI];
	const uint64_t to = m->regs[INSN_RAX];
	const uint64_t before = m->regs[INSN_RSI];
	const uint64_t after = m->regs[INSN_RDX];

	if ((int64_t)to < 0 && (int64_t)to > -4096)
		return 0;
	flow_mapped_move(from, before, to, after);
	return to != from &&
	       flow_marks_move(m->thread, from, to, before < after ? before : after) != 0;
}

int flow_source_site(const struct flow_moment *m, const struct flow_site *site)
{
	static const uint8_t regs[] = { INSN_RDI, INSN_RSI, INSN_RDX, INSN_RCX, INSN_R8, INSN_R9 };

	switch (site->kind) {
	case FLOW_SITE_READ:
	case FLOW_SITE_READV:
	case FLOW_SITE_RECVMSG:
		return take_read(m, site);
	case FLOW_SITE_MAP:
		flow_mapped_add(m);
		return m->context ? flow_kernel_pass(m, site) : 0;
	case FLOW_SITE_PASS:
		return m->context ? flow_kernel_pass(m, site) : 0;
	case FLOW_SITE_MOVE:
		return take_move(m);
	case FLOW_SITE_GETENV:
		return take_environment(m, site);
	case FLOW_SITE_ARGUMENT:
		return take_value(m, site, regs[site->argument % sizeof(regs)]);
	case FLOW_SITE_RESULT:
		return take_value(m, site, INSN_RAX);
	default:
		return 0;
	}
}

/* ---- natively ---- */

struct native {
	const struct flow_site *site;
	ucontext_t *context;
	struct flow_thread *thread;
};

static void look_at_end(void *arg)
{
	(void)arg;
	flow_residue();
}

static void look_at_site(void *arg)
{
	const struct native *n = arg;
	const struct flow_site *site = n->site;
	struct flow_thread *t = n->thread;
	struct insn_regs regs;
	const struct flow_moment m = {
		.thread = t, .regs = regs.r, .pc = site->address, .context = n->context
	};

	insn_regs_from_context(n->context, &regs);
	regs.r[INSN_RIP] = site->address;
	t->pages_fresh = 0;
	const int goes_on = t->suspended_pc == site->address && t->suspended_sp == regs.r[INSN_RSP];
	if (goes_on)
		flow_marks_resume(t);
	else
		flow_regs_forget(t);
	t->suspended_pc = 0;
	int is_met = 0;
	for (; site; site = flow_site_next(site)) {
		if (site->is_quiet || !flow_site_is_called(site, regs.r))
			continue;
		if (site->kind < FLOW_SITE_SINKS)
			is_met |= flow_source_site(&m, site);
		else if (!goes_on)
			is_met |= flow_sink(&m, site) != 0;
	}
	if (is_met)
		t->idle = 0;
	if (is_met || goes_on)
		flow_window_begin(t, n->context);
}

void flow_on_site(const struct flow_site *site, ucontext_t *context)
{
	struct native n = { .site = site, .context = context };

	if (flow_is_over())
		return;
	/* Nothing is followed yet: a sink has nothing to get. */
	if ((site->kind >= FLOW_SITE_SINKS || site->kind == FLOW_SITE_RESUME) &&
	    !atomic_get(&flow_region->sources_used))
		return;
	n.thread = flow_thread_take();
	if (!n.thread) {
		flow_count(FLOW_LOST_WINDOW, 1);
		return;
	}
	flow_on_own_stack(n.thread->area, site->kind == FLOW_SITE_END ? look_at_end : look_at_site,
			  &n);
}
