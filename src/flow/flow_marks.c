/* SPDX-License-Identifier: MIT */
/*
 * flow_marks.c - the marks of memory, by pages.
 *
 * A page gets its marks when one is set in it, and keeps them. The table is open addressing; a
 * filter of bits states at once that a page has none. Threads write marks without a lock: two that
 * write one byte at once race for the byte too.
 */
#include "base/general_regs.h"

#include "flow/flow_marks.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sys.h"
#include "flow/flow_state.h"
#include "flow/flow_watch.h"

#define PAGES TABLE_SIZE(2048u, 16u)
#define ROWS (2 * PAGES)
#define FILTER_BITS 65536u
#define SETTLED 0x100u
#define SETTLED_LAST 0x200u /* by the window that was the last one here */
#define ROW_LEAST 8u
#define GAP_MOST \
	4u /* from a byte of a row to the next: in wide characters, and where each is quoted */
#define ROW_REACH (ROW_LEAST * GAP_MOST)
#define SIGNAL_FRAME_MOST 32768u

struct marked_page {
	uint64_t number; /* address / 4096; 0: free */
	flow_mark mark[4096];
	/* SETTLED | SETTLED_LAST | what the byte was at the end of its window */
	uint16_t value[4096];
};

static struct marked_page *pages;
static uint32_t pages_used;
static uint32_t rows[ROWS]; /* number of a page + 1 */
static uint64_t filter[FILTER_BITS / 64];

int flow_marks_start(void)
{
	void *memory = memory_map_sparse(PAGES * sizeof(*pages));

	if (memory_failed(memory))
		return memory_error(memory);
	pages = memory;
	return 0;
}

void flow_marks_give(void)
{
	atomic_set(&pages_used, PAGES);
	memory_unmap(pages, PAGES * sizeof(*pages));
	pages = NULL;
}

static uint32_t row_of(uint64_t page)
{
	return (uint32_t)(page * HASH_MIX >> 40) % ROWS;
}

static int filter_has(uint64_t page)
{
	return counter_get(&filter[page % FILTER_BITS / 64]) >> page % 64 & 1;
}

int flow_marks_may(uint64_t address, uint64_t bytes)
{
	const uint64_t last = (address + bytes - 1) >> 12;

	if (!bytes)
		return 0;
	for (uint64_t page = address >> 12; page <= last; page++)
		if (filter_has(page))
			return 1;
	return 0;
}

static struct marked_page *find_page(uint64_t page)
{
	if (!filter_has(page))
		return NULL;
	for (uint32_t i = row_of(page), n = 0; n < ROWS; n++, i = (i + 1) % ROWS) {
		const uint32_t number = __atomic_load_n(&rows[i], __ATOMIC_ACQUIRE);

		if (!number)
			return NULL;
		if (pages[number - 1].number == page)
			return &pages[number - 1];
	}
	return NULL;
}

static struct marked_page *make_page(uint64_t page)
{
	struct marked_page *found = find_page(page);

	if (found)
		return found;
	if (atomic_get(&pages_used) >= PAGES) {
		flow_count(FLOW_LOST_MARKS, 1);
		return NULL;
	}
	const uint32_t number = atomic_add(&pages_used, 1u);
	if (number >= PAGES) {
		flow_count(FLOW_LOST_MARKS, 1);
		return NULL;
	}
	pages[number].number = page;
	for (uint32_t i = row_of(page);; i = (i + 1) % ROWS) {
		uint32_t none = 0;

		/*
		 * Two threads may make a page at once: the first in the row is the one that is
		 * found.
		 */
		if (atomic_cas(&rows[i], &none, number + 1))
			break;
	}
	__atomic_fetch_or(&filter[page % FILTER_BITS / 64], 1ull << page % 64, __ATOMIC_SEQ_CST);
	return find_page(page);
}

flow_mark *flow_marks_page(uint64_t page)
{
	struct marked_page *p = find_page(page);

	return p ? p->mark : NULL;
}

uint64_t flow_marks_next(uint32_t *at)
{
	uint32_t used = atomic_get(&pages_used);

	return *at < used && *at < PAGES ? pages[(*at)++].number : 0;
}

static int is_equal_to_source(flow_mark mark, uint8_t byte)
{
	const struct flow_text *text = &flow_texts[flow_source_of(mark)];

	return flow_offset_of(mark) < text->count && text->bytes[flow_offset_of(mark)] == byte;
}

static int is_as_it_was(const struct marked_page *p, uint32_t index, flow_mark mark, uint8_t byte)
{
	const uint16_t value = p->value[index];

	if (!(mark & FLOW_IS_COMPUTED))
		return is_equal_to_source(mark, byte);
	return !(value & SETTLED) || (uint8_t)value == byte;
}

