/* SPDX-License-Identifier: MIT */
/* heap_report.c - see heap_report.h. */
#include "report/heap/heap_report.h"

#include "base/hash.h"
#include "code/insn/insn.h"
#include "report/files/file_places.h"
#include "report/finding/finding_stack.h"
#include "report/plural.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VIEWS_MAX 4096u /* a view has some KiB */

const char *const heap_kind_names[HEAP_KINDS] = {
	[HEAP_USE_AFTER_FREE] = "use-after-free", [HEAP_DOUBLE_FREE] = "double-free",
	[HEAP_INVALID_FREE] = "invalid-free",	  [HEAP_OVERFLOW] = "overflow",
	[HEAP_UNDERFLOW] = "underflow",		  [HEAP_CORRUPTION] = "corruption",
};
const char *const heap_access_names[3] = { "free", "read", "write" };

struct heap_report {
	const struct heap_region *region;
	struct file_places *places;
	struct suppressions *suppressions;
	struct baseline *baseline;
	struct heap_view **views;
	size_t count;
	size_t capacity;
};

static bool path_in(const void *table, uint32_t row, char *path, size_t n)
{
	const struct file_row *file = &((const struct heap_region *)table)->files[row];

	if (!file->ready)
		return false;
	snprintf(path, n, "%.*s", (int)sizeof(file->path) - 1, file->path);
	return true;
}

int heap_report_open(const struct heap_region *region, struct heap_report **out)
{
	struct heap_report *r = calloc(1, sizeof(*r));

	if (!r || file_places_open(path_in, region, HEAP_FILES, &r->places)) {
		free(r);
		return -ENOMEM;
	}
	r->region = region;
	*out = r;
	return 0;
}

void heap_report_close(struct heap_report *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->count; i++)
		free(r->views[i]);
	free(r->views);
	file_places_close(r->places);
	free(r);
}

void heap_report_set_root(struct heap_report *r, pid_t root)
{
	file_places_set_root(r->places, root);
}

void heap_report_set_kept(struct heap_report *r, const struct kept_files *kept)
{
	file_places_set_kept(r->places, kept);
}

void heap_report_set_policy(struct heap_report *r, struct suppressions *s, struct baseline *b)
{
	r->suppressions = s;
	r->baseline = b;
}

int heap_baseline_write(struct baseline *b, struct heap_report *r, const char *path, size_t *added)
{
	char text[400];
	char where[128];

	*added = 0;
	for (size_t i = 0; i < r->count; i++) {
		const struct heap_view *v = r->views[i];

		if (!heap_is_shown(v))
			continue;
		heap_report_where(v, where, sizeof(where));
		snprintf(text, sizeof(text), "%c %s: %s in %s", "AB"[v->record.grade],
			 heap_kind_names[v->record.kind], where,
			 v -> first.function[0] ? v->first.function : "?");
		int err = baseline_add(b, v->fingerprint, text, added);
		if (err)
			return err;
	}
	return baseline_save(b, "errors of the heap", "heap", path);
}

size_t heap_report_count(const struct heap_report *r)
{
	return r->count;
}

struct heap_view *heap_report_view(struct heap_report *r, size_t i)
{
	return r->views[i];
}

bool heap_is_shown(const struct heap_view *v)
{
	return !v->suppressed && !v->is_baselined;
}

/* ---- where ---- */

size_t heap_report_frames(struct heap_report *r, const struct heap_moment *m, bool is_access,
			  struct run_frame *out)
{
	return finding_frames(r->places, m->frames, m->frame_count, is_access, out, HEAP_STACK_MAX);
}

/* From the bytes of the instruction: the operand that the address is in. */
static uint64_t heap_access_size(const struct heap_record *r)
{
	struct insn_regs regs = { .known = INSN_KNOWS_X86 };
	struct insn insn;
	uint64_t at;

	if (r->size || !r->code_bytes || insn_decode(r->code, r->code_bytes, &insn))
		return r->size;
	memcpy(regs.r, r->regs, sizeof(r->regs));
	for (unsigned int i = 0; i < insn.memory_count; i++)
		if (!insn_address(&insn, i, &regs, &at) && r->address - at < insn.memory[i].size)
			return insn.memory[i].size;
	return 0;
}

void heap_report_where(const struct heap_view *v, char *text, size_t n)
{
	static const char *const memories[HEAP_MEMORIES] = {
		[HEAP_MEMORY_BLOCK] = "inside a block",
		[HEAP_MEMORY_STACK] = "on the stack",
		[HEAP_MEMORY_DATA] = "in the data of the program",
		[HEAP_MEMORY_UNALIGNED] = "which the allocator cannot have given",
		[HEAP_MEMORY_MISMATCHED] =
			"by the other operator: new[] needs delete[], new needs delete",
	};
	const struct heap_record *r = &v->record;
	uint64_t end = r->block + r->block_size;
	uint64_t far = r->address < r->block ? r->block - r->address : r->address - end;

	if (r->message[0])
		snprintf(text, n, "the C library ended the program: %s", r->message);
	else if (r->memory && r->memory < HEAP_MEMORIES)
		snprintf(text, n, "%s", memories[r->memory]);
	else if (!r->block)
		snprintf(text, n, "between blocks");
	else if (r->address < r->block || r->address >= end)
		snprintf(text, n, "%" PRIu64 " byte%s %s a block of %" PRIu64 " byte%s", far,
			 plural(far), r->address < r->block ? "before" : "after", r->block_size,
			 plural(r->block_size));
	else
		snprintf(text, n, "at offset %" PRIu64 " of a block of %" PRIu64 " byte%s",
			 r->address - r->block, r->block_size, plural(r->block_size));
}

