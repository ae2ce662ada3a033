/* SPDX-License-Identifier: MIT */
/*
 * code_log.h - a stream of all changes to the code of processes, and what a decoder asks it.
 *
 * A decoder that follows an execution by its branches, such as one of Intel PT, needs the bytes
 * that a thread ran at a time. The stream has each change with the moments between which old
 * and new bytes can both run. The reader answers with bytes, or reports that it cannot know.
 *
 * Conventions are those of trapline.h.
 */
#ifndef TRAPLINE_CODE_LOG_H
#define TRAPLINE_CODE_LOG_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * trapline_log_code_to - write every change of code of this process to fd, as a stream.
 *
 * The library keeps a descriptor of its own. fd is a file, or a pipe that does not block
 * (O_NONBLOCK): the thread that changes code does not wait. Records that find no room
 * are lost, and the stream reports that. A forked child continues with the same stream. fd -1 ends
 * it. Errors: EBADF; EDEADLK the call comes from a callback; EINVAL the descriptor blocks;
 * EIO it takes no record; others as trapline_log_code(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_log_code_to(int fd);

/* A stream that has been read. */
struct trapline_code_log;

/*
 * trapline_code_log_open - read a stream from a file.
 *
 * Nothing in the file is trusted. It is read up to the first record that is damaged or not
 * complete. trapline_code_log_close() releases *out.
 * Errors: EBADMSG it is not such a stream; EFBIG it has 1 GiB or more; ENOMEM; EPROTO its
 * version is another one; others as open(2). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_code_log_open(const char *path, struct trapline_code_log **out);

/*
 * trapline_code_log_parse - read a stream from memory, which is copied.
 *
 * Errors: as trapline_code_log_open(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_code_log_parse(const void *bytes, size_t n,
					 struct trapline_code_log **out);

/* trapline_code_log_close - release it. NULL is permitted. MT-Safe. AS-Unsafe. */
TRAPLINE_API void trapline_code_log_close(struct trapline_code_log *log);

enum trapline_code_entry_kind {
	/* The record of a process begins. other is its parent after a fork, or 0. */
	TRAPLINE_CODE_ENTRY_START = 1,
	/* The record of a process ends. */
	TRAPLINE_CODE_ENTRY_END = 2,
	/* An object with code: other bytes at address, name and build id (after, len). */
	TRAPLINE_CODE_ENTRY_MAP = 3,
	/* One site of a batch that begins: before and after, of len bytes. */
	TRAPLINE_CODE_ENTRY_SITE = 4,
	/* A batch has reached stage. */
	TRAPLINE_CODE_ENTRY_STAGE = 5,
	/* New code at address, which no thread could reach before: after, of len bytes. */
	TRAPLINE_CODE_ENTRY_SLOT = 6,
	/* Memory of other bytes was filled with the byte at after, or unmapped (NULL). */
	TRAPLINE_CODE_ENTRY_FILL = 7,
	/* A thread met a trap of a batch at address, and continues at other. */
	TRAPLINE_CODE_ENTRY_HIT = 8,
	/* So many records (len) were lost since time other. */
	TRAPLINE_CODE_ENTRY_LOST = 9,
	/*
	 * The kernel changed its own code: before and after, of len bytes. Its int3 is left out:
	 * before time_ns a thread ran the old code or the int3, after it the new code or the int3.
	 * Either may be NULL.
	 */
	TRAPLINE_CODE_ENTRY_KERNEL_POKE = 10,
	/*
	 * The kernel has new code of len bytes at address, or it has freed it (stage 1). Which
	 * bytes it wrote is not known.
	 */
	TRAPLINE_CODE_ENTRY_KSYMBOL = 11,
};

struct trapline_code_entry {
	size_t size;
	/* It is an enum trapline_code_entry_kind. */
	uint32_t kind;
	/* 0 is the kernel. */
	int32_t pid;
	int32_t tid;
	/* It is an enum trapline_code_stage; for a hit 1 if the trap was gone already. */
	uint32_t stage;
	/* The clock is CLOCK_MONOTONIC. */
	uint64_t time_ns;
	/* Batches of one source count up from 1. */
	uint64_t source;
	uint64_t batch;
	uint64_t address;
	uint64_t other;
	size_t len;
	/* They are valid until the log is closed. */
	const uint8_t *before;
	const uint8_t *after;
	const char *name;
};

/*
 * trapline_code_log_entry - read entry index of the stream, in the order of the stream.
 *
 * entry->size must be set. Errors: EINVAL size; ENOENT there are fewer entries. MT-Safe.
 * AS-Safe.
 */
TRAPLINE_API int trapline_code_log_entry(const struct trapline_code_log *log, size_t index,
					 struct trapline_code_entry *entry);

/* The answer of trapline_code_at() is true in [from_ns, until_ns). */
struct trapline_code_span {
	size_t size;
	uint64_t from_ns;
	uint64_t until_ns;
	/* So many of the bytes are the log's; the caller's are left as they are. */
	size_t known;
};

/*
 * trapline_code_at - read which len bytes were at address of process pid at a time.
 *
 * The caller fills bytes with those of the program's file. Those that the log knows
 * replace them. Traps are bytes too: int3, or brk #0x5470 on arm64. span may be NULL.
 *
 * 0 is an answer. -EAGAIN: in this span a thread may run two different things, those of
 * the span before and those of the span behind. -ENODATA: the log does not know; the time is
 * before its begin, after its end, or records were lost. bytes are then as they were.
 * Errors: EINVAL len is 0 or over 4096, or span->size; ESRCH no such process. MT-Safe.
 * AS-Safe.
 */
TRAPLINE_API int trapline_code_at(const struct trapline_code_log *log, int32_t pid,
				  uint64_t address, uint64_t time_ns, void *bytes, size_t len,
				  struct trapline_code_span *span);

#ifdef __cplusplus
}
#endif

#endif
