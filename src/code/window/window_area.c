/* SPDX-License-Identifier: MIT */
/*
 * window_area.c - the memory of a window: see window.h.
 *
 * An area belongs to one thread and is kept for its next window. Those of ended threads are used
 * again. The cache is mapped twice, so that no page is writable and executable at once. Cache and
 * data are one range of addresses: the code reaches its data by 32-bit distances.
 *
 * Writing through the other mapping needs no serialization: processors compare physical addresses,
 * and runtimes with two mappings rely on it too.
 */
#include "code/window/window.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/rseq.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/memory_file.h"
#include "base/sys.h"
#include "code/window/window_emit.h"

#define SHSTK_STATUS 0x5005 /* ARCH_SHSTK_STATUS of <asm/prctl.h>, Linux 6.6 */

static struct window_area *areas;
static uint32_t times_given; /* what threads have as their own from before is unmapped */
static __thread struct window_area *own __attribute__((tls_model("initial-exec")));
static __thread uint32_t own_time __attribute__((tls_model("initial-exec")));

struct part {
	size_t offset;
	size_t bytes;
};

enum {
	PART_AREA,
	PART_JUMPS,
	PART_BLOCKS,
	PART_SITES,
	PART_MARKS,
	PART_OPERANDS,
	PART_HASH,
	PART_XSAVE,
	PART_STACK,
	PARTS
};

static const size_t part_bytes[PARTS] = {
	[PART_AREA] = sizeof(struct window_area),
	[PART_JUMPS] = WINDOW_JUMPS * sizeof(struct window_jump),
	[PART_BLOCKS] = WINDOW_BLOCKS_MAX * sizeof(struct window_block),
	[PART_SITES] = WINDOW_SITES_MAX * sizeof(struct window_site),
	[PART_MARKS] = WINDOW_MARKS_MAX * sizeof(struct window_mark),
	[PART_OPERANDS] = WINDOW_OPERANDS_MAX * sizeof(struct window_operand),
	[PART_HASH] = WINDOW_HASH * sizeof(uint32_t),
	[PART_XSAVE] = WINDOW_XSAVE_BYTES,
	[PART_STACK] = WINDOW_STACK_BYTES,
};

