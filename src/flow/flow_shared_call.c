/* SPDX-License-Identifier: MIT */
/* flow_shared_call.c - see flow_shared_call.h. */
#include "flow/flow_shared_call.h"

#include <string.h>

#include "code/insn/insn.h"

#define STEPS_MAX 400u /* instructions */
#define PATHS_MAX 16u
#define CALLS_MAX 2u /* deeper ones end the thread that is cancelled */

enum number {
	NUMBER_OLD,    /* rax was not written since the function began */
	NUMBER_TOLD,   /* from a register or memory */
	NUMBER_WRITTEN /* in the instruction: a system call of its own */
};

struct path {
	uint64_t pc;
	uint32_t pushed; /* bytes between rsp and the return address */
	uint32_t calls;
	enum number number;
};

struct walk {
	uint64_t start, end;
	struct path paths[PATHS_MAX];
	uint64_t begun[PATHS_MAX]; /* where paths begin: each once */
	uint32_t path_count, begun_count, steps;
	struct flow_shared_call *out;
	uint32_t count;
};

static void branch(struct walk *w, const struct path *from, uint64_t pc, uint32_t more,
		   uint32_t calls)
{
	for (uint32_t i = 0; i < w->begun_count; i++)
		if (w->begun[i] == pc)
			return;
	if (pc < w->start || pc >= w->end || w->begun_count == PATHS_MAX ||
	    from->calls + calls > CALLS_MAX)
		return;
	w->begun[w->begun_count++] = pc;
	w->paths[w->path_count++] =
		(struct path){ pc, from->pushed + more, from->calls + calls, from->number };
}

static enum number number_after(const uint8_t *bytes, const struct insn *insn, enum number before)
{
	if (!(insn->writes & 1ull << INSN_RAX))
		return before;
	/* mov $number, %eax; xor %eax, %eax */
	if ((insn->length == 5 && bytes[0] == 0xb8) || (insn->length == 2 && bytes[0] == 0x31))
		return NUMBER_WRITTEN;
	return NUMBER_TOLD;
}

/* sub and add $number, %rsp */
static int moves_sp(const uint8_t *bytes, const struct insn *insn, int32_t *by)
{
	if (insn->length < 4 || bytes[0] != 0x48 || (bytes[1] != 0x83 && bytes[1] != 0x81) ||
	    (bytes[2] != 0xec && bytes[2] != 0xc4))
		return 0;
	*by = (int8_t)bytes[3];
	if (bytes[1] == 0x81)
		memcpy(by, bytes + 3, sizeof(*by));
	*by = bytes[2] == 0xec ? -*by : *by;
	return 1;
}

/* 0: it is not known any more where the return address is. */
static int follow_sp(struct path *p, const uint8_t *bytes, const struct insn *insn)
{
	int32_t by = insn->flags & INSN_CHANGES_SP ? insn->sp_change : 0;

	if (!by && insn->writes & 1ull << INSN_RSP && !moves_sp(bytes, insn, &by))
		return 0;
	p->pushed -= (uint32_t)by;
	return 1;
}

static void found(struct walk *w, const struct path *p, uint64_t behind)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (w->out[i].behind == behind)
			return;
	if (w->count < FLOW_SHARED_CALLS)
		w->out[w->count++] = (struct flow_shared_call){ behind, p->pushed };
}

/* 0: the path ends here. */
static int step(struct walk *w, struct path *p)
{
	const uint8_t *bytes = (const uint8_t *)(uintptr_t)p->pc;
	const uint64_t left = w->end - p->pc;
	struct insn insn;

	if (w->steps++ == STEPS_MAX || p->pc < w->start || p->pc >= w->end ||
	    insn_decode(bytes, left < INSN_LENGTH_MAX ? left : INSN_LENGTH_MAX, &insn))
		return 0;
	const uint64_t target = p->pc + (uint64_t)insn.target;

	p->pc += insn.length;
	switch (insn.kind) {
	case INSN_SYSCALL:
		if (p->number == NUMBER_TOLD)
			found(w, p, p->pc);
		break;
	case INSN_CALL:
		branch(w, p, target, 8, 1);
		p->number = NUMBER_TOLD;
		return 1;
	case INSN_JUMP_CONDITIONAL:
		branch(w, p, target, 0, 0);
		return 1;
	case INSN_JUMP:
		branch(w, p, target, 0, 0);
		return 0;
	case INSN_RETURN:
	case INSN_JUMP_INDIRECT:
	case INSN_CALL_INDIRECT:
	case INSN_TRAP:
		return 0;
	default:
		break;
	}
	p->number = number_after(bytes, &insn, p->number);
	return follow_sp(p, bytes, &insn);
}

uint32_t flow_shared_calls(uint64_t function, uint64_t start, uint64_t end,
			   struct flow_shared_call *out)
{
	struct walk w = { .start = start, .end = end, .out = out };
	const struct path none = { 0 };

	branch(&w, &none, function, 0, 0);
	while (w.path_count) {
		struct path p = w.paths[--w.path_count];

		while (step(&w, &p))
			;
	}
	return w.count;
}
