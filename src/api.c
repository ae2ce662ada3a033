/* SPDX-License-Identifier: MIT */
/* api.c - public entry points for targets and events: check arguments, call down. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "event/probe.h"
#include "event/program.h"
#include "target.h"
#include "trap/arch.h"
#include "trap/inflight.h"
#include "trap/trap.h"

#define PROGRAM_CLASSES_MAX 64
#define SAMPLE_PERIOD_MIN_NS 20000

/* Copy versioned options: older callers get defaults, newer ones must not ask for more. */
static int opts_copy(void *to, size_t size, const void *from)
{
	size_t given;

	memset(to, 0, size);
	if (!from)
		return 0;
	memcpy(&given, from, sizeof(given));
	if (given < sizeof(size_t))
		return failed(-EINVAL, FAILED_ARGUMENT, "opts.size is not set");
	for (size_t i = size; i < given; i++)
		if (((const char *)from)[i])
			return failed(-E2BIG, FAILED_ARGUMENT,
				      "options of a newer library version");
	memcpy(to, from, given < size ? given : size);
	return 0;
}

/* Every thread given must be one of the target's. */
static int check_tids(const struct trapline *t, const struct trapline_event_opts *o)
{
	struct task_list list = {0};
	int err = tasks_read(t->pid, &list);
	size_t found = 0;

	for (size_t i = 0; !err && i < o->tid_count; i++)
		for (size_t k = 0; k < list.count; k++)
			if (list.tids[k] == o->tids[i]) {
				found++;
				break;
			}
	tasks_free(&list);
	if (!err && found != o->tid_count)
		err = -ESRCH;
	return err ? failed(err, FAILED_TARGET, "a thread in tids is not one of the process") : 0;
}

static int check_event_opts(const struct trapline *t, const struct trapline_event_opts *o)
{
	const uint32_t known = TRAPLINE_DISABLED | TRAPLINE_FOLLOW_FORKS | TRAPLINE_KERNEL |
			       TRAPLINE_STACK_BYTES | TRAPLINE_NO_VALUES;
	const char *wrong = NULL;

	if (o->flags & ~known)
		wrong = "unknown flag";
	else if (o->scope > TRAPLINE_THREADS)
		wrong = "unknown scope";
	else if (o->scope == TRAPLINE_THREADS && (!o->tids || !o->tid_count))
		wrong = "scope TRAPLINE_THREADS needs tids";
	else if (o->stack_depth > TRAPLINE_STACK_MAX)
		wrong = "stack_depth is over TRAPLINE_STACK_MAX";
	else if (o->callback && t->pid != t->owner_pid)
		wrong = "a callback runs in this process only; use records for another one";
	else if (o->scope == TRAPLINE_CALLER && t->pid != t->owner_pid)
		wrong = "the calling thread is not in that process";
	else if (o->callback && (o->flags & TRAPLINE_FOLLOW_FORKS))
		wrong = "forked children have no handler; use records";
	if (wrong)
		return failed(-EINVAL, FAILED_ARGUMENT, wrong);
	return o->scope == TRAPLINE_THREADS ? check_tids(t, o) : 0;
}

static struct trapline_event *event_new(struct trapline *t, const struct trapline_event_opts *o)
{
	struct trapline_event *ev = event_take();

	if (!ev)
		return NULL;
	ev->target = t;
	ev->pid = t->pid;
	ev->owner_pid = t->owner_pid;
	ev->callback = o->callback;
	ev->arg = o->arg;
	ev->flags = o->flags;
	ev->scope = o->scope;
	ev->stack_depth = o->stack_depth;
	ev->has_limit = o->limit != 0;
	ev->limit = o->limit;
	ev->wanted = !(o->flags & TRAPLINE_DISABLED);
	return ev;
}

/* Programs loaded while arming: one for each part and class. */
struct arming {
	int programs[EVENT_PARTS_MAX][PROGRAM_CLASSES_MAX];
};
static __thread struct arming *arming;

static int prepare_bpf(struct trapline_event *ev, int fd, uint32_t part, uint32_t class, int cpu)
{
	/* So many rounds never happen; the last class then stands for all later ones. */
	uint32_t at = class < PROGRAM_CLASSES_MAX ? class : PROGRAM_CLASSES_MAX - 1;
	int *program = &arming->programs[part][at];

	if (!*program) {
		*program = program_load(ev, part, at, ev->target->ring.fd);
		if (*program < 0) {
			int err = *program;
			*program = 0;
			return failed(err, FAILED_PROGRAM, "the BPF program was refused");
		}
	}
	return sys_ioctl(fd, PERF_EVENT_IOC_SET_BPF, (uintptr_t)*program);
}

static int prepare_ring(struct trapline_event *ev, int fd, uint32_t part, uint32_t class,
			int cpu)
{
	return perf_rings_add(&ev->target->perf, ev, fd, part, class, cpu);
}

static void close_programs(struct arming *a)
{
	for (int p = 0; p < EVENT_PARTS_MAX; p++)
		for (int c = 0; c < PROGRAM_CLASSES_MAX; c++)
			if (a->programs[p][c] > 0)
				sys_close(a->programs[p][c]);
}

