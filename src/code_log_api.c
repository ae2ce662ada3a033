/* SPDX-License-Identifier: MIT */
/* code_log_api.c - the entry points of <trapline/code_log.h>: check arguments, call down. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <trapline/code_log.h>

#include "base/sys.h"
#include "code/log/code_stream_to.h"
#include "core/code_start.h"
#include "core/explain.h"
#include "record/code_parse.h"
#include "record/code_parse_at.h"

#define BYTES_MAX (1l << 30)
#define LEN_MAX 4096u

TRAPLINE_API int trapline_log_code_to(int fd)
{
	struct code_problem problem = { NULL, 0 };
	int err = code_start();

	if (!err)
		err = code_stream_to(fd, &problem);
	return err && problem.why ? failed(err, FAILED_CODE, problem.why) : err;
}

static int wrong_log(int err)
{
	return err == -EBADMSG ?
		       failed(err, FAILED_ARGUMENT, "not a code log") :
	       err == -EPROTO ?
		       failed(err, FAILED_ARGUMENT, "a code log of another version of trapline") :
		       err;
}

static int read_bytes(int fd, size_t bytes, uint8_t **out)
{
	uint8_t *data = malloc(bytes ? bytes : 1);
	size_t done = 0;

	if (!data)
		return -ENOMEM;
	while (done < bytes) {
		ssize_t n = sys_read(fd, data + done, bytes - done);

		if (n == -EINTR)
			continue;
		if (n <= 0) {
			free(data);
			return n ? (int)n : -EBADMSG;
		}
		done += (size_t)n;
	}
	*out = data;
	return 0;
}

static int read_file(const char *path, uint8_t **out, size_t *bytes)
{
	struct stat st;
	int fd = (int)sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);

	if (fd < 0)
		return fd;
	int err = (int)sys4(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH);
	if (!err && !S_ISREG(st.st_mode))
		err = -EBADMSG;
	if (!err && st.st_size >= BYTES_MAX)
		err = -EFBIG;
	*bytes = (size_t)st.st_size;
	if (!err)
		err = read_bytes(fd, *bytes, out);
	sys_close(fd);
	return err;
}

TRAPLINE_API int trapline_code_log_open(const char *path, struct trapline_code_log **out)
{
	uint8_t *data = NULL;
	size_t bytes = 0;

	if (!path || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "path or out is NULL");
	int err = read_file(path, &data, &bytes);
	return wrong_log(err ? err : code_log_read(data, bytes, out));
}

TRAPLINE_API int trapline_code_log_parse(const void *bytes, size_t n,
					 struct trapline_code_log **out)
{
	if (!bytes || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "bytes or out is NULL");
	if (n >= (size_t)BYTES_MAX)
		return -EFBIG;
	uint8_t *copy = malloc(n ? n : 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, n);
	return wrong_log(code_log_read(copy, n, out));
}

TRAPLINE_API void trapline_code_log_close(struct trapline_code_log *log)
{
	code_log_free(log);
}

TRAPLINE_API int trapline_code_log_entry(const struct trapline_code_log *log, size_t index,
					 struct trapline_code_entry *entry)
{
	if (!log || !entry || entry->size < sizeof(*entry))
		return failed(-EINVAL, FAILED_ARGUMENT, "log is NULL, or entry.size is not set");
	if (index >= log->count)
		return -ENOENT;
	size_t size = entry->size;
	*entry = log->items[index].entry;
	entry->size = size;
	return 0;
}

TRAPLINE_API int trapline_code_at(const struct trapline_code_log *log, int32_t pid,
				  uint64_t address, uint64_t time_ns, void *bytes, size_t len,
				  struct trapline_code_span *span)
{
	if (!log || !bytes || !len || len > LEN_MAX || (span && span->size < sizeof(*span)))
		return failed(-EINVAL, FAILED_ARGUMENT,
			      "log or bytes is NULL, len is not 1 to 4096, or span.size is not "
			      "set");
	if (address > UINT64_MAX - len)
		return failed(-EINVAL, FAILED_ARGUMENT, "the range ends behind the address space");
	return code_log_at(log, pid, address, time_ns, bytes, len, span);
}
