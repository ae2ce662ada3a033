// SPDX-License-Identifier: MIT
/* inject.c - see inject.h. */
#include "cli/inject.h"

#include "cli/inject_thread.h"
#include "cli/program.h"
#include "report/symbols.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
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
#define THREADS_MAX INJECT_THREADS_MAX
#define STACK_COPY 16384
#define FRAMES_MAX 64
#define TRAP_BIT (1ull << (SIGTRAP - 1))
#define LATE_TRIES 5
#define LOOKS 10
#define LOOK_NS 2000000
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
	char name[40]; /* of the object: by its bytes */
	const char *function;
	const char *argument;
	const struct inject_shared *shared;
	int *result;
	char *why;
	size_t why_size;
	int object; /* its descriptor */
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
	return refuse(in, err, "not permitted to trace it: it has a debugger, or belongs to another user "
			       "(kernel.yama.ptrace_scope)");
}

static uint64_t find(const struct injection *in, const char *name)
{
	struct variable v;

	return symbols_find(in->symbols, name, &v) ? 0 : v.address;
}

static int find_all(struct injection *in)
{
	in->dlopen_at = find(in, "dlopen");
	in->dlsym_at = find(in, "dlsym");
	in->dlerror_at = find(in, "dlerror");
	in->dladdr1_at = find(in, "dladdr1");
	in->errno_at = find(in, "__errno_location");
	if (!in->dlopen_at || !in->dlsym_at || !in->errno_at)
		return refuse(in, -ENOEXEC,
			      "nothing can be loaded into it: it is statically linked, or its libc "
			      "has no dlopen; link it dynamically");
	if (!return_find_gadgets(in->pid, in->memory_fd, in->errno_at, &in->gadgets))
		return refuse(in, -ENOEXEC, "no system call instruction was found in its libc or vdso");
	return 0;
}

/* Inside the linker or the allocator a call of dlopen() would wait for a lock for ever. */
static int is_unsafe(const struct place *p)
{
	static const char *const inside[] = { "alloc", "free", "_int_", "arena", "dl_", "dlopen",
					      "fork", "clone", "pthread_create", "lll_lock",
					      "tls_", "exit", "new", "delete", "sysmalloc" };

	if (p->module && (strstr(p->module, "ld-") || strstr(p->module, "ld.so")))
		return 1;
	for (size_t i = 0; p->function && i < sizeof(inside) / sizeof(inside[0]); i++)
		if (strstr(p->function, inside[i]))
			return 1;
	return 0;
}

/* Where a thread stands: what it takes to tell its callers. */
struct stand {
	struct user_regs_struct regs;
	uint8_t stack[STACK_COPY];
	size_t copied;
};

/* Holds the thread. 0 or -errno. */
static int hold(const struct injection *in, struct held_thread *t, pid_t tid, struct stand *s)
{
	int err = held_begin(t, in->pid, tid, in->memory_fd);

	if (err)
		return err;
	ssize_t n = pread(in->memory_fd, s->stack, sizeof(s->stack), (off_t)t->saved.rsp);
	s->regs = t->saved;
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
		/* The start of every thread goes through clone; what stands above it counts. */
		if (is_unsafe(&p) && !(i + 2 >= n && p.function && strstr(p.function, "clone")))
			return 0;
	}
	return n != 0;
}

static size_t list_threads(pid_t pid, pid_t *tids, size_t max)
{
	char path[64];
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && n < max && (e = readdir(d));)
		if (e->d_name[0] != '.')
			tids[n++] = atoi(e->d_name);
	if (d)
		closedir(d);
	return n;
}

/*
 * To read an object's debug information may take seconds. So a thread is let go while we look, and
 * held again when it stood well; what it takes to look is there then.
 */
static int hold_if_good(struct injection *in, struct held_thread *t, pid_t tid)
{
	static struct stand stand;
	int err = hold(in, t, tid, &stand);

	if (err)
		return err;
	held_end(t);
	if (!is_good_stand(in, &stand))
		return -EAGAIN;
	err = hold(in, t, tid, &stand);
	if (err || is_good_stand(in, &stand))
		return err;
	held_end(t);
	return -EAGAIN;
}

/*
 * A thread that stands where the call is safe; the others are let go at once. One that would not find
 * back from its first system call for us, were we killed then, only when there is no other.
 */
static int hold_one(struct injection *in, struct held_thread *t)
{
	static pid_t tids[THREADS_MAX];
	struct timespec pause = { 0, 5000000 };

	for (int i = 0; i < TRIES; i++) {
		size_t n = list_threads(in->pid, tids, THREADS_MAX);

		for (size_t k = 0; k < n; k++) {
			int err = hold_if_good(in, t, tids[k]);
			if (err == -EPERM || err == -EACCES)
				return refuse_tracing(in, err);
			if (err)
				continue;
			t->gadgets = in->gadgets;
			if (i >= TRIES / 2 || return_has_way_back(t))
				return 0;
			held_end(t);
		}
		nanosleep(&pause, NULL);
	}
	return refuse(in, -EAGAIN, "none of its threads stood where code can be loaded safely; try "
				   "again");
}

