/* SPDX-License-Identifier: MIT */
/*
 * program_amount.c - programs that read how much a thread has used up, exactly at the hit.
 *
 * A counter of one thread is read by a program that runs in that thread, through a map that has its
 * descriptor. The kernel takes it out of the map when the map's own descriptor is closed, so that
 * one lives as long as the counter.
 */
#include <errno.h>

#include "base/sys.h"
#include "event/bpf/program_amount.h"
#include "event/bpf/program_frame.h"
#include "event/bpf/program_load.h"

int program_amount_open(struct trapline_event *counter)
{
	const uint32_t key = 0;

	if (counter->amount_fd >= 0)
		return 0;
	int fd = ebpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 1, 0);
	if (fd < 0)
		return fd;
	int err = ebpf_map_write(fd, &key, &counter->roots.fds[0]);
	if (err) {
		sys_close(fd);
		return err;
	}
	counter->amount_fd = fd;
	return 0;
}

void program_amount_close(struct trapline_event *counter)
{
	if (counter->amount_fd >= 0)
		sys_close(counter->amount_fd);
	counter->amount_fd = -1;
}

void program_read_amount(struct ebpf *p, const struct trapline_event *counter)
{
	ebpf_load_map(p, R1, counter->amount_fd);
	ebpf_mov_imm(p, R2, 0);
	ebpf_call(p, BPF_FUNC_perf_event_read);
}

/* Past it the point cannot come any more: it is of no use that the process runs on. */
void program_end_unless_amount(struct ebpf *p, const struct trapline_event *ev)
{
	program_read_amount(p, ev->amount);
	uint32_t readable = ebpf_jump_imm(p, BPF_JSGE, R0, 0);
	program_count(p, CONTROL_AT(condition_faults));
	program_reject(p, CONTROL_AT(rejected_condition));
	ebpf_land(p, readable);
	ebpf_load_imm64(p, R1, ev->amount_at);
	uint32_t reached = ebpf_jump(p, BPF_JGE, R0, R1);
	program_reject(p, CONTROL_AT(rejected_condition));
	ebpf_land(p, reached);
	uint32_t there = ebpf_jump(p, BPF_JEQ, R0, R1);
	program_stop(p, ev);
	program_reject(p, CONTROL_AT(rejected_condition));
	ebpf_land(p, there);
}
