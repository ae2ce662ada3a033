/* SPDX-License-Identifier: MIT */
/*
 * kernel_code.c - see kernel_code.h.
 *
 * A change is reported on the CPU that makes it, so each CPU has a ring. The kernel reports a
 * change while its int3 is in place (smp_text_poke_batch_finish() in
 * arch/x86/kernel/alternative.c). Before that moment a thread runs the old instruction or the int3,
 * after it the new one or the int3.
 */
#include "cli/code/kernel_code.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "record/code_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RING_BYTES ((size_t)256 * 1024)
#define NAME_MAX_BYTES 1024u
#define ONLINE "/sys/devices/system/cpu/online"

struct code_ring {
	int fd; /* -1: there is no such CPU */
	bool counts_losses;
	uint64_t lost;
	struct perf_event_mmap_page *page;
};

struct kernel_code {
	FILE *log;
	size_t page_bytes;
	uint64_t drained_ns;
	char online[256];
	size_t count;
	struct code_ring rings[];
};

/* One record of a ring, unwrapped, and how far it has been read. */
struct kernel_record {
	uint16_t bytes;
	uint16_t at;
	uint32_t type;
	uint8_t data[UINT16_MAX];
};

/* perf's sample_id, in the order of its bits. */
struct kernel_sample_id {
	uint32_t pid;
	uint32_t tid;
	uint64_t time_ns;
};

static void kernel_attr(struct perf_event_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_DUMMY;
	attr->text_poke = 1;
	attr->ksymbol = 1;
	attr->sample_id_all = 1;
	attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
}

static void read_online(char *text, size_t n)
{
	int fd = open(ONLINE, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, n - 1);

	text[got > 0 ? got : 0] = 0;
	if (fd >= 0)
		close(fd);
}

static bool put_record(struct kernel_code *k, struct code_record *record)
{
	code_close(&record->head);
	return fwrite(record, record->head.bytes, 1, k->log) == 1;
}

static struct code_record begin_record(enum code_kind kind, uint64_t time_ns, uint32_t tid)
{
	struct code_record record = { .head = { .tid = (int32_t)tid, .time_ns = time_ns } };

	code_open(&record.head, kind);
	return record;
}

static bool put_start(struct kernel_code *k)
{
	struct code_record record = begin_record(CODE_START, clock_now_ns(), 0);

	code_put64(&record.head, 0); /* image */
	code_put32(&record.head, 0); /* parent */
	code_put32(&record.head, 0); /* is_late */
	code_put64(&record.head, 0); /* fork_ns */
	return put_record(k, &record);
}

static bool put_loss(struct kernel_code *k, uint64_t time_ns, uint64_t changes)
{
	struct code_record record = begin_record(CODE_LOST, time_ns, 0);

	code_put64(&record.head, k->drained_ns);
	code_put32(&record.head, changes > UINT32_MAX ? UINT32_MAX : (uint32_t)changes);
	code_put32(&record.head, 0); /* hits */
	return put_record(k, &record);
}

static bool take_bytes(struct kernel_record *r, void *to, size_t n)
{
	if ((size_t)(r->bytes - r->at) < n)
		return false;
	memcpy(to, r->data + r->at, n);
	r->at = (uint16_t)(r->at + n);
	return true;
}

static bool put_poke(struct kernel_code *k, struct kernel_record *r,
		     const struct kernel_sample_id *id)
{
	struct code_record record = begin_record(CODE_KERNEL_POKE, id->time_ns, id->tid);
	uint64_t address;
	uint16_t lengths[2];

	if (!take_bytes(r, &address, sizeof(address)) || !take_bytes(r, lengths, sizeof(lengths)) ||
	    lengths[0] + lengths[1] > r->bytes - r->at)
		return put_loss(k, id->time_ns, 1);
	/* Every record of the log ends with up to 7 zeros. */
	if (16u + lengths[0] + lengths[1] + 8u > code_room(&record.head))
		return put_loss(k, id->time_ns, 1);
	code_put64(&record.head, address);
	code_put32(&record.head, lengths[0]);
	code_put32(&record.head, lengths[1]);
	code_put(&record.head, r->data + r->at, (size_t)lengths[0] + lengths[1]);
	return put_record(k, &record);
}

static bool put_symbol(struct kernel_code *k, struct kernel_record *r,
		       const struct kernel_sample_id *id)
{
	struct code_record record = begin_record(CODE_KSYMBOL, id->time_ns, id->tid);
	uint64_t address;
	uint32_t length;
	uint16_t kind[2]; /* type, flags */

	if (!take_bytes(r, &address, sizeof(address)) || !take_bytes(r, &length, sizeof(length)) ||
	    !take_bytes(r, kind, sizeof(kind)))
		return put_loss(k, id->time_ns, 1);
	const char *name = (const char *)r->data + r->at;
	size_t n = strnlen(name, (size_t)(r->bytes - r->at));

	n = n < NAME_MAX_BYTES ? n : NAME_MAX_BYTES;
	code_put64(&record.head, address);
	code_put32(&record.head, length);
	code_put32(&record.head, kind[0]);
	code_put32(&record.head, kind[1]);
	code_put32(&record.head, (uint32_t)n + 1);
	code_put(&record.head, name, n);
	code_put(&record.head, "", 1);
	return put_record(k, &record);
}

