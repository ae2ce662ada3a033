/* SPDX-License-Identifier: MIT */
/* death_watch.c - see death_watch.h. */
#include "host/death_watch.h"

#include "base/sys.h"
#include "event/ids.h"
#include "host/death_program.h"

#include <errno.h>
#include <unistd.h>

#define RING_BYTES (1u << 20)
#define TASKS_MAX 16384u /* its buckets are made at the start, which takes time */
#define NAMED_MAX 64u
#define SENDERS_MAX 1024u
#define ENDS_MAX 1024u

static int open_maps(struct death_watch *w)
{
	w->control_fd = ebpf_map_create(BPF_MAP_TYPE_ARRAY, 4, 8 * DEATH_LOSSES, 1, 0);
	w->tasks_fd = ebpf_map_create(BPF_MAP_TYPE_HASH, 8, 8, TASKS_MAX, BPF_F_NO_PREALLOC);
	w->named_fd = ebpf_map_create(BPF_MAP_TYPE_HASH, 8, 8, NAMED_MAX, 0);
	w->senders_fd = ebpf_map_create(BPF_MAP_TYPE_LRU_HASH, 8, sizeof(struct death_sender),
					SENDERS_MAX, 0);
	w->ends_fd = ebpf_map_create(BPF_MAP_TYPE_LRU_HASH, 8, 8, ENDS_MAX, 0);
	const int fds[] = { w->control_fd, w->tasks_fd, w->named_fd, w->senders_fd, w->ends_fd };
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] < 0)
			return fds[i];
	return ringbuf_open(&w->ring, RING_BYTES);
}

static int attach(struct death_watch *w, int which, const char *tracepoint)
{
	const int program = death_program_load(w, which);

	if (program < 0)
		return program;
	w->links[which] = ebpf_attach_tracepoint(program, tracepoint);
	sys_close(program);
	return w->links[which] < 0 ? w->links[which] : 0;
}

/*
 * A kernel before v5.15 has no call for the registers: then the signal and the address are known.
 */
static int attach_signal(struct death_watch *w)
{
	w->has_registers = true;
	int err = attach(w, DEATH_AT_SIGNAL, "signal_deliver");
	if (!err || err == -EPERM)
		return err;
	w->has_registers = false;
	return attach(w, DEATH_AT_SIGNAL, "signal_deliver");
}

int death_watch_open(struct death_watch *w)
{
	struct ids ids;

	ids_read(getpid(), &ids);
	w->ids = ids.numbered_by;
	int err = open_maps(w);
	/* The end first: what is recorded is taken out. */
	if (!err)
		err = attach(w, DEATH_AT_EXIT, "sched_process_exit");
	if (!err)
		err = attach(w, DEATH_AT_FORK, "sched_process_fork");
	if (!err)
		err = attach(w, DEATH_AT_SENT, "signal_generate");
	return err ? err : attach_signal(w);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		sys_close(*fd);
	*fd = -1;
}

void death_watch_close(struct death_watch *w)
{
	for (int i = 0; i < DEATH_PROGRAMS; i++)
		close_fd(&w->links[i]);
	ringbuf_close(&w->ring);
	close_fd(&w->control_fd);
	close_fd(&w->tasks_fd);
	close_fd(&w->named_fd);
	close_fd(&w->senders_fd);
	close_fd(&w->ends_fd);
}

int death_watch_add(struct death_watch *w, pid_t pid)
{
	const uint64_t key = (uint64_t)pid;
	uint64_t value = 1;

	return ebpf_map_write(w->named_fd, &key, &value);
}

void death_watch_remove(struct death_watch *w, pid_t pid)
{
	const uint64_t key = (uint64_t)pid;

	ebpf_map_remove(w->named_fd, &key);
}

const struct death_record *death_watch_next(struct death_watch *w)
{
	const struct death_record *record;
	uint32_t length;

	if (w->ring.fd < 0)
		return NULL;
	if (w->has_next)
		ringbuf_release(&w->ring);
	record = ringbuf_peek(&w->ring, &length);
	w->has_next = record != NULL;
	return record;
}

uint64_t death_watch_lost(const struct death_watch *w, enum death_loss which)
{
	uint64_t lost[DEATH_LOSSES] = { 0 };
	const uint32_t key = 0;

	if (w->control_fd >= 0)
		ebpf_map_read(w->control_fd, &key, lost);
	return lost[which];
}

int death_watch_status(const struct death_watch *w, pid_t pid)
{
	const uint64_t key = (uint64_t)pid;
	uint64_t status = 0;

	if (w->ends_fd < 0 || ebpf_map_read(w->ends_fd, &key, &status))
		return 0;
	return (int)status;
}

bool death_watch_sender(const struct death_watch *w, pid_t pid, int signal,
			struct death_sender *out)
{
	const uint64_t key = (uint64_t)pid << 32 | (uint32_t)signal;

	if (w->senders_fd < 0 || ebpf_map_read(w->senders_fd, &key, out))
		return false;
	out->thread[sizeof(out->thread) - 1] = '\0';
	return out->pid_tid != 0;
}
