/* SPDX-License-Identifier: MIT */
/*
 * code_parse_at.c - which bytes were at an address at a time, byte by byte.
 *
 * The last change of a byte that has begun decides, by the stage that it is in. Before the first
 * one a byte is what that one found there. Where two changes contradict each other, something
 * else wrote between them, and nothing is known there.
 */
#include "record/code_parse_at.h"

#include <errno.h>

#include <trapline/code.h>

#include "record/code_layout.h"
#include "record/code_parse.h"

#define BYTE_UNKNOWN (-1)   /* the log has it nowhere */
#define BYTE_AMBIGUOUS (-2) /* one thing or another */
#define BYTE_LOST (-3)	    /* the log has a hole there */

struct answer {
	int value;
	uint64_t from_ns;
	uint64_t until_ns;
};

struct neighbours {
	const struct code_item *last; /* begun */
	const struct code_item *next; /* the first that begins later */
};

static const struct code_change *change_of(const struct trapline_code_log *log,
					   const struct code_item *item)
{
	return &log->changes[item->change];
}

static size_t length_of(const struct code_item *item)
{
	return item->entry.kind == TRAPLINE_CODE_ENTRY_FILL ? (size_t)item->entry.other :
							      item->entry.len;
}

static void look_at_item(const struct trapline_code_log *log, const struct code_item *item,
			 uint64_t address, uint64_t time_ns, struct neighbours *n)
{
	uint64_t begin = change_of(log, item)->begin_ns;

	if (address - item->entry.address >= length_of(item))
		return;
	if (begin <= time_ns) {
		if (!n->last || begin > change_of(log, n->last)->begin_ns ||
		    (begin == change_of(log, n->last)->begin_ns && item > n->last))
			n->last = item;
	} else if (!n->next || begin < change_of(log, n->next)->begin_ns ||
		   (begin == change_of(log, n->next)->begin_ns && item < n->next)) {
		n->next = item;
	}
}

