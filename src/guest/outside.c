/* SPDX-License-Identifier: MIT */
/*
 * outside.c - see outside.h.
 *
 * No thread is stopped or sent a signal. Where one sleeps, /proc shows its instruction and its
 * stack pointer; they count if it has not run in the meantime. One that runs is sampled by a clock
 * of the kernel, with a copy of its stack. Each word from the stack pointer up may be a return
 * address: more than is there, but never less. What a signal handler interrupted, perhaps on
 * another stack, is found by the address that the handler returns to.
 *
 * Trapline's is this object, and each executable mapping without a file: jumps, slots and windows
 * are there. In a process with a compiler of its own that is too much, and its memory stays.
 */
#include "guest/outside.h"

#include <asm/perf_regs.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/lines.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/own_code.h"
#include "base/own_thread_name.h"
#include "base/sys.h"
#include "base/tasks.h"

#define MAPS_MAX 8192u
#define SCAN_MOST (1ull << 20) /* no code of Trapline calls what goes deeper */
#define WORDS_AT_ONCE 256u
#define STACKS_MAX 8 /* of handlers that interrupt handlers */
#define STEP_NS 1000000
#define SAMPLE_NS 100000
#define SAMPLE_NAP_NS 1000000
#define SAMPLE_NAPS 200 /* on a busy machine it waits for a CPU */
#define SAMPLE_STACK 32768u
#define SAMPLE_RING (16 * PAGE_BYTES)
/* In a signal frame, from the return address on: the context of what was interrupted. */
#define CONTEXT_RSP (8 + 160)

enum {
	IS_CODE = 1,
	IS_OURS = 2,
};

struct map {
	uint64_t start;
	uint64_t end;
	uint32_t is;
};

struct look {
	pid_t self;
	uint32_t inside; /* threads of this round that are, or may be */
	uint32_t count;
	struct map maps[MAPS_MAX]; /* in their order */
};

static int add_map(struct look *look, const struct maps_row *row)
{
	struct map *m = &look->maps[look->count];

	if (look->count == MAPS_MAX - 1)
		return -E2BIG;
	m->start = row->start;
	m->end = row->end;
	m->is = row->mode[2] == 'x' ? IS_CODE : 0;
	if (m->is & IS_CODE && (!*row->name || strstr(row->name, "memfd:trapline")))
		m->is |= IS_OURS;
	look->count++;
	return 0;
}

static int read_maps(struct look *look)
{
	struct maps maps;
	char name[64];
	int err = 0;

	look->count = 0;
	maps_open(&maps, 0, name, sizeof(name));
	for (const struct maps_row *row; !err && (row = maps_next(&maps));)
		err = add_map(look, row);
	const int failed = maps_close(&maps);
	return err ? err : failed;
}

