/* SPDX-License-Identifier: MIT */
/* perf_ring.c - see perf_ring.h. Runs in the reader only; allocates. */
#include "event/ring/perf_ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/grow.h"
#include "base/memory.h"
#include "event/arch_regs.h"
#include "event/table.h"

#define SAMPLE_MAX 65536u
#define SAMPLE_TYPE                                                                     \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER)

/* The fixed front of a sample, in the order of SAMPLE_TYPE. */
struct sample_front {
	struct perf_event_header header;
	uint64_t id;
	uint64_t ip;
	uint32_t pid;
	uint32_t tid;
	uint64_t time_ns;
	uint64_t addr;
	uint32_t cpu;
	uint32_t reserved;
	uint64_t regs_abi;
};

/*
 * Which class owns a thread; tid 0 is a free slot, class 0 no owner. Another ring can still have
 * samples of the thread that had the number before: they are older than the notice of its end, or
 * of the creation of a thread.
 */
struct event_owner {
	uint32_t tid;
	uint32_t class;
	uint32_t class_before; /* of the thread that had the number before */
	uint64_t since_ns;
	uint64_t hits; /* in this thread */
};
#define OWNERS (1u << 16)

void perf_rings_attr(const struct perf_rings *r, struct trapline_event *ev)
{
	struct perf_event_attr *attr = &ev->attr;

	attr->sample_type = SAMPLE_TYPE;
	attr->sample_id_all = 1;
	attr->task = 1;
	attr->comm = 1;
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
	for (int i = 0; i < RECORD_REGS; i++)
		attr->sample_regs_user |= 1ull << arch_perf_regs[i];
	if (ev->flags & TRAPLINE_STACK_BYTES) {
		attr->sample_type |= PERF_SAMPLE_STACK_USER;
		attr->sample_stack_user = RECORD_STACK_MAX;
	}
	/* A wake-up for each sample costs an interrupt: more than the hit itself in a VM. */
	attr->watermark = 1;
	attr->wakeup_watermark = (uint32_t)r->bytes / 4;
}

/* It wakes the reader, and outlives every thread of the target. */
static int ring_open(struct cpu_ring *ring, int cpu, size_t bytes)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.exclude_kernel = 1;
	attr.sample_type = SAMPLE_TYPE & ~(uint64_t)PERF_SAMPLE_REGS_USER;
	attr.sample_id_all = 1;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	attr.wakeup_events = 1;
	return cpu_ring_open(ring, &attr, 0, cpu, bytes);
}

static void rings_close(struct perf_rings *r)
{
	for (int i = 0; i < r->count; i++)
		cpu_ring_close(&r->rings[i], r->bytes);
}

static int rings_open(struct perf_rings *r)
{
	int err = 0;

	for (int i = 0; !err && i < r->count; i++)
		err = ring_open(&r->rings[i], i, r->bytes);
	if (err)
		rings_close(r);
	return err;
}

int perf_rings_open(struct perf_rings *r, size_t bytes_per_cpu)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_CONF);

	r->rings = calloc((size_t)cpus, sizeof(*r->rings));
	r->sample = malloc(SAMPLE_MAX);
	r->count = cpus;
	r->bytes = bytes_per_cpu;
	if (!r->rings || !r->sample) {
		perf_rings_close(r);
		return -ENOMEM;
	}
	for (int i = 0; i < cpus; i++)
		r->rings[i].fd = -1;
	int err = rings_open(r);
	/*
	 * The memory that a user may lock for rings is limited, for all CPUs: ask for less in each.
	 */
	while (err == -ENOBUFS && r->bytes > 8 * PAGE_BYTES) {
		r->bytes /= 2;
		err = rings_open(r);
	}
	if (err)
		perf_rings_close(r);
	return err;
}

void perf_rings_close(struct perf_rings *r)
{
	if (r->rings)
		rings_close(r);
	free(r->rings);
	free(r->sample);
	free(r->ids);
	ring_names_free(&r->names);
	*r = (struct perf_rings){ 0 };
}