/* One name for the same bytes, so that an object is found again: FNV-1a. 0 or -errno. */
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

static void close_there(struct held_thread *t, int fd)
{
	const uint64_t args[6] = { (uint64_t)fd };

	held_syscall(t, SYS_close, args);
}

/* A file without a name in the target. Returns its descriptor there, and ours in *here. */
static int make_file(struct injection *in, struct held_thread *t, const char *name, int *here)
{
	char path[64];
	const uint64_t args[6] = { held_write(t, name, strlen(name) + 1), MFD_CLOEXEC };
	long there = args[0] ? held_syscall(t, SYS_memfd_create, args) : -EFAULT;

	if (there < 0)
		return refuse(in, (int)there, "no file can be made in it: %s", strerror((int)-there));
	snprintf(path, sizeof(path), "/proc/%d/fd/%ld", in->pid, there);
	*here = open(path, O_RDWR | O_CLOEXEC);
	if (*here >= 0)
		return (int)there;
	int err = -errno;
	close_there(t, (int)there);
	return refuse(in, err, "cannot open a file in it: %s", strerror(-err));
}

/* The object's bytes: the target may see other files than we do. */
static int copy_object(struct injection *in, struct held_thread *t, int from)
{
	struct stat st;
	int to = -1;
	int there = make_file(in, t, in->name, &to);

	if (there < 0)
		return there;
	off_t left = fstat(from, &st) ? -1 : st.st_size;
	while (left > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);
		if (n <= 0)
			break;
		left -= n;
	}
	close(to);
	if (!left)
		return there;
	close_there(t, there);
	return refuse(in, -EIO, "cannot give it the object's bytes");
}

static int call(struct injection *in, struct held_thread *t, uint64_t function, uint64_t a,
		uint64_t b, uint64_t *result)
{
	const uint64_t args[4] = { a, b };
	int err = held_call(t, function, args, result);

	if (err == -ETIMEDOUT)
		return refuse(in, err, "a call inside it takes longer than a minute; the thread goes on "
				       "by itself when it is over. Try again when less is running");
	if (err == -EINTR)
		return refuse(in, err, "so much is running that this command came late to it: try again");
	return err ? refuse(in, err, "a call inside it did not return: %s", strerror(-err)) : 0;
}

static int say_dlerror(struct injection *in, struct held_thread *t)
{
	char text[256] = "";
	uint64_t at = 0;

	if (in->dlerror_at && !call(in, t, in->dlerror_at, 0, 0, &at) && at)
		pread(in->memory_fd, text, sizeof(text) - 1, (off_t)at);
	return refuse(in, -ELIBACC, "its dynamic linker refused the object: %s", text);
}

/*
 * The linker takes an object of a name that it knows for the one it has, and descriptors are used
 * again. So the name is told apart by what means nothing in a path.
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

static int load(struct injection *in, struct held_thread *t, int object, uint64_t *handle)
{
	char path[160];
	int fd = copy_object(in, t, object);

	if (fd < 0)
		return fd;
	name_descriptor(fd, path, sizeof(path));
	int err = call(in, t, in->dlopen_at, held_write(t, path, strlen(path) + 1), RTLD_NOW_GLIBC,
		       handle);
	if (!err && !*handle)
		err = say_dlerror(in, t);
	close_there(t, fd);
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

static int share_and_call(struct injection *in, struct held_thread *t, uint64_t entry)
{
	char argument[256];
	int here = -1;
	int there = make_file(in, t, in->shared->name, &here);

	if (there < 0)
		return there;
	in->is_shared = true;
	int err = in->shared->take(in->shared->arg, here);
	snprintf(argument, sizeof(argument), "%sfd:%d", in->argument, there);
	err = err ? refuse(in, err, "no memory can be shared with it: %s", strerror(-err)) :
		    call_with(in, t, entry, argument);
	close_there(t, there);
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

/* errno is the thread's, and belongs to the program. */
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

	/* By an earlier call. */
	if (!err && program_mapping(in->pid, in->name, 0, &mapped, &end))
		handle = handle_of(in, t, mapped);
	if (!err && !handle)
		err = load(in, t, object, &handle);
	return err ? err : find_and_call(in, t, handle);
}

/* Again where we came so late that the thread went on by itself: what was done so far is done anew. */
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

