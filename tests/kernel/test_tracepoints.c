/* SPDX-License-Identifier: MIT */
/* test_tracepoints.c - system calls, descriptors, signals and processes, by tracepoints. */
#include "common.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <trapline/condition.h>

#include "base/syscall_args.h"

#define WRONG_FD 12345

static void require_tracepoints(struct rig *rig)
{
	if (geteuid())
		skip_because("root (CAP_SYS_ADMIN, for raw tracepoints)");
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip_because("the kernel's description of itself (BTF)");
	rig_open(rig, BY_BPF);
}

static int try_kernel(struct rig *rig, enum trapline_kernel_event what, const uint32_t *numbers,
		      size_t count, struct trapline_event_opts *opts)
{
	TRAPLINE_OPTS(event, plain);

	if (!opts)
		opts = &plain;
	opts->arg = rig;
	return trapline_break_kernel(rig->target, what, numbers, count, opts, &rig->event);
}

static void rig_kernel(struct rig *rig, enum trapline_kernel_event what, uint32_t number,
		       struct trapline_event_opts *opts)
{
	expect_ok(try_kernel(rig, what, &number, what > TRAPLINE_AT_SIGNAL ? 0 : 1, opts));
	assert_int_equal(trapline_event_mechanism(rig->event), TRAPLINE_BY_TRACEPOINT);
}

static void close_wrong(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		close(WRONG_FD);
}

static void each_system_call_is_one_hit(void **state)
{
	struct rig rig;

	require_tracepoints(&rig);
	rig_kernel(&rig, TRAPLINE_AT_SYSCALL, SYS_close, NULL);
	close_wrong(10);
	expect_hits(&rig, 10);
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(rig.seen[i].address, SYS_close);
		assert_int_equal(rig.seen[i].syscall, SYS_close);
		assert_int_equal(rig.seen[i].tid, gettid());
		assert_int_equal(rig.seen[i].returned, 0);
	}
	assert_int_equal(stats_of(rig.event).registers, 0);
	rig_close(&rig);
}

static void another_system_call_is_none(void **state)
{
	struct rig rig;

	require_tracepoints(&rig);
	rig_kernel(&rig, TRAPLINE_AT_SYSCALL, SYS_fchdir, NULL);
	close_wrong(10);
	expect_hits(&rig, 0);
	rig_close(&rig);
}

static void returns_have_the_result(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_tracepoints(&rig);
	opts.flags = TRAPLINE_RETURNS;
	rig_kernel(&rig, TRAPLINE_AT_SYSCALL, SYS_close, &opts);
	close_wrong(3);
	expect_hits(&rig, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(rig.seen[i].returned, i % 2);
		assert_int_equal(rig.seen[i].old_value, i % 2);
		assert_int_equal((int64_t)rig.seen[i].new_value, i % 2 ? -EBADF : 0);
	}
	rig_close(&rig);
}

static void a_condition_compares_arguments(void **state)
{
	TRAPLINE_OPTS(condition, names);
	TRAPLINE_OPTS(event, opts);
	struct trapline_condition *condition;
	struct rig rig;

	require_tracepoints(&rig);
	/* The fourth one is in another register than at a call of C. */
	expect_ok(trapline_condition_parse("arg0 == 12345 && arg3 == 99", &names, &condition));
	opts.condition = condition;
	opts.limit = 4;
	rig_kernel(&rig, TRAPLINE_AT_SYSCALL, SYS_pread64, &opts);
	for (int i = 0; i < 8; i++) {
		char byte;

		assert_int_equal(pread(WRONG_FD, &byte, 1, 98 + i % 2), -1);
	}
	expect_hits(&rig, 4);
	assert_int_equal(stats_of(rig.event).rejected_condition, 4);
	trapline_condition_free(condition);
	rig_close(&rig);
}

static void a_descriptor_is_made_used_and_closed(void **state)
{
	struct rig rig;

	require_tracepoints(&rig);
	const int fd = fcntl(0, F_DUPFD, 500);
	char byte;

	close(fd);
	rig_kernel(&rig, TRAPLINE_AT_DESCRIPTOR, (uint32_t)fd, NULL);
	assert_int_equal(fcntl(0, F_DUPFD, 500), fd);
	assert_int_equal(pread(WRONG_FD, &byte, 1, 0), -1);
	assert_true(pread(fd, &byte, 0, 0) <= 0);
	close(fd);
	expect_hits(&rig, 3);
	assert_int_equal(rig.seen[0].syscall, SYS_fcntl);
	assert_int_equal(rig.seen[0].new_value, fd);
	assert_int_equal(rig.seen[0].old_value, 1);
	assert_int_equal(rig.seen[1].syscall, SYS_pread64);
	assert_int_equal(rig.seen[2].syscall, SYS_close);
	assert_int_equal(rig.seen[2].address, fd);
	rig_close(&rig);
}

/* In a container it is refused to give numbers that are not those of the container. */
static void require_numbers(struct rig *rig, enum trapline_kernel_event what)
{
	struct stat numbers;

	require_tracepoints(rig);
	if (!stat("/proc/self/ns/pid", &numbers) && numbers.st_ino == 0xeffffffc)
		return;
	assert_int_equal(try_kernel(rig, what, NULL, 0, NULL), -EOPNOTSUPP);
	close_target(rig->target);
	skip();
}

