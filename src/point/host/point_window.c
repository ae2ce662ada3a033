/* SPDX-License-Identifier: MIT */
/*
 * point_window.c - see point_window.h.
 *
 * A fault in the cache is not the program's: the thread gets the registers that it would have had,
 * and the caller's next step faults natively. A signal that was sent waits for the end of the
 * block, which then ends the window.
 */
#include "point/host/point_window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include "point/host/point_cache.h"

#define CODE_64 0x33u
#define REFUSED_FLAGS 0x40100u /* trap, alignment check */
#define ZERO_FLAG 0x40u
#define REPLACED ((int64_t)1 << 40) /* taken from the budget, for a stop at the next block */
#define CHANGES_MAX 2000
#define RSEQ_CS_AT 8
#define BIT(signal) (UINT64_C(1) << ((signal)-1))
#define FAULTS (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE) | BIT(SIGTRAP) | BIT(SIGSYS))

struct point_window {
	struct point_tracee tracee;
	struct point_cache cache;
	bool is_off;	/* never again */
	bool is_closed; /* the thread is gone */
	unsigned int changes;
	/* for a run: */
	struct user_regs_struct regs;
	uint64_t pc;
	int64_t left;
	int64_t left_there;
	bool is_stopped; /* by a system call of Trapline */
	bool is_masked;
	uint64_t mask;	 /* the program's, in the meantime */
	uint64_t rounds; /* asked of a string instruction */
	uint64_t count;	 /* its register, before */
	struct insn repeated;
	uint8_t bytes[INSN_LENGTH_MAX];
};

enum step {
	GO_ON,	/* at pc */
	RESUME, /* registers and budget are there */
	NATIVE, /* the caller steps at pc */
	GONE,
};

/* ---- registers ---- */

static unsigned long long *register_of(struct user_regs_struct *r, unsigned int dwarf)
{
	unsigned long long *const all[] = { &r->rax, &r->rdx, &r->rcx, &r->rbx,
					    &r->rsi, &r->rdi, &r->rbp, &r->rsp };

	return all[dwarf & 7];
}

static int set_registers(struct point_window *w, uint64_t pc)
{
	w->regs.rip = pc;
	w->regs.orig_rax = ~UINT64_C(0);
	return ptrace(PTRACE_SETREGS, w->tracee.tid, NULL, &w->regs) ? -errno : 0;
}

static int start_at(struct point_window *w, uint64_t code)
{
	int err = 0;

	if (w->left != w->left_there)
		err = point_cache_set_left(&w->cache, w->left);
	w->left_there = w->left;
	return err ? err : set_registers(w, code);
}

static int start_block(struct point_window *w, int number)
{
	const struct point_cache *c = &w->cache;

	return number < 0 ? number :
			    start_at(w, point_cache_address(c, c->area->blocks[number].code));
}

/* ---- repeated string instructions ---- */

/* Decodes the one at pc. 1: it is one of those. */
static int look_for_repeated(struct point_window *w)
{
	const size_t n = point_tracee_read(&w->tracee, w->bytes, w->pc, sizeof(w->bytes));

	return n && !insn_decode_x86_64(w->bytes, n, &w->repeated) &&
	       w->repeated.flags & INSN_REPEATS && w->repeated.address_bytes == 8 &&
	       w->repeated.kind == INSN_STRING;
}

/* cmps and scas end early, by the zero flag. */
static bool compares(const struct point_window *w)
{
	const uint8_t opcode = w->bytes[w->repeated.opcode_at] & 0xfe;

	return opcode == 0xa6 || opcode == 0xae;
}

static bool is_repne(const struct point_window *w)
{
	bool is = false;

	for (unsigned int i = 0; i < w->repeated.opcode_at; i++)
		if (w->bytes[i] == 0xf2 || w->bytes[i] == 0xf3)
			is = w->bytes[i] == 0xf2;
	return is;
}

static int start_repeated(struct point_window *w)
{
	w->count = w->regs.rcx;
	w->rounds = w->count < (uint64_t)w->left ? w->count : (uint64_t)w->left;
	w->regs.rcx = w->rounds;
	int err = point_cache_put_repeated(&w->cache, w->bytes, w->repeated.length);
	return err ? err : start_at(w, point_cache_address(&w->cache, w->cache.repeated));
}

/* So many rounds are done. */
static void take_rounds(struct point_window *w)
{
	const uint64_t done = w->rounds - w->regs.rcx;

	w->left -= (int64_t)done;
	w->regs.rcx = w->count - done;
}

static void end_repeated(struct point_window *w)
{
	const bool zero = w->regs.eflags & ZERO_FLAG;
	bool is_over = w->regs.rcx != 0; /* before all rounds */

	if (compares(w))
		is_over |= zero == is_repne(w);
	take_rounds(w);
	if (is_over || !w->regs.rcx)
		w->pc += w->repeated.length;
}

