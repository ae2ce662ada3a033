/* SPDX-License-Identifier: MIT */
/* own_table.c - see own_table.h. */
#include "base/general_regs.h"

#include "guest/own_table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/own_fd.h"
#include "base/shared_signal.h"
#include "base/signal_bit.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "guest/own_thread.h"

#define STANDARD_FILES 3
#define STACK_BYTES (64u << 10)
#define THREADS_MOST 16u /* the server, and one for each run */
#define WAIT_NS 100000000
#define BEGIN_STEP_NS 100000
#define BEGIN_STEPS 10000 /* 1 s and more */
#define END_STEP_NS 1000000
#define END_STEPS 1000

struct request {
	struct request *next;
	long (*run)(void *arg);
	void *arg;
	long result;
	uint32_t is_done;
};

enum {
	TABLE_NONE,
	TABLE_BEGINS,
	TABLE_FAILED,
	TABLE_GIVEN_UP,
	TABLE_OPEN
};

static AFTER_FORK struct {
	struct request *first; /* the latest of those that wait */
	uint32_t wakes;
	uint32_t state;
	uint32_t users;
	int is_lent; /* by the loader, which has a table of its own */
	int error;
	pid_t pid;
	pid_t server;
	pid_t threads[THREADS_MOST]; /* that have the table */
	pid_t spared[THREADS_MOST];  /* that have another one, which is not the program's */
} table;

static struct request closed; /* first, when none is taken any more */

/* ---- the table ---- */

/* Since Linux 5.9. None of the program's files is in it: they would stay open. */
static int take_own(void)
{
	const long err = sys3(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE);

	if (err)
		return (int)err;
	/* libc writes messages to the first three: what is there takes no bytes. */
	for (int i = 0; i < STANDARD_FILES; i++)
		sys1(SYS_epoll_create1, 0);
	return 0;
}

TRAP_PATH static int has_this(const pid_t list[THREADS_MOST])
{
	const pid_t self = sys_gettid();

	for (uint32_t i = 0; i < THREADS_MOST; i++)
		if (counter_get(&list[i]) == self)
			return 1;
	return 0;
}

static void add_this(pid_t list[THREADS_MOST])
{
	const pid_t self = sys_gettid();

	for (uint32_t i = 0; i < THREADS_MOST; i++) {
		pid_t none = 0;

		if (atomic_cas(&list[i], &none, self))
			return;
	}
}

static void drop_this(pid_t list[THREADS_MOST])
{
	const pid_t self = sys_gettid();

	for (uint32_t i = 0; i < THREADS_MOST; i++)
		if (counter_get(&list[i]) == self)
			atomic_set(&list[i], 0);
}

TRAP_PATH static int is_inside(void)
{
	return has_this(table.threads);
}

TRAP_PATH static int is_spared(void)
{
	return has_this(table.spared) || is_inside();
}

int own_table_is_here(void)
{
	return is_inside();
}

void own_table_enter(int is_here)
{
	if (is_here)
		add_this(table.threads);
	else if (!take_own())
		add_this(table.spared);
}

void own_table_leave(void)
{
	drop_this(table.threads);
	drop_this(table.spared);
}

void own_table_spare(void)
{
	add_this(table.spared);
}

/* ---- asking ---- */

TRAP_PATH static int push(struct request *r)
{
	struct request *first = atomic_get(&table.first);

	do {
		if (first == &closed)
			return -EBADF;
		r->next = first;
	} while (!atomic_cas(&table.first, &first, r));
	atomic_add(&table.wakes, 1u);
	sys3(SYS_futex, &table.wakes, FUTEX_WAKE_PRIVATE, 1);
	return 0;
}

/* The server ends with the process, or after it has taken all. */
TRAP_PATH static void wait_for(struct request *r)
{
	const struct timespec step = { 0, WAIT_NS };

	while (!atomic_get(&r->is_done))
		if (sys4(SYS_futex, &r->is_done, FUTEX_WAIT_PRIVATE, 0, &step) == -ETIMEDOUT &&
		    sys_tgkill(table.pid, table.server, 0) == -ESRCH)
			return;
}

