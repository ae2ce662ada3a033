/* SPDX-License-Identifier: MIT */
/* point_cache.c - see point_cache.h. */
#include "point/host/point_cache.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/maps.h"
#include "code/window/window_emit.h"
#include "code/window/window_translate.h"

#define PAGE 4096u
#define DATA_BYTES (JUMPS_AT + WINDOW_JUMPS * sizeof(struct window_jump))
#define JUMPS_AT (4 * PAGE)
#define REPEATED_BYTES 64u
#define BLOCKS_AHEAD 12u /* translated with one that is needed */
#define ROOM_AHEAD (1u << 18)
/*
 * Far from where the kernel puts mappings, so that it puts the program's as it would without
 * Trapline's.
 */
#define BASE_FIRST UINT64_C(0x200000000000)
#define BASE_STEP UINT64_C(0x010000000000)
#define BASES 10

_Static_assert(sizeof(struct window_area) <= JUMPS_AT, "the area lies before the jumps");

/* ---- the target's text ---- */

static size_t read_page(struct point_cache *c, uint64_t address, const uint8_t **text)
{
	unsigned int i = (unsigned int)(address / PAGE % POINT_PAGES);

	if (c->pages[i].address != address) {
		c->pages[i].bytes = point_tracee_read(c->tracee, c->pages[i].text, address, PAGE);
		c->pages[i].address = address;
	}
	*text = c->pages[i].text;
	return c->pages[i].bytes;
}

static struct point_cache *cache_of(struct window_area *a)
{
	return a->request.arg;
}

static size_t read_text(struct window_area *a, void *to, uint64_t from, size_t n)
{
	size_t done = 0;

	while (done < n) {
		const uint8_t *text;
		const size_t at = (from + done) % PAGE;
		const size_t bytes = read_page(cache_of(a), from + done - at, &text);
		size_t some = PAGE - at < n - done ? PAGE - at : n - done;

		if (bytes < at + some)
			break;
		memcpy((char *)to + done, text + at, some);
		done += some;
	}
	return done;
}

void point_cache_forget_text(struct point_cache *c)
{
	for (int i = 0; i < POINT_PAGES; i++)
		c->pages[i].address = 1;
}

/* 1: a store of the target can change it: it is not of a file, or may be written to. */
static int text_changes(struct window_area *a, uint64_t pc)
{
	struct maps_row row;

	return maps_find(cache_of(a)->tracee->pid, pc, NULL, 0, &row) || row.mode[1] == 'w' ||
	       row.mode[3] == 's' || !row.inode;
}

/*
 * System calls, and what the trap flag changes. That is a load of ss, or a transaction, which it
 * aborts. popf may set it. A new base of fs is one too, by which a restartable sequence is found.
 */
static int point_cache_refuses(const struct insn *insn, const uint8_t *bytes)
{
	const uint8_t opcode =
		insn->opcode_bytes ? bytes[insn->opcode_at + insn->opcode_bytes - 1u] : 0;

	if (insn->kind == INSN_SYSCALL || insn->flags & INSN_REPEATS)
		return 1;
	if (insn->opcode_bytes == 1)
		return opcode == 0x8e || opcode == 0x9d;
	return insn->opcode_bytes == 2 && opcode == 0xae && insn->modrm_at &&
	       bytes[insn->modrm_at] >> 6 == 3 && (bytes[insn->modrm_at] >> 3 & 7) < 4;
}

/* ---- memory here ---- */

static void *map(uint64_t at, size_t bytes)
{
	void *got =
		mmap((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0),
		     -1, 0);

	return got == MAP_FAILED ? NULL : got;
}

static size_t table_bytes(void)
{
	return WINDOW_BLOCKS_MAX * sizeof(struct window_block) +
	       WINDOW_SITES_MAX * sizeof(struct window_site) +
	       WINDOW_MARKS_MAX * sizeof(struct window_mark) + WINDOW_HASH * sizeof(uint32_t);
}

static int map_here(struct point_cache *c, uint64_t base)
{
	uint8_t *code = map(base, WINDOW_CODE_BYTES + DATA_BYTES);

	if (!code)
		return -errno;
	uint8_t *table = map(0, table_bytes());
	if (!table) {
		munmap(code, WINDOW_CODE_BYTES + DATA_BYTES);
		return -ENOMEM;
	}
	struct window_area *a = (void *)(code + WINDOW_CODE_BYTES);
	a->code = a->writable = code;
	a->jumps = (void *)(code + WINDOW_CODE_BYTES + JUMPS_AT);
	a->hash = (void *)table; /* in whole pages: it is emptied */
	a->blocks = (void *)(a->hash + WINDOW_HASH);
	a->sites = (void *)(a->blocks + WINDOW_BLOCKS_MAX);
	a->marks = (void *)(a->sites + WINDOW_SITES_MAX);
	a->request.read_text = read_text;
	a->request.changes = text_changes;
	a->request.refuses = point_cache_refuses;
	a->request.arg = c;
	c->area = a;
	return 0;
}