static int arm_event(struct trapline_event *ev, const pid_t *tids, size_t tid_count)
{
	struct arming loaded;
	event_prepare prepare = NULL;
	pid_t caller = sys_gettid();

	memset(&loaded, 0, sizeof(loaded));
	ev->roots.fds_per_root = ev->part_count;
	if (ev->mechanism == TRAPLINE_BY_BPF && ev->attr.sample_period) {
		prepare = prepare_bpf;
	} else if (ev->mechanism == TRAPLINE_BY_RING && ev->attr.sample_period) {
		ev->roots.fds_per_root *= (uint32_t)ev->target->perf.count;
		ev->roots.is_per_cpu = 1;
		perf_rings_attr(&ev->target->perf, ev);
		prepare = prepare_ring;
	}
	if (ev->scope == TRAPLINE_CALLER) {
		tids = &caller;
		tid_count = 1;
	}
	event_read_first_values(ev);
	arming = &loaded;
	ev->op_owner = caller;
	ev->op = 1; /* hits that come now ask for changes when we are done */
	ev->applied = ev->wanted;
	int err = event_arm(ev, tids, tid_count, prepare);
	close_programs(&loaded);
	if (!err)
		event_unlock(ev);
	return err;
}

static int choose_mechanism(struct trapline *t, struct trapline_event *ev)
{
	int err;

	if (ev->callback || t->flags & TRAPLINE_NO_BPF)
		return ev->callback ? TRAPLINE_BY_SIGNAL : TRAPLINE_BY_RING;
	err = target_need_ring(t, TRAPLINE_BY_BPF);
	if (err)
		return TRAPLINE_BY_RING;
	err = program_maps_open(ev);
	if (err)
		return TRAPLINE_BY_RING;
	/* Loading tells what having the maps does not: whether programs are permitted. */
	ev->part_count = 1;
	ev->parts[0].len = 8;
	int program = program_load(ev, 0, 0, t->ring.fd);
	if (program < 0) {
		program_maps_close(ev);
		return TRAPLINE_BY_RING;
	}
	sys_close(program);
	return TRAPLINE_BY_BPF;
}

static int prepare_mechanism(struct trapline *t, struct trapline_event *ev)
{
	ev->mechanism = (uint32_t)choose_mechanism(t, ev);
	if (ev->control)
		ev->control->budget = (int64_t)ev->limit;
	if (ev->mechanism == TRAPLINE_BY_RING)
		return target_need_ring(t, TRAPLINE_BY_RING);
	if (ev->mechanism != TRAPLINE_BY_SIGNAL)
		return 0;
	/* The one thing that must not be tried: it loses signals or kills the process. */
	if (probe_is_rt_before_6_11())
		return failed(-EOPNOTSUPP, FAILED_SIGNAL,
			      "SIGTRAP is broken on PREEMPT_RT before Linux 6.11");
	if (ev->stack_depth)
		stack_warm_up();
	int err = trap_install();
	return err ? failed(err, FAILED_SIGNAL, "SIGTRAP cannot be handled") : 0;
}

static void event_release(struct trapline_event *ev)
{
	program_maps_close(ev);
	if (ev->mechanism == TRAPLINE_BY_RING && ev->target)
		perf_rings_forget(&ev->target->perf, ev);
	free(ev->owners);
	event_give(ev);
}

/* What the three kinds of events ask for. */
struct wish {
	uint64_t addr;
	size_t len;
	enum trapline_access access;
	enum trapline_counter counter;
	uint64_t period;
};

static int describe(struct trapline_event *ev, const struct wish *wish)
{
	if (wish->access == TRAPLINE_EXECUTE)
		return event_describe_code(ev, wish->addr);
	if (wish->access == TRAPLINE_AMOUNT)
		return event_describe_counter(ev, wish->counter, wish->period);
	return event_describe_range(ev, wish->addr, wish->len, wish->access);
}

static int open_event(struct trapline *t, struct trapline_event *ev, const struct wish *wish,
		      const struct trapline_event_opts *o)
{
	int err = prepare_mechanism(t, ev);
	if (err)
		return err;
	err = describe(ev, wish);
	if (err)
		return failed(err, FAILED_ARGUMENT,
			      err == -E2BIG ? "the range needs more than 4 debug registers" :
					      "address, length or access");
	if (ev->callback && !arch_steps_past(ev->access))
		return failed(-EOPNOTSUPP, FAILED_EVENT,
			      "this architecture traps again after a signal; use records");
	err = arm_event(ev, o->tids, o->tid_count);
	return err ? failed(err, FAILED_EVENT, NULL) : 0;
}

