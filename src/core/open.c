/* SPDX-License-Identifier: MIT */
/*
 * open.c - see open.h: which mechanism serves an event here, and where it is decided.
 *
 * callback: SIGTRAP. A condition or limit is decided by a BPF program where BPF is permitted and
 * can suppress the signal, else by the handler. records: by a BPF program, which decides too; else
 * by the kernel's ring, and the reader decides.
 */
#include "core/open.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/tasks.h"
#include "check/probe_fires.h"
#include "check/probe_util.h"
#include "cond/compile.h"
#include "core/explain.h"
#include "core/in_code.h"
#include "core/target.h"
#include "event/arm.h"
#include "event/attr.h"
#include "event/bpf/program_amount.h"
#include "event/bpf/program_kernel.h"
#include "event/bpf/program_load.h"
#include "event/bpf/program_memory.h"
#include "event/control.h"
#include "event/table.h"
#include "event/tracepoint/tracepoint.h"
#include "event/uprobe/uprobe.h"
#include "trap/arch.h"
#include "trap/dispatch.h"
#include "trap/install.h"
#include "trap/past.h"
#include "trap/stack.h"
#include "trap/verdict.h"
#include "trap/veto.h"

#define PROGRAM_CLASSES_MAX 64
/* Not for programs, so it has no name there; uprobes return it all the same. */
#define KERNEL_ENOTSUPP 524