static int inject_object(struct injection *in)
{
	int object = in->object;
	int err = program_seccomp(in->pid) ? refuse(in, -EPERM, "it runs under a seccomp filter, "
						     "which could kill it for what is "
						     "loaded: run it without") : 0;

	if (!err)
		err = symbols_open(in->pid, &in->symbols);
	if (!err)
		err = find_all(in);
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

/* What /proc has of a process is that of its first thread. */
static int refuse_memory(struct injection *in, int err)
{
	if (err == -EACCES || err == -EPERM)
		return refuse_tracing(in, err);
	if (err == -ESRCH && !kill(in->pid, 0))
		return refuse(in, err, "its first thread has ended while others run on: its memory "
				       "cannot be reached from outside; start it with this command");
	return refuse(in, err, "cannot open its memory: %s", strerror(-err));
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
	char memory[64];

	snprintf(memory, sizeof(memory), "/proc/%d/mem", pid);
	in.memory_fd = open(memory, O_RDWR | O_CLOEXEC);
	if (in.memory_fd < 0)
		return refuse_memory(&in, -errno);
	in.object = open(path, O_RDONLY | O_CLOEXEC);
	if (in.object < 0) {
		in.err = refuse(&in, -errno, "cannot read %s: %s", path, strerror(errno));
	} else {
		held_run(inject_there, &in);
		close(in.object);
	}
	close(in.memory_fd);
	return in.err;
}

static bool read_mask(pid_t pid, pid_t tid, const char *name, uint64_t *mask)
{
	char text[32];

	if (!program_status(pid, tid, name, text, sizeof(text)))
		return false;
	*mask = strtoull(text, NULL, 16);
	return true;
}

static int set_trap_blocked(pid_t pid, pid_t tid, bool blocked)
{
	static struct held_thread t;
	int err = held_begin(&t, pid, tid, -1);

	if (err)
		return err;
	t.saved_mask = blocked ? t.saved_mask | TRAP_BIT : t.saved_mask & ~TRAP_BIT;
	held_end(&t);
	return 0;
}

/* Those that have SIGTRAP blocked at this moment, with their masks. */
static size_t find_blocked(pid_t pid, struct inject_masked *threads, size_t max)
{
	static pid_t all[THREADS_MAX];
	size_t n = list_threads(pid, all, THREADS_MAX);
	size_t count = 0;

	for (size_t i = 0; i < n && count < max; i++) {
		uint64_t mask;

		if (read_mask(pid, all[i], "SigBlk", &mask) && mask & TRAP_BIT)
			threads[count++] = (struct inject_masked){ all[i], mask };
	}
	return count;
}

/*
 * A thread in a handler has signals blocked for the moment: what was done to its mask there would be
 * undone by its return, and SIGTRAP blocked later kills at the next int3. So a mask counts that stays
 * the same; and where SIGTRAP alone is blocked and has a handler, it is in that most likely.
 */
static size_t drop_passing(pid_t pid, struct inject_masked *threads, size_t count)
{
	struct timespec pause = { 0, LOOK_NS };
	uint64_t caught = 0;

	read_mask(pid, pid, "SigCgt", &caught);
	for (int look = 0; count && look < LOOKS; look++) {
		size_t kept = 0;

		nanosleep(&pause, NULL);
		for (size_t i = 0; i < count; i++) {
			uint64_t mask;

			if (read_mask(pid, threads[i].tid, "SigBlk", &mask) &&
			    mask == threads[i].mask && !(caught & TRAP_BIT && mask == TRAP_BIT))
				threads[kept++] = threads[i];
		}
		count = kept;
	}
	return count;
}

struct masking {
	pid_t pid;
	struct inject_masked *threads;
	size_t count;
	int result;
};

static void unblock_trap(void *arg)
{
	struct masking *m = arg;
	size_t n = drop_passing(m->pid, m->threads, find_blocked(m->pid, m->threads, m->count));

	m->result = 0;
	for (size_t i = 0; i < n; i++) {
		int err = set_trap_blocked(m->pid, m->threads[i].tid, false);

		if (err == -EPERM) {
			m->result = err;
			return;
		}
		if (!err)
			m->threads[m->result++] = m->threads[i];
	}
}

int inject_unblock_trap(pid_t pid, struct inject_masked *threads, size_t max)
{
	struct masking m = { pid, threads, max, 0 };

	held_run(unblock_trap, &m);
	return m.result;
}

/* Or the program has seen to its mask itself. */
static bool is_blocked_again(pid_t pid, const struct inject_masked *thread)
{
	uint64_t mask;

	if (!read_mask(pid, thread->tid, "SigBlk", &mask) || mask == thread->mask)
		return true;
	if (mask != (thread->mask & ~TRAP_BIT))
		return !(mask & TRAP_BIT);
	set_trap_blocked(pid, thread->tid, true);
	return false;
}

/* A thread in a handler, as ours that ended the search, gets the mask back that it had before it. */
static void block_trap(void *arg)
{
	const struct masking *m = arg;
	struct timespec pause = { 0, LOOK_NS };
	int times = 0;

	for (int look = 0; m->count && times < 2 && look < 5 * LOOKS; look++) {
		bool are_all = true;

		for (size_t i = 0; i < m->count; i++)
			are_all &= is_blocked_again(m->pid, &m->threads[i]);
		times = are_all ? times + 1 : 0;
		nanosleep(&pause, NULL);
	}
}

void inject_block_trap(pid_t pid, struct inject_masked *threads, size_t count)
{
	struct masking m = { pid, threads, count, 0 };

	held_run(block_trap, &m);
}
