/* SPDX-License-Identifier: MIT */
/*
 * change.c - the lock, the sync, and one change of text step by step: see change.h.
 *
 * Memory that the handler may inspect is mapped, kept for the next change where it fits, and given
 * back only after quiesce_wait(). A thread that a debugger has stopped inside the handler makes
 * that fail: the memory waits then, however long.
 */
#include "code/poke/change.h"
#include "code/log/code_emit.h"
#include "code/log/code_stream.h"
#include "code/poke/history.h"
#include "code/poke/locked.h"
#include "code/poke/poke.h"
#include "code/poke/poke_trap.h"
#include "code/poke/poke_view.h"
#include "code/poke/quiesce.h"
#include "code/poke/region.h"
#include "code/poke/restartable.h"
#include "code/poke/text.h"
#include "code/poke/text_mem.h"
#include "code/poke/traps.h"

#include <errno.h>
#include <link.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/after_fork.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sort.h"
#include "base/sys.h"

#define WAITING_MAX 1024
#define SIGSET_BYTES 8
#define RESTORER_BYTES 16
#define QUIESCE_TRIES 900 /* of 2 ms and more */

extern char __start_trap_path[] __attribute__((visibility("hidden")));
extern char __stop_trap_path[] __attribute__((visibility("hidden")));

static AFTER_FORK pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static AFTER_FORK pid_t lock_tid; /* the thread that has the lock, 0: none */
static AFTER_FORK pid_t own_pid;  /* 0: not started */
static AFTER_FORK uint64_t saved_mask;
static AFTER_FORK int saved_cancel;

static trapline_code_log log_function;
static void *log_arg;
static uint64_t batch_number;

/* ---- start, lock, sync ---- */

int poke_start(struct code_problem *problem)
{
	if (atomic_get(&own_pid))
		return 0;
	if (sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0)) {
		problem->why = "membarrier() with SYNC_CORE is refused: it needs Linux 4.16 and no "
			       "seccomp filter against it";
		return -EOPNOTSUPP;
	}
	atomic_set(&own_pid, sys_getpid());
	return 0;
}

/*
 * A signal that the caller has blocked stays blocked: it may be sent to the process for another
 * thread.
 */
uint64_t poke_block_signals(void)
{
	const uint64_t synchronous = 1u << (SIGTRAP - 1) | 1u << (SIGSEGV - 1) |
				     1u << (SIGBUS - 1) | 1u << (SIGILL - 1) | 1u << (SIGFPE - 1) |
				     1u << (SIGSYS - 1);
	uint64_t mask = ~synchronous;
	uint64_t before = 0;

	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &mask, &before, SIGSET_BYTES);
	return before;
}

void poke_restore_signals(uint64_t before)
{
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, SIGSET_BYTES);
}

AT_FORK int poke_lock_take(struct code_problem *problem)
{
	pid_t tid = sys_gettid();
	uint64_t before;
	int cancel;

	if (poke_is_in_callback() || atomic_get(&lock_tid) == tid) {
		problem->why = "code cannot be changed from inside a callback";
		return -EDEADLK;
	}
	int err = poke_start(problem);
	if (err)
		return err;
	if (atomic_get(&own_pid) != sys_getpid()) {
		problem->why =
			"this is a child that shares its parent's memory (vfork), or was made "
			"without fork(): it must not change code";
		return -EPERM;
	}
	before = poke_block_signals();
	/* Nor may the thread end in the middle: reading /proc is a cancellation point. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&lock);
	saved_mask = before;
	saved_cancel = cancel;
	atomic_set(&lock_tid, tid);
	return 0;
}

AT_FORK void poke_lock_give(void)
{
	uint64_t mask = saved_mask;
	int cancel = saved_cancel;

	locked_forget();
	if (!text_mem_is_held())
		mapping_forget();
	atomic_set(&lock_tid, 0);
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancel, NULL);
	poke_restore_signals(mask);
}

int poke_sync(void)
{
	int again = 1;

	counter_add(&poke_stats.syncs, 1);
	for (;;) {
		long err = sys3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
		if (err != -EPERM || !again--)
			return (int)err;
		/*
		 * Not registered: a child made by clone() keeps Trapline's memory, not always that.
		 */
		sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	}
}

/* ---- memory ---- */