/* Every thread given must be one of the target's. */
static int check_tids(const struct trapline *t, const struct trapline_event_opts *o)
{
	struct task_list list = { 0 };
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

int check_event_opts(const struct trapline *t, const struct trapline_event_opts *o)
{
	const uint32_t known = TRAPLINE_DISABLED | TRAPLINE_FOLLOW_FORKS | TRAPLINE_KERNEL |
			       TRAPLINE_STACK_BYTES | TRAPLINE_NO_VALUES | TRAPLINE_RETURNS |
			       TRAPLINE_QUIET | TRAPLINE_STOP | TRAPLINE_SEVERAL |
			       TRAPLINE_EVERYWHERE;
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
	else if (o->callback &&
		 (o->flags & (TRAPLINE_QUIET | TRAPLINE_STOP) || o->count_of || o->memory_count))
		wrong = "quiet, stop, count_of and memory are for records";
	else if (o->program && !(o->flags & TRAPLINE_SEVERAL))
		wrong = "a program's name needs TRAPLINE_SEVERAL";
	else if (o->flags & TRAPLINE_RETURNS && o->flags & TRAPLINE_QUIET)
		wrong = "a quiet event does not report returns";
	else if (o->signal && ((o->flags & (TRAPLINE_STOP | TRAPLINE_QUIET)) != TRAPLINE_STOP ||
			       o->signal > (uint32_t)SIGRTMAX))
		wrong = "signal needs TRAPLINE_STOP and excludes TRAPLINE_QUIET";
	else if (__builtin_popcount(o->texts) > 8)
		wrong = "texts of more than 8 registers";
	else if (o->filter_fd < 0)
		wrong = "filter_fd is negative";
	else if (o->filter_fd && o->condition)
		wrong = "condition and filter_fd exclude each other";
	if (wrong)
		return failed(-EINVAL, FAILED_ARGUMENT, wrong);
	return o->scope == TRAPLINE_THREADS ? check_tids(t, o) : 0;
}

struct trapline_event *event_new(struct trapline *t, const struct trapline_event_opts *o)
{
	struct trapline_event *ev = event_take();

	if (!ev)
		return NULL;
	ev->target = t;
	ev->pid = t->pid;
	ev->owner_pid = t->owner_pid;
	ev->ids = t->ids.numbered_by;
	ev->callback = o->callback;
	ev->arg = o->arg;
	ev->flags = o->flags;
	ev->scope = o->scope;
	ev->only_tid = o->scope == TRAPLINE_THREADS && o->tid_count == 1 ? o->tids[0] : 0;
	ev->stack_depth = o->stack_depth;
	ev->texts = o->texts;
	ev->stop_signal = o->signal;
	if (o->program)
		strncpy(ev->links.members.name, o->program, sizeof(ev->links.members.name) - 1);
	ev->lost_causes_before = atomic_get(&trap_lost_causes);
	ev->has_limit = o->limit != 0;
	ev->limit = o->limit;
	ev->skip = o->skip;
	ev->wanted = !(o->flags & TRAPLINE_DISABLED);
	if (o->filter_fd)
		ev->filter_fd = o->filter_fd;
	return ev;
}

/* Programs loaded while arming: one for each part and class. */
struct arming {
	int programs[EVENT_PARTS_MAX][PROGRAM_CLASSES_MAX];
};
static __thread struct arming *arming;

static int ring_of(const struct trapline_event *ev)
{
	return ev->mechanism == TRAPLINE_BY_BPF ? ev->target->ring.fd : PROGRAM_SIGNALS;
}

static int prepare_program(struct trapline_event *ev, int fd, uint32_t part, uint32_t class,
			   int cpu)
{
	/* So many rounds never happen; the last class then stands for all later ones. */
	uint32_t at = class < PROGRAM_CLASSES_MAX ? class : PROGRAM_CLASSES_MAX - 1;
	int *program = &arming->programs[part][at];

	if (!*program) {
		*program = program_load(ev, part, at, ring_of(ev), NULL, 0);
		if (*program < 0) {
			int err = *program;
			*program = 0;
			return failed(err, FAILED_PROGRAM, "the BPF program was refused");
		}
		/* Nothing is enabled yet, and to load has taken its time. */
		if (!class)
			event_read_first_values(ev);
	}
	return sys_ioctl(fd, PERF_EVENT_IOC_SET_BPF, (uintptr_t)*program);
}

static int prepare_filter(struct trapline_event *ev, int fd, uint32_t part, uint32_t class, int cpu)
{
	int err = sys_ioctl(fd, PERF_EVENT_IOC_SET_BPF, (uintptr_t)ev->filter_fd);

	return err ? failed(err, FAILED_PROGRAM,
			    "filter_fd is not a BPF program of type perf_event that fits") :
		     0;
}

static int prepare_ring(struct trapline_event *ev, int fd, uint32_t part, uint32_t class, int cpu)
{
	pthread_mutex_lock(&ev->target->ring_lock);
	int err = perf_rings_add(&ev->target->perf, ev, fd, part, class, cpu);
	pthread_mutex_unlock(&ev->target->ring_lock);

	return !err && ev->filter_fd >= 0 ? prepare_filter(ev, fd, part, class, cpu) : err;
}

static void close_programs(struct arming *a)
{
	for (int p = 0; p < EVENT_PARTS_MAX; p++)
		for (int c = 0; c < PROGRAM_CLASSES_MAX; c++)
			if (a->programs[p][c] > 0)
				sys_close(a->programs[p][c]);
}

/* What each new descriptor needs before it is enabled. */
static event_prepare how_to_prepare(struct trapline_event *ev)
{
	if (!ev->attr.sample_period)
		return NULL;
	if (ev->mechanism == TRAPLINE_BY_RING) {
		ev->roots.fds_per_root *= (uint32_t)ev->target->perf.count;
		ev->roots.is_per_cpu = 1;
		perf_rings_attr(&ev->target->perf, ev);
		return prepare_ring;
	}
	if (ev->filter_fd >= 0)
		return prepare_filter;
	return ev->has_program ? prepare_program : NULL;
}

static int arm_event(struct trapline_event *ev, const pid_t *tids, size_t tid_count)
{
	struct arming loaded;
	pid_t caller = sys_gettid();

	memset(&loaded, 0, sizeof(loaded));
	ev->roots.fds_per_root = ev->part_count;
	event_prepare prepare = how_to_prepare(ev);
	if (ev->scope == TRAPLINE_CALLER) {
		tids = &caller;
		tid_count = 1;
	}
	ev->armed_tid = ev->scope != TRAPLINE_PROCESS && tid_count == 1 ? tids[0] : 0;
	event_read_first_values(ev);
	arming = &loaded;
	ev->op_owner = caller;
	ev->op = 1; /* hits that come now ask for changes when this is done */
	ev->applied = ev->wanted;
	ev->is_inherited = ev->scope == TRAPLINE_PROCESS;
	int err = event_try_arm(ev, tids, tid_count, prepare);
	close_programs(&loaded);
	event_settle_first_values(ev);
	/* After arming: a thread that takes another name from here on reports it. */
	if (!err && ev->mechanism == TRAPLINE_BY_RING) {
		pthread_mutex_lock(&ev->target->ring_lock);
		ring_names_read(&ev->target->perf.names, ev->pid);
		pthread_mutex_unlock(&ev->target->ring_lock);
	}
	if (err)
		atomic_set(&ev->wanted, 0);
	event_unlock(ev);
	return err;
}

/* Loading shows what having the maps does not: whether programs are permitted. */
static int can_run_program(struct trapline_event *ev, int ring_fd)
{
	for (uint32_t i = 0; ev->condition && i < ev->condition->event_count; i++)
		if (!ev->counted[i].control)
			return 0; /* counted by a handler or reader: no program sees that */
	if (program_maps_open(ev))
		return 0;
	int program = program_load(ev, 0, 0, ring_fd, NULL, 0);
	if (program < 0) {
		program_maps_close(ev);
		return 0;
	}
	sys_close(program);
	ev->control->budget = (int64_t)ev->limit;
	ev->control->skip_left = ev->skip;
	ev->has_program = 1;
	return 1;
}

/* Where a return from the handler is not enough: see trap/past.h. */
static int prepare_step(const struct trapline_event *ev)
{
	const char *why;

	if (arch_steps_past(ev->access))
		return 0;
	int err = past_prepare();
	if (err)
		return failed(
			err, FAILED_EVENT,
			"a callback needs memory for copies of instructions, which the system "
			"refuses (vm.memfd_noexec, SELinux, RLIMIT_FSIZE); use records");
	if (event_is_data(ev))
		return 0;
	err = past_can(ev->parts[0].addr, &why);
	return err ? failed(err, FAILED_EVENT, why) : 0;
}

static int prepare_signal(struct trapline *t, struct trapline_event *ev)
{
	/* The one thing that must not be tried: it loses signals or kills the process. */
	if (probe_is_rt_before_6_11())
		return failed(-EOPNOTSUPP, FAILED_SIGNAL,
			      "SIGTRAP is broken on PREEMPT_RT before Linux 6.11");
	int err = prepare_step(ev);
	if (err)
		return err;
	if (ev->stack_depth)
		stack_warm_up();
	err = trap_install();
	if (err)
		return failed(err, FAILED_SIGNAL, "SIGTRAP cannot be handled");
	int veto = !(t->flags & TRAPLINE_NO_BPF) && trap_can_veto();
	if (ev->filter_fd >= 0) {
		ev->has_program = 1;
		return veto ? 0 :
			      failed(-EOPNOTSUPP, FAILED_SIGNAL,
				     "a filter cannot stop signals here (Linux 6.10 and "
				     "CAP_BPF are needed); use a condition or records");
	}
	if (!ev->condition && !ev->has_limit && !ev->skip)
		return 0;
	if (veto && ev->attr.sample_period && can_run_program(ev, PROGRAM_SIGNALS)) {
		ev->evaluated_in = TRAPLINE_EVALUATED_IN_KERNEL;
		return 0;
	}
	ev->evaluated_in = TRAPLINE_EVALUATED_IN_HANDLER;
	if (ev->condition && cond_uses(ev->condition, COND_HITS_IN_THREAD) &&
	    condition_take_thread_slot(ev))
		return failed(-ENFILE, FAILED_EVENT,
			      "16 events with hits_in_thread are open in the handler");
	return 0;
}

/*
 * No signal is asked for, but one can come: arch_has_lost_cause(). By default it would end the
 * process.
 */
static void expect_lost_causes(const struct trapline_event *ev)
{
	if (ev->attr.type == PERF_TYPE_BREAKPOINT && ev->pid == ev->owner_pid)
		trap_install();
}

static int prepare_records(struct trapline *t, struct trapline_event *ev)
{
	int decides = ev->condition || ev->has_limit || ev->skip;

	expect_lost_causes(ev);
	/* A callback for the same bytes may come later: the program must know its steps. */
	if (ev->pid == ev->owner_pid && event_is_data(ev) && !arch_steps_past(ev->access))
		past_prepare();
	if (!(t->flags & TRAPLINE_NO_BPF) && ev->filter_fd < 0 &&
	    !target_need_ring(t, TRAPLINE_BY_BPF) && can_run_program(ev, t->ring.fd)) {
		ev->mechanism = TRAPLINE_BY_BPF;
		ev->evaluated_in = decides ? TRAPLINE_EVALUATED_IN_KERNEL : 0;
		if (program_keeps_values(ev))
			ev->attr.exclude_kernel = 0;
		return 0;
	}
	if (ev->flags & (TRAPLINE_QUIET | TRAPLINE_STOP) || ev->count_of.row)
		return failed(-EOPNOTSUPP, FAILED_PROGRAM,
			      "quiet, stop and count_of need BPF, which is not permitted here");
	ev->mechanism = TRAPLINE_BY_RING;
	ev->evaluated_in = decides ? TRAPLINE_EVALUATED_BY_READER : 0;
	return target_need_ring(t, TRAPLINE_BY_RING);
}

static int describe(struct trapline_event *ev, const struct wish *wish)
{
	if (wish->sites)
		ev->mechanism = TRAPLINE_BY_UPROBE;
	if (wish->is_kernel)
		ev->mechanism = TRAPLINE_BY_TRACEPOINT;
	/* Numbers of the target's own pid namespace would not distinguish several processes. */
	if (event_has_members(ev) || ev->flags & TRAPLINE_EVERYWHERE) {
		struct ids own;

		ids_read(sys_getpid(), &own);
		ev->ids = own.numbered_by;
	}
	if (wish->access == TRAPLINE_EXECUTE)
		return event_describe_code(ev, wish->sites ? wish->sites[0] : wish->addr);
	if (wish->access == TRAPLINE_AMOUNT)
		return event_describe_counter(ev, wish->counter, wish->period);
	return event_describe_range(ev, wish->addr, wish->len, wish->access);
}

static int is_open_here(const struct trapline_event *row)
{
	return row->state == EVENT_LIVE && row->owner_pid == sys_getpid();
}

/* A mapping of Trapline's own: the counted event may be closed before this one. */
static int count_event(struct event_counted *counted, const struct trapline_event *row)
{
	if (!row || !is_open_here(row) || !row->attr.sample_period)
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "count() needs an open event with hits, of this process");
	counted->row = row;
	counted->generation = row->first_generation;
	if (!row->control)
		return 0;
	void *page = memory_map_shared(PAGE_BYTES, 0, row->control_fd, 0);
	if (memory_failed(page))
		return memory_error(page);
	counted->control = page;
	return 0;
}

