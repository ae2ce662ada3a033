/* SPDX-License-Identifier: MIT */
/*
 * program_memory.c - see program_memory.h.
 *
 * The pieces of one site lie one behind the other. Those of different sites have the same room,
 * since a hit is at one of them. A pointer that is followed is a piece of its own: the reader goes
 * the same way and finds each step, or finds that the program could not go it.
 */
#include "event/bpf/program_memory.h"

#include <errno.h>

#include "base/memory.h"
#include "event/arch_regs.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_tracepoint.h"

#define POINTER_BYTES 8u
#define STEPS_MAX 400u /* of a program, which has room for some more instructions */
#define HEAD_BYTES ((uint32_t)sizeof(struct record_memory))
#define RETURN_POPS (ARCH_CALLER_IN_MEMORY ? 8 : 0)
#define HEAD_AT(at, member) ((int16_t)((at) + offsetof(struct record_memory, member)))

static uint32_t room_of(const struct trapline_memory *m)
{
	return m->links * (HEAD_BYTES + POINTER_BYTES) + HEAD_BYTES + ((m->bytes + 7u) & ~7u);
}

static int is_valid(const struct trapline_event *ev, const struct trapline_memory *m)
{
	const int is_absolute = m->reg == TRAPLINE_MEMORY_ABSOLUTE;
	const int is_call = m->reg == TRAPLINE_MEMORY_CALL && m->flags & TRAPLINE_MEMORY_RETURN;

	/* Each process has its own addresses. */
	return m->bytes && m->bytes <= TRAPLINE_MEMORY_BYTES && m->links <= TRAPLINE_MEMORY_LINKS &&
	       (is_absolute || is_call || m->reg < RECORD_REGS) &&
	       !(is_absolute && event_has_members(ev)) &&
	       !(m->flags & ~(TRAPLINE_MEMORY_TEXT | TRAPLINE_MEMORY_RETURN));
}

/* What those before it take in a record of the same hit. */
static uint32_t room_before(const struct trapline_event *ev, uint32_t index)
{
	const struct trapline_memory *m = &ev->memory[index];
	uint32_t room = 0;

	for (uint32_t i = 0; i < index; i++)
		if (!ev->memory[i].site || !m->site || ev->memory[i].site == m->site)
			room += room_of(&ev->memory[i]);
	return room;
}

int program_memory_take(struct trapline_event *ev, const struct trapline_memory *memory,
			size_t count)
{
	if (!count)
		return 0;
	if (count > TRAPLINE_MEMORY_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++)
		if (!is_valid(ev, &memory[i]))
			return -EINVAL;
	/* A mapping: the event may be closed in a signal handler. */
	struct trapline_memory *copy = memory_map(count * sizeof(*copy));
	if (memory_failed(copy))
		return memory_error(copy);
	ev->memory = copy;
	ev->memory_asked = (uint32_t)count;
	uint32_t steps = 0;
	for (size_t i = 0; i < count; i++) {
		ev->memory[ev->memory_count] = memory[i];
		const uint32_t room = room_before(ev, ev->memory_count) + room_of(&memory[i]);
		steps += memory[i].links + 1;
		if (room > RECORD_MEMORY_MAX || steps > STEPS_MAX)
			continue;
		ev->memory_count++;
		ev->memory_room = room > ev->memory_room ? room : ev->memory_room;
	}
	return 0;
}

void program_memory_close(struct trapline_event *ev)
{
	if (ev->memory)
		memory_unmap(ev->memory, ev->memory_asked * sizeof(*ev->memory));
	ev->memory = NULL;
	ev->memory_count = 0;
}

/* A piece that was not reached has no address that is known. */
static void emit_head(struct ebpf *p, uint32_t at, uint32_t bytes)
{
	ebpf_store_imm(p, BPF_DW, RECORD, HEAD_AT(at, address), 0);
	ebpf_store_imm(p, BPF_DW, RECORD, HEAD_AT(at, room), (int32_t)((bytes + 7u) & ~7u));
	ebpf_store_imm(p, BPF_DW, RECORD, HEAD_AT(at, len), 0);
}

/* R3 is the address. R0 shows success. */
static void emit_copy(struct ebpf *p, uint32_t at, uint32_t bytes, int helper)
{
	ebpf_store(p, BPF_DW, RECORD, HEAD_AT(at, address), R3);
	ebpf_mov(p, R1, RECORD);
	ebpf_alu_imm(p, BPF_ADD, R1, (int32_t)(at + HEAD_BYTES));
	ebpf_mov_imm(p, R2, (int32_t)bytes);
	ebpf_call(p, helper);
}

