/* SPDX-License-Identifier: MIT */
/*
 * dispatch.c - the SIGTRAP handler.
 *
 * A perf signal with Trapline's magic is Trapline's, and an int3 that poke knows; everything else
 * goes to the action that was there before. Nothing here allocates, locks, prints, exits or touches
 * errno.
 *
 * SA_NODEFER: a hit inside a callback enters the handler at once and is counted as nested. With
 * SIGTRAP blocked it would stay pending, come again after the handler's return, and never end if
 * the callback always touches the watched word. On a thread's own stack the same is done by hand,
 * where there is room for another signal; where not, no callback touches anything of the program.
 * That a blocked SIGTRAP of an event waits, and does not kill: Linux commit 78ed93d72ded (v5.18).
 */
#include "base/general_regs.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/frame.h"
#include "base/restart.h"
#include "base/sent.h"
#include "base/shared_signal.h"
#include "base/sys.h"
#include "base/text_byte.h"
#include "base/trap_path.h"
#include "code/poke/poke_trap.h"
#include "event/control.h"
#include "event/table.h"
#include "record/layout.h"
#include "trap/account.h"
#include "trap/arch.h"
#include "trap/dispatch.h"
#include "trap/foreign.h"
#include "trap/inflight.h"
#include "trap/past.h"
#include "trap/probe_record.h"
#include "trap/room.h"
#include "trap/stack.h"
#include "trap/verdict.h"

/* As TRAP_PERF_CODE. */
#define TRAP_PERF_FLAG_ASYNC_BIT 1u

#define RSEQ_ABORTS_MAX 64u
/* Bytes of stack, to find out that there is no room for more. */
#define ROOM_TO_LOOK 1536u

struct siginfo_perf {
	int32_t signo, error, code, pad;
	uint64_t addr;
	uint64_t data;
	uint32_t type;
	uint32_t flags;
};

/* From <asm-generic/siginfo.h> as well. */
#define SIGNAL_OF_DESCRIPTOR (-5) /* SI_SIGIO */

struct trap_thread {
	const void *frame;	       /* of the handler that runs a callback; NULL: none */
	uint64_t *entry;	       /* in the in-flight table */
	struct trapline_event *probed; /* between trap_enter_probe() and trap_take_probe() */
	pid_t tid;		       /* 0: not asked yet in this thread, or forked */
	uint32_t aborts;	       /* of restartable sequences, in a row */
};

static __thread struct trap_thread self __attribute__((tls_model("initial-exec")));

int trap_on_thread_stack;
int trap_blocks_signals;
struct trapline_event *trap_tick;
uint32_t trap_had_ticks;
trap_finder trap_find_sent;
int trap_hangup_fd;
void (*trap_on_hangup)(void);
uint64_t trap_lost_causes;
static uint32_t hangup_waits; /* for a callback to end, in some thread */

extern char __start_trap_path[] __attribute__((visibility("hidden")));
extern char __stop_trap_path[] __attribute__((visibility("hidden")));

void trap_make_no_calls(void)
{
	atomic_set(&poke_before_callback, (void (*)(const ucontext_t *))NULL);
	atomic_set(&poke_after_callback, (void (*)(const ucontext_t *))NULL);
	text_byte_make_no_calls();
}

void trap_forked(void)
{
	self.tid = 0;
	atomic_set_if_other(&trap_room.pid, 0);
	action_forked(&trap_previous);
	action_forked(&trap_first_previous);
}

int32_t trap_tid_at(void)
{
	return (int32_t)((uintptr_t)&self.tid - (uintptr_t)__builtin_thread_pointer());
}

TRAP_PATH static int is_own_code(uint64_t pc)
{
	return pc - (uintptr_t)__start_trap_path <=
	       (uintptr_t)(__stop_trap_path - __start_trap_path);
}

TRAP_PATH_PART int is_nested(const ucontext_t *context)
{
	return self.frame && frame_is_inside(self.frame, context);
}

/* In a callback, of an event or of a trap. */
TRAP_PATH_PART int dispatch_is_inside(const ucontext_t *context)
{
	return is_nested(context) || poke_is_nested(context);
}

