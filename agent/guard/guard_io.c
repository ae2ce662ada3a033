/* SPDX-License-Identifier: MIT */
/*
 * guard_io.c - functions of libc that give memory of the program to the kernel.
 *
 * The kernel fails with EFAULT where the pool has no access. So what lies in the pool gets access
 * before the call, and what the call accessed beyond its block is reported after it. Calls that the
 * program makes without these functions, by syscall(2) or from inside libc, may fail. Two more
 * calls change memory of which the detector knows something.
 */
/* Each function has its own name: pread() is not pread64(), although they do the same here. */
#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_next.h"
#include "heap/heap_fault.h"
#include "heap/heap_frames.h"

#define PARTS 16 /* of a vector that are inspected */

struct part {
	const void *at;
	size_t bytes;
	size_t fine; /* bytes that are not an error */
};

struct parts {
	struct part part[PARTS];
	int count; /* that have an error, if all their bytes are accessed */
};

static void open_part(struct parts *parts, const void *at, size_t bytes)
{
	if (!heap_has(at) || !bytes || parts->count == PARTS)
		return;
	size_t fine = heap_open_for_call(at, bytes);
	if (fine < bytes)
		parts->part[parts->count++] = (struct part){ at, bytes, fine };
}

/* errno stays: this comes after the call. */
static void close_part(const struct part *part, size_t accessed, bool is_write,
		       const uint64_t *frame)
{
	int saved = errno;

	heap_self.busy++;
	heap_report_call(part->at, part->fine, accessed < part->bytes ? accessed : part->bytes,
			 is_write, frame);
	heap_self.busy--;
	errno = saved;
}

static void close_one(const struct parts *parts, ssize_t result, bool is_write,
		      const uint64_t *frame)
{
	if (parts->count)
		close_part(&parts->part[0], result > 0 ? (size_t)result : 0, is_write, frame);
}

/* The kernel refuses more, and a vector that cannot be read: with an error, not with a fault. */
static bool get_part(const struct iovec *v, size_t count, size_t i, struct iovec *out)
{
	return i < count && count <= IOV_MAX && heap_fault_copy(out, &v[i], sizeof(*out));
}

static void open_vector(struct parts *parts, const struct iovec *v, size_t count)
{
	struct iovec one;

	if (!heap_range.bytes || heap_is_over)
		return;
	for (size_t i = 0; get_part(v, count, i, &one); i++)
		open_part(parts, one.iov_base, one.iov_len);
}

/* Where a message has its vector; NULL: it cannot be read. */
static const struct iovec *vector_of(const struct msghdr *m, size_t *count)
{
	struct msghdr copy;

	*count = 0;
	if (!heap_range.bytes || heap_is_over || !heap_fault_copy(&copy, m, sizeof(copy)))
		return NULL;
	*count = copy.msg_iovlen;
	return copy.msg_iov;
}

/* The call went through the parts in order. */
static void close_vector(const struct parts *parts, const struct iovec *v, size_t count,
			 ssize_t result, bool is_write, const uint64_t *frame)
{
	size_t left = result > 0 ? (size_t)result : 0;
	struct iovec one;
	int next = 0;

	for (size_t i = 0; next < parts->count && get_part(v, count, i, &one); i++) {
		if (one.iov_base == parts->part[next].at)
			close_part(&parts->part[next++], left, is_write, frame);
		left -= left < one.iov_len ? left : one.iov_len;
	}
}

#define ONE(type, name, parameters, at, bytes, is_write, ...)    \
	GUARD(type, name, parameters)                            \
	{                                                        \
		struct parts parts = { .count = 0 };             \
                                                                 \
		NEXT(name);                                      \
		open_part(&parts, at, bytes);                    \
		type result = next_##name(__VA_ARGS__);          \
		close_one(&parts, result, is_write, GUARD_HERE); \
		return result;                                   \
	}

#define VECTOR(name, parameters, v, n, is_write, ...)                               \
	GUARD(ssize_t, name, parameters)                                            \
	{                                                                           \
		struct parts parts = { .count = 0 };                                \
                                                                                    \
		NEXT(name);                                                         \
		open_vector(&parts, v, (size_t)(n));                                \
		ssize_t result = next_##name(__VA_ARGS__);                          \
		close_vector(&parts, v, (size_t)(n), result, is_write, GUARD_HERE); \
		return result;                                                      \
	}

