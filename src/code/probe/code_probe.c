/* SPDX-License-Identifier: MIT */
/* code_probe.c - see code_probe.h: probes come and go, their code stays. */
#include "code/probe/code_probe.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "code/poke/change.h"
#include "code/poke/poke.h"
#include "code/poke/poke_any_mask.h"
#include "code/poke/reserved.h"
#include "code/poke/text.h"
#include "code/poke/traps.h"
#include "code/probe/probe_jump.h"
#include "code/probe/probe_stub.h"
#include "code/step/step_plan.h"

#define LOOK_AT_BYTES 32u

/* What only opening and closing use. */
struct probe_site_row {
	struct probe_jump jump;
	uint64_t stub;
	uint32_t filter_length;
	const uint64_t *through; /* the filter is a jump through this word */
	uint64_t when_true;
	uint8_t is_placed; /* the jump is in the text */
	uint8_t is_owned;
};

static struct probe_site_row rows[CODE_PROBES_MAX];
static uint32_t row_count;
/* How many probes are in the code, by page: a page without any is most of what is asked for. */
#define PAGE_ROWS 1024u
static uint16_t placed_in[PAGE_ROWS];

/* The stub begins with it. How far its jump to "true" goes is the stub's own. */
static int begins_with(uint64_t stub, const struct code_filter *filter)
{
	const uint8_t *bytes = (const uint8_t *)(uintptr_t)stub;
	uint32_t behind = filter->true_at + (uint32_t)sizeof(int32_t);

	if (!filter->length || !filter->bytes)
		return 1;
	return !memcmp(bytes, filter->bytes, filter->true_at) &&
	       !memcmp(bytes + behind, filter->bytes + behind, filter->length - behind);
}

static int is_filter_of(const struct probe_site_row *row, const struct code_filter *filter)
{
	if (filter->through || row->through)
		return row->through == filter->through;
	return row->filter_length == filter->length && begins_with(row->stub, filter);
}

uint64_t code_probe_stub(uint32_t number)
{
	return rows[number].stub;
}

uint64_t code_probe_true(uint32_t number)
{
	return rows[number].when_true;
}

static uint16_t *placed_near(uint64_t address)
{
	return &placed_in[address / PAGE_BYTES % PAGE_ROWS];
}

/* 1: the bytes are a probe's, or decide where its jump leads. Lock held. */
static int code_probe_has(uint64_t address, size_t len)
{
	/* One that begins before the bytes may reach into them. */
	if (!atomic_get(placed_near(address - SITE_MAX)) &&
	    !atomic_get(placed_near(address + len - 1)))
		return 0;
	for (uint32_t i = 0; i < row_count; i++) {
		uint32_t bytes = rows[i].jump.len > JUMP_BYTES ? rows[i].jump.len : JUMP_BYTES;

		if (rows[i].is_placed && address < code_probes[i].address + bytes &&
		    address + len > code_probes[i].address)
			return 1;
	}
	return 0;
}

/* As many bytes as there are, up to a decoder's need. */
static size_t read_site(uint64_t address, uint8_t *out)
{
	size_t n = LOOK_AT_BYTES;

	if (!text_read(address, out, n))
		return n;
	n = PAGE_BYTES - (address & (PAGE_BYTES - 1));
	return n < LOOK_AT_BYTES && !text_read(address, out, n) ? n : 0;
}

/* Also behind the instruction, where its jump would end: another library may lie there now. */
static int is_text_of(const struct probe_jump *jump, const uint8_t *text)
{
	size_t behind = jump->len < JUMP_BYTES ? JUMP_BYTES - jump->len : 0;

	return !memcmp(jump->before, text, jump->len) &&
	       !memcmp(jump->after + jump->len, text + jump->len, behind);
}

static int find_retired(uint64_t address, const struct code_filter *filter, const uint8_t *text)
{
	for (uint32_t i = 0; i < row_count; i++)
		if (!rows[i].is_placed && !rows[i].is_owned && code_probes[i].address == address &&
		    is_filter_of(&rows[i], filter) && is_text_of(&rows[i].jump, text))
			return (int)i;
	return -1;
}