static void emit_base(struct ebpf *p, const struct trapline_event *ev,
		      const struct trapline_memory *m, int has_returned)
{
	const int pops = has_returned && m->reg == ARCH_REG_SP ? RETURN_POPS : 0;

	ebpf_load_imm64(p, R3, m->base + (uint64_t)pops);
	if (m->reg == TRAPLINE_MEMORY_ABSOLUTE)
		return;
	if (m->reg == TRAPLINE_MEMORY_CALL)
		ebpf_load_mem(p, BPF_DW, R1, R10, FRAME_ARGUMENT);
	else
		ebpf_load_mem(p, BPF_DW, R1, CONTEXT, program_regs_at(ev)[m->reg]);
	ebpf_alu(p, BPF_ADD, R3, R1);
}

static void emit_one(struct ebpf *p, const struct trapline_event *ev,
		     const struct trapline_memory *m, uint32_t at, int has_returned)
{
	const uint32_t step = HEAD_BYTES + POINTER_BYTES;
	const int is_text = (m->flags & TRAPLINE_MEMORY_TEXT) != 0;
	const uint32_t end = at + m->links * step;
	uint32_t fails[TRAPLINE_MEMORY_LINKS * 2];
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->links; i++)
		emit_head(p, at + i * step, POINTER_BYTES);
	emit_head(p, end, m->bytes);
	emit_base(p, ev, m, has_returned);
	for (uint32_t i = 0; i < m->links; i++, at += step) {
		emit_copy(p, at, POINTER_BYTES, BPF_FUNC_probe_read_user);
		fails[n++] = ebpf_jump_imm(p, BPF_JNE, R0, 0);
		ebpf_store_imm(p, BPF_DW, RECORD, HEAD_AT(at, len), POINTER_BYTES);
		ebpf_load_mem(p, BPF_DW, R3, RECORD, (int16_t)(at + HEAD_BYTES));
		fails[n++] = ebpf_jump_imm(p, BPF_JEQ, R3, 0);
		ebpf_load_imm64(p, R1, m->offsets[i]);
		ebpf_alu(p, BPF_ADD, R3, R1);
	}
	emit_copy(p, end, m->bytes,
		  is_text ? BPF_FUNC_probe_read_user_str : BPF_FUNC_probe_read_user);
	if (is_text) {
		/* The NUL behind a text that is longer is not the program's. */
		uint32_t whole = ebpf_jump_imm(p, BPF_JNE, R0, (int32_t)m->bytes);
		ebpf_mov_imm(p, R0, (int32_t)m->bytes - 1);
		ebpf_land(p, whole);
		ebpf_store(p, BPF_DW, RECORD, HEAD_AT(end, len), R0);
	} else {
		fails[n++] = ebpf_jump_imm(p, BPF_JNE, R0, 0);
		ebpf_store_imm(p, BPF_DW, RECORD, HEAD_AT(end, len), (int32_t)m->bytes);
	}
	while (n--)
		ebpf_land(p, fails[n]);
}

/* Which are wanted at a hit of that site and kind; a site's come together, in their order. */
static void emit_site(struct ebpf *p, const struct trapline_event *ev, uint32_t at, uint64_t site,
		      int has_returned)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < ev->memory_count; i++) {
		const struct trapline_memory *m = &ev->memory[i];
		if ((m->site && m->site != site) ||
		    !(m->flags & TRAPLINE_MEMORY_RETURN) != !has_returned)
			continue;
		emit_one(p, ev, m, at + end, has_returned);
		end += room_of(m);
	}
	ebpf_store_imm(p, BPF_DW, RECORD, (int16_t)offsetof(struct record, memory_len),
		       (int32_t)end);
}

static int is_first_of_site(const struct trapline_event *ev, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (ev->memory[i].site == ev->memory[index].site)
			return 0;
	return ev->memory[index].site != 0;
}

void program_memory(struct ebpf *p, const struct trapline_event *ev, uint32_t at, int has_returned)
{
	uint32_t done[TRAPLINE_MEMORY_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < ev->memory_count; i++) {
		if (!is_first_of_site(ev, i))
			continue;
		ebpf_load_mem(p, BPF_DW, R1, RECORD, (int16_t)offsetof(struct record, address));
		ebpf_load_imm64(p, R2, ev->memory[i].site);
		uint32_t other = ebpf_jump(p, BPF_JNE, R1, R2);
		emit_site(p, ev, at, ev->memory[i].site, has_returned);
		done[n++] = ebpf_jump_imm(p, BPF_JA, 0, 0);
		ebpf_land(p, other);
	}
	emit_site(p, ev, at, 0, has_returned);
	while (n--)
		ebpf_land(p, done[n]);
}
