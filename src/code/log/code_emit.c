/* SPDX-License-Identifier: MIT */
/*
 * code_emit.c - see code_emit.h.
 *
 * One write for each record: no buffer, so nothing is lost with the process, and no lock, so a
 * handler writes too. A program that closes all descriptors, and opens others under these numbers,
 * must not find records there: the descriptor is compared before each write.
 */
#include "code/log/code_emit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/trap_path.h"

struct code_sink code_sink;

struct small_record {
	struct code_head head;
	uint8_t payload[32];
};

TRAP_PATH int code_emit_is_on(void)
{
	return atomic_get(&code_sink.fd) != 0;
}

/* Also in part: what follows could not be read. Only a file takes a part, when the disk is full. */
TRAP_PATH static int write_whole(const struct code_head *head)
{
	int fd = atomic_get(&code_sink.fd) - 1;
	struct stat st;

	if (fd < 0 || sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) ||
	    st.st_dev != code_sink.dev || st.st_ino != code_sink.ino)
		return -EBADF;
	ssize_t n = sys_write(fd, head, head->bytes);
	if (n == head->bytes)
		return 0;
	if (n >= 0)
		atomic_set(&code_sink.fd, 0);
	return n < 0 ? (int)n : -EIO;
}

TRAP_PATH static void fill_head(struct code_head *head)
{
	head->pid = sys_getpid();
	head->tid = sys_gettid();
	head->source = code_sink.source;
	head->time_ns = clock_now_ns();
}

TRAP_PATH static void count_lost(const struct code_head *head)
{
	uint64_t none = 0;

	atomic_cas(&code_sink.lost_since, &none, head->time_ns);
	if (head->kind == CODE_HIT)
		atomic_add(&code_sink.lost_hits, 1u);
	else
		atomic_add(&code_sink.lost_changes, 1u);
}

/* Before the record that found room again. */
TRAP_PATH static int report_lost(void)
{
	struct small_record lost;
	uint32_t changes = atomic_swap(&code_sink.lost_changes, 0);
	uint32_t hits = atomic_swap(&code_sink.lost_hits, 0);

	if (!changes && !hits)
		return 0;
	code_open(&lost.head, CODE_LOST);
	code_put64(&lost.head, atomic_get(&code_sink.lost_since));
	code_put32(&lost.head, changes);
	code_put32(&lost.head, hits);
	fill_head(&lost.head);
	code_close(&lost.head);
	int err = write_whole(&lost.head);
	if (err) {
		atomic_add(&code_sink.lost_changes, changes);
		atomic_add(&code_sink.lost_hits, hits);
	} else {
		atomic_set(&code_sink.lost_since, 0);
	}
	return err;
}

TRAP_PATH int code_emit(struct code_head *record)
{
	fill_head(record);
	int err = report_lost();
	if (!err) {
		fill_head(record);
		code_close(record);
		err = write_whole(record);
	}
	if (err)
		count_lost(record);
	return err;
}

TRAP_PATH void code_emit_hit(uint64_t address, uint64_t resume, uint32_t is_orphan)
{
	struct small_record hit;

	if (!code_emit_is_on())
		return;
	code_open(&hit.head, CODE_HIT);
	code_put64(&hit.head, address);
	code_put64(&hit.head, resume);
	code_put32(&hit.head, is_orphan);
	code_emit(&hit.head);
}