static int make_row(uint64_t address, const struct code_filter *filter, void (*entry)(void),
		    const uint8_t *text, size_t available, struct code_problem *problem)
{
	struct probe_site_row *row = &rows[row_count];
	struct probe_stub stub;
	int length = step_length(text, available);
	struct probe_stub_wish wish = { address, text, (uint32_t)length, filter, row_count, entry };

	problem->why = "no instruction begins there";
	if (length <= 0)
		return -EINVAL;
	problem->why = "there is a breakpoint, or a uprobe of another tool";
	if (probe_jump_is_busy(address, text, available))
		return -EBUSY;
	problem->why = "a shadow stack does not permit the way back from a probe";
	if (step_has_shadow_stack())
		return -EOPNOTSUPP;
	problem->why = "too many probes have been made";
	if (row_count == CODE_PROBES_MAX)
		return -ENOSPC;
	int err = probe_stub_make(&wish, &stub, &problem->why);
	if (!err)
		err = probe_jump_make(address, text, available, stub.start, filter->may_crowd,
				      &row->jump, &problem->why);
	if (err)
		return err;
	row->filter_length = filter->length;
	row->through = filter->through;
	row->stub = stub.start;
	row->when_true = stub.when_true;
	code_probes[row_count].address = address;
	code_probes[row_count].resume = stub.resume;
	return (int)row_count++;
}

/* Lock taken and given. The row, owned and not placed, or -errno. */
static int take_row(uint64_t address, const struct code_filter *filter, void (*entry)(void),
		    struct code_problem *problem)
{
	uint8_t text[LOOK_AT_BYTES];
	int err = poke_lock_take(problem);

	if (err)
		return err;
	size_t available = read_site(address, text);
	int row = -EFAULT;

	problem->why = "the address is not mapped";
	if (available) {
		row = -EBUSY;
		problem->why = "another probe or a trap is there";
		if (!code_probe_has(address, JUMP_BYTES) && !traps_overlap(address, JUMP_BYTES))
			row = find_retired(address, filter, text);
		if (row == -1)
			row = make_row(address, filter, entry, text, available, problem);
	}
	if (row >= 0)
		rows[row].is_owned = 1;
	poke_lock_give();
	return row;
}

static struct trapline_poke_site site_of(uint32_t number, int on)
{
	const struct probe_site_row *row = &rows[number];

	return (struct trapline_poke_site){
		.address = code_probes[number].address,
		.expect = on ? row->jump.before : row->jump.after,
		.bytes = on ? row->jump.after : row->jump.before,
		.len = row->jump.len,
	};
}

static int switch_site(uint32_t number, int on, struct code_problem *problem)
{
	const struct trapline_poke_site site = site_of(number, on);

	return poke_any_mask(&site, 1, POKE_OF_PROBE, problem);
}

static void note_placed(uint32_t number, int is_placed)
{
	atomic_add(placed_near(code_probes[number].address),
		   (uint16_t)(is_placed - rows[number].is_placed));
	atomic_set(&rows[number].is_placed, (uint8_t)is_placed);
}

static int text_has(uint64_t address, const uint8_t *bytes, size_t len)
{
	uint8_t text[SITE_MAX];

	return !text_read(address, text, len) && !memcmp(text, bytes, len);
}

enum presence {
	IS_GONE,    /* its library was unloaded, and perhaps loaded again; a uprobe came and went */
	IS_COVERED, /* by an int3: with a debugger it comes back, with a uprobe it does not */
	IS_THERE
};

static enum presence look_at(uint32_t number)
{
	const struct probe_jump *jump = &rows[number].jump;
	uint8_t text[SITE_MAX];

	if (text_read(code_probes[number].address, text, jump->len))
		return IS_GONE;
	const int is_covered = trap_is(text);
	if (is_covered)
		memcpy(text, jump->after, TRAP_BYTES);
	if (memcmp(text, jump->after, jump->len))
		return IS_GONE;
	return is_covered ? IS_COVERED : IS_THERE;
}

/* Those that could not be closed where that was asked for. */
static void close_left_over(void)
{
	struct code_problem problem;

	for (uint32_t i = 0; i < row_count; i++)
		if (rows[i].is_placed && !rows[i].is_owned)
			note_placed(i, switch_site(i, 0, &problem) && look_at(i) != IS_GONE);
}

static void reserve_probes(void)
{
	static const struct reserved_owner probes = { code_probe_has, "a probe is there" };

	reserved_add_owner(&probes);
}

int code_probe_open(uint64_t address, const struct code_filter *filter, void (*entry)(void),
		    void *owner, uint32_t generation, uint32_t *number,
		    struct code_problem *problem)
{
	reserve_probes();
	close_left_over();
	int row = take_row(address, filter, entry, problem);

