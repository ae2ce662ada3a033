/* SPDX-License-Identifier: MIT */
/* inject.c - see inject.h. */
#include "cli/inject/inject.h"

#include "cli/inject/inject_file.h"
#include "cli/inject/inject_thread.h"
#include "cli/inject/inject_words.h"
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

#define TRIES 200
#define FIRST_TRIES 4
#define REFUSED_TRIES 40 /* the thread may be about to end, or its tracer */
#define THREADS_MAX INJECT_THREADS_MAX
#define STACK_COPY 16384
#define FRAMES_MAX 64
#define LATE_TRIES 5
#define SPARE_DESCRIPTORS 16
#define RTLD_NOW_GLIBC 2
#define RTLD_DL_LINKMAP_GLIBC 2

struct injection {
	pid_t pid;
	struct symbols *symbols;
	int memory_fd;
	uint64_t dlopen_at;
	uint64_t dlsym_at;
	uint64_t dlerror_at;
	uint64_t dladdr1_at;
	uint64_t errno_at;
	struct return_gadgets gadgets;
	char name[40]; /* of the object, made from its bytes */
	const char *function;
	const char *argument;
	const struct inject_shared *shared;
	int *result;
	char *why;
	size_t why_size;
	int object;	/* its descriptor */
	bool is_shared; /* the memory was taken, which is done once */
	int err;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct injection *in, int err,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(in->why, in->why_size, format, args);
	va_end(args);
	return err;
}

static int refuse_tracing(struct injection *in, int err)
{
	char why[256];

	program_explain_refusal(in->pid, why, sizeof(why));
	return refuse(in, err, "not permitted to trace it: %s", why);
}