/* A sample means nothing for the program while a trap's callback runs, and its frame needs room. */
TRAP_PATH static int is_vain_tick(const struct trapline_event *ev, const ucontext_t *context)
{
	return !event_is_breakpoint(ev) && poke_is_nested(context);
}

TRAP_PATH static struct trapline_event *event_of(uint64_t data, uint32_t *part)
{
	struct trapline_event *ev = &event_table[data >> 40 & 0xff];

	*part = data >> 32 & 0xff;
	return ev;
}

/*
 * The kernel reads sig_data when it makes the signal, which is after the trap: a hit can carry
 * the generation of a move that came between. The address was recorded at the trap.
 */
TRAP_PATH_PART int is_current(const struct trapline_event *ev, const struct siginfo_perf *info,
			      uint32_t part)
{
	uint32_t state = atomic_get(&ev->state);

	if (state != EVENT_LIVE && state != EVENT_OPENING)
		return 0;
	if (event_is_breakpoint(ev) && info->addr &&
	    info->addr != atomic_get(&ev->parts[part % EVENT_PARTS_MAX].addr))
		return 0;
	return atomic_get(&ev->generation) == (uint32_t)info->data;
}

/* What the program in the kernel read at this very hit; 0 when another thread wrote over it. */
TRAP_PATH static int take_note(const struct trapline_event *ev, struct trapline_hit *hit,
			       uint32_t part)
{
	const struct event_note *note = &ev->control->notes[event_note_slot(hit->sp)];
	uint64_t key = event_note_key(hit->sp, part);

	if (atomic_get(&note->key) != key)
		return 0;
	hit->old_value = atomic_get(&note->old_value);
	hit->new_value = atomic_get(&note->new_value);
	uint64_t when = atomic_get(&note->value_when);
	hit->value_when = (uint8_t)when;
	hit->old_known = when && !(when & RECORD_OLD_UNKNOWN);
	if (atomic_get(&note->key) == key)
		return 1;
	hit->old_known = 0;
	hit->value_when = TRAPLINE_VALUE_NONE;
	return 0;
}

TRAP_PATH static void read_value(struct trapline_event *ev, struct trapline_hit *hit, uint32_t part,
				 struct event_place *place)
{
	uint64_t value = 0;

	if (!event_is_data(ev) || (ev->flags & TRAPLINE_NO_VALUES && !ev->condition))
		return;
	if (ev->control && take_note(ev, hit, part))
		return;
	if (ev->control)
		counter_add(&ev->values_replaced, 1);
	if (sys_read_memory(ev->pid, hit->address, &value, hit->len) != (ssize_t)hit->len)
		return;
	hit->new_value = value;
	hit->value_when = TRAPLINE_VALUE_AT_HIT;
	if (ev->control)
		return; /* the previous value was the program's to know */
	if (!place)
		return;
	uint64_t when = atomic_get(&place->when);
	hit->old_value = atomic_swap(&place->last, value);
	int is_known = !(when & RECORD_OLD_UNKNOWN);
	hit->old_known = is_known && (!(when & PLACE_ARMED_AGAIN) || hit->old_value != value);
	if (when & PLACE_UNKNOWN_ONCE || (is_known && when != TRAPLINE_VALUE_AT_HIT))
		atomic_cas(&place->when, &when, TRAPLINE_VALUE_AT_HIT);
}

TRAP_PATH static void fill_hit(struct trapline_event *ev, uint32_t part,
			       const struct siginfo_perf *info, ucontext_t *context, pid_t tid,
			       struct trapline_hit *hit)
{
	*hit = (struct trapline_hit){
		.size = sizeof(*hit),
		.event = ev,
		.arg = ev->arg,
		.pid = ev->pid,
		.tid = tid,
		.ip = arch_pc(context),
		.sp = arch_sp(context),
		.access = (uint8_t)ev->access,
		.done = (uint8_t)arch_done(ev->access),
		.async = info->flags & TRAP_PERF_FLAG_ASYNC_BIT,
		.context = context,
		.amount = ev->period,
		.syscall = -1,
	};

