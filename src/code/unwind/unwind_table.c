/* SPDX-License-Identifier: MIT */
/* unwind_table.c - see unwind_table.h. */
#include "code/unwind/unwind_table.h"

#include <errno.h>
#include <string.h>

#define LETTERS_MAX 8u
#define LENGTH_LEAST 4u
#define LENGTH_64 0xfffffff0u /* 64-bit lengths are never written */

/* ---- bytes ---- */

void unwind_open(struct unwind_reader *r, const struct unwind_source *source)
{
	memset(r, 0, sizeof(*r));
	r->source = source;
}

uint64_t unwind_position(const struct unwind_reader *r)
{
	if (!r->source)
		return (uintptr_t)r->at;
	return r->room_at + (uint64_t)(r->at - (const uint8_t *)r->source->room);
}

/* What the room has from an address on. */
static void use_room(struct unwind_reader *r, uint64_t address)
{
	const uint8_t *room = r->source->room;
	uint64_t bytes = r->room_used;

	if (r->limit - r->room_at < bytes)
		bytes = r->limit - r->room_at;
	r->at = room + (address - r->room_at);
	r->end = room + bytes;
}

void unwind_seek(struct unwind_reader *r, uint64_t address, uint64_t limit)
{
	r->limit = limit < address ? address : limit;
	r->is_wrong = 0;
	if (!r->source) {
		r->at = (const uint8_t *)(uintptr_t)address;
		r->end = (const uint8_t *)(uintptr_t)r->limit;
		return;
	}
	if (address - r->room_at >= r->room_used) {
		r->room_at = address;
		r->room_used = 0;
	}
	use_room(r, address);
}

static int refill(struct unwind_reader *r)
{
	const struct unwind_source *s = r->source;

	if (!s || unwind_position(r) >= r->limit)
		return 0;
	r->room_at = unwind_position(r);
	r->room_used = (uint32_t)s->copy(s->arg, r->room_at, s->room, s->room_bytes);
	use_room(r, r->room_at);
	return r->room_used != 0;
}

static uint8_t next(struct unwind_reader *r)
{
	if (!r->is_wrong && (r->at < r->end || refill(r)))
		return *r->at++;
	r->is_wrong = 1;
	return 0;
}

uint64_t unwind_number(struct unwind_reader *r, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value |= (uint64_t)next(r) << 8 * i;
	return r->is_wrong ? 0 : value;
}

static uint64_t read_leb(struct unwind_reader *r, int is_signed)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		const uint8_t byte = next(r);

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (is_signed && byte & 0x40 && shift + 7 < 64)
			value |= ~UINT64_C(0) << (shift + 7);
		return r->is_wrong ? 0 : value;
	}
	r->is_wrong = 1;
	return 0;
}

uint64_t unwind_uleb(struct unwind_reader *r)
{
	return read_leb(r, 0);
}

int64_t unwind_sleb(struct unwind_reader *r)
{
	return (int64_t)read_leb(r, 1);
}

/* ---- pointers ---- */

/* DW_EH_PE_*: the format in the low four bits. */
static uint64_t read_format(struct unwind_reader *r, unsigned int format)
{
	switch (format) {
	case 0x01:
		return unwind_uleb(r);
	case 0x02:
		return unwind_number(r, 2);
	case 0x03:
		return unwind_number(r, 4);
	case 0x00:
	case 0x04:
	case 0x0c:
		return unwind_number(r, 8);
	case 0x0a:
		return (uint64_t)(int64_t)(int16_t)unwind_number(r, 2);
	case 0x0b:
		return (uint64_t)(int64_t)(int32_t)unwind_number(r, 4);
	default:
		r->is_wrong = 1;
		return 0;
	}
}

uint64_t unwind_pointer(struct unwind_reader *r, uint8_t encoding, uint64_t data)
{
	const uint64_t place = unwind_position(r);
	const uint64_t value = read_format(r, encoding & 0x0f);

	switch (encoding & 0xf0) {
	case 0x00:
		return value;
	case 0x10: /* relative to its own address */
		return value ? place + value : 0;
	case 0x30:
		return r->is_wrong ? 0 : data + value;
	default:
		r->is_wrong = 1;
		return 0;
	}
}

/* ---- entries ---- */

static int result_of(const struct unwind_reader *r)
{
	return r->is_wrong ? -EILSEQ : 0;
}

