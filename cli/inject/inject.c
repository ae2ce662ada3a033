/* SPDX-License-Identifier: MIT */
/* inject.c - see inject.h. */
#include "cli/inject/inject.h"

#include "base/clock.h"
#include "base/hash.h"
#include "cli/inject/inject_file.h"
#include "cli/inject/inject_loader.h"
#include "cli/inject/inject_words.h"
#include "cli/inject/injection.h"
#include "cli/launch/program.h"
#include "report/dwarf/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX INJECT_THREADS_MAX
#define LATE_TRIES 5
#define SPARE_DESCRIPTORS 16
#define STARVED_NS 100000000
#define RTLD_NOW_GLIBC 2
#define RTLD_DL_LINKMAP_GLIBC 2

int injection_refuse(struct injection *in, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(in->why, in->why_size, format, args);
	va_end(args);
	return err;
}

int injection_refuse_tracing(struct injection *in, int err)
{
	char why[256];

	program_explain_refusal(in->pid, why, sizeof(why));
	return injection_refuse(in, err, "not permitted to trace it: %s", why);
}

int injection_refuse_filter(struct injection *in)
{
	return injection_refuse(
		in, -EPERM,
		"it runs under a seccomp filter, which could kill it for a system call of the "
		"agent; run it without the filter");
}

static uint64_t inject_find(const struct injection *in, const char *name)
{
	struct variable v;

	return symbols_find(in->symbols, name, &v) ? 0 : v.address;
}

/* As many as reading its libraries takes at once. 0 or -errno. */
static int try_descriptors(void)
{
	int fds[SPARE_DESCRIPTORS];
	int err = 0;
	int n = 0;

	while (!err && n < SPARE_DESCRIPTORS) {
		fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		err = fds[n] < 0 ? -errno : 0;
		n += !err;
	}
	while (n)
		close(fds[--n]);
	return err;
}

/* What could not be read because of this command's own limit looks as if it were not there. */
static int refuse_missing(struct injection *in)
{
	int err = try_descriptors();

	if (err)
		return injection_refuse(
			in, err, "cannot open its libraries: %s; raise this command's ulimit -n",
			strerror(-err));
	if (program_has_only_begun(in->pid))
		return injection_refuse(
			in, -EAGAIN,
			"it has only begun, and its libraries are not loaded; try again");
	return injection_refuse(
		in, -ENOEXEC,
		"cannot load the agent: the program is statically linked, or its libc "
		"has no dlopen; link it dynamically");
}

static int find_all(struct injection *in)
{
	in->dlopen_at = inject_find(in, "dlopen");
	in->dlsym_at = inject_find(in, "dlsym");
	in->dlerror_at = inject_find(in, "dlerror");
	in->dladdr1_at = inject_find(in, "dladdr1");
	in->errno_at = inject_find(in, "__errno_location");
	if (!in->dlopen_at || !in->dlsym_at || !in->errno_at)
		return refuse_missing(in);
	if (inject_find(in, "__asan_init") || inject_find(in, "__tsan_init") ||
	    inject_find(in, "__msan_init") || inject_find(in, "__hwasan_init"))
		return injection_refuse(
			in, -ENOEXEC,
			"cannot load the agent: the program is built with a sanitizer, which "
			"ends it; build it without");
	if (!inject_find(in, "gnu_get_libc_version"))
		return injection_refuse(
			in, -ENOEXEC,
			"cannot load the agent: its libc is not the GNU libc; use watch, "
			"break or record, which load nothing");
	if (!return_find_gadgets(in->pid, in->memory_fd, in->errno_at, &in->gadgets))
		return injection_refuse(
			in, -ENOEXEC, "cannot find a system call instruction in its libc or vdso");
	return 0;
}

/*
 * Gives the same bytes the same name, so that an object is found again. 0 or -errno.
 */
static int name_object(struct injection *in, int fd)
{
	uint8_t bytes[65536];
	uint64_t hash = HASH_START;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		hash = hash_bytes(hash, bytes, (size_t)n);
		at += n;
	}
	snprintf(in->name, sizeof(in->name), "trapline-agent-%016" PRIx64, hash);
	return n < 0 ? -errno : 0;
}

/* A call inside the process has not returned. */
static int refuse_slow_call(struct injection *in, int err)
{
	if (err == -ETIMEDOUT)
		return injection_refuse(
			in, err,
			"a call inside it takes longer than a minute; the thread "
			"continues when it is over; try again when less is running");
	return injection_refuse(in, err,
				"the attach was ended while a call inside it had not returned; "
				"the thread continues when it is over");
}

/*
 * Makes a file without a name in the target. Returns its descriptor there; *here is the
 * one of this process.
 */