static int is_open(const struct event_id *id)
{
	uint32_t state = atomic_get(&id->event->state);

	return (state == EVENT_LIVE || state == EVENT_OPENING) &&
	       id->event->first_generation == id->generation;
}

static void forget_closed(struct perf_rings *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->id_count; i++)
		if (is_open(&r->ids[i]))
			r->ids[kept++] = r->ids[i];
	r->id_count = kept;
}

int perf_rings_add(struct perf_rings *r, struct trapline_event *ev, int fd, uint32_t part,
		   uint32_t class, int cpu)
{
	uint64_t id;

	if (cpu >= r->count || r->rings[cpu].fd < 0)
		return -ENODEV;
	int err = sys_ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, (uintptr_t)r->rings[cpu].fd);
	if (!err)
		err = sys_ioctl(fd, PERF_EVENT_IOC_ID, (uintptr_t)&id);
	if (err)
		return err;
	if (r->id_count == r->id_capacity)
		forget_closed(r);
	if (grow_room(r->ids, r->id_count, r->id_capacity))
		return -ENOMEM;
	/* Ids only grow, so the array stays sorted. */
	r->ids[r->id_count++] = (struct event_id){ id, ev, ev->first_generation, part, class };
	int counts = ev->condition && cond_uses(ev->condition, COND_HITS_IN_THREAD);
	if ((class || counts) && !ev->owners)
		ev->owners = calloc(OWNERS, sizeof(*ev->owners));
	return counts && !ev->owners ? -ENOMEM : 0;
}