	if (event_is_breakpoint(ev)) {
		/*
		 * The address of the trap, where the kernel recorded it: the event may be moved
		 * just now.
		 */
		hit->address = info->addr ? info->addr : atomic_get(&ev->parts[part].addr);
		struct event_place *place = event_place_at(ev, part, hit->address);
		hit->len = place ? (uint32_t)atomic_get(&place->len) : ev->parts[part].len;
		read_value(ev, hit, part, place);
	} else {
		hit->address = info->addr;
	}
}

/* The condition, where the kernel could not decide it. */
TRAP_PATH_PART int is_wanted(struct trapline_event *ev, const struct trapline_hit *hit)
{
	struct condition_input input = { .hit = hit, .event = ev };

	if (ev->evaluated_in == TRAPLINE_EVALUATED_IN_KERNEL)
		return 1;
	input.hits = atomic_add(&ev->hits, 1u) + 1;
	if (!ev->condition)
		return 1;
	if (ev->thread_slot)
		input.hits_in_thread = condition_hit_in_thread(ev);
	if (cond_uses(ev->condition, COND_CPU))
		sys3(SYS_getcpu, &input.cpu, NULL, NULL);
	return condition_holds(ev, &input);
}

TRAP_PATH static enum trapline_action call_with_stack(struct trapline_event *ev,
						      struct trapline_hit *hit)
{
	uint64_t frames[TRAPLINE_STACK_MAX];

	hit->stack = frames;
	hit->stack_count = stack_unwind(hit->ip, frames, ev->stack_depth);
	return ev->callback(hit);
}

/*
 * Where the handler is called with all signals blocked: see install.c. Signals of the program wait
 * until the handler returns. A handler on top of Trapline could leave by siglongjmp(3), and it
 * would find Trapline's frames on the stack. A callback that lasts looks for them:
 * trap_signal_waits().
 *
 * Only for a callback, which the thread that ends the event waits for. A signal that comes too late
 * makes no system call, since the program may have forbidden itself all of them in the meantime
 * (seccomp(2)).
 */
TRAP_PATH void trap_let_traps_come(const ucontext_t *context)
{
	const uint64_t trap = 1ull << (SIGTRAP - 1);

	trap_note_stack(context);
	if (!trap_has_room(ROOM_TO_LOOK))
		return;
	trap_leave_shared(context); /* a SIGTRAP of the program's own */
	sys4(SYS_rt_sigprocmask, SIG_UNBLOCK, &trap, NULL, sizeof(trap));
}

TRAP_PATH void trap_leave_shared(const ucontext_t *context)
{
	const uint64_t trap = 1ull << (SIGTRAP - 1);
	uint64_t mask;

	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	if (trap_on_thread_stack)
		sys4(SYS_rt_sigprocmask, SIG_BLOCK, &trap, NULL, sizeof(trap));
	shared_signal_leave(mask);
}

TRAP_PATH int trap_signal_waits(const ucontext_t *context)
{
	uint64_t pending = 0;
	uint64_t mask;

	if (foreign_has_kept())
		return 1;
	if (!trap_on_thread_stack || sys2(SYS_rt_sigpending, &pending, sizeof(pending)))
		return 0;
	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	return (pending & ~mask & ~(1ull << (SIGTRAP - 1))) != 0;
}

/* Without a callback: for the reader of the target's records. */
TRAP_PATH static void record_hit(struct trapline_event *ev, const struct trapline_hit *hit)
{
	const struct probe_record_wish wish = {
		.event = (uint64_t)ev->first_generation << 32 | ev->index,
	};
	int written = probe_record_write(ev->records, hit, &wish);

	if (written > 0) {
		counter_add(&ev->recorded, 1);
		return;
	}
	counter_add(written ? &ev->lost_late : &ev->lost_ring_full, 1);
	if (ev->has_limit)
		atomic_add(&ev->granted, (uint64_t)-1);
}

