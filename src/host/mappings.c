/* SPDX-License-Identifier: MIT */
/* mappings.c - see mappings.h. */
#include "host/mappings.h"

#include "base/clock.h"
#include "base/maps.h"
#include "base/table_size.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES (256u << 10) /* a power of 2 */
#define PROCESSES_MAX 8192u
#define FILES_MAX TABLE_SIZE(4096u, 1u) /* of a process */
#define RECORD_MAX 8192u
#define NAME_BYTES 15 /* that the kernel keeps */

/* What follows the header of each kind of record. */
struct task_record { /* fork and exit */
	uint32_t pid;
	uint32_t parent;
	uint32_t tid;
	uint32_t parent_tid;
};
struct comm_record {
	uint32_t pid;
	uint32_t tid;
	char name[];
};
struct map_record {
	uint32_t pid;
	uint32_t tid;
	uint64_t address;
	uint64_t bytes;
	uint64_t offset;
	uint32_t major;
	uint32_t minor;
	uint64_t inode;
	uint64_t generation;
	uint32_t protection;
	uint32_t flags;
	char path[];
};
/* The end of each record: pid and tid, and the time. */
#define TRAILER_BYTES 16u
#define TIME_BYTES 8u

/* ---- the rings ---- */

static int open_ring(struct cpu_ring *ring, int cpu)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.exclude_kernel = 1;
	attr.mmap = 1;
	attr.mmap2 = 1;
	attr.comm = 1;
	attr.comm_exec = 1;
	attr.task = 1;
	attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	attr.sample_id_all = 1;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	attr.watermark = 1;
	attr.wakeup_watermark = RING_BYTES; /* the rings are inspected */
	return cpu_ring_open(ring, &attr, -1, cpu, RING_BYTES);
}

int mappings_open(struct mappings *m)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
	int err = 0;

	m->rings = calloc((size_t)cpus, sizeof(*m->rings));
	if (!m->rings)
		return -ENOMEM;
	m->ring_count = cpus;
	for (int i = 0; i < cpus; i++)
		m->rings[i].fd = -1;
	for (int i = 0; !err && i < cpus; i++)
		err = open_ring(&m->rings[i], i);
	return err;
}

/* The time of the first record; false: the ring is empty. */
static bool front_time(struct cpu_ring *ring, uint64_t *time_ns)
{
	struct perf_event_mmap_page *page = ring->page;
	struct perf_event_header header;

	if (ring->fd < 0)
		return false;
	const uint64_t head = cpu_ring_head(ring);
	if (page->data_tail == head)
		return false;
	cpu_ring_copy(ring, RING_BYTES, page->data_tail, &header, sizeof(header));
	if (header.size < sizeof(header) + TRAILER_BYTES) {
		cpu_ring_advance(ring, head); /* not possible, but never loop on it */
		return false;
	}
	cpu_ring_copy(ring, RING_BYTES, page->data_tail + header.size - TIME_BYTES, time_ns,
		      sizeof(*time_ns));
	return true;
}

static struct cpu_ring *oldest_of(struct mappings *m, uint64_t *time_ns)
{
	struct cpu_ring *oldest = NULL;
	uint64_t time;

	*time_ns = UINT64_MAX;
	for (int i = 0; i < m->ring_count; i++) {
		if (!front_time(&m->rings[i], &time) || time >= *time_ns)
			continue;
		*time_ns = time;
		oldest = &m->rings[i];
	}
	return oldest;
}

/*
 * What another CPU wrote before this record has been written when all rings are inspected once
 * more.
 */
static struct cpu_ring *oldest_surely(struct mappings *m)
{
	uint64_t time_ns;
	uint64_t before_ns;
	struct cpu_ring *oldest = oldest_of(m, &time_ns);
	struct cpu_ring *before;

	do {
		before = oldest;
		before_ns = time_ns;
		oldest = oldest_of(m, &time_ns);
	} while (oldest != before || time_ns != before_ns);
	return oldest;
}

/* ---- the processes ---- */

static struct mapped_process *find_process(const struct mappings *m, pid_t pid)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->processes[i].pid == pid)
			return &m->processes[i];
	return NULL;
}

