/* SPDX-License-Identifier: MIT */
/* program_kernel.h - accesses that the kernel makes. */
#ifndef EVENT_BPF_PROGRAM_KERNEL_H
#define EVENT_BPF_PROGRAM_KERNEL_H

#include "base/ebpf.h"
#include "event/event.h"
#include <linux/bpf_perf_event.h>

/*
 * For TRAPLINE_KERNEL. What a program keeps in each task, behind the note about
 * duplicates: the context as if the thread had made the access by itself, and what the kernel did.
 */
struct program_task {
	uint8_t note[EBPF_TASK_BYTES];
	struct bpf_perf_event_data user;
	uint64_t kernel_ip;
	uint64_t syscall;
};
int program_sees_kernel(const struct trapline_event *ev);
/*
 * In records without TRAPLINE_KERNEL a store by the kernel is not a hit. But the next hit has its
 * value as the old one, not that of the hit before. Not where reads hit: the program itself reads
 * the word.
 */
int program_keeps_values(const struct trapline_event *ev);
/* Jumps, to be landed, if the thread itself made the access. */
uint32_t program_jump_by_thread(struct ebpf *p);
/* For the kernel's access: ends at pieces of a copy but the last. Needs FRAME_LEN. */
void program_end_at_piece(struct ebpf *p);
/* Ends at pieces of a copy but the last; from here on CONTEXT is that of the thread. */
void program_kernel_hit(struct ebpf *p, const struct trapline_event *ev);
void program_kernel_record(struct ebpf *p, const struct trapline_event *ev);

#endif