/* A thread's stack may be small: what was not asked for takes no room there. */
TRAP_PATH static void run_callback(struct trapline_event *ev, struct trapline_hit *hit)
{
	static const uint64_t no_frames[1];
	const int is_by_signal = ev->mechanism != TRAPLINE_BY_PROBE;

	if (trap_on_thread_stack && is_by_signal)
		trap_let_traps_come(hit->context);
	hit->stack = no_frames;
	uint32_t first_generation = ev->first_generation;
	counter_add(&ev->delivered, 1);
	if (hit->async)
		counter_add(&ev->async, 1);
	enum trapline_action action = ev->stack_depth ? call_with_stack(ev, hit) :
							ev->callback(hit);
	/* It may have closed the event, and opened another one with its number. */
	if (action == TRAPLINE_DISARM && !event_enter_as(ev, first_generation)) {
		atomic_set(&ev->wanted, 0);
		event_sync(ev);
		event_leave(ev);
	}
	if ((trap_on_thread_stack || trap_blocks_signals) && is_by_signal)
		trap_leave_shared(hit->context);
}

/*
 * A signal inside a restartable sequence (rseq(2)) aborts it: it starts again, hits again, for
 * ever. The kernel has put pc at the abort handler, which the signature is before. Which one it is
 * does not matter, for two sequences may abort in turn.
 */
TRAP_PATH static int is_endless_abort(pid_t pid, uint64_t pc)
{
	uint32_t signature;

	/* What lies before the page may be another mapping, or none. */
	if ((pc & 4095) >= sizeof(signature))
		memcpy(&signature, (const char *)(uintptr_t)pc - sizeof(signature),
		       sizeof(signature));
	else if (sys_read_memory(pid, pc - sizeof(signature), &signature, sizeof(signature)) !=
		 sizeof(signature))
		signature = 0;
	self.aborts = signature == RSEQ_SIGNATURE ? self.aborts + 1 : 0;
	return self.aborts > RSEQ_ABORTS_MAX;
}

TRAP_PATH static void give_up(struct trapline_event *ev)
{
	self.aborts = 0;
	counter_add(&ev->rseq_stops, 1);
	atomic_set(&ev->wanted, 0);
	event_sync(ev);
}

/* The condition has let it pass. */
TRAP_PATH static void take_wanted(struct trapline_event *ev, struct trapline_hit *hit)
{
	int last;

	if (ev->evaluated_in != TRAPLINE_EVALUATED_IN_KERNEL && event_skips(ev))
		return;
	if (!account_grant(ev, &last)) {
		counter_add(&ev->rejected_limit, 1);
		return;
	}
	/* Off before the callback, so that a re-arm in it is the later wish. */
	if (last && !ev->records)
		event_sync(ev);
	if (ev->records)
		record_hit(ev, hit);
	else
		run_callback(ev, hit);
}

TRAP_PATH static void take_hit(struct trapline_event *ev, uint32_t part,
			       const struct siginfo_perf *info, ucontext_t *context, pid_t tid)
{
	struct trapline_hit hit;

	if (is_endless_abort(ev->pid, arch_pc(context)))
		give_up(ev);
	fill_hit(ev, part, info, context, tid, &hit);
	hit.time_ns = clock_now_ns();
	if (is_wanted(ev, &hit))
		take_wanted(ev, &hit);
}

/* 1: the event waits for this thread to leave. 0: the hit is counted, and that is all. */
TRAP_PATH_PART int enter(struct trapline_event *ev, uint32_t part, const struct siginfo_perf *info,
			 const void *frame)
{
	if (!self.tid)
		self.tid = sys_gettid();
	self.frame = frame;
	self.entry = inflight_enter(self.tid, ev->index);
	if (self.entry && is_current(ev, info, part))
		return 1;
	if (self.entry)
		account_late(ev, info->data);
	else
		account_lost(ev, &ev->lost_nested);
	trap_leave();
	return 0;
}

TRAP_PATH static void enter_hit(struct trapline_event *ev, uint32_t part,
				const struct siginfo_perf *info, ucontext_t *context)
{
	if (!is_current(ev, info, part)) {
		account_late(ev, info->data);
		return;
	}
	if (!enter(ev, part, info, __builtin_frame_address(0)))
		return;
	take_hit(ev, part, info, context, self.tid);
	trap_leave();
}

