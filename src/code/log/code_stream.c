/* SPDX-License-Identifier: MIT */
/* code_stream.c - see code_stream.h; record/code_layout.h has the format. */
#include "code/log/code_stream.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "base/after_fork.h"
#include "base/clock.h"
#include "base/sys.h"
#include "code/log/code_emit.h"

#define FD_FIRST 200 /* above what a program counts on */
#define PIECE_BYTES 3072u
#define PATH_BYTES_MAX 2048u

static void emit_start(pid_t parent, uint64_t fork_ns)
{
	struct code_record record;

	code_open(&record.head, CODE_FORMAT);
	code_put(&record.head, CODE_MAGIC, 8);
	code_put32(&record.head, CODE_VERSION);
	code_put32(&record.head, CODE_CLOCK_MONOTONIC);
	code_emit(&record.head);
	code_open(&record.head, CODE_START);
	/* Not the contents of AT_RANDOM, which are a secret: where they are. */
	code_put64(&record.head, getauxval(AT_RANDOM) ^ getauxval(AT_SYSINFO_EHDR) << 16);
	code_put32(&record.head, (uint32_t)parent);
	code_put32(&record.head, !parent && poke_changes_begun() != 0);
	code_put64(&record.head, fork_ns);
	code_emit(&record.head);
}

static int emit_end(void)
{
	struct code_record record;

	code_open(&record.head, CODE_END);
	return code_emit(&record.head);
}

/* ---- objects ---- */

static unsigned long long objects_seen; /* that ever came and went, when they were named last */

static uint32_t find_id(const struct dl_phdr_info *info, const uint8_t **id)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const uint8_t *at = (const uint8_t *)(info->dlpi_addr + ph->p_vaddr);
		const uint8_t *end = at + ph->p_memsz;

		while (ph->p_type == PT_NOTE && (size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *note = (const void *)at;
			const uint8_t *name = at + sizeof(*note);

			*id = name + ((note->n_namesz + 3u) & ~3u);
			if (*id + note->n_descsz > end)
				break;
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
			    note->n_descsz <= CODE_ID_MAX && !memcmp(name, "GNU", 4))
				return note->n_descsz;
			at = *id + ((note->n_descsz + 3u) & ~3u);
		}
	}
	return 0;
}

static void emit_object(const struct dl_phdr_info *info, const ElfW(Phdr) * ph, const char *path)
{
	struct code_record record;
	const uint8_t *id = NULL;
	uint32_t id_bytes = find_id(info, &id);
	size_t n = strnlen(path, PATH_BYTES_MAX);

	code_open(&record.head, CODE_MAP);
	code_put64(&record.head, info->dlpi_addr + ph->p_vaddr);
	code_put64(&record.head, ph->p_memsz);
	code_put64(&record.head, ph->p_offset);
	code_put32(&record.head, id_bytes);
	code_put32(&record.head, (uint32_t)n + 1);
	code_put(&record.head, id, id_bytes);
	code_put(&record.head, path, n);
	code_put(&record.head, "", 1);
	code_emit(&record.head);
}

static int name_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *path = info->dlpi_name;
	char own[PATH_BYTES_MAX] = "";

	if (objects_seen == info->dlpi_adds + info->dlpi_subs)
		return 1;
	*(unsigned long long *)arg = info->dlpi_adds + info->dlpi_subs;
	/* The first object is the program, which the loader does not name. */
	if (!*path && sys4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", own, sizeof(own) - 1) > 0)
		path = own;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)
			emit_object(info, &info->dlpi_phdr[i], path);
	return 0;
}

void code_stream_objects(void)
{
	unsigned long long seen = objects_seen;

	if (!code_emit_is_on())
		return;
	/* A record that finds a pipe closed must not end the program. */
	uint64_t before = poke_block_signals();
	dl_iterate_phdr(name_object, &seen);
	objects_seen = seen;
	poke_restore_signals(before);
}

