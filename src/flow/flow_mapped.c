/* SPDX-License-Identifier: MIT */
/*
 * flow_mapped.c - see flow_mapped.h.
 *
 * A file may have had the text of --match before it was mapped: then the process has not put it
 * there. So the file is read when it is mapped, and its memory is searched only if it did not have
 * the text.
 */
#include "base/general_regs.h"

#include "flow/flow_mapped.h"

#include <linux/mman.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/sys.h"
#include "flow/flow_peek.h"
#include "flow/flow_sink.h"
#include "flow/flow_text.h"

#define MAPPED 256u
#define READ_MAX (4u << 20)

enum state {
	FREE,
	BUSY,
	THERE,
};

struct mapped {
	uint32_t state; /* enum state */
	uint32_t lacked_text;
	uint64_t start;
	uint64_t end;
	uint64_t inode;
};

static struct mapped mapped[MAPPED];

static void remember(uint64_t start, uint64_t end, uint64_t inode, uint32_t lacked_text)
{
	for (uint32_t i = 0; i < MAPPED; i++) {
		struct mapped *row = &mapped[i];
		uint32_t free = FREE;

		if (!atomic_cas(&row->state, &free, BUSY))
			continue;
		row->start = start;
		row->end = end;
		row->inode = inode;
		row->lacked_text = lacked_text;
		atomic_set(&row->state, THERE);
		return;
	}
	flow_count(FLOW_LOST_MAPPED, 1);
}

/* What is covered by these addresses is not there any more. */
static void forget(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < MAPPED; i++) {
		struct mapped *row = &mapped[i];
		uint32_t there = THERE;

		if (atomic_get(&row->state) == THERE && row->start >= start && row->end <= end)
			atomic_cas(&row->state, &there, FREE);
	}
}

static const struct mapped *find(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < MAPPED; i++)
		if (atomic_get(&mapped[i].state) == THERE && mapped[i].start < end &&
		    start < mapped[i].end)
			return &mapped[i];
	return NULL;
}

int flow_mapped_may(uint64_t at, uint64_t bytes)
{
	return find(at, at + bytes) != NULL;
}

/* ---- mappings come ---- */

/* 1: for certain. Each part but the first begins with the end of the one before. */
static uint32_t lacks_text(struct flow_thread *t, int fd, uint64_t offset, uint64_t bytes)
{
	const uint64_t room = sizeof(t->words);
	struct stat file;

	/* No other text is known yet; what is not a file may do anything when it is read. */
	if (!flow_region->settings.match_bytes || bytes > READ_MAX || sys2(SYS_fstat, fd, &file) ||
	    !S_ISREG(file.st_mode))
		return 0;
	const struct flow_searched *text = flow_text_at(0);
	for (uint64_t done = 0; done < bytes; done += room - text->count + 1) {
		const uint64_t want = bytes - done < room ? bytes - done : room;
		const long got = sys4(SYS_pread64, fd, t->words, want, offset + done);
		const size_t n = got > 0 ? (size_t)got : 0;

		if (got < 0 || flow_text_find(text, (const uint8_t *)t->words, 0, n) != n)
			return 0;
		if (n < want)
			break;
	}
	return 1;
}

void flow_mapped_add(const struct flow_moment *m)
{
	const uint64_t *r = m->regs;
	const uint64_t start = r[INSN_RAX];
	const uint64_t end = start + ((r[INSN_RSI] + 4095) & ~4095ull);
	const uint64_t type = r[INSN_R10] & MAP_TYPE;
	const int fd = (int)r[INSN_R8];
	struct stat file;

	if ((int64_t)start < 0 && (int64_t)start > -4096)
		return;
	forget(start, end);
	if ((type != MAP_SHARED && type != MAP_SHARED_VALIDATE) || r[INSN_R10] & MAP_ANONYMOUS)
		return;
	if (sys2(SYS_fstat, fd, &file))
		return;
	remember(start, end, file.st_ino, lacks_text(m->thread, fd, r[INSN_R9], end - start));
}

void flow_mapped_move(uint64_t from, uint64_t before, uint64_t to, uint64_t after)
{
	const struct mapped *row = find(from, from + before);

	if (!row)
		return;
	/* What was behind the end of it is not known. */
	remember(to, to + after, row->inode, row->lacked_text && after <= before);
	forget(from, from + before);
}

static int begins_with(const char *text, const char *begin)
{
	while (*begin && *text == *begin)
		text++, begin++;
	return !*begin;
}

/* The first two have no file. Trapline's own memory has the text of the match. */
int flow_mapped_is_file(const struct maps_row *row)
{
	return row->mode[3] == 's' && row->inode && row->name[0] == '/' &&
	       !begins_with(row->name, "/dev/zero") && !begins_with(row->name, "/SYSV") &&
	       !begins_with(row->name, "/memfd:trapline") &&
	       !maps_has(row, (uint64_t)(uintptr_t)flow_region);
}

void flow_mapped_start(void)
{
	struct maps maps;
	char name[64];

	maps_open(&maps, 0, name, sizeof(name));
	for (const struct maps_row *row; (row = maps_next(&maps));)
		if (flow_mapped_is_file(row))
			remember(row->start, row->end, row->inode, 0);
	maps_close(&maps);
}

/* ---- the sinks ---- */

static uint64_t look_in(const struct flow_moment *m, const char *name, const struct maps_row *row,
			uint64_t start, uint64_t end)
{
	const struct mapped *known = find(start, end);
	const int is_searched = known && known->lacked_text && known->inode == row->inode;
	struct flow_open open = { .path = "" };

	flow_copy_name(open.path, row->name, sizeof(open.path));
	return flow_sink_mapped(m, name, &open, start, end - start, is_searched);
}

static uint64_t look_between(const struct flow_moment *m, const char *name, uint64_t start,
			     uint64_t end)
{
	struct maps maps;
	char path[sizeof(((struct flow_open *)NULL)->path)];
	uint64_t met = 0;

	maps_open(&maps, 0, path, sizeof(path));
	for (const struct maps_row *row; (row = maps_next(&maps));) {
		const uint64_t from = row->start > start ? row->start : start;
		const uint64_t to = row->end < end ? row->end : end;

		if (from < to && flow_mapped_is_file(row))
			met += look_in(m, name, row, from, to);
	}
	maps_close(&maps);
	return met;
}

uint64_t flow_mapped_sink(const struct flow_moment *m, const struct flow_site *site)
{
	const uint64_t start = flow_argument(m, 0);
	const uint64_t end = start + ((flow_argument(m, 1) + 4095) & ~4095ull);
	const uint64_t met = look_between(m, site->name, start, end);

	if (site->argument == FLOW_MAPPED_ENDS)
		forget(start, end);
	return met;
}

void flow_mapped_end(void)
{
	const uint64_t regs[INSN_RIP + 1] = { 0 };
	struct flow_thread *t;

	/* A child that follows nothing has what its parent has, which reports it. */
	if (!flow_has_followed() || sys_getpid() != flow_self)
		return;
	t = memory_map_sparse(sizeof(*t));
	if (memory_failed(t)) {
		flow_count(FLOW_LOST_MAPPED, 1);
		return;
	}
	const struct flow_moment m = { .thread = t, .regs = regs, .has_ended = 1 };
	look_between(&m, "shared mapping", 0, UINT64_MAX);
	memory_unmap(t, sizeof(*t));
}
