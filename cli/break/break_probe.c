/* SPDX-License-Identifier: MIT */
/*
 * break_probe.c - see break_probe.h.
 *
 * All that is shared with the process is data: numbers are copied once and inspected. A site is
 * known by its index in the own list, the process is the one that was given, and a length is at
 * most what there is room for.
 */
#include "cli/break/break_probe.h"

#include "cli/break/break_trace.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "cli/launch/preloadable.h"
#include "cli/launch/program.h"
#include "cli/launch/run_state.h"
#include "cli/message.h"
#include "cli/watchdog.h"
#include "record/layout.h"
#include "report/lang/condition_names.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REGION_NAME "trapline-probe"
#define STEP_NS 1000000
#define READY_NS 10000000000u
#define END_NS 5000000000u
#define PATIENCE_NS 200000000u
#define DRAIN_MAX 4096

int break_probe_check(struct observe_settings *set)
{
	const char *name = set->mechanism ? set->mechanism : "";

	if (!strcmp(name, "hardware")) {
		set->no_bpf = 1;
		return 0;
	}
	if (set->no_bpf && *name)
		return cli_wrong(set->name,
				 "--no-bpf cannot be combined with --mechanism %s: it means "
				 "--mechanism hardware",
				 name);
	if (strcmp(name, "probe") != 0)
		return 0;
	if (set->ret)
		return cli_wrong(
			set->name,
			"--ret cannot be combined with --mechanism probe: a probe does not "
			"see returns; use --mechanism uprobe");
	int status = agent_is_for_this(set->name);
	/* What only lists or explains needs no agent. */
	if (status || !set->command || set->list || set->explain)
		return status;
	return agent_command_check(set->name, set->command);
}

/* In the order of what the user would change first. */
static const char *reason_against(const struct observe_settings *set)
{
	char path[PATH_MAX];

	if (set->no_bpf)
		return "--no-bpf";
	if (set->ret)
		return "--ret";
	if (set->follow)
		return "--follow";
	if (set->pending)
		return "--pending";
	/* Its location is a uprobe, whose records this command does not read beside probes. */
	if (set->until_hit)
		return "--until-hit";
	/* A uprobe stops the thread at once, where BPF is permitted. */
	if (set->then && !geteuid())
		return "--then";
	/* The start reports what is wrong with it. */
	return program_find(set->command[0], path, sizeof(path)) ? "" : preloadable_problem(path);
}

bool break_probe_is_wanted(const struct observe_settings *set, struct break_probe *probe)
{
	const char *why;

	/* What only lists or explains needs no agent. */
	if (set->list || set->explain)
		return false;
	if (set->mechanism)
		return !strcmp(set->mechanism, "probe");
	if (!set->command || !agent_is_there())
		return false;
	why = reason_against(set);
	snprintf(probe->why_not, sizeof(probe->why_not), "%s", why ? why : "");
	probe->is_chosen = !why;
	return probe->is_chosen;
}

int break_probe_begin(const struct observe_settings *set, struct break_probe *probe)
{
	const int status = agent_region_open(set->name, REGION_NAME, PROBE_MAGIC,
					     sizeof(*probe->region), &probe->memory);

	probe->lock_fd = -1;
	if (status)
		return status;
	probe->region = (struct probe_region *)probe->memory.head;
	return 0;
}

static void nap(void)
{
	const struct timespec step = { 0, STEP_NS };

	nanosleep(&step, NULL);
}

static bool has_ended(struct session *r)
{
	if (r->command && !r->child_ended)
		r->child_ended = waitpid(r->pid, &r->child_status, WNOHANG) == r->pid;
	return r->child_ended || (!r->command && kill(r->pid, 0) && errno == ESRCH);
}

/* True: the state is no longer `state`. */
static bool wait_while(const struct probe_region *region, struct session *r, uint32_t state,
		       uint64_t most_ns)
{
	uint64_t start = clock_now_ns();

	while (atomic_get(&region->run.state) == state) {
		if (has_ended(r) || clock_now_ns() - start > most_ns)
			return atomic_get(&region->run.state) != state;
		nap();
	}
	return true;
}