/* The program reads it in the thread whose counter it is. */
static int need_amount(struct trapline_event *counter)
{
	int err = program_amount_open(counter);

	return err ? failed(err, FAILED_PROGRAM, "a BPF program cannot read the counter here") : 0;
}

/* Only a program's count is seen by a program. */
static int take_count_of(struct trapline_event *ev, struct trapline_event *row)
{
	if (row && is_open_here(row) && event_is_readable_amount(row)) {
		ev->count_of.row = row;
		return need_amount(row);
	}
	int err = row ? count_event(&ev->count_of, row) : 0;

	if (!err && row && !row->control)
		err = failed(-EINVAL, FAILED_ARGUMENT,
			     "count_of needs an event that BPF counts: records, or quiet");
	return err;
}

static int take_condition(struct trapline_event *ev, const struct trapline_condition *given)
{
	const uint32_t value = 1u << COND_NEW | 1u << COND_OLD | 1u << COND_CHANGED;

	if (!given)
		return 0;
	if (given->ir.terms & 1u << COND_CALLER && ev->mechanism == TRAPLINE_BY_TRACEPOINT)
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "caller has no meaning at an event of the kernel");
	if (given->ir.terms & value && !event_is_data(ev))
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "new, old and changed need an event that watches data");
	/* A mapping: the event may be closed in a signal handler. */
	struct condition *copy = memory_map(sizeof(*copy));
	if (memory_failed(copy))
		return memory_error(copy);
	*copy = given->ir;
	ev->condition = copy;
	for (uint32_t i = 0; i < copy->event_count; i++) {
		int err = count_event(&ev->counted[i], copy->events[i]);
		if (err)
			return err;
	}
	return 0;
}