/* ---- why the code stopped ---- */

static enum step take_exit(struct point_window *w, const struct window_site *site, int *err)
{
	const uint32_t epoch = w->cache.epoch;
	const uint32_t at = site->code;

	w->pc = site->guest;
	if (w->left <= 0)
		return NATIVE;
	const int number = point_cache_block(&w->cache, w->pc);
	*err = number;
	if (number >= 0 && w->cache.epoch == epoch)
		*err = point_cache_link(&w->cache, at, (uint32_t)number);
	return GO_ON;
}

static enum step take_indirect(struct point_window *w, uint64_t target, int *err)
{
	w->pc = target;
	if (w->left <= 0)
		return NATIVE;
	const int number = point_cache_block(&w->cache, target);
	*err = number < 0 ? number : point_cache_link_indirect(&w->cache, (uint32_t)number);
	return GO_ON;
}

static enum step take_change(struct point_window *w, uint32_t old, int *err)
{
	const uint32_t epoch = w->cache.epoch;

	w->is_off |= ++w->changes > CHANGES_MAX;
	window_forget(w->cache.area, old);
	point_cache_forget_text(&w->cache);
	const int number = point_cache_block(&w->cache, w->pc);
	*err = number;
	if (number >= 0 && w->cache.epoch == epoch)
		*err = point_cache_replace(&w->cache, old, (uint32_t)number);
	return w->is_off ? NATIVE : GO_ON;
}

/* As in window_run.c. */
static enum step take_restartable(struct point_window *w, const struct window_site *site, int *err)
{
	const struct window_block *block = &w->cache.area->blocks[site->block];
	struct {
		uint32_t version, flags;
		uint64_t start, bytes, abort;
	} sequence;
	uint64_t at = 0;

	if (point_tracee_read(&w->tracee, &at, w->regs.fs_base + w->cache.area->rseq_offset,
			      sizeof(at)) == sizeof(at) &&
	    point_tracee_read(&w->tracee, &sequence, at, sizeof(sequence)) == sizeof(sequence) &&
	    (block->guest - sequence.start < sequence.bytes ||
	     sequence.start - block->guest < block->bytes)) {
		w->left += block->insns;
		w->pc = block->guest;
		return NATIVE;
	}
	*err = start_at(w, point_cache_address(&w->cache, site->code));
	return RESUME;
}

static enum step take_site(struct point_window *w, const struct point_values *v, int *err)
{
	struct window_area *a = w->cache.area;
	const struct window_site site = a->sites[v->site == POINT_SITE_REPEATED ? 0 : v->site];

	if (v->site == POINT_SITE_REPEATED) {
		end_repeated(w);
		return GO_ON;
	}
	if (!v->site)
		return take_indirect(w, v->target, err);
	w->pc = site.guest;
	switch (site.kind) {
	case WINDOW_SITE_EXIT:
		return take_exit(w, &site, err);
	case WINDOW_SITE_BUDGET:
		w->left += a->blocks[site.block].insns;
		return GO_ON;
	case WINDOW_SITE_CHANGED:
		w->left += a->blocks[site.block].insns;
		return take_change(w, site.block, err);
	case WINDOW_SITE_RESTARTABLE:
		return take_restartable(w, &site, err);
	default: /* WINDOW_SITE_LEAVE */
		if (w->left <= 0 || !w->regs.rcx || !look_for_repeated(w))
			return NATIVE;
		*err = start_repeated(w);
		return RESUME;
	}
}

/* In the stop of the gate. */
static enum step take_call(struct point_window *w, bool was_kicked, int *err)
{
	struct point_values values;

	*err = -EPROTO;
	if (ptrace(PTRACE_GETREGS, w->tracee.tid, NULL, &w->regs) ||
	    w->regs.rip != w->cache.behind_gate)
		return GONE;
	*err = point_cache_values(&w->cache, &values);
	if (*err)
		return GONE;
	w->is_stopped = true;
	w->regs.rax = values.rax;
	w->regs.rcx = values.rcx;
	w->regs.r11 = values.r11;
	w->left = w->left_there = values.left;
	if (was_kicked)
		w->left += REPLACED;
	return take_site(w, &values, err);
}

/* ---- signals ---- */

static bool is_fault(const siginfo_t *info)
{
	return info->si_code > 0 && (info->si_signo == SIGSEGV || info->si_signo == SIGBUS ||
				     info->si_signo == SIGILL || info->si_signo == SIGFPE);
}

/* The registers before the instruction that faulted. */
static enum step take_fault(struct point_window *w, bool was_kicked, int *err)
{
	const struct window_area *a = w->cache.area;
	const uint32_t code = (uint32_t)(w->regs.rip - point_cache_address(&w->cache, 0));
	struct point_values values;