int break_probe_hold(struct break_probe *probe, struct session *r)
{
	/* The command's own: the child's copies of it are closed by its exec. */
	probe->lock_fd = probe->memory.data_fd;
	if (flock(probe->lock_fd, LOCK_EX))
		return cli_wrong(r->name, "cannot lock the shared memory: %s", strerror(errno));
	int status = agent_command_start(r->name, r->command, "probe", &probe->memory, &r->pid);
	if (status)
		return status;
	if (wait_while(probe->region, r, RUN_NEW, READY_NS))
		return 0;
	kill(r->pid, SIGKILL);
	return cli_wrong(r->name, "%s did not load the agent; use --mechanism uprobe",
			 r->command[0]);
}

__attribute__((format(printf, 3, 4))) static int
unfit(struct break_probe *probe, const struct observe *o, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(probe->why_not, sizeof(probe->why_not), format, args);
	va_end(args);
	return probe->is_chosen ?
		       BREAK_PROBE_UNFIT :
		       cli_wrong(o->set.name, "%s; use --mechanism uprobe", probe->why_not);
}

/* A record takes them without its stack. */
static size_t record_bytes(const struct break_probe *probe)
{
	return sizeof(uint64_t) + sizeof(struct record) +
	       (size_t)__builtin_popcount(probe->texts) * RECORD_TEXT_BYTES +
	       (size_t)probe->vectors * RECORD_VECTOR_BYTES;
}

static int slot_bytes_for(const struct break_probe *probe, bool has_stack)
{
	size_t used = record_bytes(probe);
	uint32_t bytes = PROBE_SLOT_MIN;

	while (bytes < used)
		bytes *= 2;
	return has_stack ? (int)PROBE_SLOT_MAX : (int)bytes;
}

static int set_condition(struct break_probe *probe, const struct observe *o, size_t sites)
{
	struct probe_region *region = probe->region;
	bool counts_hits;

	if (!o->condition)
		return 0;
	if (condition_copy(o->condition, region->condition, sizeof(region->condition),
			   &region->condition_bytes, &counts_hits))
		return unfit(probe, o,
			     "--if cannot be evaluated by a probe: it counts other events");
	if (counts_hits && sites > 1)
		return unfit(probe, o,
			     "--if counts hits, and %zu sites have a probe of their own each",
			     sites);
	return 0;
}

static int fill(struct break_probe *probe, const struct observe *o, const struct code_sites *sites,
		const struct trapline_event_opts *opts)
{
	struct probe_region *region = probe->region;
	bool has_stack = opts->flags & TRAPLINE_STACK_BYTES;

	if (sites->count > PROBE_SITES_MAX)
		return unfit(probe, o, "cannot probe %zu sites: there are %u probes", sites->count,
			     PROBE_SITES_MAX);
	/* Where a uprobe can be had, which copies it at the hit. */
	if (probe->is_chosen && opts->memory_count && !geteuid())
		return unfit(probe, o, "they copy no memory that arguments lead to");
	probe->sites = sites;
	probe->texts = opts->texts;
	if (probe->vectors > RECORD_VECTORS)
		probe->vectors = RECORD_VECTORS;
	region->slot_bytes = (uint32_t)slot_bytes_for(probe, has_stack);
	probe->stack_bytes = has_stack ? region->slot_bytes - (uint32_t)record_bytes(probe) : 0;
	region->texts = opts->texts;
	region->vectors = probe->vectors;
	region->stack_bytes = probe->stack_bytes;
	region->limit = opts->limit;
	region->is_whole = probe->is_chosen;
	region->count = (uint32_t)sites->count;
	for (size_t i = 0; i < sites->count; i++)
		region->sites[i] = sites->site[i].address;
	probe->slot = calloc(1, region->slot_bytes + 1);
	if (!probe->slot)
		return cli_wrong(o->set.name, "out of memory");
	probe->reader.slots = (struct hit_slots){ .ring = &region->ring,
						  .slots = region->slots,
						  .slot_bytes = region->slot_bytes,
						  .count = PROBE_RING_BYTES / region->slot_bytes };
	int status = break_trace_fill(region, o, sites);
	return status ? status : set_condition(probe, o, sites->count);
}

static int refused(struct break_probe *probe, const struct observe *o, int err)
{
	char why[RUN_WHY];

	run_state_why(&probe->region->run, why);
	if (err == -EBUSY && !*why)
		return cli_wrong(o->set.name,
				 "process %d has probes of another trapline: end that one first",
				 o->session.pid);
	/* The agent's thread gives up where its descriptor has gone. */
	if (err == -ECANCELED)
		snprintf(why, sizeof(why),
			 "it closed the agent's descriptors before they were there");
	return unfit(probe, o, "cannot probe process %d: %s", o->session.pid,
		     *why ? why : strerror(-err));
}