int unwind_read_head(struct unwind_reader *r, uint64_t at, struct unwind_entry *out)
{
	memset(out, 0, sizeof(*out));
	out->at = at;
	unwind_seek(r, at, at + 8);
	const uint64_t length = unwind_number(r, 4);
	const uint64_t back = unwind_number(r, 4);
	if (r->is_wrong)
		return -EILSEQ;
	if (!length)
		return -ENOENT;
	if (length < LENGTH_LEAST || length >= LENGTH_64)
		return -EILSEQ;
	out->end = at + 4 + length;
	out->common = back ? at + 4 - back : 0;
	out->place = at + 8;
	return 0;
}

static void read_letter(struct unwind_reader *r, char letter, struct unwind_common *out)
{
	switch (letter) {
	case 'L':
		out->handlers = (uint8_t)unwind_number(r, 1);
		return;
	case 'R':
		out->pointer = (uint8_t)unwind_number(r, 1);
		return;
	case 'P':
		unwind_pointer(r, (uint8_t)unwind_number(r, 1) & 0x7f, 0);
		return;
	case 'S':
	case 'B':
	case 'G':
		out->is_plain = 0;
		return;
	default:
		r->is_wrong = 1;
	}
}

/* The augmentation: letters, and behind the factors the data of each. */
static void read_letters(struct unwind_reader *r, const char *letters, struct unwind_common *out)
{
	if (letters[0] && letters[0] != 'z')
		r->is_wrong = 1;
	out->has_data = letters[0] == 'z';
	const uint64_t bytes = out->has_data ? unwind_uleb(r) : 0;
	if (bytes > out->end - unwind_position(r))
		r->is_wrong = 1;
	out->program = unwind_position(r) + bytes;
	for (const char *l = letters + out->has_data; *l && !r->is_wrong; l++)
		read_letter(r, *l, out);
}

int unwind_read_common(struct unwind_reader *r, uint64_t at, struct unwind_common *out)
{
	char letters[LETTERS_MAX] = "";
	struct unwind_entry head;

	if (at && out->at == at)
		return 0;
	memset(out, 0, sizeof(*out));
	out->handlers = UNWIND_OMITTED;
	out->is_plain = 1;
	if (unwind_read_head(r, at, &head) || head.common)
		return -EILSEQ;
	out->end = head.end;
	unwind_seek(r, head.place, head.end);
	out->version = (uint8_t)unwind_number(r, 1);
	for (unsigned int i = 0; i < LETTERS_MAX && (letters[i] = (char)unwind_number(r, 1)); i++)
		;
	out->code_factor = unwind_uleb(r);
	out->data_factor = unwind_sleb(r);
	out->return_register = unwind_uleb(r);
	if (letters[LETTERS_MAX - 1] || (out->version != 1 && out->version != 3))
		return -EILSEQ;
	read_letters(r, letters, out);
	if (!r->is_wrong)
		out->at = at;
	return result_of(r);
}

int unwind_read_entry(struct unwind_reader *r, const struct unwind_common *common,
		      struct unwind_entry *e)
{
	unwind_seek(r, e->place, e->end);
	e->start = unwind_pointer(r, common->pointer, 0);
	e->bytes = unwind_pointer(r, common->pointer & 0x0f, 0);
	const uint64_t data = common->has_data ? unwind_uleb(r) : 0;
	if (data > e->end - unwind_position(r))
		r->is_wrong = 1;
	e->program = unwind_position(r) + data;
	if (data && common->handlers != UNWIND_OMITTED)
		e->handlers = unwind_pointer(r, common->handlers, 0);
	return result_of(r);
}

/* ---- programs ---- */

/*
 * What is behind an instruction: r is a register, b a block, u a number. U and S, which has a sign,
 * count in the factor of data. NULL: it is not known.
 */
static const char *operands_of(unsigned int op)
{
	switch (op) {
	case 0x00: /* nop */
	case 0x0a: /* remember_state */
	case 0x0b: /* restore_state */
	case 0x2d: /* GNU_window_save */
		return "";
	case 0x05: /* offset_extended */
	case 0x14: /* val_offset */
		return "rU";
	case 0x06: /* restore_extended */
	case 0x07: /* undefined */
	case 0x08: /* same_value */
	case 0x0d: /* def_cfa_register */
		return "r";
	case 0x09: /* register */
	case 0x0c: /* def_cfa */
		return "ru";
	case 0x0e: /* def_cfa_offset */
	case 0x2e: /* GNU_args_size */
		return "u";
	case 0x0f: /* def_cfa_expression */
		return "b";
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		return "rb";
	case 0x11: /* offset_extended_sf */
	case 0x12: /* def_cfa_sf */
	case 0x15: /* val_offset_sf */
		return "rS";
	case 0x13: /* def_cfa_offset_sf */
		return "S";
	default:
		return NULL;
	}
}