struct file_places *heap_report_places(struct heap_report *r)
{
	return r->places;
}

/* ---- which error ---- */

static void name_error(struct heap_view *v)
{
	uint64_t hash = finding_hash(HASH_START, heap_kind_names[v->record.kind]);

	hash = hash_add(hash, v->record.memory);
	hash = finding_hash_place(hash, &v->first);
	hash = finding_hash_place(hash, &v->alloc);
	finding_fingerprint(hash, v->fingerprint);
}

static void make_valid_moment(struct heap_moment *m)
{
	if (m->frame_count > HEAP_FRAMES)
		m->frame_count = HEAP_FRAMES;
	m->thread[sizeof(m->thread) - 1] = '\0';
	clean_text(m->thread);
}

/* What was read may be anything: the target can write there. */
static bool make_valid(struct heap_record *r)
{
	if (r->kind >= HEAP_KINDS || r->grade >= HEAP_GRADES || r->access > HEAP_WRITE)
		return false;
	if (r->code_bytes > HEAP_CODE)
		r->code_bytes = HEAP_CODE;
	if (r->near_bytes > HEAP_NEAR)
		r->near_bytes = HEAP_NEAR;
	r->message[sizeof(r->message) - 1] = '\0';
	clean_text(r->message);
	make_valid_moment(&r->first);
	make_valid_moment(&r->alloc);
	make_valid_moment(&r->freed);
	return true;
}

/* ---- what is not to be printed ---- */

_Static_assert(HEAP_FRAMES <= FINDING_FRAMES, "a stack has room");

static void fill_stack(struct heap_report *r, const struct heap_moment *m, bool is_access,
		       struct finding_stack *room, struct suppress_stack *out)
{
	finding_stack_fill(r->places, m->frames, m->frame_count, is_access, UINT_MAX, room, out);
}

/* By the stack of the access or of the free, and that of the allocation. */
static const struct suppression *heap_suppressed(struct heap_report *r, const struct heap_view *v)
{
	const struct heap_record *record = &v->record;
	bool has_first = record->first.frame_count != 0;
	struct suppress_stack stacks[2] = { 0 };
	const struct suppress_finding error = { .tool = SUPPRESS_HEAP,
						.stacks = stacks,
						.stack_count = 2 };

	if (!suppressions_count(r->suppressions))
		return NULL;
	struct finding_stack *rooms = calloc(2, sizeof(*rooms));
	if (!rooms)
		return NULL;
	fill_stack(r, has_first ? &record->first : &record->freed, has_first && record->ip,
		   &rooms[0], &stacks[0]);
	fill_stack(r, &record->alloc, false, &rooms[1], &stacks[1]);
	const struct suppression *by = suppressions_match(r->suppressions, &error);
	free(rooms);
	return by;
}

static struct heap_view *find_view(struct heap_report *r, const char *fingerprint)
{
	for (size_t i = 0; i < r->count; i++)
		if (!strcmp(r->views[i]->fingerprint, fingerprint))
			return r->views[i];
	return NULL;
}

static int append(struct heap_report *r, struct heap_view *v)
{
	if (r->count == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 64;
		void *views = capacity > VIEWS_MAX ?
				      NULL :
				      realloc(r->views, capacity * sizeof(*r->views));
		if (!views)
			return -ENOMEM;
		r->views = views;
		r->capacity = capacity;
	}
	r->views[r->count++] = v;
	return 0;
}

static void place_of(struct heap_report *r, const struct heap_moment *m, bool is_access,
		     struct finding_place *out)
{
	finding_place_find(r->places, m->frames, m->frame_count, is_access, out);
}

static void fill_view(struct heap_report *r, struct heap_view *v)
{
	place_of(r, &v->record.first, v->record.ip != 0, &v->first);
	place_of(r, &v->record.alloc, false, &v->alloc);
	place_of(r, &v->record.freed, false, &v->freed);
	v->size = heap_access_size(&v->record);
	name_error(v);
}

int heap_report_add(struct heap_report *r, const struct heap_record *record)
{
	struct heap_view *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->record = *record;
	if (!make_valid(&v->record)) {
		free(v);
		return -EINVAL;
	}
	fill_view(r, v);
	v->suppressed = heap_suppressed(r, v);
	v->is_baselined = baseline_see(r->baseline, v->fingerprint);
	struct heap_view *old = find_view(r, v->fingerprint);
	if (old) {
		/* Suppressed while all the stacks that it was seen with are. */
		old->suppressed = v->suppressed ? old->suppressed : NULL;
		old->count++;
		free(v);
		return 0;
	}
	v->count = 1;
	heap_report_type(r, v);
	int err = append(r, v);
	if (err)
		free(v);
	return err;
}