static void forget_files(struct mapped_process *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->files[i].path);
	p->count = 0;
}

static void forget_process(struct mappings *m, struct mapped_process *p)
{
	forget_files(p);
	free(p->files);
	*p = m->processes[--m->count];
}

/* NULL: no memory. One that had the number before has ended. */
static struct mapped_process *new_process(struct mappings *m, pid_t pid)
{
	struct mapped_process *p = find_process(m, pid);

	if (p)
		forget_process(m, p);
	if (m->count == m->room) {
		size_t room = m->room ? 2 * m->room : 16;
		void *more = room > PROCESSES_MAX ? NULL : realloc(m->processes, room * sizeof(*p));

		if (!more)
			return NULL;
		m->processes = more;
		m->room = room;
	}
	p = &m->processes[m->count++];
	*p = (struct mapped_process){ .pid = pid, .threads = 1, .began = ++m->versions };
	return p;
}

static void forget_overlapped(struct mapped_process *p, uint64_t start, uint64_t end)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->count; i++) {
		if (p->files[i].start < end && p->files[i].end > start)
			free(p->files[i].path);
		else
			p->files[kept++] = p->files[i];
	}
	p->count = kept;
}

static void new_version(struct mappings *m, struct mapped_process *p)
{
	p->version = ++m->versions;
}

static void add_file(struct mappings *m, struct mapped_process *p, const struct mapped_file *file)
{
	struct mapped_file copy = *file;

	forget_overlapped(p, file->start, file->end);
	new_version(m, p);
	if (p->count == p->room) {
		size_t room = p->room ? 2 * p->room : 16;
		void *more = room > FILES_MAX ? NULL : realloc(p->files, room * sizeof(copy));

		if (!more) {
			p->is_unsure = true;
			return;
		}
		p->files = more;
		p->room = room;
	}
	copy.path = strdup(file->path);
	if (copy.path)
		p->files[p->count++] = copy;
	else
		p->is_unsure = true;
}

static void note_fork(struct mappings *m, const struct task_record *r)
{
	struct mapped_process *parent = find_process(m, (pid_t)r->parent);
	struct mapped_process *p = find_process(m, (pid_t)r->pid);

	if (r->pid == r->parent) {
		if (p)
			p->threads++;
		return;
	}
	if (!parent && (pid_t)r->parent != m->parent)
		return;
	p = new_process(m, (pid_t)r->pid);
	parent = find_process(m, (pid_t)r->parent); /* it may have moved */
	if (!p || !parent)
		return;
	p->is_unsure = parent->is_unsure;
	for (size_t i = 0; i < parent->count; i++)
		add_file(m, p, &parent->files[i]);
}

static void note_exit(struct mappings *m, const struct task_record *r, uint64_t time_ns)
{
	struct mapped_process *p = find_process(m, (pid_t)r->pid);

	if (!p || --p->threads)
		return;
	p->is_over = true;
	p->ended_ns = time_ns;
}

static void note_exec(struct mappings *m, const struct comm_record *r)
{
	struct mapped_process *p = find_process(m, (pid_t)r->pid);

	if (!p && m->name && (!m->name[0] || !strncmp(r->name, m->name, NAME_BYTES)))
		p = new_process(m, (pid_t)r->pid);
	if (!p)
		return;
	forget_files(p);
	new_version(m, p);
	p->began = p->version;
	p->threads = 1;
	p->is_over = false;
	p->is_unsure = false;
}

/* The kernel does not show whose records had no room. */
static void note_lost(struct mappings *m)
{
	for (size_t i = 0; i < m->count; i++)
		m->processes[i].is_unsure = true;
}

static void note_map(struct mappings *m, struct map_record *r)
{
	struct mapped_process *p = find_process(m, (pid_t)r->pid);
	const struct mapped_file file = { .start = r->address,
					  .end = r->address + r->bytes,
					  .offset = r->offset,
					  .inode = r->inode,
					  .path = r->path };

	/* Others than files begin with "//" or "[". */
	if (p && r->path[0] == '/' && r->path[1] != '/')
		add_file(m, p, &file);
}