static size_t pages_of(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* With a page between two of them that has no access: the stack cannot run into the rest. */
static size_t total_bytes(void)
{
	size_t bytes = WINDOW_CODE_BYTES;

	for (int i = 0; i < PARTS; i++)
		bytes += pages_of(part_bytes[i]) + PAGE_BYTES;
	return bytes;
}

static int map_code(uint8_t *at, uint8_t **writable)
{
	int fd = memory_file("trapline-window", WINDOW_CODE_BYTES);

	if (fd < 0)
		return fd;
	long mapped = sys_mmap(at, WINDOW_CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED,
			       fd, 0);
	if (!memory_failed((void *)mapped)) {
		*writable = memory_map_shared(WINDOW_CODE_BYTES, 1, fd, 0);
		mapped = (long)*writable;
	}
	sys_close(fd);
	return memory_failed((void *)mapped) ? (int)mapped : 0;
}

static int map_parts(uint8_t *at, uint8_t *parts[PARTS])
{
	for (int i = 0; i < PARTS; i++) {
		long got = sys6(SYS_mmap, at, pages_of(part_bytes[i]), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

		if (memory_failed((void *)got))
			return (int)got;
		parts[i] = at;
		at += pages_of(part_bytes[i]) + PAGE_BYTES;
	}
	return 0;
}

/*
 * What each branch to Trapline does: all registers into the area, Trapline's stack, dispatch, and
 * back.
 */
static void emit_gates(struct window_area *a)
{
	a->save = a->used;
	for (unsigned int i = 0; i <= INSN_R15; i++)
		emit_store(a, emit_number(i), &a->regs.r[i]);
	emit_load(a, emit_number(INSN_RSP), &a->stack_top);
	emit(a, "\x9c\x8f\x05", 3); /* pushfq; popq flags */
	emit_field(a, &a->regs.flags, 0);
	emit(a, "\xfc\x48\x8d\x3d", 4); /* cld; lea area, %rdi */
	emit_field(a, a, 0);
	emit(a, "\xff\x15", 2); /* call *dispatch */
	emit_field(a, &a->dispatch, 0);
	a->entry = a->used;
	emit_load(a, emit_number(INSN_RSP), &a->stack_top);
	emit(a, "\xff\x35", 2); /* pushq flags; popfq */
	emit_field(a, &a->regs.flags, 0);
	emit_1(a, 0x9d);
	for (unsigned int i = 0; i <= INSN_R15; i++)
		emit_load(a, emit_number(i), &a->regs.r[i]);
	emit(a, "\xff\x25", 2); /* jmp *resume */
	emit_field(a, &a->resume, 0);
	emit_miss(a);
	a->pad = a->used;
	emit_load(a, emit_number(INSN_RSP), &a->leave_sp);
	a->pad_trap = a->used;
	emit(a, "\x0f\x0b", 2); /* ud2 */
	a->kept = a->used;
}

void window_flush(struct window_area *a)
{
	sys3(SYS_madvise, a->jumps, part_bytes[PART_JUMPS], MADV_DONTNEED);
	sys3(SYS_madvise, a->hash, part_bytes[PART_HASH], MADV_DONTNEED);
	/* The address 0 must not be found in the empty table. */
	a->jumps[0].negative = 1;
	a->used = a->kept;
	a->blocks_used = 1; /* number 0 ends a row of the hash */
	a->sites_used = 1;  /* number 0: the indirect branch */
	a->marks_used = 0;
	a->operands_used = 1;
	a->epoch++;
}

static void settle(struct window_area *a, uint8_t *parts[PARTS])
{
	a->jumps = (void *)parts[PART_JUMPS];
	a->blocks = (void *)parts[PART_BLOCKS];
	a->sites = (void *)parts[PART_SITES];
	a->marks = (void *)parts[PART_MARKS];
	a->operands = (void *)parts[PART_OPERANDS];
	a->hash = (void *)parts[PART_HASH];
	a->xsave = parts[PART_XSAVE];
	/* Aligned as at a call: the gate's call pushes the rest. */
	a->stack_top = (uint64_t)(uintptr_t)parts[PART_STACK] + WINDOW_STACK_BYTES;
	a->dispatch = (uint64_t)(uintptr_t)window_dispatch;
	a->pid = sys_getpid();
	if (__rseq_size)
		a->rseq_offset = (uint64_t)__rseq_offset + offsetof(struct rseq, rseq_cs);
	emit_gates(a);
	window_flush(a);
}

static int make_area(struct window_area **out)
{
	const size_t bytes = total_bytes();
	uint8_t *parts[PARTS];
	uint8_t *writable = NULL;
	uint8_t *at = (void *)sys6(SYS_mmap, 0, bytes, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory_failed(at))
		return memory_error(at);
	int err = map_code(at, &writable);
	if (!err)
		err = map_parts(at + WINDOW_CODE_BYTES, parts);
	if (err) {
		if (writable && !memory_failed(writable))
			memory_unmap(writable, WINDOW_CODE_BYTES);
		memory_unmap(at, bytes);
		return err;
	}
	struct window_area *a = (void *)parts[PART_AREA];
	a->code = at;
	a->writable = writable;
	settle(a, parts);
	*out = a;
	return 0;
}

/* 0: the processor saves the vector registers and this thread has no shadow stack. */
static int check_machine(void)
{
	static int answer = 1;
	uint64_t features = 0;
	uint32_t eax = 1, ebx, ecx, edx;
	int known = atomic_get(&answer);

	if (known == 1) {
		/* Traps in a virtual machine: asked once. */
		__asm__("cpuid" : "+a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx));
		known = ecx & 1u << 27 ? 0 : -EOPNOTSUPP;
		if (!known) {
			eax = 0xd;
			ecx = 0;
			__asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
			known = ebx <= WINDOW_XSAVE_BYTES ? 0 : -EOPNOTSUPP;
		}
		atomic_set(&answer, known);
	}
	if (!known && !sys2(SYS_arch_prctl, SHSTK_STATUS, &features) && features & 1)
		return -EOPNOTSUPP;
	return known;
}

/* One whose thread has ended, or that this thread has left by a jump it cannot know of. */
static struct window_area *find_free(pid_t pid, pid_t tid)
{
	for (struct window_area *a = atomic_get(&areas); a; a = a->next) {
		pid_t owner = atomic_get(&a->tid);

		if (a->pid == pid && (owner == tid || sys_tgkill(pid, owner, 0) == -ESRCH) &&
		    atomic_cas(&a->tid, &owner, tid)) {
			/*
			 * It ended in a system call of a window, perhaps because it was cancelled.
			 */
			if (a->is_active)
				window_faults_release();
			if (a->was_abandoned)
				window_faults_release();
			a->is_active = WINDOW_IDLE;
			a->was_abandoned = 0;
			return a;
		}
	}
	return NULL;
}

struct window_area *window_own(void)
{
	return own_time == atomic_get(&times_given) ? own : NULL;
}

/* Areas of a forked child's parent are a copy. */
static int is_in_use(const struct window_area *a)
{
	return a->pid == sys_getpid() && (a->is_active || a->was_abandoned) &&
	       sys_tgkill(a->pid, a->tid, 0) != -ESRCH;
}

int window_areas_give(void)
{
	struct window_area *next;

	for (struct window_area *a = atomic_get(&areas); a; a = a->next)
		if (is_in_use(a))
			return -EBUSY;
	struct window_area *a = atomic_swap(&areas, NULL);
	atomic_add(&times_given, 1u);
	for (; a; a = next) {
		next = a->next;
		memory_unmap(a->writable, WINDOW_CODE_BYTES);
		memory_unmap(a->code, total_bytes());
	}
	return 0;
}

/*
 * The window waited for a system call. Either a handler has left that by a jump, or this is a
 * handler that returns to it, with the trap flag. Until it is known, the signals stay Trapline's.
 */
static void abandon(struct window_area *a)
{
	const uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);

	if (a->was_abandoned && sp >= a->abandoned_sp) {
		a->was_abandoned = 0;
		window_faults_release();
	}
	if (a->is_active != WINDOW_SUSPENDED)
		return;
	if (a->was_abandoned)
		window_faults_release();
	if (a->request.ended)
		a->request.ended(a);
	a->was_abandoned = 1;
	a->abandoned_sp = a->step_sp;
	a->is_active = WINDOW_IDLE;
}

int window_take(struct window_area **out)
{
	const pid_t pid = sys_getpid();
	int err = check_machine();

	if (err)
		return err;
	/* A forked child shares the memory of the cache with its parent. */
	if (window_own() && own->pid == pid) {
		*out = own;
		if (own->is_active == WINDOW_ACTIVE)
			return -EBUSY;
		abandon(own);
		return 0;
	}
	const pid_t tid = sys_gettid();
	struct window_area *a = find_free(pid, tid);
	if (!a) {
		err = make_area(&a);
		if (err || !a)
			return err ? err : -ENOMEM;
		a->tid = tid;
		a->next = atomic_get(&areas);
		while (!atomic_cas(&areas, &a->next, a))
			;
	}
	own = a;
	own_time = atomic_get(&times_given);
	*out = a;
	return 0;
}
