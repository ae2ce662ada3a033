/* SPDX-License-Identifier: MIT */
/*
 * program_load.h - the BPF program of an event: it counts, decides, and writes the record or lets the
 * signal pass.
 */
#ifndef EVENT_BPF_PROGRAM_LOAD_H
#define EVENT_BPF_PROGRAM_LOAD_H

#include <linux/bpf_perf_event.h>

#include "base/ebpf.h"
#include "event/event.h"

/* Maps the programs of an event use: the control page and the note kept with each task. */
int program_maps_open(struct trapline_event *ev);
void program_maps_close(struct trapline_event *ev);

/* ring_fd of a program that writes no records. */
#define PROGRAM_SIGNALS (-1)

/*
 * Load the program for one part and class. With a ring it writes records and always holds back
 * the signal; with PROGRAM_SIGNALS its verdict is whether the thread gets one. log may be NULL.
 * Returns a descriptor or -errno.
 */
int program_load(const struct trapline_event *ev, uint32_t part, uint32_t class, int ring_fd,
		 char *log, uint32_t log_size);

/* The instructions of such a program. -EOPNOTSUPP: the condition cannot be compiled for it. */
int program_emit(struct ebpf *p, const struct trapline_event *ev, uint32_t part, uint32_t class,
		 int ring_fd);

/*
 * The parts of a program, below. R6 is the context, R7 the control page, R8 the record. The
 * frame below R10 holds what one part finds for another.
 */
enum {
	FRAME_VALUE = -8,
	FRAME_WHEN = -16,
	FRAME_OLD = -24,
	FRAME_STACK_LEN = -32,
	FRAME_HITS = -40,
	FRAME_HITS_IN_THREAD = -48,
	FRAME_CONDITION = -400,
	FRAME_CALL = -424, /* struct uprobe_call */
	FRAME_TEXTS = -432,
	FRAME_LEN = -448,
	FRAME_RETURN = -456, /* the return address of a call */
	FRAME_IDS = -440,
};

#define CONTEXT R6
#define CONTROL R7
#define RECORD R8
#define PLACE R9 /* of a data event: where it is, a struct event_place */

#define CONTROL_AT(member) ((int16_t)offsetof(struct event_control, member))

/* Where the context holds the address: a uprobe's context is registers alone. */
int16_t program_addr_at(const struct trapline_event *ev);
#define PROGRAM_DATA_ADDR_AT ((int16_t)offsetof(struct bpf_perf_event_data, addr))

void program_count(struct ebpf *p, int16_t counter);
/* Counts, and ends the program with a verdict of 0. */
void program_reject(struct ebpf *p, int16_t counter);

/* program_decide.c: count, duplicates, value, condition, limit. 0 or -errno. */
int program_decide(struct ebpf *p, const struct trapline_event *ev, uint32_t part, uint32_t class);

/* That no value was read, in the frame. */
void program_no_value(struct ebpf *p);

/* program_amount.c: needs and reads a counter of one thread; R0 is below 0 where it cannot. */
int program_amount_open(struct trapline_event *counter);
void program_amount_close(struct trapline_event *counter);
void program_read_amount(struct ebpf *p, const struct trapline_event *counter);
void program_end_unless_amount(struct ebpf *p, const struct trapline_event *ev);

/* program_load.c: the process is told to stop. */
void program_stop(struct ebpf *p);

/*
 * program_calls.c: a call that passed is noted, and its return looked for and taken out. One that is
 * called again in the same place has not returned: it is forgotten.
 */
void program_forget_call(struct ebpf *p, const struct trapline_event *ev);
void program_note_call(struct ebpf *p, const struct trapline_event *ev);
void program_end_unless_call_passed(struct ebpf *p, const struct trapline_event *ev);
int program_calls_open(void);

/*
 * program_kernel.c, for TRAPLINE_KERNEL. What a program keeps in each task, behind the note about
 * duplicates: the context as if the thread had made the access by itself, and what the kernel did.
 */
struct program_task {
	uint8_t note[EBPF_TASK_BYTES];
	struct bpf_perf_event_data user;
	uint64_t kernel_ip;
	uint64_t syscall;
};
int program_sees_kernel(const struct trapline_event *ev);
/* Ends at pieces of a copy but the last; from here on CONTEXT is that of the thread. */
void program_kernel_hit(struct ebpf *p, const struct trapline_event *ev);
void program_kernel_record(struct ebpf *p, const struct trapline_event *ev);

/* program_record.c: reserve, fill and submit a record. */
void program_record(struct ebpf *p, const struct trapline_event *ev, uint32_t part, int ring_fd);

#endif