static int inject_make_file(struct injection *in, struct held_thread *t, const char *name,
			    int *here)
{
	const uint64_t args[6] = { held_write(t, name, strlen(name) + 1),
				   MFD_CLOEXEC | MFD_ALLOW_SEALING };
	long there = args[0] ? held_syscall(t, SYS_memfd_create, args) : -EFAULT;

	if (there == -ECANCELED || there == -ETIMEDOUT)
		return refuse_slow_call(in, (int)there);
	if (there < 0) {
		char words[256];

		words_of_file((int)there, words, sizeof(words));
		return injection_refuse(in, (int)there, "cannot make a file in it: %s", words);
	}
	if (!t->is_loader) /* other threads have the same table */
		there = file_move_up(t, (int)there, name);
	*here = file_copy(t, (int)there, name);
	if (*here >= 0)
		return (int)there;
	if (*here == -EBADF) /* the number is that of something of the program: it stays open */
		return injection_refuse(in, -EBADF,
					"it has exchanged the file that is shared with it");
	file_close(t, (int)there, name);
	return injection_refuse(in, *here, "cannot copy a descriptor of it: %s%s", strerror(-*here),
				*here == -EMFILE ? "; raise the limit of this command: ulimit -n" :
						   "");
}

/* Copies an object's bytes, since the target may have another file system. */
static int copy_object(struct injection *in, struct held_thread *t, const char *name, int from)
{
	struct stat st;
	int to = -1;
	int there = inject_make_file(in, t, name, &to);

	if (there < 0)
		return there;
	off_t left = fstat(from, &st) ? -1 : st.st_size;
	off_t at = 0; /* there may be a second try, from the beginning */
	while (left > 0) {
		ssize_t n = sendfile(to, from, &at, (size_t)left);
		if (n <= 0)
			break;
		left -= n;
	}
	if (!left && file_seal(to, true))
		left = -1;
	close(to);
	if (!left)
		return there;
	file_close(t, there, name);
	return injection_refuse(in, -EIO, "cannot copy %s into it",
				name == in->name ? "the agent" : name);
}

static int call(struct injection *in, struct held_thread *t, uint64_t function, uint64_t a,
		uint64_t b, uint64_t *result)
{
	const uint64_t args[4] = { a, b };
	int err = held_call(t, function, args, result);

	if (err == -ETIMEDOUT || err == -ECANCELED)
		return refuse_slow_call(in, err);
	if (err == -EINTR)
		return injection_refuse(
			in, err, "the machine is busy and this command came too late; try again");
	return err ? injection_refuse(in, err, "a call inside it did not return: %s",
				      strerror(-err)) :
		     0;
}

static int say_dlerror(struct injection *in, struct held_thread *t, const char *path)
{
	char text[512] = "";
	char words[512];
	uint64_t at = 0;

	if (in->dlerror_at && !call(in, t, in->dlerror_at, 0, 0, &at) && at)
		pread(in->memory_fd, text, sizeof(text) - 1, (off_t)at);
	words_of_loader(text, path, words, sizeof(words));
	return injection_refuse(in, -ELIBACC, "its dynamic linker refused the object: %s", words);
}

/*
 * The linker does not load a second object of the same name, and descriptor numbers are
 * reused. So the path gets a unique part that has no meaning in a path.
 */