static const struct event_id *id_find(const struct perf_rings *r, uint64_t id)
{
	size_t low = 0;
	size_t high = r->id_count;

	while (low < high) {
		size_t mid = (low + high) / 2;
		if (r->ids[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < r->id_count && r->ids[low].id == id ? &r->ids[low] : NULL;
}

/* Where a thread's owner is recorded; NULL when 65,536 threads have been seen. */
static struct event_owner *owner_of(struct trapline_event *ev, uint32_t tid)
{
	uint32_t at = tid * 2654435761u % OWNERS;

	for (uint32_t n = 0; n < OWNERS; n++, at = (at + 1) % OWNERS) {
		if (ev->owners[at].tid == tid)
			return &ev->owners[at];
		if (!ev->owners[at].tid) {
			ev->owners[at].tid = tid;
			return &ev->owners[at];
		}
	}
	return NULL;
}

static int is_duplicate(const struct event_id *id, const struct sample_front *front)
{
	struct trapline_event *ev = id->event;
	struct event_owner *owner = ev->owners ? owner_of(ev, front->tid) : NULL;

	if (!owner)
		return 0;
	uint32_t *class = front->time_ns < owner->since_ns ? &owner->class_before : &owner->class;
	if (!*class)
		*class = id->class + 1;
	if (*class == id->class + 1)
		return 0;
	counter_add(&ev->rejected_duplicate, 1);
	return 1;
}

uint64_t perf_rings_hit_in_thread(struct trapline_event *ev, uint32_t tid)
{
	struct event_owner *owner = ev->owners ? owner_of(ev, tid) : NULL;

	return owner ? ++owner->hits : 0;
}

/*
 * The end of one and the thread creation of the next can both be read before the samples of the
 * first.
 */
static void owner_forget(struct event_owner *owner, uint64_t time_ns)
{
	if (time_ns < owner->since_ns)
		return;
	if (owner->class)
		owner->class_before = owner->class;
	owner->class = 0;
	owner->since_ns = time_ns;
	owner->hits = 0;
}

/* The thread has ended, or another one has its number: a full ring may have lost the end. */
static void forget_thread(struct perf_rings *r, uint32_t tid, uint64_t time_ns)
{
	for (size_t i = 0; i < r->id_count; i++) {
		struct trapline_event *ev = r->ids[i].event;
		if ((i && ev == r->ids[i - 1].event &&
		     r->ids[i].generation == r->ids[i - 1].generation) ||
		    event_enter_as(ev, r->ids[i].generation))
			continue;
		struct event_owner *owner = ev->owners ? owner_of(ev, tid) : NULL;
		if (owner)
			owner_forget(owner, time_ns);
		event_leave(ev);
	}
}

/* At the end of what is not a sample: pid and tid, the time, the CPU, the id. */
#define TRAILER_BYTES 32
#define TRAILER_TIME_AT 8

static uint64_t time_of(const struct perf_rings *r, const struct cpu_ring *ring, uint64_t at,
			const struct perf_event_header *header)
{
	uint64_t time_ns;

	cpu_ring_copy(ring, r->bytes, at + header->size - TRAILER_BYTES + TRAILER_TIME_AT, &time_ns,
		      sizeof(time_ns));
	return time_ns;
}

/* pid, tid, the new name, padded. */
static void take_name(struct perf_rings *r, const struct cpu_ring *ring, uint64_t at,
		      const struct perf_event_header *header)
{
	char name[RING_NAME_BYTES + 1] = "";
	size_t n = header->size - sizeof(*header) - 8;
	uint32_t tid;

	cpu_ring_copy(ring, r->bytes, at + sizeof(*header) + 4, &tid, sizeof(tid));
	cpu_ring_copy(ring, r->bytes, at + sizeof(*header) + 8, name,
		      n < RING_NAME_BYTES ? n : RING_NAME_BYTES);
	ring_names_set(&r->names, tid, name, time_of(r, ring, at, header));
}

static void take_notice(struct perf_rings *r, const struct cpu_ring *ring, uint64_t at,
			const struct perf_event_header *header)
{
	uint64_t words[3];

	if (header->size < sizeof(*header) + 16)
		return;
	int has_time = header->size >= sizeof(*header) + 16 + TRAILER_BYTES;
	cpu_ring_copy(ring, r->bytes, at + sizeof(*header), words, 16);
	if (header->type == PERF_RECORD_LOST) {
		const struct event_id *id = id_find(r, words[0]);
		if (id && is_open(id))
			counter_add(&id->event->lost_ring_full, words[1]);
	} else if (header->type == PERF_RECORD_EXIT && has_time) {
		forget_thread(r, (uint32_t)words[1],
			      time_of(r, ring, at, header)); /* pid, ppid, tid, ptid */
	} else if (header->type == PERF_RECORD_FORK && has_time) {
		forget_thread(r, (uint32_t)words[1], time_of(r, ring, at, header));
		ring_names_born(&r->names, (uint32_t)words[1], (uint32_t)(words[1] >> 32),
				time_of(r, ring, at, header));
	} else if (header->type == PERF_RECORD_COMM && has_time) {
		take_name(r, ring, at, header);
	}
}

/* The front of the next sample of one CPU; other records are dealt with and skipped. */
static int ring_front(struct perf_rings *r, struct cpu_ring *ring, struct sample_front *front)
{
	const uint64_t head = cpu_ring_head(ring);

	while (ring->page->data_tail < head) {
		uint64_t at = ring->page->data_tail;
		struct perf_event_header header;

		cpu_ring_copy(ring, r->bytes, at, &header, sizeof(header));
		if (header.size < sizeof(header)) {
			cpu_ring_advance(ring, head); /* not possible, but never loop on it */
			return 0;
		}
		if (header.type == PERF_RECORD_SAMPLE && header.size >= sizeof(*front)) {
			cpu_ring_copy(ring, r->bytes, at, front, sizeof(*front));
			return 1;
		}
		take_notice(r, ring, at, &header);
		cpu_ring_advance(ring, at + header.size);
	}
	return 0;
}

static void fill_regs(struct record *out, const uint64_t *values)
{
	uint64_t by_bit[64] = { 0 };
	uint64_t mask = 0;

	for (int i = 0; i < RECORD_REGS; i++)
		mask |= 1ull << arch_perf_regs[i];
	for (int bit = 0, n = 0; bit < 64; bit++)
		if (mask >> bit & 1)
			by_bit[bit] = values[n++];
	for (int i = 0; i < RECORD_REGS; i++)
		out->regs[i] = by_bit[arch_perf_regs[i]];
}

static void fill_record(const struct perf_rings *r, size_t size, struct record *out,
			const void **stack)
{
	const struct sample_front *front = (const void *)r->sample;
	const uint8_t *at = r->sample + sizeof(*front);
	const uint8_t *end = r->sample + size;

	memset(out, 0, sizeof(*out));
	out->time_ns = front->time_ns;
	out->pid_tid = (uint64_t)front->pid << 32 | front->tid;
	out->address = front->addr;
	out->cpu = front->cpu;
	if (front->regs_abi && at + sizeof(out->regs) <= end) {
		fill_regs(out, (const void *)at);
		at += sizeof(out->regs);
	}
	out->syscall = UINT64_MAX;
	if (front->ip >> 63)
		out->kernel_ip = front->ip;
	else
		out->regs[ARCH_REG_PC] = front->ip;
	*stack = NULL;
	if (at + 16 > end)
		return;
	uint64_t bytes = *(const uint64_t *)(const void *)at;
	if (!bytes || bytes > (size_t)(end - at) - 16)
		return;
	uint64_t used = *(const uint64_t *)(const void *)(at + 8 + bytes);
	out->stack_len = used < bytes ? used : bytes;
	*stack = at + 8;
}

/* The ring whose front is the oldest sample, if any. */
static struct cpu_ring *oldest_of(struct perf_rings *r, struct sample_front *best)
{
	struct cpu_ring *oldest = NULL;

	best->time_ns = UINT64_MAX;
	for (int i = 0; i < r->count; i++) {
		struct sample_front front;
		if (r->rings[i].fd < 0 || !ring_front(r, &r->rings[i], &front))
			continue;
		if (front.time_ns < best->time_ns) {
			*best = front;
			oldest = &r->rings[i];
		}
	}
	return oldest;
}

/*
 * The rings are inspected one after the other while they grow. What a thread did on another CPU
 * before this sample, as taking a name, has been written by now: seen when all rings are inspected
 * once more.
 */
static struct cpu_ring *oldest_surely(struct perf_rings *r, struct sample_front *best)
{
	struct cpu_ring *oldest = oldest_of(r, best);

	for (;;) {
		struct cpu_ring *before = oldest;
		uint64_t time_ns = best->time_ns;
		if (!before)
			return NULL;
		oldest = oldest_of(r, best);
		if (oldest == before && best->time_ns == time_ns)
			return oldest;
	}
}

int perf_rings_next(struct perf_rings *r, struct trapline_event **event_out, uint32_t *part,
		    struct record *out, const void **stack)
{
	for (;;) {
		struct sample_front best;
		struct cpu_ring *oldest = oldest_surely(r, &best);

		if (!oldest)
			return 0;
		cpu_ring_copy(oldest, r->bytes, oldest->page->data_tail, r->sample,
			      best.header.size);
		cpu_ring_advance(oldest, oldest->page->data_tail + best.header.size);
		const struct event_id *id = id_find(r, best.id);
		if (!id || event_enter_as(id->event, id->generation))
			continue;
		if (event_is_data(id->event) && event_is_step(best.ip)) {
			counter_add(&id->event->stepped, 1);
			event_leave(id->event);
			continue;
		}
		if (is_duplicate(id, &best)) {
			event_leave(id->event);
			continue;
		}
		fill_record(r, best.header.size, out, stack);
		*event_out = id->event;
		*part = id->part;
		return 1;
	}
}

int perf_rings_empty(const struct perf_rings *r)
{
	for (int i = 0; i < r->count; i++)
		if (r->rings[i].fd >= 0 &&
		    cpu_ring_head(&r->rings[i]) != r->rings[i].page->data_tail)
			return 0;
	return 1;
}
