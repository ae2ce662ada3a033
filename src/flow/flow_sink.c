/* SPDX-License-Identifier: MIT */
/*
 * flow_sink.c - what a sink gets: its arguments, and the marks of the bytes that they lead to.
 *
 * A text that the user has named is searched too, in bytes that have no mark of it: then it came by
 * a way that was not seen. From here on it is followed.
 */
#include "base/general_regs.h"

#include "flow/flow_sink.h"

#include "base/atomic.h"
#include "base/sys.h"
#include "flow/flow_calls.h"
#include "flow/flow_locate.h"
#include "flow/flow_mapped.h"
#include "flow/flow_marks.h"
#include "flow/flow_open.h"
#include "flow/flow_peek.h"
#include "flow/flow_record.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"
#include "flow/flow_text.h"
#include "guest/exec_begins.h"

#include <sys/socket.h>
#include <sys/uio.h>

#define BYTES_MAX (1u << 20)
#define STRING_MAX 131072u
#define LIST_MAX 64u
#define STRINGS_MAX 1024u
#define GROUPS 8u

/* Bytes of one source and one grade. */
struct group {
	uint32_t source;
	uint32_t step;
	enum flow_grade grade;
	uint64_t bytes;
	uint64_t offset;
	uint64_t address;
};

struct gathered {
	struct group group[GROUPS];
	uint32_t count;
	uint64_t total;
	uint64_t moved; /* of them: not computed */
	int is_of_file; /* the memory has what was in a file */
};

static void add_marks(struct gathered *g, flow_mark mark, uint64_t address, uint32_t n)
{
	const uint32_t source = flow_source_of(mark);
	const enum flow_grade grade = flow_grade_of(mark);
	uint32_t i = 0;

	g->total += n;
	g->moved += mark & FLOW_IS_COMPUTED ? 0 : n;
	while (i < g->count && (g->group[i].source != source || g->group[i].grade != grade))
		i++;
	if (i == GROUPS)
		return;
	if (i == g->count) {
		g->count++;
		g->group[i] = (struct group){ source, flow_step_of(mark),   grade,
					      0,      flow_offset_of(mark), address };
	}
	g->group[i].bytes += n;
}

/* It came with the file, by mmap(2), and lies there as it did. */
static int is_from_file(flow_mark mark, uint64_t address)
{
	const struct flow_source *source = &flow_region->sources[flow_source_of(mark)];

	return !flow_step_of(mark) && !(mark & FLOW_IS_FOUND) && source->is_mapped &&
	       address == source->address + flow_offset_of(mark);
}

static void gather_part(const struct flow_moment *m, struct gathered *g, uint64_t at, size_t n)
{
	flow_mark *marks = flow_marks_page(at >> 12);
	const uint64_t page = at & ~4095ull;
	const uint32_t first = at & 4095;
	size_t readable = 0;
	int any = 0;

	for (size_t i = 0; marks && i < n; i++)
		any |= marks[first + i] != 0;
	if (any)
		readable = flow_peek(m, m->thread->page, page, 4096);
	if (readable == 4096)
		flow_marks_extend(at >> 12, m->thread->page);
	for (uint32_t i = first; readable == 4096 && i < first + n; i++)
		if (marks[i] && flow_marks_holds(at >> 12, i, m->thread->page) &&
		    !(g->is_of_file && is_from_file(marks[i], page + i)))
			add_marks(g, marks[i], page + i, 1);
}

/* ---- a text ---- */

static void find_texts(const struct flow_moment *m, struct gathered *g, uint64_t at, size_t n,
		       size_t step)
{
	const uint8_t *bytes = (const uint8_t *)m->thread->words;
	const struct flow_searched *s;

	for (uint32_t i = 0; (s = flow_text_at(i)) != NULL; i++) {
		const uint32_t source = atomic_get(&s->source);

		if (!source || !atomic_get(&s->is_ready))
			continue;
		/* Whether a file had another text is not known. */
		if (i && g->is_of_file)
			break;
		for (size_t k = flow_text_find(s, bytes, 0, n); k < step && k < n;
		     k = flow_text_find(s, bytes, k + s->count, n)) {
			/* What was computed keeps its marks, which name the way. */
			if (g->total == g->moved)
				flow_source_found(m->thread, source, at + k, s->count);
			add_marks(g, flow_mark_of(source, 0, 0) | FLOW_IS_FOUND, at + k, s->count);
		}
	}
}

/* A part at a time, each of which begins with the end of the one before. */
static void search(const struct flow_moment *m, struct gathered *g, uint64_t at, uint64_t n)
{
	const size_t room = sizeof(m->thread->words);
	const size_t step = room - FLOW_SEARCHED_MOST;

	for (uint64_t done = 0; done < n; done += step) {
		const size_t want = n - done < room ? (size_t)(n - done) : room;
		const size_t got = flow_peek(m, m->thread->words, at + done, want);

		find_texts(m, g, at + done, got, step);
		if (got < want)
			break;
	}
}