static void name_descriptor(int fd, char *path, size_t size)
{
	struct timespec now;
	size_t n = (size_t)snprintf(path, size, "/proc/thread-self/fd");

	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t bits = (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
	for (int i = 0; i < 48; i++)
		n += (size_t)snprintf(path + n, size - n, bits >> i & 1 ? "/." : "/");
	snprintf(path + n, size - n, "/%d", fd);
}

/* The handle of a loaded object is its entry in the linker's list. */
static uint64_t handle_of(struct injection *in, struct held_thread *t, uint64_t mapped)
{
	const uint64_t zeros[8] = { 0 };
	uint64_t found = 0;
	uint64_t handle = 0;
	uint64_t out = held_write(t, zeros, sizeof(zeros));
	const uint64_t args[4] = { mapped, out, out + 48, RTLD_DL_LINKMAP_GLIBC };

	if (!in->dladdr1_at || !out || held_call(t, in->dladdr1_at, args, &found) || !(int)found)
		return 0;
	if (pread(in->memory_fd, &handle, 8, (off_t)(out + 48)) != 8)
		return 0;
	return handle;
}

static int inject_load(struct injection *in, struct held_thread *t, int object, uint64_t *handle)
{
	char path[160];
	int fd = copy_object(in, t, in->name, object);

	if (fd < 0)
		return fd;
	name_descriptor(fd, path, sizeof(path));
	int err = call(in, t, in->dlopen_at, held_write(t, path, strlen(path) + 1), RTLD_NOW_GLIBC,
		       handle);
	if (!err && !*handle)
		err = say_dlerror(in, t, path);
	file_close(t, fd, in->name);
	return err;
}

static int call_with(struct injection *in, struct held_thread *t, uint64_t entry,
		     const char *argument)
{
	uint64_t returned = 0;
	int err = call(in, t, entry, held_write(t, argument, strlen(argument) + 1), 0, &returned);

	if (!err)
		*in->result = (int)returned;
	return err;
}

/* With the descriptors of the files that are there. */
static int call_with_files(struct injection *in, struct held_thread *t, uint64_t entry, int region,
			   int object)
{
	char argument[256];
	size_t n = (size_t)snprintf(argument, sizeof(argument), "%sfd:%d", in->argument, region);

	if (object >= 0)
		snprintf(argument + n, sizeof(argument) - n, ",%d", object);
	return call_with(in, t, entry, argument);
}

static int share_and_call(struct injection *in, struct held_thread *t, uint64_t entry)
{
	const struct inject_shared *shared = in->shared;
	int object = -1;
	int here = -1;

	if (shared->object_name) {
		object = copy_object(in, t, shared->object_name, shared->object_fd);
		if (object < 0)
			return object;
	}
	int there = inject_make_file(in, t, shared->name, &here);
	int err = there < 0 ? there : 0;
	if (!err) {
		in->is_shared = true;
		err = shared->take(shared->arg, here);
		err = err ? injection_refuse(in, err, "cannot share memory with it: %s",
					     strerror(-err)) :
			    call_with_files(in, t, entry, there, object);
		file_close(t, there, shared->name);
	}
	if (object >= 0)
		file_close(t, object, shared->object_name);
	return err;
}

static int find_function(struct injection *in, struct held_thread *t, uint64_t handle,
			 uint64_t *entry)
{
	uint64_t name = held_write(t, in->function, strlen(in->function) + 1);
	int err = call(in, t, in->dlsym_at, handle, name, entry);

	if (err)
		return err;
	return *entry ?
		       0 :
		       injection_refuse(in, -ENOENT, "the object has no function %s", in->function);
}

static int call_function(struct injection *in, struct held_thread *t, uint64_t entry)
{
	return in->shared ? share_and_call(in, t, entry) : call_with(in, t, entry, in->argument);
}

/* The errno of the thread belongs to the program. */
static int keep_errno(struct injection *in, struct held_thread *t)
{
	uint64_t at = 0;
	int err = call(in, t, in->errno_at, 0, 0, &at);

	if (!err && pread(in->memory_fd, &t->errno_saved, sizeof(int), (off_t)at) == sizeof(int))
		t->errno_at = at;
	return err;
}

/* In the loader. */
static int load_and_find(struct injection *in, struct held_thread *t, int object, uint64_t *entry)
{
	uint64_t mapped;
	uint64_t end;
	uint64_t handle = 0;
	int err = 0;

	/* An earlier call loaded it. */
	if (program_mapping(in->pid, in->name, 0, &mapped, &end))
		handle = handle_of(in, t, mapped);
	if (!handle)
		err = inject_load(in, t, object, &handle);
	return err ? err : find_function(in, t, handle, entry);
}

static int refuse_loader(struct injection *in, int err)
{
	return injection_refuse(
		in, err, "cannot start a thread in it: %s%s", strerror(-err),
		err == -EAGAIN ?
			"; its limit of processes, or that of its group, is reached: raise it by prlimit --nproc" :
			"");
}

static int load_by_loader(struct injection *in, struct held_thread *t, int object, bool is_own,
			  uint64_t *entry)
{
	static struct loader loader;
	int err = loader_begin(&loader, t);

	if (err)
		return err == -EINTR ? err : refuse_loader(in, err);
	err = load_and_find(in, &loader.thread, object, entry);
	if (!err && is_own)
		err = call_function(in, &loader.thread, *entry);
	loader_end(&loader);
	return err;
}

static int inject_into(struct injection *in, struct held_thread *t, int object)
{
	const uint64_t begin_ns = clock_now_ns();
	bool is_own = in->shared && in->shared->has_own_files;
	uint64_t entry = 0;
	int err = keep_errno(in, t);

	if (err)
		return err;
	/*
	 * A second thread has to wait for a CPU as often again, and the call that this one is in
	 * gets late.
	 */
	if (clock_now_ns() - begin_ns > STARVED_NS) {
		is_own = false;
		err = load_and_find(in, t, object, &entry);
	} else {
		err = load_by_loader(in, t, object, is_own, &entry);
	}
	if (!err && !is_own)
		err = call_function(in, t, entry);
	if (!err && in->shared && in->shared->then && !*in->result)
		err = call_with(in, t, entry, in->shared->then);
	return err;
}

/*
 * Tries again if trapline was so late that the thread continued by itself: all steps are
 * repeated.
 */
static int inject_in_time(struct injection *in, int object)
{
	static struct held_thread thread;
	int tries = 0;
	int err;

	do {
		err = injection_hold(in, &thread);
		if (err)
			return err;
		err = inject_into(in, &thread, object);
		held_end(&thread);
	} while (err == -EINTR && !in->is_shared && ++tries < LATE_TRIES);
	return err;
}

/* The agent makes system calls in each thread. */
static bool is_filtered(pid_t pid)
{
	static pid_t tids[THREADS_MAX];
	size_t n = program_threads(pid, tids, THREADS_MAX);

	for (size_t i = 0; i < n; i++)
		if (program_seccomp(pid, tids[i]))
			return true;
	return false;
}

/* in->symbols is to be closed. */
static int look_into(struct injection *in)
{
	if (is_filtered(in->pid))
		return injection_refuse_filter(in);
	int err = symbols_open(in->pid, &in->symbols);
	if (err)
		return err;
	symbols_leave_out_lines(in->symbols);
	return find_all(in);
}

static int inject_object(struct injection *in)
{
	int object = in->object;
	int err = look_into(in);

	if (!err)
		err = name_object(in, object);
	if (!err)
		err = inject_in_time(in, object);
	symbols_close(in->symbols);
	return err;
}

static void inject_there(void *arg)
{
	struct injection *in = arg;

	in->err = inject_object(in);
}

void inject_until(bool (*is_over)(void))
{
	held_until(is_over);
}

static int refuse_memory(struct injection *in, int err)
{
	if (err == -EACCES || err == -EPERM)
		return injection_refuse_tracing(in, err);
	if (err == -ENOENT || err == -ESRCH)
		return injection_refuse(in, -ESRCH, "it has just ended");
	return injection_refuse(in, err, "cannot open its memory: %s", strerror(-err));
}

static int refuse_state(struct injection *in)
{
	int err = 0;
	const char *why = program_why_not(in->pid, &err);

	return why ? injection_refuse(in, err, "%s", why) : 0;
}

/* No matter what failed then, this is the cause. The open memory is that of the program before. */
static int refuse_if_ended(struct injection *in)
{
	uint64_t start;
	uint64_t end;
	char byte;
	int err = refuse_state(in);

	if (err)
		return err;
	if (!program_mapping(in->pid, NULL, 0, &start, &end))
		return injection_refuse(in, -ESRCH, "it has just ended");
	if (pread(in->memory_fd, &byte, 1, (off_t)start) == 0)
		return injection_refuse(in, -ESRCH,
					"it has just executed another program; try again");
	return 0;
}

/* 0, and its memory is open; or -errno with the reason. */
static int open_process(struct injection *in)
{
	char memory[64];
	int err = refuse_state(in);

	if (err)
		return err;
	snprintf(memory, sizeof(memory), "/proc/%d/mem", in->pid);
	in->memory_fd = open(memory, O_RDWR | O_CLOEXEC);
	return in->memory_fd < 0 ? refuse_memory(in, -errno) : 0;
}

int inject_check(pid_t pid, char *why, size_t why_size)
{
	struct injection in = { .pid = pid, .why = why, .why_size = why_size };
	int err = open_process(&in);

	if (err)
		return err;
	err = program_tracer(pid, pid) ? injection_refuse_tracing(&in, -EPERM) : look_into(&in);
	symbols_close(in.symbols);
	close(in.memory_fd);
	return err;
}

int inject(pid_t pid, const char *path, const char *function, const char *argument,
	   const struct inject_shared *shared, int *result, char *why, size_t why_size)
{
	struct injection in = {
		.pid = pid,
		.function = function,
		.argument = argument,
		.shared = shared,
		.result = result,
		.why = why,
		.why_size = why_size,
	};
	int err = open_process(&in);

	if (err)
		return err;
	in.object = open(path, O_RDONLY | O_CLOEXEC);
	if (in.object < 0) {
		in.err = injection_refuse(&in, -errno, "cannot read %s: %s", path, strerror(errno));
	} else {
		held_run(inject_there, &in);
		close(in.object);
	}
	err = in.err ? refuse_if_ended(&in) : 0;
	close(in.memory_fd);
	if (!err && in.err == -EMFILE && !*why)
		injection_refuse(&in, in.err, PROGRAM_FILES_REMEDY);
	return err ? err : in.err;
}