static void unmap_here(struct point_cache *c)
{
	struct window_area *a = c->area;

	c->area = NULL;
	munmap(a->hash, table_bytes());
	munmap(a->code, WINDOW_CODE_BYTES + DATA_BYTES);
}

/*
 * A system call with a number that the kernel does not have: it stops, or fails, and then ends the
 * program.
 */
static void emit_gates(struct point_cache *c)
{
	struct window_area *a = c->area;

	a->save = a->used = 0;
	emit_store(a, emit_number(INSN_RAX), &a->regs.r[INSN_RAX]);
	emit_store(a, emit_number(INSN_RCX), &a->regs.r[INSN_RCX]);
	emit_store(a, emit_number(INSN_R11), &a->regs.r[INSN_R11]);
	emit(a, "\xb8\xff\xff\xff\xff\x0f\x05", 7); /* mov $-1, %eax; syscall */
	c->behind_gate = emit_pc(a);
	emit(a, "\x0f\x0b", 2); /* ud2 */
	emit_miss(a);
	c->repeated = a->used;
	a->used += REPEATED_BYTES;
	a->kept = a->used;
}

/* ---- memory there ---- */

static int copy_code(struct point_cache *c, uint32_t from, uint32_t to)
{
	if (from == to)
		return 0;
	return point_tracee_write_code(c->tracee, point_cache_address(c, from),
				       c->area->writable + from, to - from);
}

/* The address 0 must not be found in the empty table. */
static int clear_jumps(struct point_cache *c)
{
	struct window_area *a = c->area;

	return point_tracee_write(c->tracee, (uint64_t)(uintptr_t)a->jumps, a->jumps,
				  WINDOW_JUMPS * sizeof(struct window_jump));
}

static int map_there(struct point_cache *c)
{
	const uint64_t base = point_cache_address(c, 0);
	const uint64_t flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	const uint64_t code[6] = { base, WINDOW_CODE_BYTES, PROT_READ | PROT_EXEC, flags,
				   UINT64_MAX };
	const uint64_t data[6] = { base + WINDOW_CODE_BYTES, DATA_BYTES, PROT_READ | PROT_WRITE,
				   flags, UINT64_MAX };
	long got = 0;
	int err = point_tracee_call(c->tracee, SYS_mmap, code, &got);

	if (err)
		return err;
	if (got != (long)base)
		return got < 0 ? (int)got : -EEXIST;
	c->is_there = true;
	err = point_tracee_call(c->tracee, SYS_mmap, data, &got);
	if (!err && got != (long)data[0])
		err = got < 0 ? (int)got : -EEXIST;
	if (!err)
		err = point_tracee_write(c->tracee, (uint64_t)(uintptr_t)c->area->jumps,
					 &(struct window_jump){ .negative = 1 },
					 sizeof(struct window_jump));
	if (!err)
		err = copy_code(c, 0, c->area->used);
	if (err < 0)
		point_cache_remove(c);
	return err;
}

int point_cache_remove(struct point_cache *c)
{
	const uint64_t args[6] = { point_cache_address(c, 0), WINDOW_CODE_BYTES + DATA_BYTES };
	long got;

	if (!c->is_there)
		return 0;
	c->is_there = false;
	return point_tracee_call(c->tracee, SYS_munmap, args, &got);
}

bool point_cache_overlaps(const struct point_cache *c, uint64_t start, uint64_t bytes)
{
	const uint64_t base = point_cache_address(c, 0);

	return start < base + WINDOW_CODE_BYTES + DATA_BYTES && start + bytes > base;
}

/* ---- open and close ---- */

/* Where both processes have room. */
static int open_at(struct point_cache *c, uint64_t base)
{
	int err = map_here(c, base);

	if (err)
		return err;
	emit_gates(c);
	window_flush(c->area);
	c->epoch = c->area->epoch;
	err = map_there(c);
	if (err)
		unmap_here(c);
	return err;
}

int point_cache_open(struct point_cache *c)
{
	int err = -EEXIST;

	point_cache_forget_text(c);
	if (c->area)
		return c->is_there ? 0 : map_there(c);
	for (int i = 0; i < BASES && err == -EEXIST; i++)
		err = open_at(c, BASE_FIRST + (uint64_t)i * BASE_STEP);
	return err;
}

void point_cache_close(struct point_cache *c)
{
	if (c->area)
		unmap_here(c);
}

int point_cache_flush(struct point_cache *c)
{
	window_flush(c->area);
	c->epoch = c->area->epoch;
	point_cache_forget_text(c);
	return clear_jumps(c);
}

/* ---- what the code states ---- */