/* Each kind of record begins with the number of the process. */
static bool is_in_files(const struct mappings *m, pid_t pid, uint64_t time_ns)
{
	const struct mapped_process *p = find_process(m, pid);

	return p && time_ns < p->since_ns;
}

static void note_record(struct mappings *m, struct cpu_ring *ring)
{
	const struct perf_event_mmap_page *page = ring->page;
	struct {
		struct perf_event_header header;
		char rest[RECORD_MAX];
	} r;
	union {
		void *any;
		struct task_record *task;
		struct comm_record *comm;
		struct map_record *map;
	} body = { .any = r.rest };
	uint64_t time_ns;

	memset(&r, 0, sizeof(r.header) + sizeof(struct map_record));
	cpu_ring_copy(ring, RING_BYTES, page->data_tail, &r.header, sizeof(r.header));
	size_t size = r.header.size < sizeof(r) - 1 ? r.header.size : sizeof(r) - 1;
	cpu_ring_copy(ring, RING_BYTES, page->data_tail, &r, size);
	memcpy(&time_ns, (char *)&r + size - TIME_BYTES, sizeof(time_ns));
	((char *)&r)[size - TRAILER_BYTES] = '\0';
	cpu_ring_advance(ring, page->data_tail + r.header.size);
	if (r.header.type == PERF_RECORD_LOST)
		note_lost(m);
	else if (is_in_files(m, (pid_t)body.task->pid, time_ns))
		return;
	else if (r.header.type == PERF_RECORD_FORK)
		note_fork(m, body.task);
	else if (r.header.type == PERF_RECORD_EXIT)
		note_exit(m, body.task, time_ns);
	else if (r.header.type == PERF_RECORD_COMM && r.header.misc & PERF_RECORD_MISC_COMM_EXEC)
		note_exec(m, body.comm);
	else if (r.header.type == PERF_RECORD_MMAP2)
		note_map(m, body.map);
}

/* ---- what others call ---- */

void mappings_close(struct mappings *m)
{
	for (int i = 0; i < m->ring_count; i++)
		cpu_ring_close(&m->rings[i], RING_BYTES);
	free(m->rings);
	while (m->count)
		forget_process(m, m->processes);
	free(m->processes);
	*m = (struct mappings){ 0 };
}

void mappings_add(struct mappings *m, pid_t pid)
{
	struct mapped_process *p = new_process(m, pid);
	char name[MAPS_NAME];
	struct maps maps;

	if (!p)
		return;
	p->threads = UINT32_MAX / 2; /* its threads were not counted: it is kept */
	p->since_ns = clock_now_ns();
	maps_open(&maps, pid, name, sizeof(name));
	for (const struct maps_row *row; (row = maps_next(&maps));) {
		const struct mapped_file file = {
			.start = row->start,
			.end = row->end,
			.offset = row->offset,
			.inode = row->inode,
			.path = name,
		};

		if (name[0] == '/' && row->mode[2] == 'x')
			add_file(m, p, &file);
	}
	maps_close(&maps);
}

void mappings_adopt(struct mappings *m, pid_t parent)
{
	mappings_read(m);
	m->parent = parent;
}

void mappings_follow_name(struct mappings *m, const char *name)
{
	m->name = name;
}

void mappings_read(struct mappings *m)
{
	mappings_read_until(m, UINT64_MAX);
}

void mappings_read_until(struct mappings *m, uint64_t time_ns)
{
	struct cpu_ring *ring;
	uint64_t at_ns;

	while ((ring = oldest_surely(m)) && front_time(ring, &at_ns) && at_ns <= time_ns)
		note_record(m, ring);
}

void mappings_forget_ended(struct mappings *m, uint64_t before_ns)
{
	for (size_t i = m->count; i-- > 0;)
		if (m->processes[i].is_over && m->processes[i].ended_ns < before_ns)
			forget_process(m, &m->processes[i]);
}

const struct mapped_process *mappings_of(const struct mappings *m, pid_t pid)
{
	return find_process(m, pid);
}