int flow_marks_equals(uint64_t page, uint32_t index, flow_mark mark, uint8_t byte)
{
	const struct marked_page *p = find_page(page);

	return p && is_as_it_was(p, index, mark, byte);
}

/* In one row: the next bytes of the source, or what was computed. */
static int follows(flow_mark mark, flow_mark before)
{
	if (flow_source_of(mark) != flow_source_of(before) ||
	    (mark & FLOW_IS_COMPUTED) != (before & FLOW_IS_COMPUTED))
		return 0;
	return mark & FLOW_IS_COMPUTED || flow_offset_of(mark) == flow_offset_of(before) + 1;
}

/* Bytes of the page as they are now: `count`, from `first` on. */
struct present {
	const uint8_t *bytes;
	uint32_t first;
	uint32_t count;
};

static int is_as_now(const struct marked_page *p, uint32_t index, const struct present *now)
{
	return index - now->first < now->count &&
	       is_as_it_was(p, index, p->mark[index], now->bytes[index - now->first]);
}

/*
 * How many bytes of its row are beside one, of at most `enough`; step: -1 before it, 1 behind it.
 */
static uint32_t row_beside(const struct marked_page *p, uint32_t index, int step,
			   const struct present *now, uint32_t enough)
{
	uint32_t n = 0;
	uint32_t gap = 1;

	for (uint32_t at = index + (uint32_t)step; n < enough && at < 4096 && gap <= GAP_MOST;
	     at += (uint32_t)step, gap++) {
		if (!p->mark[at])
			continue;
		if (!is_as_now(p, at, now) ||
		    !follows(p->mark[step > 0 ? at : index], p->mark[step > 0 ? index : at]))
			break;
		index = at;
		gap = 0;
		n++;
	}
	return n;
}

static int is_certain(const struct marked_page *p, uint32_t index, const struct present *now)
{
	const uint32_t all = flow_texts[flow_source_of(p->mark[index])].count;
	const uint32_t enough = (all < ROW_LEAST ? all : ROW_LEAST) - 1;

	if (!is_as_now(p, index, now))
		return 0;
	if (!(p->value[index] & SETTLED))
		return 1;
	const uint32_t before = row_beside(p, index, -1, now, enough);
	return before + row_beside(p, index, 1, now, enough - before) >= enough;
}

int flow_marks_holds(uint64_t page, uint32_t index, const uint8_t *now)
{
	const struct marked_page *p = find_page(page);

	const struct present all = { now, 0, 4096 };

	return p && is_certain(p, index, &all);
}

static void note_fresh(struct flow_thread *t, uint64_t page)
{
	if (t->pages_fresh && t->fresh[(t->pages_fresh - 1) % FLOW_CLEAN_PAGES] == page)
		return;
	for (uint32_t i = 0; i < t->pages_fresh && i < FLOW_CLEAN_PAGES; i++)
		if (t->fresh[i] == page)
			return;
	if (t->pages_fresh < FLOW_CLEAN_PAGES)
		t->fresh[t->pages_fresh] = page;
	t->pages_fresh += t->pages_fresh <= FLOW_CLEAN_PAGES;
}

/*
 * Renews the marks of an earlier window: those that are not certain are dropped, and the others are
 * of this one now.
 */
static void renew(struct flow_thread *t, struct marked_page *p, uint64_t address, uint32_t bytes)
{
	const uint32_t first = address & 4095;
	const uint32_t from = first < ROW_REACH ? 0 : first - ROW_REACH;
	const uint32_t end = first + bytes + ROW_REACH;
	const uint32_t to = end < 4096 ? end : 4096;
	uint8_t bytes_now[64 + 2 * ROW_REACH];
	uint64_t is_sure = 0;
	const size_t readable = window_read(bytes_now, (address & ~4095ull) + from, to - from);
	const struct present now = { bytes_now, from, (uint32_t)readable };

	for (uint32_t i = 0; i < bytes; i++)
		if (p->mark[first + i] && is_certain(p, first + i, &now))
			is_sure |= 1ull << i;
	for (uint32_t i = 0; i < bytes; i++) {
		if (!p->mark[first + i])
			continue;
		if (is_sure & 1ull << i) {
			p->value[first + i] = 0;
			continue;
		}
		flow_count(FLOW_STALE, 1);
		p->mark[first + i] = 0;
	}
	note_fresh(t, address >> 12);
}