int point_cache_values(const struct point_cache *c, struct point_values *out)
{
	const struct window_area *there = c->area;
	struct window_area copy;
	const size_t n = offsetof(struct window_area, is_active);

	if (point_tracee_read(c->tracee, &copy, (uint64_t)(uintptr_t)there, n) != n)
		return -EFAULT;
	*out = (struct point_values){
		.spill_rax = copy.spill_rax,
		.spill_rcx = copy.spill_rcx,
		.spill_rdx = copy.spill_rdx,
		.spill_other = copy.spill_other,
		.left = copy.left,
		.target = copy.target,
		.site = copy.site,
		.rax = copy.regs.r[INSN_RAX],
		.rcx = copy.regs.r[INSN_RCX],
		.r11 = copy.regs.r[INSN_R11],
	};
	return 0;
}

int point_cache_set_left(const struct point_cache *c, int64_t left)
{
	return point_tracee_write(c->tracee, (uint64_t)(uintptr_t)&c->area->left, &left,
				  sizeof(left));
}

/* ---- blocks ---- */

static uint32_t find(const struct window_area *a, uint64_t pc)
{
	uint32_t number = a->hash[window_hash(pc)];

	while (number && a->blocks[number].guest != pc)
		number = a->blocks[number].next;
	return number;
}

/* The tables may have been emptied for it. */
static int translate(struct point_cache *c, uint64_t pc, unsigned int most, int is_kept)
{
	struct window_area *a = c->area;
	const int number = window_translate(a, pc, most, is_kept);

	if (a->epoch == c->epoch)
		return number;
	c->epoch = a->epoch;
	const int err = clear_jumps(c);
	return err ? err : number;
}

static int has_room_ahead(const struct window_area *a)
{
	return a->used + ROOM_AHEAD < WINDOW_CODE_BYTES &&
	       a->blocks_used + 1000 < WINDOW_BLOCKS_MAX &&
	       a->sites_used + 10000 < WINDOW_SITES_MAX && a->marks_used + 10000 < WINDOW_MARKS_MAX;
}

/* Branches of new blocks go to those that are there, and to some that are made now. */
static void link_ahead(struct point_cache *c, uint32_t site)
{
	struct window_area *a = c->area;

	for (unsigned int made = 0; site < a->sites_used; site++) {
		const struct window_site *s = &a->sites[site];

		if (s->kind != WINDOW_SITE_EXIT)
			continue;
		uint32_t number = find(a, s->guest);
		if (!number && made < BLOCKS_AHEAD && has_room_ahead(a)) {
			number = (uint32_t)window_translate(a, s->guest, WINDOW_BLOCK_INSNS, 1);
			made++;
		}
		if (number)
			emit_patch(a, s->code, a->blocks[number].code);
	}
}

int point_cache_block(struct point_cache *c, uint64_t pc)
{
	struct window_area *a = c->area;
	const uint32_t known = find(a, pc);
	uint32_t used = a->used;
	uint32_t sites = a->sites_used;
	const uint32_t epoch = a->epoch;

	if (known)
		return (int)known;
	const int number = translate(c, pc, WINDOW_BLOCK_INSNS, 1);
	if (number < 0)
		return number;
	if (a->epoch != epoch) {
		used = a->kept;
		sites = 1;
	}
	link_ahead(c, sites);
	const int err = copy_code(c, used, a->used);
	return err ? err : number;
}

int point_cache_short_block(struct point_cache *c, uint64_t pc, unsigned int most)
{
	struct window_area *a = c->area;
	uint32_t used = a->used;
	const uint32_t epoch = a->epoch;
	const int number = translate(c, pc, most, 0);

	if (number < 0)
		return number;
	if (a->epoch != epoch)
		used = a->kept;
	const int err = copy_code(c, used, a->used);
	return err ? err : number;
}

int point_cache_link(struct point_cache *c, uint32_t at, uint32_t block)
{
	emit_patch(c->area, at, c->area->blocks[block].code);
	return copy_code(c, at, at + 4);
}

int point_cache_link_indirect(struct point_cache *c, uint32_t block)
{
	const struct window_area *a = c->area;
	const uint64_t pc = a->blocks[block].guest;
	const struct window_jump jump = { .negative = -pc,
					  .code = point_cache_address(c, a->blocks[block].code) };

	return point_tracee_write(c->tracee,
				  (uint64_t)(uintptr_t)&a->jumps[pc & (WINDOW_JUMPS - 1)], &jump,
				  sizeof(jump));
}

int point_cache_replace(struct point_cache *c, uint32_t old, uint32_t block)
{
	struct window_area *a = c->area;
	const uint32_t at = a->blocks[old].code;

	a->writable[at] = 0xe9;
	emit_patch(a, at + 1, a->blocks[block].code);
	return copy_code(c, at, at + 5);
}

int point_cache_put_repeated(struct point_cache *c, const uint8_t *bytes, unsigned int length)
{
	struct window_area *a = c->area;
	const uint32_t used = a->used;

	a->used = c->repeated;
	emit(a, bytes, length);
	emit_site(a, POINT_SITE_REPEATED);
	a->used = used;
	return copy_code(c, c->repeated, c->repeated + REPEATED_BYTES);
}
