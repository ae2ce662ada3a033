/* SPDX-License-Identifier: MIT */
/*
 * test_exchange.c - changed copies of pages take the place of text, under threads that no signal reaches.
 *
 * On each processor: the library is told that single stores are not promised.
 */
#include "exchanges.h"
#include "patches.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <trapline/safepoint.h>

/* ---- threads that no signal reaches ---- */

static atomic_uint wrong;
static atomic_uint passing;

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void pass_once(void)
{
	unsigned int result = (unsigned int)crossing();

	wrong += result != OLD && result != NEW;
}

/* Many of them leave each other a processor. */
static void *pass_blocked(void *naps)
{
	block_all();
	pass_once();
	passing++;
	while (!must_stop) {
		for (int i = 0; i < 1000; i++)
			pass_once();
		if (naps)
			usleep(2000);
	}
	return NULL;
}

static void flip_beside_threads(int n, unsigned int flips)
{
	pthread_t threads[500];
	pthread_attr_t small;

	must_stop = 0;
	wrong = passing = 0;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], &small, pass_blocked,
						n > 20 ? &passing : NULL),
				 0);
	while (passing < (unsigned int)n)
		usleep(1000);
	uint64_t before = exchanged();
	for (unsigned int i = 0; i < flips; i++) {
		flip(crossing_site, 1);
		assert_int_equal(crossing(), NEW);
		flip(crossing_site, 0);
		assert_int_equal(crossing(), OLD);
	}
	assert_int_equal(exchanged() - before, 2 * flips);
	must_stop = 1;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(wrong, 0);
}

static void one_thread_sees_old_or_new(void **state)
{
	flip_beside_threads(1, scaled(2000));
}

static void twenty_threads_see_old_or_new(void **state)
{
	flip_beside_threads(20, scaled(200));
}

static void five_hundred_threads_see_old_or_new(void **state)
{
	flip_beside_threads(500, scaled(50));
}

/* The spin form becomes the same, also at a site of one byte. */
static void the_spin_form_needs_no_promise(void **state)
{
	uint64_t before = exchanged();

	check(change(crossing_site, 1, TRAPLINE_POKE_SPIN, 0), "spin");
	assert_int_equal(crossing(), NEW);
	check(change(crossing_site, 0, TRAPLINE_POKE_SPIN, 0), "spin");
	assert_int_equal(exchanged() - before, 2);
}

static void *pass_and_end(void *arg)
{
	block_all();
	for (int i = 0; i < 50; i++)
		pass_once();
	return NULL;
}

static void *keep_bearing(void *arg)
{
	pthread_t thread;

	while (!must_stop)
		if (!pthread_create(&thread, NULL, pass_and_end, NULL)) {
			pthread_join(thread, NULL);
			passing++;
		}
	return NULL;
}

static void *keep_vforking(void *arg)
{
	int status;

	while (!must_stop) {
		pid_t child = vfork();

		if (!child)
			_exit(crossing() != OLD && crossing() != NEW);
		if (waitpid(child, &status, 0) == child) {
			wrong += status != 0;
			passing++;
		}
	}
	return NULL;
}

static void flip_beside_one(void *(*run)(void *))
{
	pthread_t thread;

	must_stop = 0;
	wrong = passing = 0;
	pthread_create(&thread, NULL, run, NULL);
	for (unsigned int i = 0; i < scaled(500) || !passing; i++) {
		flip(crossing_site, 1);
		flip(crossing_site, 0);
	}
	must_stop = 1;
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}

static void threads_are_born_and_end_meanwhile(void **state)
{
	flip_beside_one(keep_bearing);
}

static void children_of_vfork_run_it_meanwhile(void **state)
{
	flip_beside_one(keep_vforking);
}

/* ---- a thread that is in the page ---- */

static void *pause_blocked(void *fd)
{
	char byte;

	block_all();
	passing++;
	return (void *)(intptr_t)pausing((int)(intptr_t)fd, &byte, 1);
}

static void a_thread_asleep_in_the_page_wakes_in_the_new_one(void **state)
{
	pthread_t thread;
	void *result;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	passing = 0;
	pthread_create(&thread, NULL, pause_blocked, (void *)(intptr_t)ends[0]);
	while (!passing)
		usleep(1000);
	usleep(20000);
	flip(pausing_site, 1);
	assert_int_equal(write(ends[1], "x", 1), 1);
	pthread_join(thread, &result);
	assert_int_equal((int)(intptr_t)result, NEW);
	flip(pausing_site, 0);
	close(ends[0]);
	close(ends[1]);
}

static atomic_int traced_tid;

static void *pass_traced(void *arg)
{
	traced_tid = (int)syscall(SYS_gettid);
	return pass_blocked(NULL);
}