/* NULL: nothing is mapped there. */
static const struct map *map_at(const struct look *look, uint64_t address)
{
	uint32_t low = 0;
	uint32_t high = look->count;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (look->maps[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < look->count && look->maps[low].start <= address ? &look->maps[low] : NULL;
}

static int is_ours(const struct look *look, uint64_t address)
{
	const struct map *m = map_at(look, address);

	return m && m->is & IS_CODE && (m->is & IS_OURS || own_code_has(address));
}

/* Where a handler returns to: rt_sigreturn(2). */
static int is_restorer(const struct look *look, uint64_t address)
{
	static const uint8_t restore[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	const struct map *m = map_at(look, address);
	uint8_t bytes[sizeof(restore)];

	return m && m->is & IS_CODE &&
	       sys_read_memory(sys_getpid(), address, bytes, sizeof(bytes)) == sizeof(bytes) &&
	       !memcmp(bytes, restore, sizeof(bytes));
}

/*
 * One stack. 1: a word is in Trapline's code, or the stack cannot be read. interrupted: the stack
 * below a handler, or 0.
 */
static int has_frame(const struct look *look, uint64_t sp, uint64_t *interrupted)
{
	const struct map *m = map_at(look, sp);
	uint64_t words[WORDS_AT_ONCE];

	*interrupted = 0;
	if (!m)
		return 1;
	const uint64_t end = m->end - sp < SCAN_MOST ? m->end : sp + SCAN_MOST;
	for (uint64_t at = sp & ~7ull; at < end; at += sizeof(words)) {
		const size_t n = end - at < sizeof(words) ? end - at : sizeof(words);

		if (sys_read_memory(sys_getpid(), at, words, n) != (ssize_t)n)
			return 1;
		for (size_t i = 0; i < n / sizeof(words[0]); i++) {
			if (is_ours(look, words[i]))
				return 1;
			if (!*interrupted && is_restorer(look, words[i]) &&
			    sys_read_memory(sys_getpid(), at + i * 8 + CONTEXT_RSP, interrupted,
					    sizeof(*interrupted)) != sizeof(*interrupted))
				return 1;
		}
	}
	return 0;
}

static int is_inside(const struct look *look, uint64_t pc, uint64_t sp)
{
	if (is_ours(look, pc))
		return 1;
	for (int i = 0; i < STACKS_MAX; i++) {
		uint64_t interrupted;

		if (has_frame(look, sp, &interrupted))
			return 1;
		if (!interrupted)
			return 0;
		sp = interrupted;
	}
	return 1;
}

/* ---- a thread that sleeps ---- */

struct asleep {
	long number; /* of the system call */
	uint64_t sp;
	uint64_t pc;
	char text[256];
	char ran[256];
};

static int read_of_thread(pid_t tid, const char *name, char *out, size_t n)
{
	struct lines lines;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)tid, name);
	int err = lines_open(&lines, path);
	if (err)
		return err;
	const char *line = lines_next(&lines);
	snprintf(out, n, "%s", line ? line : "");
	lines_close(&lines);
	return line ? 0 : -ESRCH;
}

/* 1: it does. 0: it runs, or that is not known. -ESRCH: it has ended. */
static int read_asleep(pid_t tid, struct asleep *out)
{
	int err = read_of_thread(tid, "schedstat", out->ran, sizeof(out->ran));

	if (!err)
		err = read_of_thread(tid, "syscall", out->text, sizeof(out->text));
	if (err)
		return err == -ENOENT || err == -ESRCH ? -ESRCH : 0;
	if (sscanf(out->text, "%ld", &out->number) != 1 || out->number < 0)
		return 0;
	return sscanf(out->text, "%*d %*x %*x %*x %*x %*x %*x %lx %lx", &out->sp, &out->pc) == 2;
}

/* A child by vfork() runs on, with Trapline's memory, and is not a thread of Trapline. */
static int may_have_child(long number)
{
	return number == SYS_vfork || number == SYS_clone || number == SYS_clone3;
}

/* 1: inside, or not known. 0: outside. -EAGAIN: it does not sleep. -ESRCH. */
static int look_asleep(const struct look *look, pid_t tid)
{
	struct asleep before;
	struct asleep after;
	int asleep = read_asleep(tid, &before);

	if (asleep <= 0)
		return asleep ? asleep : -EAGAIN;
	if (may_have_child(before.number))
		return 1;
	const int inside = is_inside(look, before.pc, before.sp);
	if (read_asleep(tid, &after) != 1 || strcmp(before.text, after.text) ||
	    strcmp(before.ran, after.ran))
		return -EAGAIN;
	return inside;
}

/* ---- a thread that runs ---- */

/* As sample_type and sample_regs_user below state it. */
struct sample {
	struct perf_event_header header;
	uint64_t abi;
	uint64_t sp;
	uint64_t pc;
	uint64_t stack_bytes;
	uint64_t stack[SAMPLE_STACK / 8]; /* and behind it how much of that is filled */
};

static int open_samples(pid_t tid)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	attr.sample_period = SAMPLE_NS;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	attr.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr.sample_regs_user = 1ull << PERF_REG_X86_SP | 1ull << PERF_REG_X86_IP;
	attr.sample_stack_user = SAMPLE_STACK;
	return sys_perf_event_open(&attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/*
 * The stack is that of the sample, and what it interrupted is read from the process: it stays as it
 * is.
 */
static int is_sample_inside(const struct look *look, const struct sample *s)
{
	const size_t filled = (size_t)s->stack[s->stack_bytes / 8];
	const struct map *m = map_at(look, s->sp);

	/* A longer stack is inspected where it sleeps. */
	if (is_ours(look, s->pc) || !m || !filled || m->end - s->sp > filled)
		return 1;
	for (size_t i = 0; i < filled / 8; i++)
		if (is_ours(look, s->stack[i]) || is_restorer(look, s->stack[i]))
			return 1;
	return 0;
}

/* 0: there is one, and it was outside. */
static int look_at_sample(const struct look *look, const struct perf_event_mmap_page *page)
{
	const struct sample *s = (const void *)((const char *)page + PAGE_BYTES);

	if (!__atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE) ||
	    s->header.type != PERF_RECORD_SAMPLE || s->abi != PERF_SAMPLE_REGS_ABI_64 ||
	    s->stack_bytes > SAMPLE_STACK)
		return -EAGAIN;
	return is_sample_inside(look, s);
}

static int look_running(const struct look *look, pid_t tid)
{
	const struct timespec nap = { 0, SAMPLE_NAP_NS };
	int result = -EAGAIN;
	int fd = open_samples(tid);

	if (fd < 0)
		return fd == -ESRCH ? fd : -EAGAIN;
	void *page = memory_map_shared(PAGE_BYTES + SAMPLE_RING, 1, fd, 0);
	if (!memory_failed(page)) {
		for (int i = 0; result == -EAGAIN && i < SAMPLE_NAPS; i++) {
			sys_nap(&nap);
			result = look_at_sample(look, page);
			if (result == -EAGAIN)
				result = look_asleep(look, tid);
		}
		memory_unmap(page, PAGE_BYTES + SAMPLE_RING);
	}
	sys_close(fd);
	return result;
}

/* ---- all of them ---- */

static int is_own_thread(pid_t tid)
{
	char name[32];

	return tid != sys_getpid() && !read_of_thread(tid, "comm", name, sizeof(name)) &&
	       own_thread_has_name(name);
}

static int look_at(void *arg, pid_t tid)
{
	struct look *look = arg;

	if (tid == look->self || is_own_thread(tid))
		return 0;
	int inside = look_asleep(look, tid);
	if (inside == -EAGAIN)
		inside = look_running(look, tid);
	look->inside += inside != 0 && inside != -ESRCH;
	return 0;
}

static int look_at_all(struct look *look)
{
	struct task_names names;
	int err = read_maps(look);

	look->inside = 0;
	return err ? err : tasks_each(sys_getpid(), &names, look_at, look);
}

/* Twice in a row: the kernel's list may leave out a thread while another one ends. */
static int wait_for_all(struct look *look, uint64_t deadline_ns)
{
	const struct timespec step = { 0, STEP_NS };

	for (int in_a_row = 0; in_a_row < 2;) {
		int err = look_at_all(look);

		if (err)
			return err;
		in_a_row = look->inside ? 0 : in_a_row + 1;
		if (look->inside && clock_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		if (look->inside)
			sys_nap(&step);
	}
	return 0;
}

int outside_wait(uint64_t most_ns)
{
	struct look *look = memory_map(sizeof(*look));

	if (memory_failed(look))
		return memory_error(look);
	look->self = sys_gettid();
	int err = wait_for_all(look, clock_now_ns() + most_ns);
	memory_unmap(look, sizeof(*look));
	return err;
}