static int event_create(struct trapline *t, const struct wish *wish,
			const struct trapline_event_opts *opts, struct trapline_event **out)
{
	struct trapline_event_opts o;

	if (!t || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "target or out is NULL");
	int err = opts_copy(&o, sizeof(o), opts);
	if (!err)
		err = check_event_opts(t, &o);
	if (!err && t->owner_pid != sys_getpid())
		err = failed(-ESRCH, FAILED_TARGET, "opened before fork()");
	if (err)
		return err;

	pthread_mutex_lock(&t->lock);
	struct trapline_event *ev = event_new(t, &o);
	if (!ev) {
		pthread_mutex_unlock(&t->lock);
		return failed(-ENFILE, FAILED_EVENT, "256 events are open");
	}
	/* The callback may run before we return. */
	atomic_set(&ev->state, EVENT_LIVE);
	err = open_event(t, ev, wish, &o);
	if (err)
		event_release(ev);
	else
		*out = ev;
	pthread_mutex_unlock(&t->lock);
	return err;
}

TRAPLINE_API int trapline_watch(struct trapline *t, uint64_t addr, size_t len,
				enum trapline_access access,
				const struct trapline_event_opts *opts,
				struct trapline_event **out)
{
	struct wish wish = {.addr = addr, .len = len, .access = access};

	if (access != TRAPLINE_WRITE && access != TRAPLINE_READ_WRITE)
		return failed(-EINVAL, FAILED_ARGUMENT, "access must be write or read-write");
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_break(struct trapline *t, uint64_t addr,
				const struct trapline_event_opts *opts,
				struct trapline_event **out)
{
	struct wish wish = {.addr = addr, .access = TRAPLINE_EXECUTE};

	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_count(struct trapline *t, enum trapline_counter what,
				const struct trapline_event_opts *opts,
				struct trapline_event **out)
{
	struct wish wish = {.access = TRAPLINE_AMOUNT, .counter = what};
	struct trapline_event_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	wish.period = o.period;
	return event_create(t, &wish, opts, out);
}

TRAPLINE_API int trapline_sample(struct trapline *t, uint64_t period_ns,
				 const struct trapline_event_opts *opts,
				 struct trapline_event **out)
{
	struct wish wish = {.access = TRAPLINE_AMOUNT,
			    .counter = TRAPLINE_TASK_CLOCK,
			    .period = period_ns};

	if (period_ns < SAMPLE_PERIOD_MIN_NS)
		return failed(-EINVAL, FAILED_ARGUMENT, "period_ns is under 20000");
	return event_create(t, &wish, opts, out);
}

static int is_ours(const struct trapline_event *ev)
{
	return ev && atomic_get(&ev->state) == EVENT_LIVE && ev->owner_pid == sys_getpid();
}

TRAPLINE_API int trapline_event_enable(struct trapline_event *ev)
{
	if (!is_ours(ev))
		return -ESRCH;
	atomic_set(&ev->wanted, 1);
	event_sync(ev);
	return 0;
}

TRAPLINE_API int trapline_event_disable(struct trapline_event *ev)
{
	if (!is_ours(ev))
		return -ESRCH;
	atomic_set(&ev->wanted, 0);
	event_sync(ev);
	return 0;
}

TRAPLINE_API int trapline_event_rearm(struct trapline_event *ev, uint64_t more)
{
	if (!is_ours(ev))
		return -ESRCH;
	if (!ev->has_limit || !more || more > INT64_MAX)
		return -EINVAL;
	if (ev->control)
		atomic_add(&ev->control->budget, (int64_t)more);
	else
		atomic_add(&ev->limit, more);
	event_sync(ev);
	return 0;
}

TRAPLINE_API int trapline_event_move(struct trapline_event *ev, uint64_t addr)
{
	return is_ours(ev) ? event_move(ev, addr) : -ESRCH;
}

TRAPLINE_API int trapline_event_read(struct trapline_event *ev, uint64_t *out)
{
	return is_ours(ev) ? event_read_count(ev, 0, out) : -ESRCH;
}

TRAPLINE_API enum trapline_mechanism trapline_event_mechanism(const struct trapline_event *ev)
{
	return (enum trapline_mechanism)ev->mechanism;
}

TRAPLINE_API void trapline_event_close(struct trapline_event *ev)
{
	uint32_t live = EVENT_LIVE;

	if (!ev || !atomic_cas(&ev->state, &live, EVENT_CLOSING))
		return;
	if (ev->owner_pid != sys_getpid()) {
		/* A forked child: its copies of the descriptors are closed, the parent's event stays. */
		event_give(ev);
		return;
	}
	atomic_add(&ev->generation, 1u);
	atomic_set(&ev->wanted, 0);
	if (event_lock(ev) == 0)
		event_unlock(ev);
	event_disarm(ev);
	if (ev->callback)
		inflight_wait(ev->pid, ev->index);
	event_release(ev);
}

TRAPLINE_API int trapline_hit_register(const struct trapline_hit *hit, unsigned int number,
				       uint64_t *out)
{
	if (hit->context)
		return arch_register(hit->context, number, out);
	if (!hit->regs)
		return -ENODATA;
	if (number >= RECORD_REGS)
		return -EINVAL;
	*out = hit->regs[number];
	return 0;
}

TRAPLINE_API void trapline_hit_leave(const struct trapline_hit *hit)
{
	if (hit->context)
		trap_leave();
}

TRAPLINE_API unsigned int trapline_version(void)
{
	return TRAPLINE_VERSION;
}