/* As a debugger: stops the thread wherever it is, and lets it go on when the other end is closed. */
static void hold_thread(pid_t tid, int told, int until)
{
	int status;
	char byte = ptrace(PTRACE_SEIZE, tid, NULL, NULL) ? 'n' : 'y';

	if (byte == 'y' &&
	    (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) || waitpid(tid, &status, __WALL) != tid))
		byte = 'n';
	if (write(told, &byte, 1) != 1)
		_exit(1);
	if (read(until, &byte, 1) == 1)
		ptrace(PTRACE_DETACH, tid, NULL, NULL);
	_exit(0);
}

static void a_thread_that_a_debugger_holds_goes_on_later(void **state)
{
	int told[2];
	int until[2];
	char byte;
	pthread_t thread;

	must_stop = 0;
	wrong = passing = 0;
	assert_int_equal(pipe(told) | pipe(until), 0);
	pthread_create(&thread, NULL, pass_traced, NULL);
	while (!passing)
		usleep(1000);
	pid_t child = fork();
	if (!child) {
		usleep(20000);
		hold_thread(traced_tid, told[1], until[0]);
	}
	prctl(PR_SET_PTRACER, child, 0, 0, 0);
	assert_int_equal(read(told[0], &byte, 1), 1);
	for (int i = 0; i < 21; i++)
		flip(crossing_site, i % 2 == 0);
	assert_int_equal(write(until[1], &byte, 1), 1);
	waitpid(child, NULL, 0);
	usleep(20000);
	flip(crossing_site, 0);
	must_stop = 1;
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
	if (byte != 'y')
		skip();
}

/* ---- what is refused, with no byte changed ---- */

static void expect_refusal(int err, int expected, const char *word)
{
	char why[700] = "";

	trapline_explain(err, why, sizeof(why));
	assert_int_equal(err, expected);
	if (!strstr(why, word))
		fail_msg("'%s' is not in: %s", word, why);
}

static uint8_t *map_shared_code(int protection)
{
	int fd = memfd_create("code", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_PAGE), 0);
	assert_int_equal(pwrite(fd, "\xb8\x01\x01\x01\x01\xc3", 6, 0), 6);
	uint8_t *code = mmap(NULL, FILE_PAGE, protection, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(code, MAP_FAILED);
	close(fd);
	return code;
}