TRAP_PATH_PART struct siginfo_perf info_of_probe(const struct trapline_event *ev,
						 uint32_t generation, const ucontext_t *context)
{
	return (struct siginfo_perf){
		.code = TRAP_PERF_CODE,
		.data = (event_sig_data(ev, 0) & ~0xffffffffull) | generation,
		.addr = arch_pc(context),
	};
}

TRAP_PATH int trap_enter_probe(struct trapline_event *ev, uint32_t generation, ucontext_t *context)
{
	const struct siginfo_perf info = info_of_probe(ev, generation, context);
	struct trapline_hit hit;

	/* A forked child runs the same text. */
	if (ev->owner_pid != trap_room.pid || !atomic_get(&ev->applied))
		return 0;
	if (ev->mirror && counter_get(&ev->mirror->is_off))
		return 0;
	if (ev->mirror)
		counter_add(&ev->mirror->taken, 1);
	if (dispatch_is_inside(context)) {
		if (is_current(ev, &info, 0))
			account_lost(ev, &ev->lost_nested);
		else
			account_late(ev, info.data);
		return 0;
	}
	/* All frames of the callback lie below the context. */
	if (!enter(ev, 0, &info, context))
		return 0;
	/* What conditions read: to clear all of a hit costs as much as to evaluate one. */
	hit.pid = ev->pid;
	hit.tid = self.tid;
	hit.ip = arch_pc(context);
	hit.address = info.addr;
	hit.value_when = TRAPLINE_VALUE_NONE;
	hit.context = context;
	self.probed = ev;
	if (is_wanted(ev, &hit))
		return 1;
	trap_leave();
	return 0;
}

TRAP_PATH void trap_take_probe(ucontext_t *context)
{
	struct trapline_event *ev = self.probed;
	const struct siginfo_perf info = info_of_probe(ev, 0, context);
	struct trapline_hit hit;

	fill_hit(ev, 0, &info, context, self.tid, &hit);
	hit.time_ns = clock_now_ns();
	take_wanted(ev, &hit);
	trap_leave();
}

TRAP_PATH static void hang_up(void)
{
	void (*act)(void) = atomic_get(&trap_on_hangup);

	if (act)
		act();
}

TRAP_PATH void trap_leave(void)
{
	uint64_t *entry = self.entry;
	uint32_t waits = 1;

	self.frame = NULL;
	self.entry = NULL;
	inflight_leave(entry);
	if (atomic_get(&hangup_waits) && atomic_cas(&hangup_waits, &waits, 0))
		hang_up();
}

/* As the kernel would have reported it, had it been an event of the thread. */
TRAP_PATH static int take_sent(const ucontext_t *context, struct siginfo_perf *out)
{
	trap_finder find = atomic_get(&trap_find_sent);
	struct trap_sent sent;

	if (!find || !find(context, &sent))
		return 0;
	/* Merged with another one, long ago perhaps: then this is the program's own. */
	if (sent.is_late && arch_is_at_breakpoint(context))
		return 0;
	*out = (struct siginfo_perf){
		.code = TRAP_PERF_CODE,
		.data = (event_sig_data(sent.event, 0) & ~0xffffffffull) | sent.generation,
		.addr = sent.address,
		.flags = sent.is_late ? TRAP_PERF_FLAG_ASYNC_BIT : 0,
	};
	return 1;
}

enum other {
	OTHER_DONE,
	OTHER_HIT,
	OTHER_FOREIGN,
};

/* Signals that are neither of a perf event nor of int3. OTHER_HIT: *out is to be taken. */
TRAP_PATH static enum other take_other(const siginfo_t *siginfo, const ucontext_t *context,
				       struct siginfo_perf *out)
{
	const struct siginfo_perf *info = (const void *)siginfo;
	struct trapline_event *ev = atomic_get(&trap_tick);

