/* SPDX-License-Identifier: MIT */
/*
 * heap_fault.c - see heap_fault.h.
 *
 * The stack of a thread may be almost full, and so may its stack for signals. So what takes room, the
 * unwinding, is done on a stack of ours. Where all of them are in use the access goes on, counted.
 */
#include "heap/heap_fault.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "base/action.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/sent.h"
#include "base/sys.h"
#include "guest/stacks.h"
#include "heap/heap.h"
#include "heap/heap_copy.h"
#include "heap/heap_pool.h"
#include "heap/heap_tell.h"
#include "trap/arch.h"

#define COPY_OPEN_MAX ((size_t)1 << 20) /* that get access for a copy */
#define PF_WRITE 2			/* of the page fault's error code */
#define SEGV_BIT (1ull << (SIGSEGV - 1))
#define COPY_INSN_BYTES 2u    /* rep movsb */
#define RESTORER 0x04000000ul /* SA_RESTORER, which libc sets */

/* As the kernel has it: the agent stands before sigaction(). */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static struct action previous = ACTION_DEFAULT;

void heap_fault_restore(void);

/*
 * The unwinder knows a signal frame by the bytes of what it returns to, which must have no other
 * description. So must the byte before.
 */
__asm__(".text\n"
	"	.p2align 4, 0xcc\n"
	"	nop\n"
	"	.type heap_fault_restore, @function\n"
	"heap_fault_restore:\n"
	"	movq $15, %rax\n"
	"	syscall\n"
	"	.size heap_fault_restore, . - heap_fault_restore\n");

/* What cannot be read faults at its first instruction, and goes on at the second with what is left in rcx. */
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

static long change_kernel_action(int signal, const struct kernel_action *action,
				 struct kernel_action *old)
{
	return sys4(SYS_rt_sigaction, signal, action, old, sizeof(action->mask));
}

static long set_kernel_action(int signal, const struct kernel_action *action)
{
	return change_kernel_action(signal, action, NULL);
}

static void set_default(int signal)
{
	const struct kernel_action action = { .restorer = NULL };

	set_kernel_action(signal, &action);
}