/* The first short item of the life at or behind the address. */
static size_t first_at(const struct trapline_code_log *log, uint32_t life, uint64_t address)
{
	size_t low = 0;
	size_t high = log->short_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct code_item *item = &log->items[log->by_address[middle]];

		if (item->life < life || (item->life == life && item->entry.address < address))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct neighbours find_neighbours(const struct trapline_code_log *log, uint32_t life,
					 uint64_t address, uint64_t time_ns)
{
	struct neighbours n = { NULL, NULL };
	uint64_t from = address < CODE_SHORT_MAX ? 0 : address - CODE_SHORT_MAX;

	for (size_t i = first_at(log, life, from); i < log->short_count; i++) {
		const struct code_item *item = &log->items[log->by_address[i]];

		if (item->life != life || item->entry.address > address)
			break;
		look_at_item(log, item, address, time_ns, &n);
	}
	for (size_t i = log->short_count; i < log->by_address_count; i++) {
		const struct code_item *item = &log->items[log->by_address[i]];

		if (item->life == life)
			look_at_item(log, item, address, time_ns, &n);
	}
	return n;
}

static int before_of(const struct code_item *item, uint64_t address)
{
	return item->entry.before ? item->entry.before[address - item->entry.address] :
				    BYTE_UNKNOWN;
}

static int after_of(const struct code_item *item, uint64_t address)
{
	if (item->entry.kind == TRAPLINE_CODE_ENTRY_KSYMBOL)
		return BYTE_LOST;
	if (!item->entry.after)
		return BYTE_UNKNOWN;
	return item->entry.kind == TRAPLINE_CODE_ENTRY_FILL ?
		       item->entry.after[0] :
		       item->entry.after[address - item->entry.address];
}

/* What keeps threads away, at this byte; BYTE_UNKNOWN: nothing. */
static int marker_of(const struct code_change *change, uint64_t offset)
{
	static const struct {
		uint8_t bytes[4];
		uint8_t len;
	} markers[CODE_FORMS] = {
		[CODE_FORM_TRAP] = { { 0xcc }, 1 },
		[CODE_FORM_SPIN] = { { 0xeb, 0xfe }, 2 },
		[CODE_FORM_BRK] = { CODE_BRK, 4 },
	};

	return offset < markers[change->form].len ? markers[change->form].bytes[offset] :
						    BYTE_UNKNOWN;
}

static int either(int one, int other)
{
	return one == other && one != BYTE_UNKNOWN ? one : BYTE_AMBIGUOUS;
}

static void set_answer(struct answer *a, int value, uint64_t from_ns, uint64_t until_ns)
{
	a->value = value;
	a->from_ns = from_ns;
	if (until_ns && until_ns < a->until_ns)
		a->until_ns = until_ns;
}

/* until_ns of the answer is that of the change behind. */
static void ask_change(const struct code_change *change, const struct code_item *item,
		       uint64_t address, uint64_t time_ns, struct answer *a)
{
	int before = before_of(item, address);
	int after = after_of(item, address);
	int marker = marker_of(change, address - item->entry.address);
	int is_marked = marker != BYTE_UNKNOWN;

	if (change->end_ns && time_ns >= change->end_ns) {
		int value = change->outcome == TRAPLINE_CODE_DONE   ? after :
			    change->outcome == TRAPLINE_CODE_UNDONE ? before :
			    is_marked				    ? BYTE_AMBIGUOUS :
								      either(before, after);
		set_answer(a, value, change->end_ns, 0);
	} else if (change->form == CODE_FORM_DIRECT) {
		set_answer(a, either(before, after), change->begin_ns, change->end_ns);
	} else if (!change->trap_ns || time_ns < change->trap_ns) {
		set_answer(a, is_marked ? either(before, marker) : before, change->begin_ns,
			   change->trap_ns ? change->trap_ns : change->end_ns);
	} else if (!change->open_ns || time_ns < change->open_ns) {
		set_answer(a, is_marked ? marker : before, change->trap_ns,
			   change->open_ns ? change->open_ns : change->end_ns);
	} else {
		set_answer(a, is_marked ? either(marker, after) : either(before, after),
			   change->open_ns, change->end_ns);
	}
}

/* A change that is lost may have been to any byte, until that is changed again. */
static void ask_losses(const struct trapline_code_log *log, uint32_t life, uint64_t since_ns,
		       uint64_t time_ns, struct answer *a)
{
	for (size_t i = 0; i < log->loss_count; i++) {
		const struct code_loss *loss = &log->losses[i];

		if (loss->life != life)
			continue;
		if (loss->from_ns > time_ns && loss->from_ns < a->until_ns)
			a->until_ns = loss->from_ns;
		if (loss->from_ns <= time_ns && loss->to_ns > since_ns)
			a->value = BYTE_LOST;
	}
}

/* The next change found something else than this one left: another patcher was there. */
static int is_contradicted(const struct trapline_code_log *log, const struct neighbours *n,
			   uint64_t address, uint64_t time_ns, int value)
{
	if (!n->last || !n->next || value < 0)
		return 0;
	const struct code_change *last = change_of(log, n->last);
	int found = before_of(n->next, address);

	return last->end_ns && time_ns >= last->end_ns && found != BYTE_UNKNOWN && found != value;
}

static struct answer ask_life(const struct trapline_code_log *log, uint32_t life, uint64_t address,
			      uint64_t time_ns, int *inherits)
{
	const struct code_life *l = &log->lives[life];
	struct neighbours n = find_neighbours(log, life, address, time_ns);
	struct answer a = {
		.value = BYTE_UNKNOWN,
		.from_ns = l->start_ns,
		.until_ns = n.next ? change_of(log, n.next)->begin_ns : l->end_ns + 1,
	};

	*inherits = 0;
	if (n.last) {
		ask_change(change_of(log, n.last), n.last, address, time_ns, &a);
	} else if (l->parent != CODE_NO_LIFE) {
		*inherits = 1;
	} else if (n.next) {
		a.value = before_of(n.next, address);
	}
	ask_losses(log, life, n.last ? change_of(log, n.last)->begin_ns : 0, time_ns, &a);
	if (is_contradicted(log, &n, address, time_ns, a.value))
		a.value = BYTE_LOST;
	if (a.until_ns > l->end_ns + 1)
		a.until_ns = l->end_ns + 1;
	return a;
}

/* What a child has not changed is what its parent had at the fork; a parent's life comes before. */
static struct answer ask_byte(const struct trapline_code_log *log, uint32_t life, uint64_t address,
			      uint64_t time_ns)
{
	int inherits;
	struct answer a = ask_life(log, life, address, time_ns, &inherits);

	while (inherits && a.value == BYTE_UNKNOWN) {
		const struct code_life *l = &log->lives[life];
		const struct code_life *parent = &log->lives[l->parent];

		if (l->fork_ns < parent->start_ns) {
			a.value = BYTE_LOST;
			return a;
		}
		/* Its record may end before: nothing has changed since then that is recorded. */
		a.value = ask_life(log, l->parent, address, l->fork_ns, &inherits).value;
		life = l->parent;
	}
	return a;
}

static uint32_t find_life(const struct trapline_code_log *log, int32_t pid, uint64_t time_ns,
			  int *err)
{
	uint32_t found = CODE_NO_LIFE;

	*err = -ESRCH;
	for (size_t i = 0; i < log->life_count; i++) {
		if (log->lives[i].pid != pid)
			continue;
		*err = -ENODATA;
		if (log->lives[i].start_ns <= time_ns && time_ns <= log->lives[i].end_ns)
			found = (uint32_t)i;
	}
	return found;
}

static int join(const struct answer *a, struct trapline_code_span *span, int err)
{
	if (a->from_ns > span->from_ns)
		span->from_ns = a->from_ns;
	if (a->until_ns < span->until_ns)
		span->until_ns = a->until_ns;
	span->known += a->value >= 0;
	if (a->value == BYTE_LOST || err == -ENODATA)
		return -ENODATA;
	return a->value == BYTE_AMBIGUOUS ? -EAGAIN : err;
}

int code_log_at(const struct trapline_code_log *log, int32_t pid, uint64_t address,
		uint64_t time_ns, uint8_t *bytes, size_t len, struct trapline_code_span *span)
{
	struct trapline_code_span all = { sizeof(all), 0, UINT64_MAX, 0 };
	int err;
	uint32_t life = find_life(log, pid, time_ns, &err);

	if (life == CODE_NO_LIFE)
		return err;
	err = 0;
	for (size_t i = 0; i < len; i++) {
		struct answer a = ask_byte(log, life, address + i, time_ns);

		err = join(&a, &all, err);
	}
	for (size_t i = 0; i < len && !err; i++) {
		struct answer a = ask_byte(log, life, address + i, time_ns);

		if (a.value >= 0)
			bytes[i] = (uint8_t)a.value;
	}
	if (span)
		*span = all;
	return err;
}
