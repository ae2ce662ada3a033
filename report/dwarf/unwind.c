/* SPDX-License-Identifier: MIT */
/*
 * unwind.c - return addresses from a copy of a thread's registers and stack.
 *
 * The thread ran on long ago, so nothing is read from it: where the copied bytes end, the
 * stack ends. libdwfl wants to be asked by thread; one made-up thread serves for all.
 */
#include "report/dwarf/instruction.h"
#include "report/dwarf/symbols_priv.h"

#include "report/safe/busy.h"
#include <string.h>

#define THE_THREAD 1
#if defined(__x86_64__)
#define DWARF_FP 6 /* rbp */
#define DWARF_PC 16
#define PC_IS_REGISTER 1
#define RETURN_ON_STACK 1 /* at a function's first instruction */
#else
#define DWARF_FP 29
#define DWARF_PC 32 /* of Trapline: DWARF has no number for it */
#define PC_IS_REGISTER 0
#define RETURN_ON_STACK 0
#endif

static pid_t next_thread(Dwfl *dwfl, void *dwfl_arg, void **thread_arg)
{
	if (*thread_arg)
		return 0;
	*thread_arg = dwfl_arg;
	return THE_THREAD;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *dwfl_arg, void **thread_arg)
{
	*thread_arg = dwfl_arg;
	return tid == THE_THREAD;
}

static bool stack_word(const struct symbols *s, uint64_t address, uint64_t *out)
{
	uint64_t at = address - s->sp;

	if (at > s->stack_len || s->stack_len - at < sizeof(*out))
		return false;
	memcpy(out, s->stack + at, sizeof(*out));
	return true;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *dwfl_arg)
{
	return stack_word(dwfl_arg, address, result);
}

static bool set_registers(Dwfl_Thread *thread, void *thread_arg)
{
	const struct symbols *s = thread_arg;

	if (!dwfl_thread_state_registers(thread, 0, DWARF_PC + PC_IS_REGISTER, s->regs))
		return false;
	if (!PC_IS_REGISTER)
		dwfl_thread_state_register_pc(thread, s->regs[DWARF_PC]);
	return true;
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

void symbols_unwind_attach(struct symbols *s)
{
	s->can_unwind = dwfl_attach_state(s->dwfl, NULL, s->pid, &thread_callbacks, s);
}

static int frame_visit(Dwfl_Frame *frame, void *arg)
{
	struct symbols *s = arg;
	Dwarf_Addr pc;

	if (s->frame_count == s->frame_max || !dwfl_frame_pc(frame, &pc, NULL) || !pc)
		return DWARF_CB_ABORT;
	s->frames[s->frame_count++] = pc;
	return DWARF_CB_OK;
}

/* Before a function has made its frame, the return address is on top of the stack. */
static bool is_at_entry(struct symbols *s, uint64_t pc)
{
	struct place p;

	symbols_place(s, pc, &p);
	return p.function && (!p.offset || pc == code_entry(s, pc - p.offset));
}

/*
 * Without unwind tables, as in Go, frames are found by frame pointers. Then a function that has not
 * made its own frame yet seems to be called by its caller's caller.
 */
static void add_caller_at_entry(struct symbols *s)
{
	uint64_t caller;

	if (!RETURN_ON_STACK || !s->frame_count || s->frame_count == s->frame_max ||
	    !is_at_entry(s, s->frames[0]) || !stack_word(s, s->sp, &caller) || !caller ||
	    (s->frame_count > 1 && s->frames[1] == caller))
		return;
	memmove(s->frames + 2, s->frames + 1, (s->frame_count - 1) * sizeof(*s->frames));
	s->frames[1] = caller;
	s->frame_count++;
}

/* Code without unwind tables: follow the chain of frame pointers while it rises. */
static size_t unwind_frame_pointers(const struct symbols *s, uint64_t *frames, size_t n)
{
	uint64_t fp = s->regs[DWARF_FP];
	uint64_t next;
	uint64_t pc;
	size_t count = 1;

	frames[0] = s->regs[DWARF_PC];
	while (count < n && stack_word(s, fp, &next) && stack_word(s, fp + 8, &pc) && pc) {
		frames[count++] = pc;
		if (next <= fp)
			break;
		fp = next;
	}
	return count;
}

size_t symbols_unwind(struct symbols *s, const uint64_t *regs, size_t reg_count, const void *stack,
		      size_t stack_len, uint64_t sp, uint64_t *frames, size_t n)
{
	BUSY;
	if (!n || reg_count <= DWARF_PC)
		return 0;
	if (s->like && !s->like_module)
		return symbols_unwind_moved(s, regs, reg_count, stack, stack_len, sp, frames, n);
	s->regs = regs;
	s->reg_count = reg_count;
	s->stack = stack;
	s->stack_len = stack_len;
	s->sp = sp;
	s->frames = frames;
	s->frame_count = 0;
	s->frame_max = n;
	/* A library loaded since has unwind tables too. */
	if (!dwfl_addrmodule(s->dwfl, regs[DWARF_PC]))
		symbols_refresh(s);
	if (s->can_unwind)
		dwfl_getthread_frames(s->dwfl, THE_THREAD, frame_visit, s);
	if (s->frame_count < 2)
		s->frame_count = unwind_frame_pointers(s, frames, n);
	add_caller_at_entry(s);
	return s->frame_count;
}