static struct {
	void *memory;
	size_t bytes;
} waiting[WAITING_MAX];
static size_t waiting_count;

static int handlers_are_gone(void)
{
	if (quiesce_wait()) {
		counter_add(&poke_stats.deferred, 1);
		return 0;
	}
	while (waiting_count) {
		waiting_count--;
		memory_unmap(waiting[waiting_count].memory, waiting[waiting_count].bytes);
	}
	return 1;
}

/* When even the list is full, a megabyte may be lost, but no thread loses code that it runs. */
static void put_aside(void *memory, size_t bytes)
{
	if (waiting_count == WAITING_MAX)
		return;
	waiting[waiting_count].memory = memory;
	waiting[waiting_count].bytes = bytes;
	waiting_count++;
}

void poke_retire(void *memory, size_t bytes)
{
	if (!memory)
		return;
	if (handlers_are_gone())
		memory_unmap(memory, bytes);
	else
		put_aside(memory, bytes);
}

/* Kept from one change to the next: fresh pages cost more than the change itself. */
struct buffer {
	void *memory;
	size_t bytes;
};
static struct buffer spare_batch;
static struct buffer spans_buffer;
static struct buffer images_buffer;

static int buffer_need(struct buffer *buffer, size_t bytes)
{
	if (buffer->bytes >= bytes)
		return 0;
	size_t rounded = (bytes + bytes / 2 + PAGE_BYTES) & ~(size_t)(PAGE_BYTES - 1);
	void *memory = memory_map(rounded);
	if (memory_failed(memory))
		return -ENOMEM;
	if (buffer->memory)
		memory_unmap(buffer->memory, buffer->bytes);
	buffer->memory = memory;
	buffer->bytes = rounded;
	return 0;
}

int poke_quiesce(void)
{
	for (int i = 0; i < QUIESCE_TRIES; i++)
		if (handlers_are_gone())
			return 0;
	return -EBUSY;
}

pid_t poke_pid(void)
{
	return atomic_get(&own_pid);
}

uint64_t poke_changes_begun(void)
{
	return batch_number;
}

/* ---- a change ---- */

/* The kernel's idea of Trapline's handler has it. */
uint64_t change_find_restorer(void)
{
	uint64_t action[4] = { 0 };

	sys4(SYS_rt_sigaction, SIGTRAP, NULL, action, SIGSET_BYTES);
	return action[2];
}

/* Without a restorer a handler returns to the kernel's object, which it calls for the time too. */
static void find_way_back(struct change *change)
{
	const char *object = (const char *)getauxval(AT_SYSINFO_EHDR);
	const ElfW(Ehdr) *const head = (const void *)object;

	change->restorer = change_find_restorer();
	change->restorer_bytes = RESTORER_BYTES;
	if (change->restorer || !head)
		return;
	change->restorer = (uintptr_t)object;
	for (int i = 0; i < head->e_phnum; i++) {
		const ElfW(Phdr) *ph =
			(const void *)(object + head->e_phoff + (size_t)i * head->e_phentsize);

		if (ph->p_type == PT_LOAD)
			change->restorer_bytes = ph->p_offset + ph->p_memsz;
	}
}

int change_is_needed_by_handler(const struct change *change, uint64_t address, size_t len)
{
	uint64_t from = (uintptr_t)__start_trap_path;
	uint64_t to = (uintptr_t)__stop_trap_path;
	uint64_t back = change->restorer;

	return (address < to && address + len > from) ||
	       (address < back + change->restorer_bytes && address + len > back);
}