static int take_memory(struct trapline_event *ev, const struct trapline_event_opts *o)
{
	int err = program_memory_take(ev, o->memory, o->memory_count);

	return err ? failed(err, FAILED_ARGUMENT,
			    "opts.memory has a wrong register, length or flag") :
		     0;
}

/* What its programs write to, where no thread is armed. */
static int prepare_shared(struct trapline *t, struct trapline_event *ev)
{
	int err = target_need_ring(t, TRAPLINE_BY_BPF);

	if (!err)
		err = program_maps_open(ev);
	if (err)
		return failed(err == -EPERM ? err : -EOPNOTSUPP, FAILED_PROGRAM,
			      "BPF is not permitted");
	ev->has_program = 1;
	ev->evaluated_in =
		ev->condition || ev->has_limit || ev->skip ? TRAPLINE_EVALUATED_IN_KERNEL : 0;
	ev->control->budget = (int64_t)ev->limit;
	ev->control->skip_left = ev->skip;
	ev->control->is_off = !ev->wanted;
	ev->applied = ev->wanted;
	return 0;
}

/* The breakpoints are in the code. */
static int open_sites(struct trapline *t, struct trapline_event *ev, const struct wish *wish)
{
	const char *why = "BPF is not permitted";

	if (t->flags & TRAPLINE_NO_BPF)
		return failed(-EOPNOTSUPP, FAILED_PROGRAM,
			      "without BPF there is only trapline_break()");
	int err = prepare_shared(t, ev);
	if (err)
		return err;
	err = uprobes_open(ev, wish->sites, wish->site_count, t->ring.fd, &why);
	if (err == -KERNEL_ENOTSUPP)
		return failed(-EOPNOTSUPP, FAILED_CODE,
			      "the kernel cannot put a breakpoint on an instruction");
	/* What is not possible here is stated whole: nothing that the system lacks is behind it. */
	return err ? failed(err, err == -EOPNOTSUPP ? FAILED_CODE : FAILED_EVENT, why) : 0;
}