static void shared_and_writable_code_stays_as_it_is(void **state)
{
	uint8_t *shared = map_shared_code(PROT_READ | PROT_EXEC);
	uint8_t *writable = mmap(NULL, FILE_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(writable, bytes_old, sizeof(bytes_old));
	expect_refusal(change(shared, 1, TRAPLINE_POKE_SINGLE_STORE, 0), -EOPNOTSUPP, "is shared");
	expect_refusal(change(writable, 1, TRAPLINE_POKE_SINGLE_STORE, 0), -EOPNOTSUPP,
		       "may be written");
	assert_memory_equal(shared, bytes_old, sizeof(bytes_old));
	assert_memory_equal(writable, bytes_old, sizeof(bytes_old));
	expect_refusal(change(crossing_site, 1, TRAPLINE_POKE_SINGLE_STORE, TRAPLINE_WRITE_MEM),
		       -EOPNOTSUPP, "not among the writers");
	expect_refusal(change(crossing_site, 0, TRAPLINE_POKE_SINGLE_STORE, 0), -EBUSY, "expected");
	assert_int_equal(crossing(), OLD);
	munmap(shared, FILE_PAGE);
	munmap(writable, FILE_PAGE);
}

static void *wait_blocked(void *arg)
{
	block_all();
	passing++;
	while (!must_stop)
		usleep(1000);
	return NULL;
}

/* A probe of code that cannot be exchanged: an int3, unless it would end a thread. */
static void an_int3_is_the_last_resort(void **state)
{
	uint8_t *shared = map_shared_code(PROT_READ | PROT_EXEC);
	struct trapline_event *event = NULL;
	TRAPLINE_OPTS(event, opts);
	pthread_t thread;

	opts.callback = count;
	must_stop = 0;
	passing = 0;
	pthread_create(&thread, NULL, wait_blocked, NULL);
	while (!passing)
		usleep(1000);
	expect_refusal(trapline_probe(target, ADDR(shared), &opts, &event), -EBUSY,
		       "SIGTRAP blocked");
	expect_refusal(trapline_probe(target, ADDR(shared), &opts, &event), -EBUSY, "is shared");
	must_stop = 1;
	pthread_join(thread, NULL);
	check(trapline_probe(target, ADDR(shared), &opts, &event), "probe");
	assert_int_equal(((int (*)(void))shared)(), OLD);
	assert_int_equal(callbacks, 1);
	trapline_event_close(event);
	munmap(shared, FILE_PAGE);
}

static int refuse_mremap(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void expect_child(int status)
{
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_filter_of_system_calls_is_a_refusal(void **state)
{
	char why[700] = "";
	int status;
	pid_t child = fork();

	if (!child) {
		if (refuse_mremap())
			_exit(77);
		int err = change(crossing_site, 1, TRAPLINE_POKE_SINGLE_STORE, 0);
		trapline_explain(err, why, sizeof(why));
		if (err != -EOPNOTSUPP || !strstr(why, "mremap() is refused") || crossing() != OLD)
			_exit(1);
		_exit(change(crossing_site, 1, 0, 0) || crossing() != NEW);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	expect_child(status);
}

/* The program's file has no name any more: /proc/self/exe still opens it. */
static void a_deleted_program_is_changed_too(void **state)
{
	char name[] = "/tmp/test_exchange.XXXXXX";
	int to = mkstemp(name);
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char block[65536];
	ssize_t n;
	int status;

	assert_true(to >= 0 && from >= 0);
	while ((n = read(from, block, sizeof(block))) > 0)
		assert_int_equal(write(to, block, (size_t)n), n);
	fchmod(to, 0700);
	close(from);
	close(to);
	pid_t child = fork();
	if (!child) {
		execl(name, name, "--deleted", NULL);
		_exit(77);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	unlink(name);
	expect_child(status);
}

static int change_deleted(const char *name)
{
	poke_promise = PROMISE_NONE;
	unlink(name);
	int err = change(crossing_site, 1, TRAPLINE_POKE_SINGLE_STORE, 0);
	return err || crossing() != NEW || exchanged() != 1;
}

/* ---- what is built on it ---- */

static void *answer_blocked(void *arg)
{
	block_all();
	passing++;
	while (!must_stop) {
		int result = old_answer(1);

		wrong += result != 2 && result != 1001;
	}
	return NULL;
}

static void a_patch_and_a_probe_serve_them(void **state)
{
	struct trapline_patch_function function = answer_function();
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);
	pthread_t thread;

	must_stop = 0;
	wrong = passing = 0;
	opts.timeout_ns = 20000000000u;
	pthread_create(&thread, NULL, answer_blocked, NULL);
	while (!passing)
		usleep(1000);
	uint64_t before = exchanged();
	for (unsigned int i = 0; i < scaled(20); i++) {
		check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
		assert_int_equal(old_answer(1), 1001);
		check(trapline_patch_undo(patch, opts.timeout_ns), "undo");
		trapline_event_close(probe_if(crossing_site, NULL, count));
	}
	assert_true(exchanged() - before >= 4 * scaled(20));
	must_stop = 1;
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}

static struct trapline_safepoint *domain;
static atomic_uint rounds;

static void *work_blocked(void *arg)
{
	block_all();
	if (trapline_safepoint_register(domain, NULL))
		return NULL;
	passing++;
	while (!must_stop) {
		TRAPLINE_SAFEPOINT_POKE();
		rounds++;
	}
	trapline_safepoint_unregister();
	return NULL;
}

static void safepoints_serve_them(void **state)
{
	struct trapline_safepoint_opts opts = { .size = sizeof(opts),
						.backend = TRAPLINE_SAFEPOINT_BY_POKE };
	pthread_t thread;

	must_stop = 0;
	passing = 0;
	check(trapline_safepoint_open(&opts, &domain), "open");
	pthread_create(&thread, NULL, work_blocked, NULL);
	while (!passing)
		usleep(1000);
	uint64_t before = exchanged();
	for (unsigned int i = 0; i < scaled(100); i++) {
		check(trapline_safepoint_stop(domain, 20000, NULL, NULL), "stop");
		unsigned int seen = rounds;
		sched_yield();
		assert_int_equal(rounds, seen);
		check(trapline_safepoint_resume(domain), "resume");
		/* One that has not gone on yet is stopped without a change of code. */
		while (rounds == seen)
			sched_yield();
	}
	assert_true(exchanged() - before >= 2 * scaled(100));
	must_stop = 1;
	pthread_join(thread, NULL);
	check(trapline_safepoint_close(domain), "close");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(one_thread_sees_old_or_new),
		TEST(twenty_threads_see_old_or_new),
		TEST(five_hundred_threads_see_old_or_new),
		TEST(the_spin_form_needs_no_promise),
		TEST(threads_are_born_and_end_meanwhile),
		TEST(children_of_vfork_run_it_meanwhile),
		TEST(a_thread_asleep_in_the_page_wakes_in_the_new_one),
		TEST(a_thread_that_a_debugger_holds_goes_on_later),
		TEST(shared_and_writable_code_stays_as_it_is),
		TEST(an_int3_is_the_last_resort),
		TEST(a_filter_of_system_calls_is_a_refusal),
		TEST(a_deleted_program_is_changed_too),
		TEST(a_patch_and_a_probe_serve_them),
		TEST(safepoints_serve_them),
	};

	if (argc == 2 && !strcmp(argv[1], "--deleted"))
		return change_deleted(argv[0]);
	return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