	if (info->code == SIGNAL_OF_DESCRIPTOR && trap_hangup_fd &&
	    (int32_t)info->data == trap_hangup_fd) {
		if (dispatch_is_inside(context))
			atomic_set(&hangup_waits, 1u);
		else
			hang_up();
		return OTHER_DONE;
	}
	if (info->code == SI_KERNEL && take_sent(context, out))
		return OTHER_HIT;
	if (info->code != SI_KERNEL)
		return OTHER_FOREIGN;
	if (!atomic_get(&trap_had_ticks) || arch_is_at_breakpoint(context))
		return poke_was_put_back(context) ? OTHER_DONE : OTHER_FOREIGN;
	if (!ev)
		return OTHER_DONE;
	*out = (struct siginfo_perf){ .code = TRAP_PERF_CODE, .data = event_sig_data(ev, 0) };
	/*
	 * The generation is that of now: it must be from before the thread that ends the event
	 * makes it another one.
	 */
	return atomic_get(&trap_tick) == ev ? OTHER_HIT : OTHER_DONE;
}

/* Returning would hit again, for ever. If it still is an event: else it ends by itself. */
TRAP_PATH static void pass(const struct siginfo_perf *info, ucontext_t *context)
{
	uint32_t part;
	struct trapline_event *ev = event_of(info->data, &part);
	const int is_breakpoint = ev->access == TRAPLINE_EXECUTE;
	struct past past;

	if (!is_current(ev, info, part))
		return;
	uint32_t first_generation = ev->first_generation;
	if (!past_instruction(context, is_breakpoint, &past)) {
		if (!is_breakpoint)
			account_step(&past, info->addr);
		return;
	}
	if (event_enter_as(ev, first_generation))
		return;
	give_up(ev);
	event_leave(ev);
}

TRAP_PATH static void take_event_once(const struct siginfo_perf *info, ucontext_t *context)
{
	uint32_t part;

	/*
	 * A write here would hit again if it is Trapline's data that is watched. The kernel counts
	 * it.
	 */
	if (is_own_code(arch_pc(context)))
		return;
	struct trapline_event *ev = event_of(info->data, &part);
	if (is_nested(context) || is_vain_tick(ev, context)) {
		if (is_current(ev, info, part))
			account_lost(ev, &ev->lost_nested);
		else
			account_late(ev, info->data);
		return;
	}
	enter_hit(ev, part, info, context);
}

TRAP_PATH static void take_event(const struct siginfo_perf *info, ucontext_t *context)
{
	const uint64_t pc = arch_pc(context);

	take_event_once(info, context);
	/* One that came late found the thread elsewhere, and the kernel has stepped. */
	if (!arch_steps_past(TRAPLINE_WRITE) && info->type == PERF_TYPE_BREAKPOINT &&
	    !(info->flags & TRAP_PERF_FLAG_ASYNC_BIT) && arch_pc(context) == pc)
		pass(info, context);
}

/* 1: it is not Trapline's. */
TRAP_PATH static int is_foreign(const siginfo_t *siginfo, ucontext_t *context)
{
	const struct siginfo_perf *info = (const void *)siginfo;
	struct siginfo_perf made;

	if (arch_is_trap_code(info->code) && poke_on_int3(context))
		return 0;
	if (arch_has_lost_cause(siginfo, context)) {
		counter_add(&trap_lost_causes, 1);
		return 0;
	}
	if (info->code != TRAP_PERF_CODE || info->data >> 48 != event_magic()) {
		enum other other = take_other(siginfo, context, &made);

		if (other != OTHER_HIT)
			return other == OTHER_FOREIGN;
		info = &made;
	}
	take_event(info, context);
	return 0;
}

TRAP_PATH void trap_on_sigtrap(int sig, siginfo_t *siginfo, void *context)
{
	const void *frame = __builtin_frame_address(0);
	struct foreign_call call;

	if (is_foreign(siginfo, context) ?
		    foreign_take(siginfo, context, frame, dispatch_is_inside(context), &call) :
		    !dispatch_is_inside(context) && foreign_take_kept(context, frame, &call))
		foreign_enter(&call);
}