static int arm_there(struct break_probe *probe, struct observe *o)
{
	struct probe_region *region = probe->region;

	atomic_set(&region->run.state, (uint32_t)RUN_ARM);
	wait_while(region, &o->session, RUN_ARM, READY_NS);
	if (atomic_get(&region->run.state) == RUN_ARMED)
		return 0;
	/* One that does not answer does not wait either. */
	if (atomic_get(&region->run.state) != RUN_FAILED)
		probe->is_chosen = false;
	return refused(probe, o, region->run.error ? region->run.error : -ETIMEDOUT);
}

void break_probe_decline(struct break_probe *probe)
{
	atomic_set(&probe->region->run.state, (uint32_t)RUN_DECLINED);
	break_probe_release(probe);
}

static int attach(struct break_probe *probe, struct observe *o)
{
	const struct agent_share share = { .region = probe->region,
					   .bytes = sizeof(*probe->region),
					   .filled = SHARE_HEAD_BYTES,
					   .data_fd = probe->memory.data_fd,
					   .lock_fd = &probe->lock_fd,
					   .has_own_files = true };
	int result = 0;

	agent_call_until(&asked_by, clock_now_ns(), o->set.for_ns);
	int status = agent_call(o->set.name, o->session.pid, "probe", &share, &result);
	return !status && result ? refused(probe, o, result) : status;
}

/* What the process states of each site. */
static void count_sites(struct break_probe *probe, struct run_calls_end *out)
{
	for (size_t i = 0; i < probe->sites->count; i++) {
		const struct probe_outcome *o = &probe->region->outcome[i];
		size_t used = strlen(probe->refused_names);

		out->probes += !o->error && o->mechanism == TRAPLINE_BY_PROBE;
		out->traps += !o->error && o->mechanism == TRAPLINE_BY_TRAP;
		out->refused += o->error != 0;
		out->is_in_code |= o->evaluated_in == TRAPLINE_EVALUATED_IN_CODE;
		if (o->error &&
		    used + strlen(probe->sites->site[i].name) + 4 < sizeof(probe->refused_names))
			snprintf(probe->refused_names + used, sizeof(probe->refused_names) - used,
				 "%s%s", used ? ", " : "", probe->sites->site[i].name);
	}
}

int break_probe_arm(struct break_probe *probe, struct observe *o, const struct code_sites *sites,
		    const struct trapline_event_opts *opts, struct run_calls_end *out)
{
	int status = fill(probe, o, sites, opts);

	if (!status)
		status = o->set.command ? 0 : attach(probe, o);
	if (!status)
		status = arm_there(probe, o);
	if (status)
		return status;
	count_sites(probe, out);
	if (out->refused)
		cli_note(o->set.name, "left out %llu site%s where a probe is not possible: %s",
			 (unsigned long long)out->refused, out->refused == 1 ? "" : "s",
			 probe->refused_names);
	return 0;
}

/* A thread id of another process would be another process's name. */
static bool is_good(const struct break_probe *probe, const struct record *record)
{
	return record->event < probe->sites->count && (int32_t)record->pid_tid > 0 &&
	       !(record->texts & ~(uint64_t)probe->texts);
}

static void probe_hit_fill(const struct break_probe *probe, struct observe *o,
			   struct record *record, struct trapline_hit *hit)
{
	char *texts = (char *)(record + 1);
	size_t count = (size_t)__builtin_popcount(probe->texts);
	uint64_t stack_len = record->stack_len < probe->stack_bytes ? record->stack_len :
								      probe->stack_bytes;
	const char *vectors = texts + count * RECORD_TEXT_BYTES;