static enum unwind_op plain_op(unsigned int op)
{
	switch (op) {
	case 0x05:
	case 0x11:
		return UNWIND_OFFSET;
	case 0x06:
		return UNWIND_RESTORE;
	case 0x12:
		return UNWIND_DEF_CFA;
	case 0x13:
		return UNWIND_DEF_CFA_OFFSET;
	case 0x15:
		return UNWIND_VALUE_OFFSET;
	default:
		return (enum unwind_op)op;
	}
}

static void read_operand(struct unwind_reader *r, char kind, const struct unwind_common *common,
			 struct unwind_step *out)
{
	switch (kind) {
	case 'r':
		out->reg = unwind_uleb(r);
		return;
	case 'u':
		out->number = (int64_t)unwind_uleb(r);
		return;
	case 'U':
		out->number = (int64_t)(unwind_uleb(r) * (uint64_t)common->data_factor);
		return;
	case 'S':
		out->number = (int64_t)((uint64_t)unwind_sleb(r) * (uint64_t)common->data_factor);
		return;
	default:
		out->block_end = unwind_uleb(r);
		out->block = unwind_position(r);
		if (out->block_end > r->limit - out->block) {
			r->is_wrong = 1;
			return;
		}
		out->block_end += out->block;
		unwind_seek(r, out->block_end, r->limit);
	}
}

/* 1: it moves on to another address of the code. */
static int is_advance(struct unwind_reader *r, unsigned int op, uint64_t factor,
		      struct unwind_step *out)
{
	uint64_t units = op & 0x3f;

	if (op >= 0x02 && op <= 0x04)
		units = unwind_number(r, 1u << (op - 2));
	else if ((op & 0xc0) != UNWIND_ADVANCE)
		return 0;
	out->op = UNWIND_ADVANCE;
	out->number = (int64_t)(units * factor);
	return 1;
}

int unwind_next(struct unwind_reader *r, const struct unwind_common *common,
		struct unwind_step *out)
{
	memset(out, 0, sizeof(*out));
	if (r->is_wrong || unwind_position(r) >= r->limit)
		return 0;
	const unsigned int op = (unsigned int)unwind_number(r, 1);
	if (is_advance(r, op, common->code_factor, out))
		return !r->is_wrong;
	const unsigned int high = op & 0xc0;
	const char *operands = high == UNWIND_OFFSET  ? "U" :
			       high == UNWIND_RESTORE ? "" :
							operands_of(op);
	out->op = high ? (enum unwind_op)high : plain_op(op);
	out->reg = high ? op & 0x3f : 0;
	if (!operands)
		r->is_wrong = 1;
	for (; operands && *operands; operands++)
		read_operand(r, *operands, common, out);
	return !r->is_wrong;
}

/* ---- landing pads ---- */

/* Behind it, the call sites begin. */
static uint64_t read_handlers_head(struct unwind_reader *r, uint64_t start, uint8_t *encoding,
				   uint64_t *end)
{
	uint8_t of = (uint8_t)unwind_number(r, 1);
	const uint64_t base = of == UNWIND_OMITTED ? start : unwind_pointer(r, of, 0);

	of = (uint8_t)unwind_number(r, 1);
	if (of != UNWIND_OMITTED)
		unwind_uleb(r);
	*encoding = (uint8_t)unwind_number(r, 1);
	const uint64_t bytes = unwind_uleb(r);
	*end = unwind_position(r) + bytes;
	return base;
}

int unwind_each_handler(struct unwind_reader *r, uint64_t table, uint64_t start,
			int (*each)(void *arg, uint64_t address), void *arg)
{
	uint8_t encoding;
	uint64_t end;
	int err = 0;

	unwind_seek(r, table, UINT64_MAX);
	const uint64_t base = read_handlers_head(r, start, &encoding, &end);
	while (!err && !r->is_wrong && unwind_position(r) < end) {
		unwind_pointer(r, encoding, 0); /* where the call begins */
		unwind_pointer(r, encoding, 0); /* its length */
		const uint64_t landing = unwind_pointer(r, encoding, 0);
		unwind_uleb(r); /* what is caught there */
		if (landing && !r->is_wrong)
			err = each(arg, base + landing);
	}
	return err ? err : result_of(r);
}