static int refuse_filter(struct injection *in)
{
	return refuse(
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
		return refuse(in, err,
			      "cannot open its libraries: %s; raise this command's ulimit -n",
			      strerror(-err));
	if (program_has_only_begun(in->pid))
		return refuse(in, -EAGAIN,
			      "it has only begun, and its libraries are not loaded; try again");
	return refuse(in, -ENOEXEC,
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
		return refuse(in, -ENOEXEC,
			      "cannot load the agent: the program is built with a sanitizer, which "
			      "ends it; build it without");
	if (!inject_find(in, "gnu_get_libc_version"))
		return refuse(in, -ENOEXEC,
			      "cannot load the agent: its libc is not the GNU libc; use watch, "
			      "break or record, which load nothing");
	if (!return_find_gadgets(in->pid, in->memory_fd, in->errno_at, &in->gadgets))
		return refuse(in, -ENOEXEC,
			      "cannot find a system call instruction in its libc or vdso");
	return 0;
}

/* Inside the linker or the allocator a call of dlopen() would wait forever for a lock. */
static int is_unsafe(const struct place *p)
{
	static const char *const inside[] = { "alloc",	  "free",   "_int_",
					      "arena",	  "dl_",    "dlopen",
					      "fork",	  "clone",  "pthread_create",
					      "lll_lock", "tls_",   "exit",
					      "new",	  "delete", "sysmalloc" };

	if (p->module && (strstr(p->module, "ld-") || strstr(p->module, "ld.so")))
		return 1;
	for (size_t i = 0; p->function && i < sizeof(inside) / sizeof(inside[0]); i++)
		if (strstr(p->function, inside[i]))
			return 1;
	return 0;
}

/* The state of a thread from which its callers are found. */
struct stand {
	struct user_regs_struct regs;
	uint8_t stack[STACK_COPY];
	size_t copied;
};

/* Stops the thread. 0 or -errno. */
static int inject_hold(const struct injection *in, struct held_thread *t, pid_t tid,
		       struct stand *s)
{
	int err = held_begin(t, in->pid, tid, in->memory_fd);

	if (err)
		return err;
	s->regs = t->saved;
	return_look_through(in->memory_fd, &in->gadgets, &s->regs);
	ssize_t n = pread(in->memory_fd, s->stack, sizeof(s->stack), (off_t)s->regs.rsp);
	s->copied = n > 0 ? (size_t)n : 0;
	return 0;
}

static int is_good_stand(const struct injection *in, const struct stand *s)
{
	const struct user_regs_struct *r = &s->regs;
	const uint64_t regs[17] = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
				    r->rbp, r->rsp, r->r8,  r->r9,  r->r10, r->r11,
				    r->r12, r->r13, r->r14, r->r15, r->rip };
	uint64_t frames[FRAMES_MAX];
	size_t n = symbols_unwind(in->symbols, regs, 17, s->stack, s->copied, r->rsp, frames,
				  FRAMES_MAX);

	for (size_t i = 0; i < n; i++) {
		struct place p;

		symbols_place(in->symbols, frames[i] - (i != 0), &p);
		if (!p.module && return_is_code(in->memory_fd, frames[i]))
			return 0;
		/* Each thread begins in clone(), which is safe as the outermost frame. */
		if (is_unsafe(&p) && !(i + 2 >= n && p.function && strstr(p.function, "clone")))
			return 0;
	}
	return n != 0;
}

/*
 * Reading the unwind tables of an object may take a moment. So the thread is resumed
 * while its state is inspected, and stopped again if the state was good; by then they
 * are in memory.
 */
static int hold_if_good(struct injection *in, struct held_thread *t, pid_t tid)
{
	static struct stand stand;
	int err = inject_hold(in, t, tid, &stand);

	if (err)
		return err;
	held_end(t);
	if (!is_good_stand(in, &stand))
		return -EAGAIN;
	err = inject_hold(in, t, tid, &stand);
	if (err || is_good_stand(in, &stand))
		return err;
	held_end(t);
	return -EAGAIN;
}

/*
 * Tries each thread once. A thread that could not return from its first system call, were
 * trapline killed then, is taken only if there is no other, and so is one that waits in a
 * call whose timeout has to be changed. -EBUSY: all of them transfer data.
 */
static int hold_any(struct injection *in, struct held_thread *t, int round)
{
	static pid_t tids[THREADS_MAX];
	size_t n = program_threads(in->pid, tids, THREADS_MAX);
	int result = n ? -EBUSY : -EAGAIN;

	for (size_t k = 0; k < n; k++) {
		bool is_last = round < FIRST_TRIES &&
			       call_kind_of(in->pid, tids[k]) == CALL_IS_TIMED;
		int err = is_last ? -EAGAIN : hold_if_good(in, t, tids[k]);

		if (held_is_over()) {
			if (!err)
				held_end(t);
			return -ECANCELED;
		}
		if ((err == -EPERM || err == -EACCES) && !held_wait_for_others(in->memory_fd) &&
		    round >= REFUSED_TRIES)
			return refuse_tracing(in, err);
		if (err != -EBUSY)
			result = -EAGAIN;
		if (err)
			continue;
		if (program_seccomp(in->pid, tids[k])) { /* it has one since a moment ago */
			held_end(t);
			return refuse_filter(in);
		}
		t->gadgets = in->gadgets;
		if (round >= TRIES / 2 || return_has_way_back(t))
			return 0;
		held_end(t);
	}
	return result;
}

/* Stops a thread where the call is safe; the others are resumed at once. */
static int hold_one(struct injection *in, struct held_thread *t)
{
	struct timespec pause = { 0, 5000000 };
	int err = 0;

	for (int i = 0; i < TRIES; i++) {
		err = hold_any(in, t, i);
		if (err == -ECANCELED)
			return refuse(
				in, err,
				"the attach was ended before anything was loaded, and no thread had "
				"stopped where that is safe; thaw the process if it is frozen");
		if (err != -EAGAIN && err != -EBUSY)
			return err;
		nanosleep(&pause, NULL);
	}
	if (err == -EBUSY)
		return refuse(in, err,
			      "each of its threads writes or sends data, and a stop would "
			      "cut that short; try again when one of them does not wait");
	return refuse(in, err,
		      "none of its threads was where code can be loaded safely; try "
		      "again");
}

/*
 * Gives the same bytes the same name, so that an object is found again: FNV-1a. 0 or
 * -errno.
 */
static int name_object(struct injection *in, int fd)
{
	uint8_t bytes[65536];
	uint64_t hash = 14695981039346656037u;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			hash = (hash ^ bytes[i]) * 1099511628211u;
		at += n;
	}
	snprintf(in->name, sizeof(in->name), "trapline-agent-%016" PRIx64, hash);
	return n < 0 ? -errno : 0;
}

/* A call inside the process has not returned. */
static int refuse_slow_call(struct injection *in, int err)
{
	if (err == -ETIMEDOUT)
		return refuse(in, err,
			      "a call inside it takes longer than a minute; the thread "
			      "continues when it is over; try again when less is running");
	return refuse(in, err,
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
		return refuse(in, (int)there, "cannot make a file in it: %s", words);
	}
	*here = file_copy(in->pid, (int)there, name);
	if (*here >= 0)
		return (int)there;
	if (*here == -EBADF) /* the number is that of something of the program: it stays open */
		return refuse(in, -EBADF, "it has exchanged the file that is shared with it");
	file_close(t, (int)there, name);
	return refuse(in, *here, "cannot copy a descriptor of it: %s%s", strerror(-*here),
		      *here == -EMFILE ? "; raise the limit of this command: ulimit -n" : "");
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
	return refuse(in, -EIO, "cannot copy %s into it", name == in->name ? "the agent" : name);
}

