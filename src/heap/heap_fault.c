/* SPDX-License-Identifier: MIT */
/*
 * heap_fault.c - see heap_fault.h.
 *
 * The stack of a thread may be almost full, and so may its stack for signals. So what takes room,
 * the unwinding, is done on a stack of Trapline. Where all of them are in use the access continues,
 * counted.
 */
#include "heap/heap_fault.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "guest/kernel_action.h"
#include "guest/segv.h"
#include "guest/signals.h"
#include "guest/stacks.h"
#include "heap/heap.h"
#include "heap/heap_copy.h"
#include "heap/heap_pages.h"
#include "heap/heap_pool.h"
#include "heap/heap_tell.h"
#include "trap/arch.h"

#define COPY_OPEN_MAX ((size_t)1 << 20) /* that get access for a copy */
#define PF_WRITE 2			/* of the page fault's error code */
#define COPY_INSN_BYTES 2u		/* rep movsb */

/*
 * What cannot be read faults at its first instruction, and continues at the second with what is
 * left in rcx.
 */
size_t heap_fault_copy_bytes(void *to, const void *from, size_t bytes);
extern const char heap_fault_copy_end[] __attribute__((visibility("hidden")));

__asm__(".text\n"
	"	.hidden heap_fault_copy_bytes, heap_fault_copy_end\n"
	"	.globl heap_fault_copy_bytes, heap_fault_copy_end\n"
	"	.type heap_fault_copy_bytes, @function\n"
	"heap_fault_copy_bytes:\n"
	"	.cfi_startproc\n"
	"	movq %rdx, %rcx\n"
	"heap_fault_copy_at:\n"
	"	rep movsb\n"
	"heap_fault_copy_end:\n"
	"	movq %rcx, %rax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size heap_fault_copy_bytes, . - heap_fault_copy_bytes\n");

bool heap_fault_copy(void *to, const void *from, size_t bytes)
{
	return !heap_fault_copy_bytes(to, from, bytes);
}

static bool is_copy_fault(ucontext_t *context)
{
	const uintptr_t end = (uintptr_t)heap_fault_copy_end;

	if ((uintptr_t)arch_pc(context) + COPY_INSN_BYTES != end)
		return false;
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)end;
	return true;
}

/* ---- an error ---- */

struct fault {
	uintptr_t address;
	const ucontext_t *context;
};

static size_t distance(uintptr_t from, uintptr_t to)
{
	return from > to ? from - to : to - from;
}

/* The block an address outside of blocks belongs to: the nearer of the two around the page. */
static struct heap_slot *nearest(struct heap_slot *before, uintptr_t address)
{
	struct heap_slot *after = heap_pool_next(before);

	if (address - before->base < before->room || !after || after->state == HEAP_SLOT_NEW)
		return before;
	if (before->state == HEAP_SLOT_NEW)
		return after;
	return distance(address, before->start + before->bytes) <= distance(address, after->start) ?
		       before :
		       after;
}

static enum heap_kind kind_at(const struct heap_slot *slot, uintptr_t address)
{
	if (atomic_get(&slot->state) == HEAP_SLOT_FREED)
		return HEAP_USE_AFTER_FREE;
	return address < slot->start ? HEAP_UNDERFLOW : HEAP_OVERFLOW;
}

static bool is_in_block(const struct heap_slot *slot, uintptr_t address)
{
	return address - slot->base < slot->room && atomic_get(&slot->state) == HEAP_SLOT_LIVE;
}

static bool tell_copy(const struct fault *fault)
{
	struct heap_copy copy;

	if (!heap_copy_find(fault->context, fault->address, &copy))
		return false;
	const struct heap_error error = { .kind = kind_at(copy.slot, copy.address),
					  .access = copy.is_write ? HEAP_WRITE : HEAP_READ,
					  .address = copy.address,
					  .bytes = copy.bytes,
					  .slot = copy.slot,
					  .context = fault->context };

	heap_tell(&error);
	if (heap_region->settings.does_stop)
		return true;
	/* All of it at once: it is one error. */
	size_t left = heap_range.start + heap_range.bytes - copy.address;
	size_t most = left < COPY_OPEN_MAX ? left : COPY_OPEN_MAX;

	heap_pool_let_all(copy.address, copy.bytes < most ? copy.bytes : most);
	return true;
}