static bool put_kernel_record(struct kernel_code *k, struct kernel_record *r, bool counts_losses)
{
	struct kernel_sample_id id;
	uint64_t lost[2]; /* id, count */

	if (r->bytes < sizeof(id))
		return put_loss(k, clock_now_ns(), 1);
	r->bytes = (uint16_t)(r->bytes - sizeof(id));
	memcpy(&id, r->data + r->bytes, sizeof(id));
	switch (r->type) {
	case PERF_RECORD_TEXT_POKE:
		return put_poke(k, r, &id);
	case PERF_RECORD_KSYMBOL:
		return put_symbol(k, r, &id);
	case PERF_RECORD_LOST:
		/* Where the kernel counts them, they are written by note_losses(). */
		return counts_losses ||
		       put_loss(k, id.time_ns, take_bytes(r, lost, sizeof(lost)) ? lost[1] : 1);
	default:
		return true;
	}
}

static void copy_out(const struct kernel_code *k, const struct code_ring *ring, uint64_t from,
		     void *to, size_t n)
{
	const uint8_t *data = (const uint8_t *)ring->page + k->page_bytes;

	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = data[(from + i) & (RING_BYTES - 1)];
}

/*
 * The kernel writes PERF_RECORD_LOST with the next record that fits, which may never come. Only a
 * ring that is still full has lost something since it was drained: this side alone empties it.
 */
static bool note_losses(struct kernel_code *k, struct code_ring *ring, uint64_t fill)
{
	struct {
		uint64_t value;
		uint64_t lost;
	} count;

	if (RING_BYTES - fill > CODE_RECORD_MAX)
		return true;
	if (!ring->counts_losses)
		return put_loss(k, clock_now_ns(), 1); /* perhaps */
	if (read(ring->fd, &count, sizeof(count)) != sizeof(count) || count.lost == ring->lost)
		return true;
	uint64_t lost = count.lost - ring->lost;
	ring->lost = count.lost;
	return put_loss(k, clock_now_ns(), lost);
}

static bool drain_ring(struct kernel_code *k, struct code_ring *ring)
{
	static struct kernel_record record;
	uint64_t head = atomic_get(&ring->page->data_head);
	uint64_t tail = ring->page->data_tail;
	bool is_good = note_losses(k, ring, head - tail);

	while (is_good && tail < head) {
		struct perf_event_header header;

		copy_out(k, ring, tail, &header, sizeof(header));
		if (header.size < sizeof(header))
			break;
		record.type = header.type;
		record.at = 0;
		record.bytes = (uint16_t)(header.size - sizeof(header));
		copy_out(k, ring, tail + sizeof(header), record.data, record.bytes);
		is_good = put_kernel_record(k, &record, ring->counts_losses);
		tail += header.size;
	}
	atomic_set(&ring->page->data_tail, tail);
	return is_good;
}

/* A CPU that came since has no ring: what it changes is lost, and so many are not known. */
static bool look_for_cpus(struct kernel_code *k, uint64_t now_ns)
{
	char online[sizeof(k->online)];

	read_online(online, sizeof(online));
	return !strcmp(online, k->online) || put_loss(k, now_ns, 1);
}

bool kernel_code_drain(struct kernel_code *k)
{
	uint64_t now_ns = clock_now_ns();
	bool is_good = look_for_cpus(k, now_ns);

	for (size_t i = 0; is_good && i < k->count; i++)
		if (k->rings[i].fd >= 0)
			is_good = drain_ring(k, &k->rings[i]);
	k->drained_ns = now_ns;
	return is_good && !fflush(k->log);
}

static void close_rings(struct kernel_code *k)
{
	for (size_t i = 0; i < k->count; i++) {
		if (k->rings[i].fd < 0)
			continue;
		munmap(k->rings[i].page, k->page_bytes + RING_BYTES);
		close(k->rings[i].fd);
	}
	free(k);
}

/* False: errno is the reason. A CPU that is not there is no failure. */
static bool open_ring(struct kernel_code *k, struct code_ring *ring, int cpu)
{
	struct perf_event_attr attr;

	kernel_attr(&attr);
	attr.read_format = PERF_FORMAT_LOST;
	ring->fd = sys_perf_event_open(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ring->counts_losses = ring->fd >= 0;
	attr.read_format = 0;
	if (ring->fd == -EINVAL) /* before Linux 6.0 */
		ring->fd = sys_perf_event_open(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0) {
		errno = -ring->fd;
		ring->fd = -1;
		return errno == ENODEV;
	}
	ring->page = mmap(NULL, k->page_bytes + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			  ring->fd, 0);
	if (ring->page != MAP_FAILED)
		return true;
	close(ring->fd);
	ring->fd = -1;
	return false;
}

struct kernel_code *kernel_code_open(FILE *log)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t count = cpus > 0 ? (size_t)cpus : 1;
	struct kernel_code *k = calloc(1, sizeof(*k) + count * sizeof(k->rings[0]));

	if (!k)
		return NULL;
	k->log = log;
	k->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	read_online(k->online, sizeof(k->online));
	for (; k->count < count; k->count++)
		if (!open_ring(k, &k->rings[k->count], (int)k->count)) {
			int err = errno;

			close_rings(k);
			errno = err;
			return NULL;
		}
	k->drained_ns = clock_now_ns();
	if (put_start(k))
		return k;
	close_rings(k);
	errno = EIO;
	return NULL;
}

bool kernel_code_close(struct kernel_code *k)
{
	struct code_record end = begin_record(CODE_END, clock_now_ns(), 0);

	/* A record that is being written on another CPU is whole when this returns. */
	for (size_t i = 0; i < k->count; i++)
		if (k->rings[i].fd >= 0)
			ioctl(k->rings[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	bool is_good = kernel_code_drain(k) && put_record(k, &end) && !fflush(k->log);
	close_rings(k);
	return is_good;
}