/* Loads a part of one page. */
static int load_part(struct flow_thread *t, uint64_t address, uint32_t bytes, flow_mark *out)
{
	struct marked_page *p = find_page(address >> 12);
	const uint32_t first = address & 4095;
	flow_mark any = 0;
	uint32_t settled = 0;

	for (uint32_t i = 0; p && i < bytes; i++) {
		any |= p->mark[first + i];
		settled |= p->mark[first + i] ? p->value[first + i] : 0;
	}
	if (!any)
		return 0;
	if (settled)
		renew(t, p, address, bytes);
	any = 0;
	for (uint32_t i = 0; i < bytes; i++)
		any |= out[i] = p->mark[first + i];
	return any != 0;
}

int flow_marks_load(struct flow_thread *t, uint64_t address, uint32_t bytes, flow_mark *out)
{
	const uint32_t left = 4096 - (uint32_t)(address & 4095);
	int any;

	for (uint32_t i = 0; i < bytes; i++)
		out[i] = 0;
	if (bytes <= left)
		return load_part(t, address, bytes, out);
	any = load_part(t, address, left, out);
	return load_part(t, address + left, bytes - left, out + left) | any;
}

static void store_part(struct flow_thread *t, uint64_t address, uint32_t bytes, const flow_mark *in)
{
	const uint32_t first = address & 4095;
	struct marked_page *p;
	flow_mark any = 0;

	for (uint32_t i = 0; i < bytes; i++)
		any |= in[i];
	p = any ? make_page(address >> 12) : find_page(address >> 12);
	if (!p)
		return;
	for (uint32_t i = 0; i < bytes; i++) {
		p->mark[first + i] = in[i];
		p->value[first + i] = 0;
	}
	if (any)
		note_fresh(t, address >> 12);
}

void flow_marks_store(struct flow_thread *t, uint64_t address, uint32_t bytes, const flow_mark *in)
{
	const uint32_t left = 4096 - (uint32_t)(address & 4095);

	if (bytes <= left) {
		store_part(t, address, bytes, in);
		return;
	}
	store_part(t, address, left, in);
	store_part(t, address + left, bytes - left, in + left);
}

void flow_marks_clear(uint64_t address, uint64_t bytes)
{
	while (bytes) {
		const uint32_t first = address & 4095;
		const uint64_t part = bytes < 4096 - first ? bytes : 4096 - first;
		struct marked_page *p = find_page(address >> 12);

		for (uint64_t i = 0; p && i < part; i++)
			p->mark[first + i] = 0;
		address += part;
		bytes -= part;
	}
}

static void move_page(struct flow_thread *t, struct marked_page *p, uint64_t to)
{
	struct marked_page *q = make_page(to);

	for (uint32_t i = 0; i < 4096; i++) {
		if (q) {
			q->mark[i] = p->mark[i];
			q->value[i] = p->value[i];
		}
		p->mark[i] = 0;
	}
	if (q)
		note_fresh(t, to);
	/* What was kept there is not looked for any more. */
	note_fresh(t, p->number);
}

uint32_t flow_marks_move(struct flow_thread *t, uint64_t from, uint64_t to, uint64_t bytes)
{
	const uint32_t used = atomic_get(&pages_used);
	const uint64_t end = (from + bytes + 4095) >> 12;
	uint32_t moved = 0;

	for (uint32_t k = 0; k < used && k < PAGES; k++) {
		struct marked_page *p = &pages[k];

		if (p->number < from >> 12 || p->number >= end || find_page(p->number) != p)
			continue;
		flow_mark any = 0;
		for (uint32_t i = 0; i < 4096; i++)
			any |= p->mark[i];
		if (!any)
			continue;
		move_page(t, p, (to >> 12) + (p->number - (from >> 12)));
		moved++;
	}
	return moved;
}

/* Below the stack pointer lies the frame of the signal that ends the window. */
static void count_change(const struct flow_thread *t, const struct marked_page *p, uint32_t i)
{
	const uint64_t below = t->area->regs.r[INSN_RSP] - ((p->number << 12) + i);

	if (p->value[i] & SETTLED)
		flow_count(FLOW_STALE, 1);
	else if (below > SIGNAL_FRAME_MOST)
		flow_count(FLOW_CHANGED, 1);
}

static void extend_by(struct marked_page *p, uint32_t from, uint32_t to, const uint8_t *now)
{
	const flow_mark mark = p->mark[from];
	const int64_t offset = (int64_t)flow_offset_of(mark) + (to > from ? 1 : -1);
	const struct flow_text *text = &flow_texts[flow_source_of(mark)];

	if (p->mark[to] || offset < 0 || offset >= text->count || text->bytes[offset] != now[to])
		return;
	p->mark[to] = flow_mark_of(flow_source_of(mark), (uint32_t)offset, flow_step_of(mark)) |
		      (mark & FLOW_IS_FOUND);
	p->value[to] = SETTLED | now[to];
}