	if (row < 0)
		return row;
	if (filter->through)
		atomic_set(filter->through, code_probes[row].resume);
	code_probes[row].generation = generation;
	atomic_set(&code_probes[row].owner, owner);
	/* Before the jump is written: what it rests on must not change from here on. */
	note_placed((uint32_t)row, 1);
	int err = switch_site((uint32_t)row, 1, problem);
	if (err) {
		note_placed((uint32_t)row, 0);
		atomic_set(&code_probes[row].owner, NULL);
		rows[row].is_owned = 0;
		return err;
	}
	*number = (uint32_t)row;
	return 0;
}

int code_probe_close(uint32_t number, struct code_problem *problem)
{
	atomic_set(&code_probes[number].owner, NULL);
	const struct probe_site_row *row = &rows[number];
	int err = switch_site(number, 0, problem);

	/* A uprobe of another tool has come and gone. */
	if (err == -EBUSY && text_has(code_probes[number].address, row->jump.before, row->jump.len))
		err = 0;
	if (!err || look_at(number) == IS_GONE)
		note_placed(number, 0);
	rows[number].is_owned = 0;
	return err;
}

/* ---- many at once ---- */

/* 0, or -errno and all are as they were. */
static int switch_many(const struct code_probe_wish *wishes, size_t n, int on,
		       struct code_problem *problem)
{
	struct trapline_poke_site *sites = memory_map(n * sizeof(*sites));
	size_t count = 0;

	if (memory_failed(sites))
		return memory_error(sites);
	for (size_t i = 0; i < n; i++)
		if (!wishes[i].error && (on || look_at(wishes[i].number) == IS_THERE))
			sites[count++] = site_of(wishes[i].number, on);
	const int err = poke_any_mask(sites, count, POKE_OF_PROBE, problem);
	memory_unmap(sites, n * sizeof(*sites));
	return err;
}

/* Before its jump is there. false: windows have no room for it. */
static int hide(uint32_t number)
{
	const struct probe_jump *jump = &rows[number].jump;
	const uint64_t address = code_probes[number].address;
	const uint32_t count = code_probe_text_count;
	struct code_probe_text *row = &code_probe_texts[count];

	for (uint32_t i = 0; i < count; i++)
		if (code_probe_texts[i].address == address &&
		    !memcmp(code_probe_texts[i].after, jump->after, jump->len))
			return 1;
	if (count == CODE_PROBES_HIDDEN)
		return 0;
	row->address = address;
	row->len = jump->len;
	memcpy(row->before, jump->before, sizeof(row->before));
	memcpy(row->after, jump->after, sizeof(row->after));
	atomic_set(&code_probe_text_count, count + 1);
	return 1;
}

static int prepare(struct code_probe_wish *wish, void (*entry)(void))
{
	static const struct code_filter always = { .bytes = NULL };
	struct code_problem problem = { NULL, 0 };
	const int row = take_row(wish->address, &always, entry, &problem);

	wish->why = problem.why;
	if (row < 0)
		return row;
	wish->number = (uint32_t)row;
	if (!hide(wish->number)) {
		rows[row].is_owned = 0;
		wish->why = "too many probes have been made";
		return -ENOSPC;
	}
	code_probes[row].generation = 0;
	atomic_set(&code_probes[row].owner, wish->owner);
	note_placed(wish->number, 1);
	return 0;
}

static void forget_many(const struct code_probe_wish *wishes, size_t n, int is_back)
{
	for (size_t i = 0; i < n; i++) {
		if (wishes[i].error)
			continue;
		atomic_set(&code_probes[wishes[i].number].owner, NULL);
		if (is_back)
			note_placed(wishes[i].number, look_at(wishes[i].number) == IS_COVERED);
		rows[wishes[i].number].is_owned = 0;
	}
}

int code_probe_open_many(struct code_probe_wish *wishes, size_t n, void (*entry)(void),
			 struct code_problem *problem)
{
	size_t count = 0;

	reserve_probes();
	close_left_over();
	for (size_t i = 0; i < n; i++) {
		wishes[i].error = prepare(&wishes[i], entry);
		count += !wishes[i].error;
	}
	int err = count ? switch_many(wishes, n, 1, problem) : 0;
	if (err)
		forget_many(wishes, n, 1);
	return err;
}

int code_probe_close_many(const struct code_probe_wish *wishes, size_t n,
			  struct code_problem *problem)
{
	const int err = switch_many(wishes, n, 0, problem);

	/* Those that are left are tried again by close_left_over(). */
	forget_many(wishes, n, !err);
	return err;
}