/* ---- memory ---- */

static void gather(const struct flow_moment *m, struct gathered *g, uint64_t at, uint64_t n)
{
	const uint64_t start = at;
	const uint64_t moved = g->moved;

	if (n > BYTES_MAX) {
		flow_count(FLOW_LOST_LONG, 1);
		n = BYTES_MAX;
	}
	for (uint64_t left = n; left;) {
		uint64_t part = 4096 - (at & 4095);

		if (part > left)
			part = left;
		if (flow_marks_may(at, part))
			gather_part(m, g, at, part);
		at += part;
		left -= part;
	}
	if (g->moved == moved && flow_text_any())
		search(m, g, start, n);
}

static void gather_string(const struct flow_moment *m, struct gathered *g, uint64_t at)
{
	const int may = at && (flow_text_any() || flow_marks_may(at, 4096));
	const int64_t n = may ? flow_string(m, at, STRING_MAX) : 0;

	if (n > 0)
		gather(m, g, at, (uint64_t)n);
}

static void gather_strings(const struct flow_moment *m, struct gathered *g, uint64_t at)
{
	uint64_t string = 1;
	unsigned int i = 0;

	for (; at && string && i < STRINGS_MAX; i++) {
		string = 0;
		flow_peek(m, &string, at + 8 * i, sizeof(string));
		gather_string(m, g, string);
	}
	if (i == STRINGS_MAX && string)
		flow_count(FLOW_LOST_LONG, 1);
}

static void gather_vector(const struct flow_moment *m, struct gathered *g, uint64_t at, uint64_t n)
{
	struct iovec part;

	for (uint64_t i = 0; i < n && i < 1024; i++) {
		if (flow_peek(m, &part, at + i * sizeof(part), sizeof(part)) != sizeof(part))
			return;
		gather(m, g, (uint64_t)(uintptr_t)part.iov_base, part.iov_len);
	}
}

static void gather_message(const struct flow_moment *m, struct gathered *g, uint64_t at)
{
	struct msghdr message;

	if (flow_peek(m, &message, at, sizeof(message)) == sizeof(message))
		gather_vector(m, g, (uint64_t)(uintptr_t)message.msg_iov, message.msg_iovlen);
}

/* What was never stored has no step of its own yet. */
static flow_mark with_way(struct flow_thread *t, flow_mark mark, unsigned int reg)
{
	return flow_with_step(mark, flow_calls_computed(t, mark, &t->made[reg]));
}

static void gather_value(const struct flow_moment *m, struct gathered *g, unsigned int argument)
{
	static const uint8_t regs[] = { INSN_RDI, INSN_RSI, INSN_RDX, INSN_RCX, INSN_R8, INSN_R9 };
	const uint64_t value = flow_argument(m, argument);
	const flow_mark *marks = m->thread->general[regs[argument % sizeof(regs)]];

	if (!m->context && argument < sizeof(regs))
		for (unsigned int i = 0; i < 8; i++)
			if (marks[i])
				add_marks(g, with_way(m->thread, marks[i], regs[argument]), value,
					  1);
	gather_string(m, g, value);
}

static void gather_list(const struct flow_moment *m, struct gathered *g, unsigned int argument)
{
	for (unsigned int i = argument; i < LIST_MAX; i++) {
		const uint64_t string = flow_argument(m, i);

		if (!string)
			return;
		gather_string(m, g, string);
	}
}

static void gather_site(const struct flow_moment *m, const struct flow_site *site,
			struct gathered *g)
{
	const unsigned int n = site->argument;

	switch (site->kind) {
	case FLOW_SITE_RANGE:
		gather(m, g, flow_argument(m, n), flow_argument(m, n + 1));
		break;
	case FLOW_SITE_VECTOR:
		gather_vector(m, g, flow_argument(m, n), flow_argument(m, n + 1));
		break;
	case FLOW_SITE_MESSAGE:
		gather_message(m, g, flow_argument(m, n));
		break;
	case FLOW_SITE_STRING:
		gather_string(m, g, flow_argument(m, n));
		break;
	case FLOW_SITE_PROGRAM:
		gather_string(m, g, flow_argument(m, n));
		gather_strings(m, g, flow_argument(m, n + 1));
		break;
	case FLOW_SITE_SPAWN:
		gather_string(m, g, flow_argument(m, 1));
		gather_strings(m, g, flow_argument(m, 4));
		break;
	case FLOW_SITE_LIST:
		gather_list(m, g, n);
		break;
	default:
		gather_value(m, g, n);
	}
}