int change_begin(struct change *change, size_t n, uint32_t writers, struct code_problem *problem)
{
	size_t bytes = sizeof(struct poke_batch) + n * sizeof(struct poke_entry);

	change->batch = NULL;
	change->form = TRAP_FORM;
	change->problem = problem;
	change->number = ++batch_number;
	find_way_back(change);
	problem->why = "no memory for the change";
	if (n > UINT32_MAX / sizeof(struct poke_entry))
		return -ENOMEM;
	if (buffer_need(&spare_batch, bytes) ||
	    buffer_need(&spans_buffer, n * sizeof(struct text_span)))
		return -ENOMEM;
	problem->why = NULL;
	change->batch = spare_batch.memory;
	change->batch->bytes = spare_batch.bytes;
	change->batch->count = n;
	change->batch->committed = 0;
	change->batch->is_long = 0;
	spare_batch = (struct buffer){ NULL, 0 };
	change->text = (struct text){
		.writers = (writers ? writers : UINT32_MAX) & CODE_WRITERS,
		.entries = change->batch->entries,
		.spans = spans_buffer.memory,
	};
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct poke_entry *x = a;
	const struct poke_entry *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

int change_sort(struct change *change)
{
	struct poke_entry *entries = change->batch->entries;
	size_t n = change->batch->count;
	int is_sorted = 1;

	for (size_t i = 1; i < n && is_sorted; i++)
		is_sorted = entries[i - 1].address <= entries[i].address;
	if (!is_sorted)
		sort_rows(entries, n, sizeof(*entries), compare_entries);
	for (size_t i = 1; i < n; i++) {
		if (entries[i - 1].address + entries[i - 1].len <= entries[i].address)
			continue;
		change->problem->site = entries[i].site;
		change->problem->why = "two sites overlap";
		return -EBUSY;
	}
	return 0;
}

static int need_images(struct change *change)
{
	struct text *text = &change->text;
	size_t bytes = 0;

	text_plan(text, change->batch->count);
	for (size_t i = 0; i < text->span_count; i++)
		bytes += text->spans[i].image_bytes;
	if (buffer_need(&images_buffer, bytes)) {
		change->problem->why = "no memory for the change";
		return -ENOMEM;
	}
	uint8_t *image = images_buffer.memory;
	for (size_t i = 0; i < text->span_count; i++) {
		text->spans[i].image = image;
		image += text->spans[i].image_bytes;
	}
	return 0;
}

/* Eight bytes or all of fewer: a call of memcmp() for each site would cost as much as the rest. */
static uint64_t first_bytes(const uint8_t *bytes, uint32_t len)
{
	uint64_t word = 0;

	if (len >= 8) {
		memcpy(&word, bytes, 8);
		return word;
	}
	for (uint32_t i = 0; i < len; i++)
		word |= (uint64_t)bytes[i] << i * 8;
	return word;
}

static int is_as_expected(const struct poke_entry *entry, const uint8_t *now)
{
	uint32_t rest = entry->len > 8 ? entry->len - 8 : 0;
	uint64_t before;

	memcpy(&before, entry->before, 8);
	return first_bytes(now, entry->len) == before &&
	       (!rest || !memcmp(now + 8, entry->before + 8, rest));
}

static int compare_span(struct change *change, const struct text_span *span,
			void (*differ)(struct poke_entry *))
{
	for (uint32_t i = span->first; i < span->end; i++) {
		struct poke_entry *entry = &change->batch->entries[i];

		if (is_as_expected(entry, span->image + (entry->address - span->start)))
			continue;
		if (differ) {
			differ(entry);
			continue;
		}
		change->problem->site = entry->site;
		change->problem->why =
			"the bytes at a site are not those expected: another patcher, a debugger's "
			"breakpoint, or not the code it was taken for; nothing has been written";
		return -EBUSY;
	}
	return 0;
}

int change_compare(struct change *change, void (*differ)(struct poke_entry *entry))
{
	uint64_t at = 0;
	int err = need_images(change);

	if (err)
		return err;
	err = text_read_spans(&change->text, 1, &at);
	if (err) {
		change->problem->site = change->batch->entries[at].site;
		change->problem->why = "a site is not mapped";
		return err;
	}
	for (size_t i = 0; i < change->text.span_count && !err; i++)
		err = compare_span(change, &change->text.spans[i], differ);
	return err;
}

int change_note(struct change *change)
{
	int err = history_add(change->batch);

	if (err)
		change->problem->why = err == -ENOSPC ?
					       "more than 128 MiB of text have been changed" :
					       "no memory for the change";
	return err;
}

/* All spans, also after one has failed; the first error. Failed ones are left out from then on. */
int change_write(struct change *change, enum text_phase phase)
{
	struct text *text = &change->text;
	uint64_t at;
	int first_error = 0;

	/* Read again, so that little time lies between what others write in the page and this. */
	if (phase != TEXT_INT3)
		first_error = text_read_spans(text, 0, &at);
	for (size_t i = 0; i < text->span_count; i++) {
		struct text_span *span = &text->spans[i];
		size_t done = text_write_run(text, i, phase);
		int err = done || span->is_failed ?
				  0 :
				  text_write(text, span, phase, &change->problem->why);

		i += done ? done - 1 : 0;
		if (!err)
			continue;
		span->is_failed = 1;
		change->problem->site = change->batch->entries[span->first].site;
		if (!first_error)
			first_error = err;
	}
	return first_error;
}

void change_end(struct change *change)
{
	struct poke_batch *batch = change->batch;

	text_close(&change->text);
	if (!batch)
		return;
	if (atomic_get(&poke_view.batch) != batch) {
		/* Never published, or left to the handler for ever. */
		if (!batch->is_stranded)
			spare_batch = (struct buffer){ batch, batch->bytes };
		return;
	}
	atomic_set(&poke_view.batch, NULL);
	if (handlers_are_gone())
		spare_batch = (struct buffer){ batch, batch->bytes };
	else
		put_aside(batch, batch->bytes);
}

/* ---- the log ---- */

int poke_set_log(trapline_code_log log, void *arg, struct code_problem *problem)
{
	int err = poke_lock_take(problem);

	if (err)
		return err;
	log_function = log;
	log_arg = arg;
	poke_lock_give();
	return 0;
}

int poke_log_is_on(void)
{
	return log_function != NULL || code_emit_is_on();
}

void poke_report(const struct change *change, enum trapline_code_stage stage)
{
	code_stream_stage(change, stage);
	if (!log_function)
		return;
	struct trapline_code_record record = {
		.size = sizeof(record),
		.arg = log_arg,
		.time_ns = clock_now_ns(),
		.batch = change->number,
		.stage = stage,
		.count = change->batch->count,
	};
	struct trapline_poke_site *sites = NULL;

	if (stage == TRAPLINE_CODE_BEGIN)
		sites = malloc(record.count * sizeof(*sites));
	for (size_t i = 0; sites && i < record.count; i++) {
		const struct poke_entry *entry = &change->batch->entries[i];

		sites[i] = (struct trapline_poke_site){ entry->address, entry->before, entry->after,
							entry->len };
	}
	record.sites = sites;
	log_function(&record);
	free(sites);
}

/* ---- fork ---- */

/*
 * The thread that forks ran the handler before the fork: code may be changed for the first time
 * between the handlers.
 */
static __thread int fork_was_seen __attribute__((tls_model("initial-exec")));
static AFTER_FORK uint64_t fork_ns;
/* By the forking thread; else it forks from inside a callback. */
static AFTER_FORK int fork_holds_lock;

AT_FORK void poke_before_fork(void)
{
	struct code_problem problem;

	if (!atomic_get(&own_pid))
		return;
	fork_was_seen = 1;
	restartable_before_fork();
	if (poke_lock_take(&problem))
		return;
	fork_holds_lock = 1;
	fork_ns = clock_now_ns();
	region_before_fork();
}

AT_FORK void poke_after_fork_in_parent(void)
{
	if (!fork_was_seen)
		return;
	fork_was_seen = 0;
	restartable_after_fork_in_parent();
	if (atomic_get(&lock_tid) != sys_gettid() || !fork_holds_lock)
		return;
	region_after_fork_in_parent();
	fork_holds_lock = 0;
	poke_lock_give();
}

/*
 * Forked from inside a callback while another thread changed code: the traps of that change are in
 * the child, where the handler takes each thread past them for ever. It stays -EPERM to poke there.
 */
AT_FORK void poke_after_fork_in_child(void)
{
	if (!fork_was_seen)
		return;
	fork_was_seen = 0;
	restartable_after_fork_in_child();
	text_mem_after_fork_in_child();
	mapping_forget();
	quiesce_reset();
	traps_after_fork_in_child();
	if (!fork_holds_lock && atomic_get(&lock_tid))
		return;
	pid_t parent = atomic_swap(&own_pid, sys_getpid());
	/* Without the lock it is not known what the parent had changed by then. */
	code_stream_after_fork_in_child(fork_holds_lock ? parent : 0, fork_ns);
	if (!fork_holds_lock)
		return;
	region_after_fork_in_child();
	fork_holds_lock = 0;
	poke_lock_give();
}