static int call(struct injection *in, struct held_thread *t, uint64_t function, uint64_t a,
		uint64_t b, uint64_t *result)
{
	const uint64_t args[4] = { a, b };
	int err = held_call(t, function, args, result);

	if (err == -ETIMEDOUT || err == -ECANCELED)
		return refuse_slow_call(in, err);
	if (err == -EINTR)
		return refuse(in, err,
			      "the machine is busy and this command came too late; try again");
	return err ? refuse(in, err, "a call inside it did not return: %s", strerror(-err)) : 0;
}

static int say_dlerror(struct injection *in, struct held_thread *t, const char *path)
{
	char text[512] = "";
	char words[512];
	uint64_t at = 0;

	if (in->dlerror_at && !call(in, t, in->dlerror_at, 0, 0, &at) && at)
		pread(in->memory_fd, text, sizeof(text) - 1, (off_t)at);
	words_of_loader(text, path, words, sizeof(words));
	return refuse(in, -ELIBACC, "its dynamic linker refused the object: %s", words);
}

/*
 * The linker does not load a second object of the same name, and descriptor numbers are
 * reused. So the path gets a unique part that has no meaning in a path.
 */
static void name_descriptor(int fd, char *path, size_t size)
{
	struct timespec now;
	size_t n = (size_t)snprintf(path, size, "/proc/self/fd");

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
		err = err ? refuse(in, err, "cannot share memory with it: %s", strerror(-err)) :
			    call_with_files(in, t, entry, there, object);
		file_close(t, there, shared->name);
	}
	if (object >= 0)
		file_close(t, object, shared->object_name);
	return err;
}

static int find_and_call(struct injection *in, struct held_thread *t, uint64_t handle)
{
	uint64_t name = held_write(t, in->function, strlen(in->function) + 1);
	uint64_t entry = 0;
	int err = call(in, t, in->dlsym_at, handle, name, &entry);

	if (err)
		return err;
	if (!entry)
		return refuse(in, -ENOENT, "the object has no function %s", in->function);
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

static int inject_into(struct injection *in, struct held_thread *t, int object)
{
	uint64_t mapped;
	uint64_t end;
	uint64_t handle = 0;
	int err = keep_errno(in, t);

	/* An earlier call loaded it. */
	if (!err && program_mapping(in->pid, in->name, 0, &mapped, &end))
		handle = handle_of(in, t, mapped);
	if (!err && !handle)
		err = inject_load(in, t, object, &handle);
	return err ? err : find_and_call(in, t, handle);
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
		err = hold_one(in, &thread);
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

static int inject_object(struct injection *in)
{
	int object = in->object;
	int err = 0;

	if (is_filtered(in->pid))
		err = refuse_filter(in);
	if (!err)
		err = symbols_open(in->pid, &in->symbols);
	if (!err) {
		symbols_leave_out_lines(in->symbols);
		err = find_all(in);
	}
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
		return refuse_tracing(in, err);
	if (err == -ENOENT || err == -ESRCH)
		return refuse(in, -ESRCH, "it has just ended");
	return refuse(in, err, "cannot open its memory: %s", strerror(-err));
}

static int refuse_state(struct injection *in)
{
	int err = 0;
	const char *why = program_why_not(in->pid, &err);

	return why ? refuse(in, err, "%s", why) : 0;
}

/* Whatever failed then, this is the cause. The open memory is that of the program before. */
static int refuse_if_ended(struct injection *in)
{
	uint64_t start;
	uint64_t end;
	char byte;
	int err = refuse_state(in);

	if (err)
		return err;
	if (!program_mapping(in->pid, NULL, 0, &start, &end))
		return refuse(in, -ESRCH, "it has just ended");
	if (pread(in->memory_fd, &byte, 1, (off_t)start) == 0)
		return refuse(in, -ESRCH, "it has just executed another program; try again");
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
	close(in.memory_fd);
	return program_tracer(pid, pid) ? refuse_tracing(&in, -EPERM) : 0;
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
		in.err = refuse(&in, -errno, "cannot read %s: %s", path, strerror(errno));
	} else {
		held_run(inject_there, &in);
		close(in.object);
	}
	err = in.err ? refuse_if_ended(&in) : 0;
	close(in.memory_fd);
	return err ? err : in.err;
}