/* execv() jumps to execve(), which then has the frame of its caller. */
static int is_jumped_to(const struct flow_moment *m, const struct flow_site *site)
{
	const struct flow_site *before = m->thread->sink_site;

	return site->kind == FLOW_SITE_PROGRAM && before && before != site &&
	       before->kind == FLOW_SITE_PROGRAM && m->regs[INSN_RSP] == m->thread->sink_sp;
}

/* libc opens files and starts programs by its own functions: the outermost one is reported. */
static int is_within_another(const struct flow_moment *m, const struct flow_site *site)
{
	uint64_t back = 0;

	if (site->is_inner && is_jumped_to(m, site))
		return 1;
	if (!site->is_inner || m->regs[INSN_RSP] >= m->thread->sink_sp)
		return 0;
	if (m->context)
		return flow_is_called_by_libc(m->context);
	flow_peek(m, &back, m->regs[INSN_RSP], sizeof(back));
	return back - flow_libc_start < flow_libc_end - flow_libc_start;
}

static void report(const struct flow_moment *m, const struct gathered *g, const char *name, int fd,
		   const struct flow_open *open)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct group *group = &g->group[i];
		const int is_copy = group->grade == FLOW_GRADE_A ||
				    group->grade == FLOW_GRADE_FOUND;
		const struct flow_wish wish = {
			.kind = is_copy ? FLOW_COPY : FLOW_COMPUTED,
			.grade = group->grade,
			.source = group->source,
			.step = group->step,
			.fd = fd,
			.bytes = group->bytes,
			.offset = group->offset,
			.address = group->address,
			.name = name,
			.open = open,
		};

		flow_record_flow(m, &wish);
	}
}

/* A call that names its peer is by a socket that has none, or another. */
static void fill_open(const struct flow_moment *m, const struct flow_site *site, int fd,
		      struct flow_open *out)
{
	struct msghdr message;

	flow_open_fill(fd, out);
	if (site->has_peer)
		flow_open_to(m, flow_argument(m, 4), flow_argument(m, 5), out);
	else if (site->kind == FLOW_SITE_MESSAGE &&
		 flow_peek(m, &message, flow_argument(m, site->argument), sizeof(message)) ==
			 sizeof(message))
		flow_open_to(m, (uint64_t)(uintptr_t)message.msg_name, message.msg_namelen, out);
}

uint64_t flow_sink(const struct flow_moment *m, const struct flow_site *site)
{
	const int fd = site->has_fd ? (int)flow_argument(m, 0) : -1;
	struct gathered g = { .count = 0 };
	struct flow_open open;

	if (site->kind == FLOW_SITE_MAPPED)
		return flow_mapped_sink(m, site);
	gather_site(m, site, &g);
	if (!g.total || is_within_another(m, site))
		return g.total;
	m->thread->sink_sp = m->regs[INSN_RSP];
	m->thread->sink_site = site;
	fill_open(m, site, fd, &open);
	report(m, &g, site->name, fd, &open);
	return g.total;
}

/* Pages that are not in memory have nothing new: to read them would bring them there. */
static void search_present(const struct flow_moment *m, struct gathered *g, uint64_t at, uint64_t n)
{
	uint8_t present[BYTES_MAX / 4096];
	const uint64_t pages = n / 4096;

	if (n > BYTES_MAX || sys3(SYS_mincore, at, n, present)) {
		flow_count(FLOW_LOST_LONG, 1);
		return;
	}
	for (uint64_t i = 0, first = 0; i <= pages; i++) {
		if (i < pages && present[i] & 1)
			continue;
		search(m, g, at + first * 4096, (i - first) * 4096);
		first = i + 1;
	}
}

uint64_t flow_sink_mapped(const struct flow_moment *m, const char *name,
			  const struct flow_open *open, uint64_t at, uint64_t n, int is_searched)
{
	struct gathered g = { .is_of_file = 1 };
	uint32_t next = 0;

	for (uint64_t page; (page = flow_marks_next(&next)) != 0;)
		if (page - (at >> 12) < n >> 12)
			gather_part(m, &g, page << 12, 4096);
	if (!g.moved && is_searched && flow_text_any())
		search_present(m, &g, at, n);
	report(m, &g, name, -1, open);
	return g.total;
}

uint64_t flow_sink_program(const struct flow_moment *m, const struct exec_call *call,
			   int with_arguments)
{
	struct gathered arguments = { .count = 0 };
	struct gathered environment = { .count = 0 };
	char name[FLOW_NAME] = "environment of ";
	size_t n = 0;

	while (name[n])
		n++;
	flow_copy_name(name + n, call->name, sizeof(name) - n);
	if (with_arguments && call->argv)
		gather_strings(m, &arguments, (uint64_t)(uintptr_t)call->argv);
	gather_strings(m, &environment, (uint64_t)(uintptr_t)call->envp);
	report(m, &arguments, call->name, -1, NULL);
	report(m, &environment, name, -1, NULL);
	return arguments.total + environment.total;
}
