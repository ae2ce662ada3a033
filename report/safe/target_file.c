/* SPDX-License-Identifier: MIT */
/* target_file.c - see target_file.h. */
#include "report/safe/target_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define BYTES_MAX (16ull << 30) /* debug information of the largest programs has half of it */
/* Holes cost their maker nothing and cost the reader time: at most so much of a longer file. */
#define SPARSE_BYTES (16ull << 20)
#define SPARSE_FACTOR 64
#define UNCOUNTED_BYTES (256ull << 20) /* some file systems do not count blocks */

#define CONFIGFS_MAGIC 0x62656570

/* /proc/PID/root/etc/file: the length of /proc/PID/root; 0: another name. */
static size_t root_length(const char *path)
{
	static const char proc[] = "/proc/";
	static const char root[] = "/root/";

	if (strncmp(path, proc, strlen(proc)) != 0)
		return 0;
	size_t n = strlen(proc) + strspn(path + strlen(proc), "0123456789");
	return n > strlen(proc) && !strncmp(path + n, root, strlen(root)) ? n + strlen(root) - 1 :
									    0;
}

/* What the name leads to, without any effect on it. */
static int open_handle(const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	size_t n = root_length(path);
	char folder[64];

	if (!n) {
		int fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	if (n >= sizeof(folder))
		return -ENAMETOOLONG;
	memcpy(folder, path, n);
	folder[n] = '\0';
	int root = openat(AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	int fd = (int)syscall(SYS_openat2, root, path + n, &how, sizeof(how));
	int err = fd < 0 ? -errno : fd;
	close(root);
	return err;
}

/* Reading a file of the kernel may have effects, and may wait: /proc/kmsg, trace_pipe. */
static bool is_of_kernel(int handle)
{
	static const uint32_t kinds[] = { PROC_SUPER_MAGIC,   SYSFS_MAGIC,	   DEBUGFS_MAGIC,
					  TRACEFS_MAGIC,      SECURITYFS_MAGIC,	   BPF_FS_MAGIC,
					  CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, EFIVARFS_MAGIC,
					  PSTOREFS_MAGIC,     SELINUX_MAGIC,	   CONFIGFS_MAGIC };
	struct statfs st;

	if (fstatfs(handle, &st))
		return true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((uint32_t)st.f_type == kinds[i])
			return true;
	return false;
}

static int check_handle(int handle)
{
	struct stat st;

	if (fstat(handle, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || is_of_kernel(handle))
		return -ENOTSUP;
	uint64_t size = (uint64_t)st.st_size;
	uint64_t stored = (uint64_t)st.st_blocks * 512;
	uint64_t most = size <= SPARSE_BYTES ? size :
			stored		     ? stored * SPARSE_FACTOR :
					       UNCOUNTED_BYTES;
	return size > BYTES_MAX || size > most ? -EFBIG : 0;
}

int target_file_open(const char *path)
{
	int handle = open_handle(path);
	char link[64];

	if (handle < 0)
		return handle;
	int fd = check_handle(handle);
	if (!fd) {
		/* The same file again, now to be read: a name could lead to another one by now. */
		snprintf(link, sizeof(link), "/proc/self/fd/%d", handle);
		fd = openat(AT_FDCWD, link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	close(handle);
	return fd;
}

bool target_file_is_foreign(pid_t pid)
{
	char path[64];
	char mine[64] = "";
	char theirs[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
	return readlink(path, theirs, sizeof(theirs) - 1) > 0 &&
	       readlink("/proc/self/ns/mnt", mine, sizeof(mine) - 1) > 0 &&
	       strcmp(mine, theirs) != 0;
}

void target_file_name(pid_t root, const char *name, char *path, size_t n)
{
	if (root && *name == '/')
		snprintf(path, n, "/proc/%d/root%s", root, name);
	else
		snprintf(path, n, "%s", name);
}

/* One byte more than max shows that there is more: the file may grow while it is read. */
static char *read_text(int fd, size_t max, size_t *n)
{
	char *text = malloc(max + 1);
	ssize_t got = 1;

	for (*n = 0; text && got > 0 && *n <= max; *n += got > 0 ? (size_t)got : 0)
		got = pread(fd, text + *n, max + 1 - *n, (off_t)*n);
	if (text && !got && *n && *n <= max)
		return text;
	free(text);
	return NULL;
}

FILE *target_file_text(const char *path, size_t max)
{
	int fd = target_file_open(path);
	struct stat st;
	FILE *f = NULL;
	size_t n;

	if (fd < 0)
		return NULL;
	bool fits = !fstat(fd, &st) && (uint64_t)st.st_size <= max;
	char *text = fits ? read_text(fd, (size_t)st.st_size, &n) : NULL;
	close(fd);
	/* A stream with memory of its own, which goes with it. */
	if (text)
		f = fmemopen(NULL, n, "w+");
	if (f) {
		setvbuf(f, NULL, _IONBF, 0);
		fwrite(text, 1, n, f);
		setvbuf(f, NULL, _IOFBF, 1 << 14);
		rewind(f);
	}
	free(text);
	return f;
}

/* The memory and the auxiliary vector of a process, which libdwfl reads. */
static bool is_of_process(const char *path)
{
	int end = 0;
	int pid;

	return (sscanf(path, "/proc/%9d/%n", &pid, &end) == 1 && end &&
		(!strcmp(path + end, "mem") || !strcmp(path + end, "auxv")));
}

static bool is_libdw(const void *code)
{
	Dl_info info;

	if (!dladdr(code, &info) || !info.dli_fname)
		return false;
	const char *name = basename(info.dli_fname);
	return !strncmp(name, "libdw", 5) || !strncmp(name, "libelf", 6);
}

static bool has_mode(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

static int open_for(const void *caller, const char *path, int flags, mode_t mode)
{
	if ((flags & O_ACCMODE) != O_RDONLY || flags & (O_PATH | O_CREAT | O_DIRECTORY) ||
	    !is_libdw(caller) || is_of_process(path))
		return openat(AT_FDCWD, path, flags, mode);
	int fd = target_file_open(path);
	if (fd >= 0)
		return fd;
	errno = -fd;
	return -1;
}

/*
 * libdw opens files by names in debug information, and has no callback for that: split units (.dwo,
 * .dwp), shared debug information, links to separate debug information. Its calls of open() reach
 * this one, since the linker prefers symbols of the program. Calls from elsewhere pass through.
 */
#define EXPORTED __attribute__((visibility("default"), used))

EXPORTED int target_file_libc_open(const char *path, int flags, ...) __asm__("open");
EXPORTED int target_file_libc_open64(const char *path, int flags, ...) __asm__("open64")
	__attribute__((alias("open")));

int target_file_libc_open(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = has_mode(flags) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_for(__builtin_return_address(0), path, flags, mode);
}

static bool has_other_bytes(int a, int b)
{
	char x[8192];
	char y[8192];

	for (off_t at = 0;; at += (off_t)sizeof(x)) {
		ssize_t n = pread(a, x, sizeof(x), at);
		ssize_t m = pread(b, y, sizeof(y), at);
		if (n < 0 || m < 0)
			return false;
		if (n != m || memcmp(x, y, (size_t)n) != 0)
			return true;
		if (n < (ssize_t)sizeof(x))
			return false;
	}
}

bool target_file_differs(const char *a, const char *b)
{
	int x = target_file_open(a);
	int y = target_file_open(b);
	struct stat of_x;
	struct stat of_y;
	bool differs = false;

	if (x >= 0 && y >= 0 && !fstat(x, &of_x) && !fstat(y, &of_y) &&
	    (of_x.st_dev != of_y.st_dev || of_x.st_ino != of_y.st_ino))
		differs = of_x.st_size != of_y.st_size || has_other_bytes(x, y);
	if (x >= 0)
		close(x);
	if (y >= 0)
		close(y);
	return differs;
}
