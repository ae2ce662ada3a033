/* SPDX-License-Identifier: MIT */
/*
 * race_frames.c - the unwind table of an object: where a function begins and ends, and where in it
 * instructions begin for certain. Not in a handler.
 *
 * A row of the table of an exception handler's addresses is the beginning of an instruction, and so
 * is the location where the rule for the stack changes. The program may close the object at any
 * moment, so nothing of it is touched: it is copied by a system call.
 */
#include "race/race_frames.h"

#include <string.h>

#include "race/race_modules.h"

/* DW_EH_PE_*, as far as compilers use them here. */
#define ENCODING_NONE 0xff
#define ENCODING_FORM 0x0f
#define ENCODING_PCREL 0x10

/* What is read of a copy, byte by byte. */
struct bytes {
	const uint8_t *at;
	const uint8_t *end;
	uint64_t address; /* of end */
	int is_over;	  /* more was read than is there */
};

/* The bytes at an address: as many as were copied, at least n; NULL: they are not there. */
static const uint8_t *look(struct race_window *w, uint64_t at, uint32_t n)
{
	if (n > sizeof(w->copy))
		return NULL;
	if (at < w->start || at + n > w->start + w->bytes) {
		w->start = at;
		w->bytes = sizeof(w->copy);
		/* Near the end of what is mapped: that alone. */
		if (!race_copy(at, w->copy, w->bytes)) {
			w->bytes = n;
			if (!race_copy(at, w->copy, w->bytes))
				w->bytes = 0;
		}
	}
	return w->bytes ? w->copy + (at - w->start) : NULL;
}

static uint8_t next(struct bytes *b)
{
	if (b->at < b->end)
		return *b->at++;
	b->is_over = 1;
	return 0;
}

static uint64_t next_number(struct bytes *b, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value |= (uint64_t)next(b) << 8 * i;
	return value;
}

static uint64_t next_uleb(struct bytes *b)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = next(b);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

/* Without the base it counts from, except for the pc. */
static uint64_t next_encoded(struct bytes *b, uint8_t encoding)
{
	uint64_t here = b->address - (uint64_t)(b->end - b->at);
	uint64_t value;

	switch (encoding & ENCODING_FORM) {
	case 0x01: /* uleb128 */
		return next_uleb(b);
	case 0x02:
		value = next_number(b, 2);
		break;
	case 0x03:
		value = next_number(b, 4);
		break;
	case 0x0b:
		value = (uint64_t)(int64_t)(int32_t)next_number(b, 4);
		break;
	case 0x00:
	case 0x04:
	case 0x0c:
		value = next_number(b, 8);
		break;
	default:
		b->is_over = 1;
		return 0;
	}
	return value && (encoding & 0x70) == ENCODING_PCREL ? here + value : value;
}

/* 1: what the CIE states is known. */
static int read_cie(struct race_frames *f, uint64_t at)
{
	const uint8_t *copy = look(&f->cie, at, 32);
	struct bytes b = { copy, copy + 32, at + 32, 0 };
	char letters[8] = "";

	if (f->cie_at == at)
		return 1;
	f->cie_at = 0;
	if (!copy)
		return 0;
	f->has_size = 0;
	f->lsda_encoding = ENCODING_NONE;
	b.at += 9; /* length, id, version */
	for (unsigned int i = 0; i < sizeof(letters) && (letters[i] = (char)next(&b)); i++)
		;
	if (letters[sizeof(letters) - 1])
		return 0;
	f->unit = next_uleb(&b);
	next_uleb(&b); /* of data */
	next_uleb(&b); /* return address */
	f->has_size = letters[0] == 'z';
	if (f->has_size)
		next_uleb(&b);
	for (const char *l = letters + f->has_size; *l; l++) {
		uint8_t encoding = *l == 'S' || *l == 'B' ? 0 : next(&b);

		if (*l == 'L')
			f->lsda_encoding = encoding;
		else if (*l == 'P')
			next_encoded(&b, encoding & 0x7f);
		else if (*l != 'R' && *l != 'S' && *l != 'B')
			return 0;
	}
	if (b.is_over)
		return 0;
	f->cie_at = at;
	return 1;
}