/* ---- where it goes ---- */

static int check_descriptor(int fd, struct code_problem *problem)
{
	struct stat st;
	long flags = sys3(SYS_fcntl, fd, F_GETFL, 0);

	problem->why = "no such descriptor, or it cannot be written to";
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY ||
	    sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH))
		return -EBADF;
	problem->why = "the descriptor blocks, and so would the thread that changes code: set "
		       "O_NONBLOCK";
	if (!S_ISREG(st.st_mode) && !(flags & O_NONBLOCK))
		return -EINVAL;
	problem->why = "not a file, a pipe or a device";
	return S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) ? 0 : -EINVAL;
}

static void drop_descriptor(void)
{
	int fd = code_sink.fd - 1;

	if (fd < 0)
		return;
	/* The program may have closed it, and have another one of that number. */
	int is_others = emit_end() == -EBADF;
	atomic_set(&code_sink.fd, 0);
	if (!is_others)
		sys_close(fd);
}

/* A pipe also for reading: when its reader has ended, no SIGPIPE ends this process. */
static int reopen_pipe(int fd)
{
	char path[32];
	struct stat st;

	if (sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) || !S_ISFIFO(st.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return (int)sys4(SYS_openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
}

static int duplicate(int fd)
{
	int pipe = reopen_pipe(fd);
	int from = pipe < 0 ? fd : pipe;
	long own = sys3(SYS_fcntl, from, F_DUPFD_CLOEXEC, FD_FIRST);

	if (own < 0)
		own = sys3(SYS_fcntl, from, F_DUPFD_CLOEXEC, 3);
	if (pipe >= 0)
		sys_close(pipe);
	return (int)own;
}

static int take_descriptor(int fd, struct code_problem *problem)
{
	struct stat st;
	long own = duplicate(fd);

	problem->why = "no descriptor is free";
	if (own < 0)
		return (int)own;
	sys4(SYS_newfstatat, own, "", &st, AT_EMPTY_PATH);
	drop_descriptor();
	code_sink = (struct code_sink){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.source = (uintptr_t)&code_sink,
	};
	atomic_set(&code_sink.fd, (int)own + 1);
	emit_start(0, 0);
	problem->why = "the descriptor takes no record";
	if (!code_sink.lost_changes)
		return 0;
	atomic_set(&code_sink.fd, 0);
	sys_close((int)own);
	return -EIO;
}

int code_stream_to(int fd, struct code_problem *problem)
{
	int err = fd < 0 ? 0 : check_descriptor(fd, problem);

	if (!err)
		err = poke_lock_take(problem);
	if (err)
		return err;
	if (fd < 0)
		drop_descriptor();
	else
		err = take_descriptor(fd, problem);
	objects_seen = 0;
	poke_lock_give();
	if (!err)
		code_stream_objects();
	return err;
}

/*
 * The number of a command that has ended may be that of another process: its pipe is not this one.
 */
static int open_pipe_of(const char *text, uint64_t inode)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "%.*s", (int)strcspn(text, "#"), text);
	int fd = (int)sys4(SYS_openat, AT_FDCWD, path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
			   0);
	if (fd >= 0 && !sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) && S_ISFIFO(st.st_mode) &&
	    st.st_ino == inode)
		return fd;
	if (fd >= 0)
		sys_close(fd);
	return -ENOENT;
}

void code_stream_by_environment(void)
{
	const char *text = secure_getenv("TRAPLINE_CODE_LOG");
	struct code_problem problem = { NULL, 0 };
	unsigned long long inode = 0;
	int is_pipe = text && sscanf(text, "/proc/%*d/fd/%*d#%llu", &inode) == 1;

	if (!text || !*text || code_emit_is_on())
		return;
	int fd = is_pipe ? open_pipe_of(text, inode) :
			   (int)sys4(SYS_openat, AT_FDCWD, text,
				     O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY |
					     O_CLOEXEC,
				     0600);
	if (fd < 0)
		return;
	code_stream_to(fd, &problem);
	sys_close(fd);
}