static void tell_fault(void *arg)
{
	const struct fault *fault = arg;

	if (tell_copy(fault))
		return;
	struct heap_slot *before = heap_pool_slot(fault->address);
	struct heap_slot *slot = before ? nearest(before, fault->address) :
					  heap_pool_slot(fault->address + PAGE_BYTES);

	/* Another thread has got the slot in the meantime: then the page has access. */
	if (!slot || is_in_block(slot, fault->address)) {
		counter_add(&heap_region->counters[HEAP_LATE], 1u);
		return;
	}
	const struct heap_error error = {
		.kind = kind_at(slot, fault->address),
		.access = fault->context->uc_mcontext.gregs[REG_ERR] & PF_WRITE ? HEAP_WRITE :
										  HEAP_READ,
		.address = fault->address,
		.slot = slot,
		.context = fault->context,
	};
	/* What came so far has passed the bytes between the block and this page. */
	if (error.kind == HEAP_OVERFLOW)
		atomic_set(&slot->is_told_behind, 1u);
	heap_tell(&error);
}

struct call {
	void (*call)(void *);
	void *arg;
};

/* Counted where no handler of the program can come on top, and leave by a jump. */
static void call_busy(void *arg)
{
	const struct call *c = arg;

	heap_self.busy++;
	c->call(c->arg);
	heap_self.busy--;
}

bool heap_fault_call(void (*call)(void *), void *arg)
{
	struct call c = { call, arg };

	return stacks_call(call_busy, &c);
}

/* ---- SIGSEGV ---- */

/* The program dies of what an error may have done: it is looked for now. */
static void tell_death(void *arg)
{
	const struct fault *fault = arg;

	if (fault->address)
		tell_copy(fault);
	heap_end();
}

static void on_death(const siginfo_t *info, const ucontext_t *context)
{
	struct fault fault = { info->si_code > 0 ? (uintptr_t)info->si_addr : 0, context };

	heap_fault_call(tell_death, &fault);
}

/* A page of a block that the program closed itself, as collectors do. */
static bool is_programs_own(uintptr_t address)
{
	const struct heap_slot *slot = heap_pool_slot(address);

	return slot && atomic_get(&slot->is_protected) && is_in_block(slot, address);
}

static bool on_fault(const siginfo_t *info, ucontext_t *context)
{
	struct fault fault = { (uintptr_t)info->si_addr, context };

	if ((info->si_code != SEGV_ACCERR && info->si_code != SEGV_MAPERR) ||
	    !heap_has(info->si_addr) || is_programs_own(fault.address))
		return is_copy_fault(context);
	if (!heap_fault_call(tell_fault, &fault))
		counter_add(&heap_region->counters[HEAP_LOST_RECORDS], 1u);
	if (!heap_region->settings.does_stop)
		heap_pool_let(fault.address);
	return true;
}

/* The program has SIGSEGV blocked, and one was sent: no page of Trapline may need it any more. */
static int let_go(void)
{
	if (!heap_is_over)
		counter_add(&heap_region->counters[HEAP_LET_GO], 1u);
	heap_stop();
	return 0;
}

int heap_fault_start(void)
{
	static const struct segv_tool tool = { .take = on_fault, .dies = on_death, .end = let_go };
	int err = stacks_start();

	if (err)
		return err;
	heap_copy_start();
	return segv_start(&tool);
}

AT_FORK void heap_fault_forked(void)
{
	segv_forked();
	stacks_forked();
}

void heap_fault_end(int signal)
{
	const uint64_t mask = 1ull << (signal - 1);

	kernel_action_set_default(signal);
	if (signal == SIGSEGV)
		return;
	sys4(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, NULL, sizeof(mask));
	sys_tgkill(sys_getpid(), sys_gettid(), signal);
}