/*
 * With signals blocked: a handler of the program may leave by longjmp(3), and the server would
 * write here. Those that instructions raise stay as they are: the call may be about this thread's
 * mask.
 */
TRAP_PATH long own_table_call(long (*run)(void *arg), void *arg)
{
	struct request r = { .run = run, .arg = arg, .result = -EBADF };
	const uint64_t sent = ~SIGNALS_OF_INSTRUCTIONS;
	uint64_t before = 0;

	if (is_inside())
		return run(arg);
	if (atomic_get(&table.state) != TABLE_OPEN || sys_getpid() != table.pid)
		return -EBADF; /* a process that was forked by a system call has no server either */
	sys4(SYS_rt_sigprocmask, SIG_BLOCK, &sent, &before, sizeof(sent));
	if (!push(&r))
		wait_for(&r);
	shared_signal_leave(before);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	return r.result;
}

TRAP_PATH static long make_call(void *arg)
{
	const struct own_fd_call *c = arg;
	const long *a = c->args;

	return arch_syscall6(c->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

TRAP_PATH static long make(const struct own_fd_call *call)
{
	return own_table_call(make_call, (void *)(uintptr_t)call);
}

static const struct own_fd_table operations = {
	.make = make,
	.call = own_table_call,
	.is_here = is_inside,
	.is_spared = is_spared,
};

/* ---- the server ---- */

static struct request *in_order(struct request *latest)
{
	struct request *first = NULL;

	while (latest) {
		struct request *next = latest->next;

		latest->next = first;
		first = latest;
		latest = next;
	}
	return first;
}

/* As soon as one is done its memory is that of the thread that asked. */
static void answer(struct request *latest)
{
	for (struct request *r = in_order(latest); r;) {
		struct request *next = r->next;

		r->result = r->run(r->arg);
		atomic_set(&r->is_done, 1u);
		sys3(SYS_futex, &r->is_done, FUTEX_WAKE_PRIVATE, 1);
		r = next;
	}
}

static void answer_all(struct request *after)
{
	struct request *latest = atomic_swap(&table.first, after);

	if (!latest)
		return;
	own_thread_opens();
	answer(latest);
	own_thread_shuts();
}

/* 0: the thread that has started the server does not wait for it any more. */
static int tell(uint32_t state)
{
	uint32_t begins = TABLE_BEGINS;

	if (atomic_cas(&table.state, &begins, state))
		return 1;
	atomic_set(&table.state, (uint32_t)TABLE_NONE);
	return 0;
}

static void *serve(void *arg)
{
	(void)arg;
	own_thread_begins();
	table.error = table.is_lent ? 0 : take_own();
	if (table.error) {
		tell(TABLE_FAILED);
		return NULL;
	}
	table.server = sys_gettid();
	atomic_set(&table.first, (struct request *)NULL);
	if (!tell(TABLE_OPEN))
		return NULL;
	add_this(table.threads);
	atomic_set(&own_fd_table, &operations);
	while (atomic_get(&table.users)) {
		const uint32_t wakes = atomic_get(&table.wakes);

		answer_all(NULL);
		if (atomic_get(&table.users) && !atomic_get(&table.first))
			sys4(SYS_futex, &table.wakes, FUTEX_WAIT_PRIVATE, wakes, NULL);
	}
	atomic_set(&own_fd_table, (const struct own_fd_table *)NULL);
	answer_all(&closed);
	own_table_leave();
	atomic_set(&table.state, (uint32_t)TABLE_NONE);
	return NULL;
}

/*
 * A process that is stopped starts no thread, and on a busy machine one may wait for a CPU for
 * long.
 */
static int wait_for_server(void)
{
	const struct timespec step = { 0, BEGIN_STEP_NS };
	uint32_t begins = TABLE_BEGINS;

	for (int i = 0; i < BEGIN_STEPS && atomic_get(&table.state) == TABLE_BEGINS; i++)
		sys_nap(&step);
	if (atomic_cas(&table.state, &begins, (uint32_t)TABLE_GIVEN_UP))
		return -EUNATCH;
	while (atomic_get(&table.state) == TABLE_OPEN && !atomic_get(&own_fd_table))
		sys_nap(&step);
	return atomic_get(&table.state) == TABLE_FAILED ? table.error : 0;
}

/* ---- begin and end ---- */

static int is_counted(void)
{
	uint32_t users = atomic_get(&table.users);

	while (users)
		if (atomic_cas(&table.users, &users, users + 1))
			return 1;
	return 0;
}

/* One that ends takes no request any more. */
static int wait_while(uint32_t state)
{
	const struct timespec step = { 0, END_STEP_NS };

	for (int i = 0; atomic_get(&table.state) == state; i++) {
		if (i == END_STEPS)
			return -EBUSY;
		sys_nap(&step);
	}
	return 0;
}

int own_table_begin(void)
{
	if (is_counted())
		return 0;
	if (wait_while(TABLE_OPEN) || wait_while(TABLE_GIVEN_UP))
		return -EUNATCH;
	table.pid = sys_getpid();
	table.is_lent = own_thread_lender() != sys_gettid();
	atomic_set(&table.users, 1u);
	atomic_set(&table.state, (uint32_t)TABLE_BEGINS);
	own_thread_prepare();
	int err = own_thread_start(pthread_create, STACK_BYTES, serve, NULL);
	if (err)
		atomic_set(&table.state, (uint32_t)TABLE_FAILED);
	else
		err = wait_for_server();
	if (err)
		atomic_set(&table.users, 0u);
	else if (table.is_lent)
		add_this(table.threads);
	if (atomic_get(&table.state) == TABLE_FAILED)
		atomic_set(&table.state, (uint32_t)TABLE_NONE);
	return err;
}

void own_table_end(void)
{
	if (atomic_add(&table.users, -1u) != 1)
		return;
	atomic_add(&table.wakes, 1u);
	sys3(SYS_futex, &table.wakes, FUTEX_WAKE_PRIVATE, 1);
}

int own_table_is_open(void)
{
	return atomic_get(&own_fd_table) != NULL;
}

AT_FORK void own_table_forked(void)
{
	atomic_set_if_other(&own_fd_table, (const struct own_fd_table *)NULL);
	atomic_set_if_other(&table.first, (struct request *)NULL);
	atomic_set_if_other(&table.state, (uint32_t)TABLE_NONE);
	atomic_set_if_other(&table.users, 0u);
	for (uint32_t i = 0; i < THREADS_MOST; i++) {
		atomic_set_if_other(&table.threads[i], 0);
		atomic_set_if_other(&table.spared[i], 0);
	}
}

/* ---- what is in it ---- */

/*
 * From another table by its path: no other way leads from one table to another without a moment in
 * the program's.
 */
int own_table_take(int fd)
{
	char path[64];

	if (is_inside())
		return own_fd_keep(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STANDARD_FILES, 0, 0);
	snprintf(path, sizeof(path), "/proc/self/task/%d/fd/%d", sys_gettid(), fd);
	return own_fd_keep(SYS_openat, AT_FDCWD, (long)(uintptr_t)path,
			   O_RDWR | O_NONBLOCK | O_CLOEXEC, 0, 0);
}

int own_table_bring(int fd)
{
	char folder[40];
	char path[64];

	own_table_folder(folder, sizeof(folder));
	snprintf(path, sizeof(path), "%s/%d", folder, fd & ~OWN_FD_FAR);
	return own_fd_open(path, O_RDWR | O_NONBLOCK);
}

void own_table_folder(char *path, size_t bytes)
{
	snprintf(path, bytes, "/proc/self/task/%d/fd", table.server);
}