	*err = point_cache_values(&w->cache, &values);
	if (*err)
		return GONE;
	w->is_stopped = false;
	w->left = w->left_there = values.left;
	if (was_kicked)
		w->left += REPLACED;
	if (code == w->cache.repeated) {
		take_rounds(w);
		return NATIVE;
	}
	*err = -EPROTO;
	if (w->regs.rip - point_cache_address(&w->cache, 0) >= WINDOW_CODE_BYTES ||
	    code < a->kept || a->blocks_used < 2)
		return GONE;
	*err = 0;
	const struct window_block *block = window_block_of(a, code);
	const struct window_mark *mark = window_mark_of(a, block, code);
	if (mark->saved & WINDOW_SAVED_RAX)
		w->regs.rax = values.spill_rax;
	if (mark->saved & WINDOW_SAVED_RCX)
		w->regs.rcx = values.spill_rcx;
	if (mark->saved & WINDOW_SAVED_RDX)
		w->regs.rdx = values.spill_rdx;
	if (mark->saved & WINDOW_SAVED_OTHER)
		*register_of(&w->regs, mark->other) = values.spill_other;
	w->left += block->insns - mark->done;
	w->pc = block->guest + mark->offset;
	return NATIVE;
}

/* The next block stops. Until then no other signal comes, except for faults. */
static int kick(struct point_window *w)
{
	uint64_t mask;
	struct point_values values;
	int err = point_cache_values(&w->cache, &values);

	if (!err)
		err = point_cache_set_left(&w->cache, values.left - REPLACED);
	if (!err && ptrace(PTRACE_GETSIGMASK, w->tracee.tid, sizeof(w->mask), &w->mask))
		err = -errno;
	mask = w->mask | ~FAULTS;
	if (!err && ptrace(PTRACE_SETSIGMASK, w->tracee.tid, sizeof(mask), &mask))
		err = -errno;
	w->is_masked = !err;
	return err;
}

/* Until the code has something for Trapline. */
static enum step resume(struct point_window *w, int *err)
{
	bool was_kicked = false;
	siginfo_t info;

	for (;;) {
		const int stop = point_tracee_go(&w->tracee, PTRACE_SYSEMU, &info);

		if (stop < 0 || stop == POINT_STOP_OTHER) {
			*err = stop < 0 ? stop : 0;
			return GONE;
		}
		if (stop == POINT_STOP_CALL)
			return take_call(w, was_kicked, err);
		if (ptrace(PTRACE_GETREGS, w->tracee.tid, NULL, &w->regs)) {
			*err = -errno;
			return GONE;
		}
		if (is_fault(&info))
			return take_fault(w, was_kicked, err);
		point_tracee_hold(&w->tracee, &info);
		*err = was_kicked ? 0 : kick(w);
		if (*err)
			return GONE;
		was_kicked = true;
	}
}

/* ---- a run ---- */

#define NOT_NOW 2

/* 0; 1: the thread is gone; NOT_NOW; or -errno. */
static int prepare(struct point_window *w)
{
	uint64_t rseq = 0;

	if (ptrace(PTRACE_GETREGS, w->tracee.tid, NULL, &w->regs))
		return -errno;
	if (w->regs.cs != CODE_64 || (long)w->regs.orig_rax != -1 || w->regs.eflags & REFUSED_FLAGS)
		return NOT_NOW;
	const int64_t offset = point_tracee_rseq(&w->tracee, &rseq) ?
				       INT64_MAX :
				       (int64_t)(rseq + RSEQ_CS_AT - w->regs.fs_base);
	w->is_off |= offset != (int32_t)offset && rseq;
	w->is_off |= offset == INT64_MAX || point_tracee_has_shadow_stack(&w->tracee);
	if (w->is_off)
		return NOT_NOW;
	const uint64_t rseq_offset = rseq ? (uint64_t)offset : 0;
	int err = point_cache_open(&w->cache);
	w->is_off = err != 0;
	if (err)
		return err > 0 || w->cache.is_there ? err : NOT_NOW;
	if (w->cache.area->rseq_offset != rseq_offset) {
		w->cache.area->rseq_offset = rseq_offset;
		err = point_cache_flush(&w->cache);
	}
	w->pc = w->regs.rip;
	w->left_there = -1;
	w->is_stopped = false;
	return err;
}

static enum step go_on(struct point_window *w, const struct point_window_run *run, int *err)
{
	const struct window_area *a = w->cache.area;

	if (w->left <= 0 || w->tracee.held_count || (run->ends && run->ends()))
		return NATIVE;
	int number = point_cache_block(&w->cache, w->pc);
	if (number >= 0 && a->blocks[number].insns > w->left)
		number = point_cache_short_block(&w->cache, w->pc, (unsigned int)w->left);
	*err = start_block(w, number);
	return RESUME;
}