static void extend_rows(struct marked_page *p, const uint8_t *now)
{
	uint32_t row = 0;

	for (uint32_t i = 0; i < 4096; i++) {
		if (!p->mark[i] || p->mark[i] & FLOW_IS_COMPUTED) {
			row = 0;
			continue;
		}
		row = row && follows(p->mark[i], p->mark[i - 1]) ? row + 1 : 1;
		if (row < ROW_LEAST)
			continue;
		if (row == ROW_LEAST)
			for (uint32_t k = i + 1 - row; k && !p->mark[k - 1] && p->mark[k]; k--)
				extend_by(p, k, k - 1, now);
		if (i < 4095)
			extend_by(p, i, i + 1, now);
	}
}

void flow_marks_extend(uint64_t page, const uint8_t *now)
{
	struct marked_page *p = find_page(page);

	if (p)
		extend_rows(p, now);
}

static void report_row(const struct marked_page *p, uint32_t start, uint32_t end, uint32_t marked)
{
	const uint32_t all = flow_texts[flow_source_of(p->mark[start])].count;

	if (marked >= ROW_LEAST || marked == all)
		flow_watch_keep((p->number << 12) + start, end - start,
				(p->mark[start] & FLOW_IS_COMPUTED) != 0);
}

/*
 * Rows that were moved only and are as in the source, or that were computed. Between their bytes
 * may be others: in wide characters, and where a program marks each one as quoted.
 */
static void report_kept(const struct marked_page *p)
{
	uint32_t start = 0;
	uint32_t last = 0;
	uint32_t marked = 0;

	flow_watch_page(p->number);
	for (uint32_t i = 0; i < 4096; i++) {
		if (!p->mark[i])
			continue;
		if (!marked || i - last > GAP_MOST || !follows(p->mark[i], p->mark[last])) {
			if (marked)
				report_row(p, start, last + 1, marked);
			start = i;
			marked = 0;
		}
		last = i;
		marked++;
	}
	if (marked)
		report_row(p, start, last + 1, marked);
}

static void settle_page(struct flow_thread *t, struct marked_page *p)
{
	/* In a signal handler, where a fault would be the end: the kernel copies. */
	const ssize_t readable =
		sys_read_memory(sys_getpid(), p->number << 12, t->page, sizeof(t->page));

	for (uint32_t i = 0; i < 4096; i++) {
		const flow_mark mark = p->mark[i];

		if (!mark)
			continue;
		if (readable <= 0) {
			p->mark[i] = 0;
		} else if (!(mark & FLOW_IS_COMPUTED) && !is_equal_to_source(mark, t->page[i])) {
			count_change(t, p, i);
			p->mark[i] = 0;
		} else if (!(p->value[i] & SETTLED)) {
			p->value[i] = SETTLED | SETTLED_LAST | t->page[i];
		} else {
			p->value[i] &= (uint16_t)~SETTLED_LAST;
		}
	}
	if (readable == (ssize_t)sizeof(t->page))
		extend_rows(p, t->page);
	report_kept(p);
}

void flow_marks_report(const struct flow_thread *t)
{
	for (uint32_t i = 0; i < t->pages_fresh && i < FLOW_CLEAN_PAGES; i++) {
		const struct marked_page *p = find_page(t->fresh[i]);

		if (p)
			report_kept(p);
	}
}

void flow_marks_settle(struct flow_thread *t)
{
	const uint32_t used = atomic_get(&pages_used);

	if (t->pages_fresh <= FLOW_CLEAN_PAGES) {
		for (uint32_t i = 0; i < t->pages_fresh; i++) {
			struct marked_page *p = find_page(t->fresh[i]);

			if (p)
				settle_page(t, p);
		}
	} else {
		for (uint32_t i = 0; i < used && i < PAGES; i++)
			settle_page(t, &pages[i]);
	}
	t->pages_settled = t->pages_fresh;
	t->pages_fresh = 0;
}

static void resume_page(struct flow_thread *t, struct marked_page *p)
{
	if (sys_read_memory(sys_getpid(), p->number << 12, t->page, sizeof(t->page)) !=
	    sizeof(t->page))
		return;
	for (uint32_t i = 0; i < sizeof(t->page); i++)
		if (p->mark[i] && p->value[i] & SETTLED_LAST &&
		    is_as_it_was(p, i, p->mark[i], t->page[i]))
			p->value[i] = 0;
}

void flow_marks_resume(struct flow_thread *t)
{
	t->pages_fresh = t->pages_settled <= FLOW_CLEAN_PAGES ? t->pages_settled : 0;
	for (uint32_t i = 0; i < t->pages_fresh; i++) {
		struct marked_page *p = find_page(t->fresh[i]);

		if (p)
			resume_page(t, p);
	}
}
