/* SPDX-License-Identifier: MIT */
/*
 * restartable.c - the restartable sequences (rseq(2)) of the program and its libraries.
 *
 * The kernel aborts a sequence when a signal comes into it. An int3 there would abort it each time,
 * for ever, and its handler would find pc at the abort handler: a trap that is not known. So no
 * int3 is put into one. A sequence is known by its descriptor, struct rseq_cs of <linux/rseq.h>: 32
 * bytes, aligned to 32, in data that was loaded from the file. It is also known by the signature
 * before its abort handler, which chance does not write (rseq_get_rseq_cs() in kernel/rseq.c wants
 * it there). The kernel reads that signature at each abort and ends the process if it is another
 * one, so there is no int3 in it either.
 */
#include <link.h>
#include <string.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/memory.h"
#include "base/restart.h"
#include "base/sys.h"
#include "base/table_size.h"
#include "code/poke/change.h"
#include "code/poke/restartable.h"

#define ROWS_MAX TABLE_SIZE(1024, 2) /* two for each sequence */
#define SEQUENCE_BYTES_MAX 65536u
#define FORK_NAP_NS 100000
#define FORK_NAPS 10000 /* a second and more */

struct descriptor {
	uint32_t version;
	uint32_t flags;
	uint64_t start;
	uint64_t bytes;
	uint64_t abort;
};

struct restartable {
	unsigned long long loads; /* objects that ever came and went */
	uint32_t count;
	struct {
		uint64_t start;
		uint64_t end;
	} rows[ROWS_MAX];
};

static struct restartable known;

const char restartable_why[] =
	"part of a restartable sequence (rseq), which a trap would abort each time";

static int is_in_text(const struct dl_phdr_info *info, uint64_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && ph->p_flags & PF_X &&
		    address - info->dlpi_addr - ph->p_vaddr < ph->p_memsz)
			return 1;
	}
	return 0;
}

static int is_sequence(const struct dl_phdr_info *info, const struct descriptor *d)
{
	uint32_t signature;

	if (d->version || !d->bytes || d->bytes > SEQUENCE_BYTES_MAX ||
	    !is_in_text(info, d->start) || !is_in_text(info, d->abort - sizeof(signature)))
		return 0;
	memcpy(&signature, (const char *)(uintptr_t)d->abort - sizeof(signature),
	       sizeof(signature));
	return signature == RSEQ_SIGNATURE;
}

/*
 * Without room the last row grows over what is between: too much is refused then, and not too
 * little.
 */
static void add_row(struct restartable *look, uint64_t start, uint64_t end)
{
	if (look->count < ROWS_MAX) {
		look->rows[look->count].start = start;
		look->rows[look->count++].end = end;
		return;
	}
	if (start < look->rows[ROWS_MAX - 1].start)
		look->rows[ROWS_MAX - 1].start = start;
	if (end > look->rows[ROWS_MAX - 1].end)
		look->rows[ROWS_MAX - 1].end = end;
}

static void look_at_data(const struct dl_phdr_info *info, uint64_t start, uint64_t bytes,
			 struct restartable *look)
{
	uint64_t end = start + bytes;

	for (uint64_t at = (start + 31) & ~31ull; at + sizeof(struct descriptor) <= end; at += 32) {
		struct descriptor d;

		memcpy(&d, (const void *)(uintptr_t)at, sizeof(d));
		if (!is_sequence(info, &d))
			continue;
		add_row(look, d.start, d.start + d.bytes);
		add_row(look, d.abort - sizeof(uint32_t), d.abort);
	}
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
	*(unsigned long long *)arg = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct restartable *look = arg;

	look->loads = info->dlpi_adds + info->dlpi_subs;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_R) || ph->p_flags & PF_X)
			continue;
		/* Addresses are relocated, so they are in writable data, if there is anything to
		 * relocate by. */
		if (ph->p_flags & PF_W || !info->dlpi_addr)
			look_at_data(info, info->dlpi_addr + ph->p_vaddr, ph->p_filesz, look);
	}
	return 0;
}

/* ---- around fork ---- */

/*
 * A child gets the loader's lock, which dl_iterate_phdr() takes, as it is just then, and libc does
 * not release it there. In glibc 2.36, fork() sets up _dl_load_lock again, and not
 * _dl_load_write_lock. A child made during a search could never load a library again. So a fork
 * waits until no thread searches, and a thread that wants to search until no thread forks.
 */
static AFTER_FORK uint32_t forks;
static AFTER_FORK uint32_t looks;
static uint32_t is_loader_stuck; /* nothing comes or goes any more */
static __thread uint32_t own_forks __attribute__((tls_model("initial-exec")));

static void nap(void)
{
	struct timespec ts = { 0, FORK_NAP_NS };

	sys_nap(&ts);
}

/*
 * A fork handler of the program may ask for it in the middle of its fork. Without signals, whose
 * handlers may fork.
 */
static uint64_t begin_look(void)
{
	uint64_t mask = poke_block_signals();

	for (;;) {
		atomic_add(&looks, 1u);
		if (atomic_get(&forks) == own_forks)
			return mask;
		atomic_add(&looks, -1u);
		nap();
	}
}

static void end_look(uint64_t mask)
{
	atomic_add(&looks, -1u);
	poke_restore_signals(mask);
}

/*
 * It does not wait for ever: the thread that searches may be waiting for the forking thread itself,
 * which forks from inside a callback of dl_iterate_phdr().
 */
AT_FORK void restartable_before_fork(void)
{
	atomic_add(&forks, 1u);
	own_forks++;
	for (int i = 0; i < FORK_NAPS && atomic_get(&looks); i++)
		nap();
}

AT_FORK void restartable_after_fork_in_parent(void)
{
	own_forks--;
	atomic_add(&forks, -1u);
}

AT_FORK void restartable_after_fork_in_child(void)
{
	if (atomic_get(&looks))
		atomic_set(&is_loader_stuck, 1u);
	atomic_set(&looks, 0u);
	atomic_set(&forks, 0u);
	own_forks = 0;
}

/* ---- looks ---- */

static struct restartable *look(void)
{
	unsigned long long loads = 0;

	dl_iterate_phdr(count_loads, &loads);
	if (loads == counter_get(&known.loads))
		return NULL;
	struct restartable *look = memory_map(sizeof(*look));
	if (memory_failed(look))
		return NULL;
	dl_iterate_phdr(on_object, look);
	return look;
}

struct restartable *restartable_look(void)
{
	if (atomic_get(&is_loader_stuck))
		return NULL;
	uint64_t mask = begin_look();
	struct restartable *found = look();

	end_look(mask);
	return found;
}

void restartable_take(struct restartable *look)
{
	if (look)
		memcpy(&known, look, sizeof(known));
	restartable_drop(look);
}

void restartable_drop(struct restartable *look)
{
	if (look)
		memory_unmap(look, sizeof(*look));
}

int restartable_has(uint64_t address, uint64_t bytes)
{
	for (uint32_t i = 0; i < known.count; i++)
		if (address < known.rows[i].end && address + bytes > known.rows[i].start)
			return 1;
	return 0;
}
