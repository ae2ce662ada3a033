/* SPDX-License-Identifier: MIT */
/*
 * flow_kernel.c - files that are mapped, and bytes that the kernel passes from one descriptor to
 * another.
 *
 * The latter never lie in the process. What went can be read once more from a file, and is compared
 * then; from a pipe or a socket it cannot, and that is counted.
 */
#include <sys/mman.h>

#include "base/sys.h"
#include "flow/flow_open.h"
#include "flow/flow_peek.h"
#include "flow/flow_record.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"

#define MAPPED_MAX (4u << 20)
#define PASSED_MAX (4u << 20)

static int take_map(const struct flow_moment *m, const struct flow_site *site)
{
	const struct flow_settings *set = &flow_region->settings;
	const int64_t at = (int64_t)m->regs[INSN_RAX];
	const uint64_t bytes = m->regs[INSN_RSI];
	const uint64_t access = m->regs[INSN_RDX];
	const int fd = (int)m->regs[INSN_R8];

	if ((at < 0 && at > -4096) || m->regs[INSN_R10] & MAP_ANONYMOUS || fd < 0 ||
	    !(access & PROT_READ) || access & PROT_EXEC || !set->from_read)
		return 0;
	/* All files in memory would be too much: the user has named the bytes or the file. */
	if ((!set->match_bytes && !set->path[0] && set->fd < 0) || !flow_source_wants(fd))
		return 0;
	flow_count(FLOW_SEEN, 1);
	return flow_source_memory(m, FLOW_FROM_READ, site->name, fd, (uint64_t)at,
				  bytes < MAPPED_MAX ? bytes : MAPPED_MAX);
}

/* ---- passed on ---- */

struct pass {
	int from;
	int to;
	uint64_t offset_at; /* of the offset of `from`; 0: its own */
};

static struct pass pass_of(const struct flow_moment *m, const struct flow_site *site)
{
	const uint64_t *r = m->regs;

	/* sendfile(to, from, offset, n); the others: (from, offset, to, offset, n). */
	if (site->argument == 1)
		return (struct pass){ (int)r[INSN_RSI], (int)r[INSN_RDI], r[INSN_RDX] };
	return (struct pass){ (int)r[INSN_RDI], (int)r[INSN_RDX], r[INSN_RSI] };
}

/* Where in the file the bytes began; -1: the descriptor is not of a file. */
static int64_t begin_of(const struct flow_moment *m, const struct pass *p, uint64_t got)
{
	int64_t end = -1;

	if (p->offset_at)
		flow_peek(m, &end, p->offset_at, sizeof(end));
	else
		end = sys3(SYS_lseek, p->from, 0, 1 /* SEEK_CUR */);
	return end >= (int64_t)got ? end - (int64_t)got : -1;
}

/* The offset of the match in what went; -1: it is not there; -2: that cannot be read. */
static int64_t find_in_file(struct flow_thread *t, int fd, int64_t begin, uint64_t bytes)
{
	const struct flow_settings *set = &flow_region->settings;
	const uint32_t keep = set->match_bytes - 1;
	uint8_t *text = (uint8_t *)t->words;
	uint64_t done = 0;
	uint32_t have = 0;

	while (done < bytes) {
		const uint64_t room = sizeof(t->words) - have;
		const uint64_t want = bytes - done < room ? bytes - done : room;
		const long got = sys4(SYS_pread64, fd, text + have, want, begin + (int64_t)done);

		if (got <= 0)
			return done ? -1 : -2;
		const uint32_t n = have + (uint32_t)got;
		for (uint32_t i = 0; i + set->match_bytes <= n; i++) {
			uint32_t k = 0;

			while (k < set->match_bytes && text[i + k] == set->match[k])
				k++;
			if (k == set->match_bytes)
				return (int64_t)(done - have + i);
		}
		done += (uint64_t)got;
		const uint32_t stays = n < keep ? n : keep;
		for (uint32_t i = 0; i < stays; i++)
			text[i] = text[n - stays + i];
		have = stays;
	}
	return -1;
}

static void report_pass(const struct flow_moment *m, const struct flow_site *site,
			const struct pass *p, uint64_t offset, uint64_t bytes)
{
	uint8_t *none;
	const uint32_t number = flow_source_add(0, &none);

	if (!number)
		return;
	flow_source_fill(m, number, FLOW_FROM_READ, site->name, p->from);
	flow_region->sources[number].bytes = bytes;
	flow_region->sources[number].offset = offset;
	flow_source_ready(m, number);
	struct flow_open open;
	flow_open_fill(p->to, &open);
	const struct flow_wish wish = { .kind = FLOW_COPY,
					.grade = FLOW_GRADE_A,
					.source = number,
					.fd = p->to,
					.bytes = bytes,
					.name = site->name,
					.open = &open };
	flow_record_flow(m, &wish);
}

static void take_pass(const struct flow_moment *m, const struct flow_site *site)
{
	const struct flow_settings *set = &flow_region->settings;
	const struct pass p = pass_of(m, site);
	const int64_t got = (int64_t)m->regs[INSN_RAX];
	int64_t found = 0;

	if (got <= 0 || !set->from_read || !flow_source_wants(p.from))
		return;
	flow_count(FLOW_SEEN, 1);
	if (set->match_length && set->match_length != (uint64_t)got)
		return;
	if (set->match_bytes) {
		const int64_t begin = begin_of(m, &p, (uint64_t)got);
		const uint64_t most = (uint64_t)got < PASSED_MAX ? (uint64_t)got : PASSED_MAX;

		found = begin < 0 ? -2 : find_in_file(m->thread, p.from, begin, most);
		if (found == -2 || (found < 0 && most < (uint64_t)got))
			flow_count(FLOW_IN_KERNEL, (uint64_t)got);
	}
	if (found >= 0)
		report_pass(m, site, &p, (uint64_t)found,
			    set->match_bytes ? set->match_bytes : (uint64_t)got);
}

int flow_kernel_pass(const struct flow_moment *m, const struct flow_site *site)
{
	if (site->kind == FLOW_SITE_MAP)
		return take_map(m, site);
	take_pass(m, site);
	return 0;
}