/* A step can follow. */
static int leave(struct point_window *w)
{
	int err = w->is_stopped ? point_tracee_leave(&w->tracee) : 0;

	w->is_stopped = false;
	if (!err && w->is_masked &&
	    ptrace(PTRACE_SETSIGMASK, w->tracee.tid, sizeof(w->mask), &w->mask))
		err = -errno;
	w->is_masked = false;
	return err ? err : set_registers(w, w->pc);
}

/*
 * What the next instruction asks of the kernel may need that the mapping is gone. A fork copies it,
 * after an exec or an exit the thread cannot remove it, and a filter of system calls would see
 * Trapline's.
 */
static int look_at_call(struct point_window *w)
{
	const struct user_regs_struct *r = &w->regs;
	uint8_t bytes[2] = { 0 };

	if (point_tracee_read(&w->tracee, bytes, r->rip, sizeof(bytes)) != sizeof(bytes) ||
	    bytes[0] != 0x0f || bytes[1] != 0x05)
		return 0;
	switch (r->rax) {
	case SYS_seccomp:
	case SYS_prctl:
		w->is_off |= r->rax == SYS_seccomp || r->rdi == 22 || r->rdi == 59;
		break;
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_madvise:
	case SYS_remap_file_pages:
	case SYS_shmat:
	case SYS_pkey_mprotect:
		w->is_off |= point_cache_overlaps(&w->cache, r->rdi, r->rsi) ||
			     (r->rax == SYS_shmat && r->rsi);
		break;
	case SYS_mremap:
		w->is_off |= point_cache_overlaps(&w->cache, r->rdi, r->rsi) ||
			     point_cache_overlaps(&w->cache, r->r8, r->rdx);
		break;
	case SYS_fork:
	case SYS_vfork:
	case SYS_clone:
	case SYS_clone3:
	case SYS_execve:
	case SYS_execveat:
	case SYS_exit:
	case SYS_exit_group:
		return point_cache_remove(&w->cache);
	default:
		break;
	}
	return w->is_off ? point_cache_remove(&w->cache) : 0;
}

static int run_blocks(struct point_window *w, struct point_window_run *run)
{
	enum step step = GO_ON;
	int err = 0;

	w->left = (int64_t)run->most;
	while (err >= 0 && (step == GO_ON || step == RESUME)) {
		err = 0;
		if (step == RESUME)
			step = resume(w, &err);
		if (err >= 0 && step == GO_ON)
			step = go_on(w, run, &err);
	}
	if (err < 0 || step == GONE)
		return err < 0 ? err : 1;
	run->made = run->most - (uint64_t)w->left;
	err = leave(w);
	/* What is left of the steps is the caller's. */
	if (!err && run->made == run->most)
		err = point_cache_remove(&w->cache);
	return err;
}

static struct point_window *make(const struct point_window_run *run)
{
	struct point_window *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->tracee = (struct point_tracee){ .pid = run->pid, .tid = run->tid, .memory_fd = -1 };
	w->cache.tracee = &w->tracee;
	w->is_off = point_tracee_is_filtered(&w->tracee) || point_tracee_open(&w->tracee);
	return w;
}

int point_window_run(struct point_window **window, struct point_window_run *run)
{
	run->made = 0;
	run->has_status = false;
	if (!*window)
		*window = make(run);
	struct point_window *w = *window;
	if (!w || w->is_off || w->is_closed)
		return 0;
	w->tracee.tid = run->tid;
	int err = prepare(w);
	if (!err)
		err = run_blocks(w, run);
	run->tid = w->tracee.tid;
	run->status = w->tracee.status;
	run->is_let_go = w->tracee.is_let_go;
	run->has_status = err == 1;
	w->is_closed = err < 0 || err == 1;
	return err < 0 ? err : 0;
}

int point_window_before_step(struct point_window *w)
{
	if (!w || w->is_closed || !w->cache.is_there)
		return 0;
	if (ptrace(PTRACE_GETREGS, w->tracee.tid, NULL, &w->regs))
		return -errno;
	const int err = look_at_call(w);
	return err < 0 ? err : 0;
}

int point_window_held(struct point_window *window, siginfo_t *out)
{
	struct point_tracee *t = window ? &window->tracee : NULL;

	if (!t || !t->held_count)
		return 0;
	*out = t->held[0];
	t->held_count--;
	memmove(t->held, t->held + 1, t->held_count * sizeof(t->held[0]));
	return 1;
}

bool point_window_end(struct point_window *w, bool is_over)
{
	if (!w)
		return false;
	if (!w->is_closed && !is_over)
		point_cache_remove(&w->cache);
	const bool is_let_go = w->tracee.is_let_go;
	point_cache_close(&w->cache);
	point_tracee_close(&w->tracee);
	free(w);
	return is_let_go;
}