static void a_signal_has_its_sender(void **state)
{
	struct rig rig;

	require_numbers(&rig, TRAPLINE_AT_SIGNAL);
	rig_kernel(&rig, TRAPLINE_AT_SIGNAL, SIGURG, NULL);
	const pid_t child = fork();
	if (!child) {
		kill(getppid(), SIGURG);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].pid, child);
	assert_int_equal(rig.seen[0].address, SIGURG);
	assert_int_equal(rig.seen[0].new_value, getpid());
	assert_int_equal(rig.seen[0].old_value, SI_USER);
	rig_close(&rig);
}

static void *no_work(void *arg)
{
	return arg;
}

static void a_fork_has_its_child_and_threads_are_none(void **state)
{
	pthread_t thread;
	struct rig rig;

	require_numbers(&rig, TRAPLINE_AT_FORK);
	rig_kernel(&rig, TRAPLINE_AT_FORK, 0, NULL);
	pthread_create(&thread, NULL, no_work, NULL);
	pthread_join(thread, NULL);
	const pid_t child = fork();
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	expect_hits(&rig, 1);
	assert_int_equal(rig.seen[0].new_value, child);
	assert_int_equal(rig.seen[0].pid, getpid());
	rig_close(&rig);
}

static void ends_of_children_are_followed(void **state)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_tracepoints(&rig);
	opts.flags = TRAPLINE_FOLLOW_FORKS;
	rig_kernel(&rig, TRAPLINE_AT_EXIT, 0, &opts);
	for (int i = 0; i < 4; i++) {
		const pid_t child = fork();

		if (!child)
			_exit(i);
		waitpid(child, NULL, 0);
	}
	expect_hits(&rig, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(WEXITSTATUS(rig.seen[i].new_value), i);
	rig_close(&rig);
}

static void without_a_fork_or_an_exec_there_is_no_hit(void **state)
{
	struct rig rig;

	require_tracepoints(&rig);
	rig_kernel(&rig, TRAPLINE_AT_EXEC, 0, NULL);
	close_wrong(3);
	expect_hits(&rig, 0);
	rig_close(&rig);
	require_numbers(&rig, TRAPLINE_AT_OOM);
	rig_kernel(&rig, TRAPLINE_AT_OOM, 0, NULL);
	close_wrong(3);
	expect_hits(&rig, 0);
	rig_close(&rig);
}

static void at_rest_nothing_is_seen(void **state)
{
	struct rig rig;

	require_tracepoints(&rig);
	/* A rest closes descriptors, so it is another system call. */
	rig_kernel(&rig, TRAPLINE_AT_SYSCALL, SYS_fchdir, NULL);
	expect_ok(trapline_event_rest(rig.event));
	for (int i = 0; i < 5; i++)
		assert_int_equal(fchdir(WRONG_FD), -1);
	expect_ok(trapline_event_enable(rig.event));
	assert_int_equal(fchdir(WRONG_FD), -1);
	assert_int_equal(fchdir(WRONG_FD), -1);
	expect_hits(&rig, 2);
	assert_int_equal(stats_of(rig.event).while_off, 0);
	rig_close(&rig);
}

static void what_cannot_be_is_refused(void **state)
{
	const uint32_t number = 1023;
	const uint32_t far = 4000;
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	require_tracepoints(&rig);
	assert_int_equal(try_kernel(&rig, TRAPLINE_AT_SYSCALL, &far, 1, NULL), -EINVAL);
	assert_int_equal(try_kernel(&rig, TRAPLINE_AT_SIGNAL, &number, 1, NULL), -EINVAL);
	assert_int_equal(try_kernel(&rig, TRAPLINE_AT_DESCRIPTOR, NULL, 0, NULL), -EINVAL);
	assert_int_equal(try_kernel(&rig, TRAPLINE_AT_FORK, &number, 1, NULL), -EINVAL);
	opts.flags = TRAPLINE_RETURNS;
	assert_int_equal(try_kernel(&rig, TRAPLINE_AT_FORK, NULL, 0, &opts), -EINVAL);
	opts.flags = TRAPLINE_KERNEL;
	assert_int_equal(try_kernel(&rig, TRAPLINE_AT_SYSCALL, NULL, 0, &opts), -EINVAL);
	close_target(rig.target);
}

static void the_table_has_descriptors(void **state)
{
	assert_int_equal(syscall_descriptors(SYS_close), 1);
	assert_int_equal(syscall_descriptors(SYS_openat), 1 | SYSCALL_CREATES);
	assert_int_equal(syscall_descriptors(SYS_epoll_ctl), 1 | 1 << 2);
	assert_int_equal(syscall_descriptors(SYS_pipe2), SYSCALL_PAIR_FIRST);
	assert_int_equal(syscall_descriptors(SYS_getpid), 0);
	assert_int_equal(syscall_descriptors(-1), 0);
	assert_int_equal(syscall_descriptors(1 << 20), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_system_call_is_one_hit),
		TEST(another_system_call_is_none),
		TEST(returns_have_the_result),
		TEST(a_condition_compares_arguments),
		TEST(a_descriptor_is_made_used_and_closed),
		TEST(a_signal_has_its_sender),
		TEST(a_fork_has_its_child_and_threads_are_none),
		TEST(ends_of_children_are_followed),
		TEST(without_a_fork_or_an_exec_there_is_no_hit),
		TEST(at_rest_nothing_is_seen),
		TEST(what_cannot_be_is_refused),
		TEST(the_table_has_descriptors),
	};

	return run_group(tests);
}