	for (size_t i = 0; i < count; i++)
		texts[(i + 1) * RECORD_TEXT_BYTES - 1] = '\0';
	*hit = (struct trapline_hit){
		.size = sizeof(*hit),
		.arg = o,
		.time_ns = record->time_ns,
		.pid = o->session.pid,
		.tid = (pid_t)record->pid_tid,
		.ip = probe->sites->site[record->event].address,
		.sp = record->regs[7],
		.address = probe->sites->site[record->event].address,
		.access = TRAPLINE_EXECUTE,
		.caller = record->caller,
		.texts = record->texts,
		.text = record->texts ? texts : NULL,
		.regs = record->regs,
		.vector_count = probe->vectors,
		.vectors = vectors,
		.stack_bytes = stack_len ? vectors + probe->vectors * RECORD_VECTOR_BYTES : NULL,
		.stack_bytes_len = (uint32_t)stack_len,
		.syscall = -1,
	};
	record->regs[16] = hit->ip;
	memcpy(hit->thread, record->thread, sizeof(hit->thread));
	hit->thread[sizeof(hit->thread) - 1] = '\0';
}

static int drain(struct break_probe *probe, struct observe *o, trapline_callback fn)
{
	struct record *record = (struct record *)(void *)probe->slot;
	int given = 0;

	for (int n = 0; n < DRAIN_MAX; n++) {
		struct trapline_hit hit;

		if (!hit_ring_take(&probe->reader, record, clock_now_ns(), PATIENCE_NS))
			break;
		if (!is_good(probe, record)) {
			probe->damaged++;
			continue;
		}
		probe_hit_fill(probe, o, record, &hit);
		probe->delivered++;
		given++;
		fn(&hit);
	}
	return given;
}

int break_probe_poll(struct break_probe *probe, struct observe *o, int timeout_ms,
		     trapline_callback fn)
{
	uint64_t start = clock_now_ns();

	for (;;) {
		bool was_over = has_ended(&o->session) ||
				atomic_get(&probe->region->run.state) != RUN_ARMED;
		int given = drain(probe, o, fn);

		if (given)
			return given;
		if (was_over)
			return has_ended(&o->session) ? -ESRCH : -ENOLINK;
		if ((int64_t)(clock_now_ns() - start) / 1000000 >= timeout_ms)
			return 0;
		nap();
	}
}

static void add_count(struct run_end *end, const char *name, uint64_t value, bool is_lost)
{
	end->counts[end->count_count++] =
		(struct run_count){ .name = name, .value = value, .is_lost = is_lost };
}

static void sum_counts(struct break_probe *probe, const struct session *r, struct run_end *end)
{
	const struct probe_counts counts = probe->region->counts;
	uint64_t told = counts.rejected_condition + counts.rejected_limit + counts.lost_nested +
			counts.lost_late + counts.lost_full + probe->delivered + probe->damaged +
			probe->reader.given_up;
	/* A process that ends takes with it what its threads were about to write. */
	uint64_t late = r->child_ended && counts.taken > told ? counts.taken - told : 0;

	add_count(end, "limit", counts.rejected_limit, false);
	add_count(end, "condition", counts.rejected_condition, false);
	add_count(end, "nested", counts.lost_nested, true);
	add_count(end, "late", counts.lost_late + probe->reader.given_up + late, true);
	add_count(end, "ring_full", counts.lost_full, true);
	add_count(end, "damaged", probe->damaged, true);
	end->taken = counts.taken;
	end->delivered = probe->delivered;
	end->condition_faults = counts.condition_faults;
	end->mechanism = "probe";
}

void break_probe_end(struct break_probe *probe, struct observe *o, trapline_callback fn,
		     struct run_end *end)
{
	const struct run_calls_end *sites = o->calls_end;

	/* Closing the file gives up the lock, and the agent restores the instructions. */
	if (probe->lock_fd == probe->memory.data_fd)
		flock(probe->lock_fd, LOCK_UN);
	else if (probe->lock_fd >= 0)
		close(probe->lock_fd);
	probe->lock_fd = -1;
	if (!wait_while(probe->region, &o->session, RUN_ARMED, END_NS) && !has_ended(&o->session))
		cli_note(o->set.name, "the probes stay in process %d until its agent has run",
			 o->session.pid);
	while (drain(probe, o, fn) > 0)
		;
	sum_counts(probe, &o->session, end);
	if (o->condition)
		end->evaluated_in = sites->is_in_code ? "code" : "handler";
}

void break_probe_release(struct break_probe *probe)
{
	if (!probe->region)
		return;
	if (probe->lock_fd >= 0 && probe->lock_fd != probe->memory.data_fd)
		close(probe->lock_fd);
	agent_region_close(&probe->memory);
	free(probe->slot);
	probe->region = NULL;
}