static void set_mask(int how, uint64_t mask)
{
	sys4(SYS_rt_sigprocmask, how, &mask, NULL, sizeof(mask));
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
static const struct heap_slot *nearest(const struct heap_slot *before, uintptr_t address)
{
	const struct heap_slot *after = heap_pool_next(before);

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
	const struct heap_slot *before = heap_pool_slot(fault->address);
	const struct heap_slot *slot = before ? nearest(before, fault->address) :
						heap_pool_slot(fault->address + PAGE_BYTES);

	/* Another thread has got the slot meanwhile: then the page has access. */
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

/* ---- the program's own ---- */

/* It dies of what an error may have done: it is looked for now. */
static void tell_death(void *arg)
{
	const struct fault *fault = arg;

	if (fault->address)
		tell_copy(fault);
	heap_end();
}

/* What an instruction raised, it raises again at the return. */
static void die(const siginfo_t *info, const ucontext_t *context)
{
	struct fault fault = { info->si_code > 0 ? (uintptr_t)info->si_addr : 0, context };

	heap_fault_call(tell_death, &fault);
	set_default(SIGSEGV);
	if (info->si_code <= 0)
		sys_tgkill(sys_getpid(), sys_gettid(), SIGSEGV);
}

static void on_foreign(int signal, siginfo_t *info, ucontext_t *context)
{
	struct sigaction action;
	uint64_t version = action_read(&previous, &action);
	uint64_t mask;

	if (action.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN ||
	    (action.sa_flags & SA_RESETHAND && !action_reset(&previous, version))) {
		die(info, context);
		return;
	}
	memcpy(&mask, &action.sa_mask, sizeof(mask));
	/* Never SIGSEGV: the handler may use a sampled block. */
	set_mask(SIG_BLOCK, mask & ~SEGV_BIT);
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(signal, info, context);
	else
		action.sa_handler(signal);
}

/* A page of a block that the program closed itself, as collectors do. */
static bool is_programs_own(uintptr_t address)
{
	const struct heap_slot *slot = heap_pool_slot(address);

	return slot && atomic_get(&slot->is_protected) && is_in_block(slot, address);
}

static void on_segv(int signal, siginfo_t *info, void *arg)
{
	struct fault fault = { (uintptr_t)info->si_addr, arg };

	if ((info->si_code != SEGV_ACCERR && info->si_code != SEGV_MAPERR) ||
	    !heap_has(info->si_addr) || is_programs_own(fault.address)) {
		if (info->si_code > 0 && is_copy_fault(arg))
			return;
		on_foreign(signal, info, arg);
		return;
	}
	if (!heap_fault_call(tell_fault, &fault))
		counter_add(&heap_region->counters[HEAP_LOST_RECORDS], 1u);
	if (!heap_region->settings.does_stop)
		heap_pool_let(fault.address);
}

/* By the flags that matter when the kernel makes the frame. */
static long take_segv(const struct sigaction *program, struct kernel_action *old)
{
	const struct kernel_action action = {
		.handler = on_segv,
		.flags = SA_SIGINFO | SA_NODEFER | RESTORER |
			 (unsigned long)(program->sa_handler == SIG_DFL ?
						 SA_ONSTACK | SA_RESTART :
						 program->sa_flags & (SA_ONSTACK | SA_RESTART)),
		.restorer = heap_fault_restore,
	};

	return change_kernel_action(SIGSEGV, &action, old);
}

void heap_fault_set_action(const struct sigaction *action, struct sigaction *old)
{
	if (action) {
		action_replace(&previous, action, old);
		take_segv(action, NULL);
	} else if (old) {
		action_read(&previous, old);
	}
}

void heap_fault_from_kernel(int signal, struct sigaction *old)
{
	if (signal == SIGSEGV && old->sa_sigaction == on_segv)
		action_read(&previous, old);
}

static void to_kernel(const struct sigaction *action, struct kernel_action *out)
{
	*out = (struct kernel_action){ .handler = action->sa_sigaction,
				       .flags = (unsigned int)action->sa_flags | RESTORER,
				       .restorer = heap_fault_restore };
	memcpy(&out->mask, &action->sa_mask, sizeof(out->mask));
}

static void from_kernel(const struct kernel_action *action, struct sigaction *out)
{
	*out = (struct sigaction){ .sa_handler = SIG_DFL };
	out->sa_sigaction = action->handler;
	out->sa_flags = (int)(action->flags & ~RESTORER);
	memcpy(&out->sa_mask, &action->mask, sizeof(action->mask));
}

int heap_fault_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	struct kernel_action now;
	struct kernel_action before;

	if (action)
		to_kernel(action, &now);
	long err = sys4(SYS_rt_sigaction, signal, action ? &now : NULL, &before, sizeof(now.mask));
	if (err) {
		errno = (int)-err;
		return -1;
	}
	if (old)
		from_kernel(&before, old);
	return 0;
}

/* A handler that came past us stays. */
void heap_fault_leave(void)
{
	struct kernel_action now;
	struct sigaction action;

	if (sys4(SYS_rt_sigaction, SIGSEGV, NULL, &now, sizeof(now.mask)) || now.handler != on_segv)
		return;
	action_read(&previous, &action);
	to_kernel(&action, &now);
	set_kernel_action(SIGSEGV, &now);
}

/* Another thread of the program may set its action meanwhile: then that is the one. */
static int take_from(const struct kernel_action *before)
{
	struct kernel_action old;
	struct sigaction as_libc;

	from_kernel(before, &as_libc);
	action_replace(&previous, &as_libc, NULL);
	long err = take_segv(&as_libc, &old);
	if (err || old.handler == on_segv || old.handler == before->handler)
		return (int)err;
	from_kernel(&old, &as_libc);
	action_replace(&previous, &as_libc, NULL);
	return (int)take_segv(&as_libc, NULL);
}

int heap_fault_take_again(void)
{
	struct kernel_action before;

	if (sys4(SYS_rt_sigaction, SIGSEGV, NULL, &before, sizeof(before.mask)))
		return -EINVAL;
	if (before.handler == on_segv)
		return 0;
	return take_from(&before);
}

int heap_fault_start(void)
{
	struct kernel_action before;

	if (sys4(SYS_rt_sigaction, SIGSEGV, NULL, &before, sizeof(before.mask)))
		return -EINVAL;
	int err = stacks_start();
	if (err)
		return err;
	heap_copy_start();
	/* A process can inherit it blocked, and would die of the first fault. */
	set_mask(SIG_UNBLOCK, SEGV_BIT);
	return take_from(&before);
}

void heap_fault_forked(void)
{
	action_forked(&previous);
	stacks_forked();
}

void heap_fault_end(int signal)
{
	set_default(signal);
	if (signal == SIGSEGV)
		return;
	set_mask(SIG_UNBLOCK, 1ull << (signal - 1));
	sys_tgkill(sys_getpid(), sys_gettid(), signal);
}