int race_frame_read(struct race_frames *f, uint64_t at, struct race_frame *out)
{
	/* What lies behind the CIE pointer, as all compilers write it: pcrel sdata4. */
	struct {
		uint32_t length;
		uint32_t cie;
		int32_t start; /* from here */
		uint32_t bytes;
	} fde;
	const uint8_t *copy = look(&f->fde, at, sizeof(fde));

	if (!copy)
		return 0;
	memcpy(&fde, copy, sizeof(fde));
	out->at = at;
	out->length = fde.length;
	out->cie_at = at + 4 - fde.cie;
	out->start = at + 8 + (uint64_t)(int64_t)fde.start;
	out->end = out->start + fde.bytes;
	return 1;
}

/* Operands of an instruction for the unwinder: numbers, then perhaps a block. -1: unknown. */
static int operands_of(uint8_t op, int *has_block)
{
	static const int8_t counts[0x17] = { 0, -1, -1, -1, -1, 2, 1, 1, 1, 2, 0, 0,
					     2, 1,  1,	0,  1,	2, 2, 1, 2, 2, 1 };

	*has_block = op == 0x0f || op == 0x10 || op == 0x16;
	if (op >> 6 == 2 || op == 0x2e)
		return 1;
	if (op >> 6 == 3 || op == 0x2d)
		return 0;
	return op < sizeof(counts) ? counts[op] : -1;
}

static void skip(struct bytes *b, uint64_t n)
{
	if (n > (uint64_t)(b->end - b->at))
		b->is_over = 1;
	else
		b->at += n;
}

/* 1: it moves on by *distance units. */
static int is_advance(struct bytes *b, uint8_t op, uint64_t *distance)
{
	if (op >> 6 == 1)
		*distance = op & 0x3f;
	else if (op >= 2 && op <= 4)
		*distance = next_number(b, 1u << (op - 2));
	else
		return 0;
	return 1;
}

static void rule_roots(struct bytes *b, uint64_t unit, uint64_t pc, race_root root, void *arg)
{
	while (b->at < b->end && !b->is_over) {
		uint8_t op = next(b);
		uint64_t distance;
		int has_block;

		if (is_advance(b, op, &distance)) {
			pc += distance * unit;
			if (!b->is_over)
				root(arg, pc);
			continue;
		}
		int numbers = operands_of(op, &has_block);
		if (numbers < 0)
			return;
		for (int i = 0; i < numbers; i++)
			next_uleb(b); /* a signed one has as many bytes */
		if (has_block)
			skip(b, next_uleb(b));
	}
}

static void landing_roots(struct race_frames *f, uint64_t at, uint64_t start, race_root root,
			  void *arg)
{
	const uint8_t *copy = look(&f->lsda, at, 16);

	if (!copy)
		return;
	struct bytes b = { copy, f->lsda.copy + f->lsda.bytes, f->lsda.start + f->lsda.bytes, 0 };
	uint8_t encoding = next(&b);
	uint64_t base = encoding == ENCODING_NONE ? start : next_encoded(&b, encoding);

	if (next(&b) != ENCODING_NONE)
		next_uleb(&b);
	encoding = next(&b);
	uint64_t bytes = next_uleb(&b);
	if (bytes < (uint64_t)(b.end - b.at)) {
		b.address -= (uint64_t)(b.end - b.at) - bytes;
		b.end = b.at + bytes;
	}
	while (b.at < b.end) {
		next_encoded(&b, encoding);
		next_encoded(&b, encoding);
		uint64_t landing = next_encoded(&b, encoding);
		next_uleb(&b);
		if (b.is_over)
			return;
		if (landing)
			root(arg, base + landing);
	}
}

void race_frame_roots(struct race_frames *f, const struct race_frame *frame, race_root root,
		      void *arg)
{
	uint32_t length = frame->length + 4;

	if (length > sizeof(f->fde.copy))
		length = sizeof(f->fde.copy);
	if (length < 16 || !read_cie(f, frame->cie_at))
		return;
	const uint8_t *copy = look(&f->fde, frame->at, length);
	struct bytes b = { copy, copy + length, frame->at + length, 0 };
	if (!copy)
		return;
	b.at += 16;
	uint64_t size = f->has_size ? next_uleb(&b) : 0;
	const uint8_t *rules = b.at + size;
	if (b.is_over || size > (uint64_t)(b.end - b.at))
		return;
	uint64_t lsda = 0;
	if (size && f->lsda_encoding != ENCODING_NONE)
		lsda = next_encoded(&b, f->lsda_encoding);
	b.at = rules;
	rule_roots(&b, f->unit, frame->start, root, arg);
	if (lsda && !b.is_over)
		landing_roots(f, lsda, frame->start, root, arg);
}