AT_FORK void code_stream_after_fork_in_child(pid_t parent, uint64_t fork_ns)
{
	if (atomic_get(&code_sink.fd))
		emit_start(parent, fork_ns);
}

/* ---- changes ---- */

static uint32_t form_of(const struct change *change)
{
	return change->form;
}

static void open_sites(struct code_record *record, const struct change *change, size_t first)
{
	code_open(&record->head, CODE_SITES);
	code_put64(&record->head, change->number);
	code_put32(&record->head, form_of(change));
	code_put32(&record->head, (uint32_t)first);
	code_put32(&record->head, (uint32_t)change->batch->count);
	code_put32(&record->head, 0);
}

static void close_sites(struct code_record *record, uint32_t count)
{
	memcpy(record->payload + 20, &count, sizeof(count));
	code_emit(&record->head);
}

static void emit_sites(const struct change *change)
{
	struct code_record record;
	uint32_t count = 0;

	open_sites(&record, change, 0);
	for (size_t i = 0; i < change->batch->count; i++) {
		const struct poke_entry *entry = &change->batch->entries[i];
		uint8_t len = (uint8_t)entry->len;

		if (code_room(&record.head) < 9u + 2u * SITE_MAX + 8u) {
			close_sites(&record, count);
			open_sites(&record, change, i);
			count = 0;
		}
		code_put64(&record.head, entry->address);
		code_put(&record.head, &len, 1);
		code_put(&record.head, entry->before, len);
		code_put(&record.head, entry->after, len);
		count++;
	}
	close_sites(&record, count);
}

void code_stream_stage(const struct change *change, enum trapline_code_stage stage)
{
	struct code_record record;

	if (!code_emit_is_on())
		return;
	if (stage == TRAPLINE_CODE_BEGIN) {
		emit_sites(change);
		return;
	}
	code_open(&record.head, CODE_STAGE);
	code_put64(&record.head, change->number);
	code_put32(&record.head, stage);
	code_emit(&record.head);
}

static void emit_piece(const struct code_fresh *fresh, size_t from, size_t len)
{
	struct code_record record;
	uint32_t pairs = from ? 0 : fresh->pair_count;

	code_open(&record.head, CODE_SLOT);
	code_put64(&record.head, fresh->begin_ns);
	code_put64(&record.head, fresh->address + from);
	code_put64(&record.head, fresh->origin);
	code_put32(&record.head, (uint32_t)len);
	code_put32(&record.head, pairs);
	for (uint32_t i = 0; i < pairs; i++) {
		code_put32(&record.head, fresh->pairs[i].offset);
		code_put64(&record.head, fresh->pairs[i].origin);
	}
	code_put(&record.head, fresh->bytes + from, len);
	code_emit(&record.head);
}

void code_stream_slot(const struct code_fresh *fresh)
{
	if (!code_emit_is_on())
		return;
	for (size_t from = 0; from < fresh->len; from += PIECE_BYTES) {
		size_t rest = fresh->len - from;

		emit_piece(fresh, from, rest < PIECE_BYTES ? rest : PIECE_BYTES);
	}
}

void code_stream_fill(uint64_t begin_ns, uint64_t address, uint64_t bytes, uint32_t value)
{
	struct code_record record;

	if (!code_emit_is_on())
		return;
	code_open(&record.head, CODE_FILL);
	code_put64(&record.head, begin_ns);
	code_put64(&record.head, address);
	code_put64(&record.head, bytes);
	code_put32(&record.head, value);
	code_emit(&record.head);
}

/* A program that ends by exit(): up to here the stream is whole. */
__attribute__((destructor)) static void end_at_exit(void)
{
	struct code_problem problem;

	if (code_emit_is_on())
		code_stream_to(-1, &problem);
}