#define MESSAGE(name, parameters, m, is_write, ...)                           \
	GUARD(ssize_t, name, parameters)                                      \
	{                                                                     \
		struct parts parts = { .count = 0 };                          \
		size_t count;                                                 \
                                                                              \
		NEXT(name);                                                   \
		const struct iovec *v = vector_of(m, &count);                 \
		open_vector(&parts, v, count);                                \
		ssize_t result = next_##name(__VA_ARGS__);                    \
		close_vector(&parts, v, count, result, is_write, GUARD_HERE); \
		return result;                                                \
	}

/* clang-format off */
ONE(ssize_t, read, (int fd, void *p, size_t n), p, n, true, fd, p, n)
ONE(ssize_t, write, (int fd, const void *p, size_t n), p, n, false, fd, p, n)
ONE(ssize_t, pread, (int fd, void *p, size_t n, off_t at), p, n, true, fd, p, n, at)
ONE(ssize_t, pread64, (int fd, void *p, size_t n, off64_t at), p, n, true, fd, p, n, at)
ONE(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), p, n, false, fd, p, n, at)
ONE(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), p, n, false, fd, p, n, at)
ONE(ssize_t, recv, (int fd, void *p, size_t n, int flags), p, n, true, fd, p, n, flags)
ONE(ssize_t, send, (int fd, const void *p, size_t n, int flags), p, n, false, fd, p, n, flags)
ONE(ssize_t, recvfrom, (int fd, void *p, size_t n, int flags, struct sockaddr *from, socklen_t *size),
    p, n, true, fd, p, n, flags, from, size)
ONE(ssize_t, sendto, (int fd, const void *p, size_t n, int flags, const struct sockaddr *to,
    socklen_t size), p, n, false, fd, p, n, flags, to, size)
ONE(ssize_t, getrandom, (void *p, size_t n, unsigned int flags), p, n, true, p, n, flags)
VECTOR(readv, (int fd, const struct iovec *v, int n), v, n, true, fd, v, n)
VECTOR(writev, (int fd, const struct iovec *v, int n), v, n, false, fd, v, n)
VECTOR(preadv, (int fd, const struct iovec *v, int n, off_t at), v, n, true, fd, v, n, at)
VECTOR(pwritev, (int fd, const struct iovec *v, int n, off_t at), v, n, false, fd, v, n, at)
VECTOR(preadv64, (int fd, const struct iovec *v, int n, off64_t at), v, n, true, fd, v, n, at)
VECTOR(pwritev64, (int fd, const struct iovec *v, int n, off64_t at), v, n, false, fd, v, n, at)
MESSAGE(recvmsg, (int fd, struct msghdr *m, int flags), m, true, fd, m, flags)
MESSAGE(sendmsg, (int fd, const struct msghdr *m, int flags), m, false, fd, m, flags)
/* clang-format on */

GUARD(int, mprotect, (void *p, size_t bytes, int access))
{
	NEXT(mprotect);
	if (heap_has(p))
		heap_protected(p, bytes);
	return next_mprotect(p, bytes, access);
}

/* What was read of its code is not so any more. */
GUARD(int, dlclose, (void *handle))
{
	NEXT(dlclose);
	int err = next_dlclose(handle);
	heap_walk_forget();
	return err;
}

/* libc reads large amounts into the memory itself, and writes them from there. */
GUARD(size_t, fread, (void *p, size_t size, size_t n, FILE *f))
{
	struct parts parts = { .count = 0 };

	NEXT(fread);
	open_part(&parts, p, size * n);
	size_t result = next_fread(p, size, n, f);
	close_one(&parts, (ssize_t)(result * size), true, GUARD_HERE);
	return result;
}

GUARD(size_t, fwrite, (const void *p, size_t size, size_t n, FILE *f))
{
	struct parts parts = { .count = 0 };

	NEXT(fwrite);
	open_part(&parts, p, size * n);
	size_t result = next_fwrite(p, size, n, f);
	close_one(&parts, (ssize_t)(result * size), false, GUARD_HERE);
	return result;
}