static int open_kernel(struct trapline *t, struct trapline_event *ev, const struct wish *wish)
{
	const char *why;
	int err = tracepoint_describe(ev, wish->kernel_event, wish->numbers, wish->number_count,
				      &why);

	if (err)
		return failed(err, FAILED_ARGUMENT, why);
	if (t->flags & TRAPLINE_NO_BPF)
		return failed(-EOPNOTSUPP, FAILED_PROGRAM, "events of the kernel need BPF");
	err = prepare_shared(t, ev);
	if (err)
		return err;
	err = tracepoints_open(ev, t->ring.fd, &why);
	return err ? failed(err, err == -EOPNOTSUPP ? FAILED_CODE : FAILED_EVENT, why) : 0;
}

static const char *why_not_armed(const struct trapline_event *ev, int err)
{
	const char *remedy;
	int is_pmu = ev->attr.type == PERF_TYPE_HARDWARE || ev->attr.type == PERF_TYPE_RAW;

	return err == -ENOENT && is_pmu ? probe_no_pmu(&remedy) : NULL;
}

static const char *why_not_described(const struct wish *wish, int err)
{
	int is_syscalls = wish->access == TRAPLINE_AMOUNT && wish->counter == TRAPLINE_SYSCALLS;

	if (err == -E2BIG)
		return "the range needs more than 4 debug registers";
	if (is_syscalls && err == -EOPNOTSUPP)
		return "cannot read the tracepoint raw_syscalls:sys_enter: run as root, with mount -t "
		       "tracefs tracefs /sys/kernel/tracing";
	if (is_syscalls)
		return "a count of system calls takes no period";
	return err == -EOPNOTSUPP ? "conditional branches cannot be counted on this processor" :
				    "invalid address, length, access or counter";
}

int event_describe(struct trapline_event *ev, const struct wish *wish)
{
	int err = describe(ev, wish);

	return err ? failed(err, FAILED_ARGUMENT, why_not_described(wish, err)) : 0;
}

int event_open(struct trapline *t, struct trapline_event *ev, const struct wish *wish,
	       const struct trapline_event_opts *o)
{
	int err = take_condition(ev, o->condition);

	if (!err)
		err = take_memory(ev, o);
	if (!err)
		err = take_count_of(ev, o->count_of);
	if (!err && wish->amount) {
		ev->amount = wish->amount;
		ev->amount_at = wish->amount_at;
		err = need_amount(wish->amount);
	}
	if (err)
		return err;
	if (wish->sites)
		return open_sites(t, ev, wish);
	if (wish->is_kernel)
		return open_kernel(t, ev, wish);
	if (wish->in_code && t->pid != t->owner_pid)
		return failed(-EINVAL, FAILED_ARGUMENT, "a probe is in the own process only");
	if (wish->in_code)
		return in_code_open(ev);
	if (ev->flags & TRAPLINE_RETURNS)
		return failed(-EINVAL, FAILED_ARGUMENT, "returns need trapline_break_sites()");
	if (ev->attr.type == PERF_TYPE_BREAKPOINT && !probe_breakpoints_fire())
		return failed(-EOPNOTSUPP, FAILED_EVENT,
			      "the debug registers of this machine do not work: a watchpoint "
			      "missed a write");
	err = ev->callback ? prepare_signal(t, ev) : prepare_records(t, ev);
	if (err)
		return err;
	err = arm_event(ev, o->tids, o->tid_count);
	return err ? failed(err, FAILED_EVENT, why_not_armed(ev, err)) : 0;
}

static void forget_counted(struct event_counted *counted)
{
	if (counted->control)
		memory_unmap((void *)(uintptr_t)counted->control, PAGE_BYTES);
}

void event_release(struct trapline_event *ev)
{
	program_maps_close(ev);
	program_amount_close(ev);
	program_memory_close(ev);
	for (uint32_t i = 0; i < COND_EVENTS_MAX; i++)
		forget_counted(&ev->counted[i]);
	forget_counted(&ev->count_of);
	condition_give_thread_slot(ev);
	if (ev->condition)
		memory_unmap((void *)(uintptr_t)ev->condition, sizeof(*ev->condition));
	uprobes_close(ev);
	tracepoints_close(ev);
	in_code_close(ev);
	free(ev->owners);
	event_give(ev);
}
