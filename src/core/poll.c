/* SPDX-License-Identifier: MIT */
/* poll.c - records out of the rings, as hits, and the statistics of an event. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "core/target.h"
#include "event/arch_regs.h"
#include "event/control.h"
#include "event/table.h"
#include "event/tracepoint/tracepoint.h"
#include "event/unseen.h"
#include "event/uprobe/uprobe.h"
#include "trap/arch.h"
#include "trap/verdict.h"

#define DRAIN_MAX 4096
#define PATIENCE_NS 200000000u /* for a thread that writes a record */

static uint32_t returned_of(const struct trapline_event *ev, uint32_t part)
{
	if (ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		return part == TRACEPOINT_RETURN ? TRAPLINE_RETURNED : 0;
	return ev->mechanism == TRAPLINE_BY_UPROBE ? part : UPROBE_ENTRY;
}

static void fill_hit(const struct trapline_event *ev, uint32_t part, const struct record *record,
		     struct trapline_hit *hit)
{
	*hit = (struct trapline_hit){
		.size = sizeof(*hit),
		.event = (struct trapline_event *)(uintptr_t)ev,
		.arg = ev->arg,
		.time_ns = record->time_ns,
		.pid = (pid_t)(record->pid_tid >> 32),
		.tid = (pid_t)record->pid_tid,
		.ip = record->regs[ARCH_REG_PC],
		.sp = record->regs[ARCH_REG_SP],
		.address = record->address,
		.len = (uint32_t)record->len,
		.access = (uint8_t)ev->access,
		.done = (uint8_t)arch_done(ev->access),
		.returned = (uint8_t)returned_of(ev, part),
		.value_when = (uint8_t)record->value_when,
		.old_known = (uint8_t)record->value_when &&
			     !(record->value_when & RECORD_OLD_UNKNOWN),
		.stopped = (record->value_when & RECORD_STOPPED) != 0,
		.old_value = record->old_value,
		.new_value = record->new_value,
		.caller = record->caller,
		.texts = record->texts,
		.text = record->texts ? (const char *)(record + 1) : NULL,
		.regs = record->regs,
		.amount = ev->period,
		.count = record->count,
		.kernel_ip = record->kernel_ip,
		.syscall = (int64_t)record->syscall,
	};
	memcpy(hit->thread, record->thread, sizeof(hit->thread));
	hit->thread[sizeof(hit->thread) - 1] = '\0';
}

/* In the numbers of this process; a thread that has ended keeps the number of its own namespace. */
static void number_thread(const struct trapline *t, struct trapline_hit *hit)
{
	pid_t tid = ids_find_thread(t->pid, hit->tid);

	if (!tid)
		return;
	hit->tid = tid;
	hit->pid = t->pid;
}

/* What a record has of the stack, and of other memory. */
struct copied_stack {
	const void *at_sp;
	size_t bytes;
	size_t below; /* of the red zone */
	const void *memory;
};

/* The event was entered: the reader leaves it before fn, which may close it. */
static int deliver(struct trapline_event *ev, uint32_t part, const struct record *record,
		   const struct copied_stack *stack, trapline_callback fn)
{
	uint32_t first_generation = ev->first_generation;
	struct trapline_hit hit;

	fill_hit(ev, part, record, &hit);
	if (stack && stack->memory) {
		hit.memory = stack->memory;
		hit.memory_len = (uint32_t)record->memory_len;
	}
	if (stack && stack->bytes) {
		hit.stack_bytes = stack->at_sp;
		hit.stack_bytes_len = (uint32_t)stack->bytes;
		hit.stack_below = (uint8_t)stack->below;
	}
	if (ev->target->ids.is_further && ev->mechanism != TRAPLINE_BY_RING &&
	    !event_is_in_code(ev) && !event_has_members(ev))
		number_thread(ev->target, &hit);
	counter_add(&ev->delivered, 1);
	if (!event_budget_left(ev))
		event_sync(ev);
	event_leave(ev);
	if (fn(&hit) == TRAPLINE_DISARM && !event_enter_as(ev, first_generation)) {
		atomic_set(&ev->wanted, 0);
		event_sync(ev);
		event_leave(ev);
	}
	return 1;
}

static int deliver_program_record(struct trapline_event *ev, const struct record *record,
				  trapline_callback fn)
{
	const char *texts = (const char *)(record + 1);
	const char *memory = texts + (size_t)__builtin_popcount(ev->texts) * RECORD_TEXT_BYTES;
	size_t below = record->stack_len ? record->regs[ARCH_REG_SP] - record->stack_at : 0;
	size_t copied = record->stack_len > below ? record->stack_len - below : 0;
	size_t zone = ARCH_RED_ZONE;
	const struct copied_stack stack = { memory + ev->memory_room + below, copied,
					    copied && below >= zone ? zone : 0, memory };

	return deliver(ev, record->event >> 8 & 0xff, record, &stack, fn);
}

static int poll_ringbuf(struct trapline *t, trapline_callback fn)
{
	uint32_t len;

	pthread_mutex_lock(&t->ring_lock);
	const struct record *record = t->ring.fd < 0 ? NULL : ringbuf_peek(&t->ring, &len);
	pthread_mutex_unlock(&t->ring_lock);

	if (!record)
		return 0;
	struct trapline_event *ev = &event_table[record->event & 0xff];
	int given = 0;

	/* Records of a closed event may still lie in the ring. */
	if (!event_enter_as(ev, (uint32_t)(record->event >> 32)))
		given = deliver_program_record(ev, record, fn);
	ringbuf_release(&t->ring);
	return given ? 1 : -EAGAIN;
}

static void name_thread(struct trapline *t, struct record *record)
{
	uint32_t tid = (uint32_t)record->pid_tid;
	const char *known = ring_names_find(&t->perf.names, tid);
	char name[RING_NAME_BYTES];

	if (!known) {
		uint64_t now = clock_now_ns();
		ring_names_read_one((pid_t)(record->pid_tid >> 32), (pid_t)tid, name);
		ring_names_set(&t->perf.names, tid, name, now);
		known = name;
	}
	memcpy(record->thread, known, sizeof(record->thread));
}

/* The kernel's own ring has no values and no names: read now what is there now. */
static void complete(struct trapline *t, struct trapline_event *ev, uint32_t part,
		     struct record *record)
{
	struct event_place *place = event_place_at(ev, part, record->address);
	uint64_t value = 0;

	name_thread(t, record);
	if (!event_is_data(ev) || !place)
		return;
	record->len = place->len;
	if (tasks_read_memory((pid_t)(record->pid_tid >> 32), record->address, &value,
			      place->len) != (ssize_t)place->len)
		return;
	record->old_value = place->last;
	record->new_value = value;
	record->value_when = TRAPLINE_VALUE_LATER;
	place->last = value;
}

/* What the kernel could not decide: the condition first, then the limit. */
static int is_wanted(struct trapline_event *ev, uint32_t part, const struct record *record,
		     uint64_t hits_in_thread)
{
	struct trapline_hit hit;
	struct condition_input input = {
		.hit = &hit,
		.event = ev,
		.hits = atomic_add(&ev->hits, 1) + 1,
		.hits_in_thread = hits_in_thread,
		.cpu = (uint32_t)record->cpu,
		.thread = record->thread,
	};

	if (!ev->condition)
		return 1;
	fill_hit(ev, part, record, &hit);
	return condition_holds(ev, &input);
}

/* 1: it is to be delivered. */
static int judge(struct trapline *t, struct trapline_event *ev, uint32_t part,
		 struct record *record)
{
	uint64_t hits_in_thread = perf_rings_hit_in_thread(ev, (uint32_t)record->pid_tid);

	complete(t, ev, part, record);
	if (event_is_data(ev) && !record->len) {
		counter_add(&ev->lost_late, 1);
		return 0;
	}
	if (!is_wanted(ev, part, record, hits_in_thread) || event_skips(ev))
		return 0;
	if (ev->has_limit) {
		if (ev->granted >= ev->limit) {
			counter_add(&ev->rejected_limit, 1);
			return 0;
		}
		atomic_add(&ev->granted, 1);
	}
	return 1;
}

static int poll_perf_rings(struct trapline *t, trapline_callback fn)
{
	struct trapline_event *ev;
	struct record record;
	const void *stack;
	uint32_t part;
	int is_good = 0;

	pthread_mutex_lock(&t->ring_lock);
	int got = t->perf.count ? perf_rings_next(&t->perf, &ev, &part, &record, &stack) : 0;
	if (got)
		is_good = judge(t, ev, part, &record);
	pthread_mutex_unlock(&t->ring_lock);
	if (!got)
		return 0;
	const struct copied_stack copied = { stack, record.stack_len, 0, NULL };
	if (is_good)
		return deliver(ev, part, &record, &copied, fn);
	event_leave(ev);
	return -EAGAIN;
}

/* The hits of probes, by threads of this process. */
static int poll_code_ring(struct trapline *t, trapline_callback fn)
{
	struct hit_reader *reader = &t->code_reader;
	union {
		struct record record;
		uint8_t slot[CODE_RECORD_BYTES];
	} copy;

	pthread_mutex_lock(&t->ring_lock);
	int got = reader->slots.slots && hit_ring_take(reader, &copy, clock_now_ns(), PATIENCE_NS);
	pthread_mutex_unlock(&t->ring_lock);
	if (!got)
		return 0;
	struct trapline_event *ev = &event_table[copy.record.event & 0xff];

	if (event_enter_as(ev, (uint32_t)(copy.record.event >> 32)))
		return -EAGAIN;
	return deliver(ev, 0, &copy.record, NULL, fn);
}

static int drain(struct trapline *t, trapline_callback fn)
{
	int given = 0;

	/* Bounded: a storm may write faster than fn reads. */
	for (int n = 0; n < DRAIN_MAX; n++) {
		int by_program = poll_ringbuf(t, fn);
		int by_kernel = poll_perf_rings(t, fn);
		int by_code = poll_code_ring(t, fn);

		if (!by_program && !by_kernel && !by_code)
			return given;
		given += (by_program == 1) + (by_kernel == 1) + (by_code == 1);
	}
	return given;
}

/* Wait for records or for the end of the process. */
static void wait_for_more(struct trapline *t, int timeout_ms)
{
	struct epoll_event events[8];
	long n = sys_of_fd(SYS_epoll_pwait, t->epoll_fd, events, 8, timeout_ms, NULL);

	for (long i = 0; i < n; i++) {
		uint64_t ticks;

		if (events[i].data.u32 == WAKE_TIMER)
			sys_read(t->timer_fd, &ticks, sizeof(ticks));
		if (events[i].data.u32 != WAKE_GONE)
			continue;
		t->gone = 1;
		sys_of_fd(SYS_epoll_ctl, t->epoll_fd, EPOLL_CTL_DEL, t->pid_fd & ~OWN_FD_FAR, NULL,
			  0);
	}
}

/* Rarely enough to cost nothing, often enough to be a count. */
#define LOOK_EVERY_NS 50000000u

static void look_for_unseen(struct trapline *t)
{
	uint64_t now = clock_now_ns();

	if (now - t->looked_ns < LOOK_EVERY_NS)
		return;
	t->looked_ns = now;
	for (int i = 0; i < EVENT_MAX; i++)
		if (event_table[i].target == t && !event_enter(&event_table[i])) {
			if (event_table[i].target == t)
				event_look_for_unseen(&event_table[i]);
			event_leave(&event_table[i]);
		}
}

TRAPLINE_API int trapline_poll(struct trapline *t, int timeout_ms, trapline_callback fn)
{
	uint64_t start = clock_now_ns();
	int left = timeout_ms;

	look_for_unseen(t);
	for (;;) {
		int was_gone = t->gone;
		int given = drain(t, fn);

		if (given)
			return given;
		if (was_gone)
			return -ESRCH;
		if (timeout_ms > 0) {
			uint64_t spent = (clock_now_ns() - start) / 1000000;
			left = spent < (uint64_t)timeout_ms ? timeout_ms - (int)spent : 0;
		}
		wait_for_more(t, left);
		if (!left && !t->gone) {
			given = drain(t, fn);
			return given;
		}
		if (timeout_ms < 0 && !t->gone) {
			given = drain(t, fn);
			if (given)
				return given;
		}
	}
}
