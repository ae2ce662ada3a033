/* SPDX-License-Identifier: MIT */
/* test_patch_adversaries.c - what programs do to patches: a heap in the way of a jump, and more. */
#include "patches.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* ---- where a jump lands ---- */

/* push %r15; push %r14; push %r13; mov $5, %eax; pop the three; ret: a prologue of many functions. */
static const uint8_t prologue[] = { 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0xb8, 5,    0,
				    0,	  0,	0x41, 0x5d, 0x41, 0x5e, 0x41, 0x5f, 0xc3 };
/* The jump keeps all bytes of its distance but the lowest. */
#define PUSHES_LEAD_TO 0x41564100ull

/* A page whose jump lands so far above the heap. The kernel starts a heap up to 1 GiB above the program, so
 * that the program itself can lie there: then the heap grows.
 */
static uint64_t page_below_the_heap(uint64_t above)
{
	for (int i = 0; i < 8; i++) {
		uint64_t page = ((uint64_t)(uintptr_t)sbrk(0) + above - PUSHES_LEAD_TO) & ~0xfffull;

		if (mmap((void *)(uintptr_t)page, 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			 0) == (void *)(uintptr_t)page)
			return page;
		assert_int_equal(errno, EEXIST);
		assert_true(sbrk(4 << 20) != (void *)-1);
	}
	fail_msg("the page is in use at each size of the heap");
	return 0;
}

static void patch_below_the_heap(uint64_t above)
{
	uint64_t page = page_below_the_heap(above);
	void *at = (void *)(uintptr_t)page;
	struct trapline_patch_function function = { .name = "pushes",
						    .old_address = page,
						    .old_bytes = sizeof(prologue),
						    .new_address = ADDR(new_sleeper) };
	struct trapline_patch *patch = NULL;
	int (*pushed)(void) = (int (*)(void))at;

	memcpy(at, prologue, sizeof(prologue));
	assert_int_equal(mprotect(at, 4096, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(pushed(), 5);
	check(trapline_patch(target, &function, 1, NULL, &patch), "patch");
	assert_int_equal(pushed(), 7);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_int_equal(pushed(), 5);
	assert_memory_equal(at, prologue, sizeof(prologue));
	/* The heap goes on: there, and behind what is in its way. */
	void *blocks[64];
	for (int i = 0; i < 64; i++) {
		blocks[i] = malloc(100000);
		assert_non_null(blocks[i]);
		memset(blocks[i], 1, 100000);
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
	munmap(at, 4096);
}

static void a_jump_may_land_where_the_heap_would_grow(void **state)
{
	patch_below_the_heap(400ull << 20);
	patch_below_the_heap(40ull << 20);
}

/* ---- exceptions and tail calls ---- */

extern int old_thrower(int x);
extern int new_thrower(int x);
extern int old_around(int (*inner)(int), int x);
extern int new_around(int (*inner)(int), int x);
extern int catch_thrown(int (*around)(int (*)(int), int), int (*inner)(int), int x);

static void exceptions_pass_a_patched_function(void **state)
{
	struct trapline_patch_function functions[2] = {
		{ .name = "old_thrower",
		  .old_address = ADDR(old_thrower),
		  .new_address = ADDR(new_thrower) },
		{ .name = "old_around",
		  .old_address = ADDR(old_around),
		  .new_address = ADDR(new_around) },
	};
	struct trapline_patch *patch = NULL;

	check(trapline_patch(target, functions, 1, NULL, &patch), "patch");
	assert_int_equal(catch_thrown(NULL, old_thrower, 1), 1001);
	assert_int_equal(catch_thrown(old_around, old_thrower, 2), 1002);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_int_equal(catch_thrown(old_around, old_thrower, 1), 2);
	assert_int_equal(catch_thrown(old_around, old_thrower, -3), -3);
	check(trapline_patch(target, functions, 2, NULL, &patch), "patch both");
	assert_int_equal(catch_thrown(old_around, old_thrower, 2), 5002);
	check(trapline_patch_undo(patch, 0), "undo both");
}

static void exceptions_pass_a_gate(void **state)
{
	struct trapline_patch_function functions[2] = {
		{ .name = "old_thrower",
		  .old_address = ADDR(old_thrower),
		  .new_address = ADDR(new_thrower) },
		sleeper_function(),
	};
	struct trapline_patch_stats stats = { .size = sizeof(stats) };
	struct trapline_patch *patch = NULL;
	TRAPLINE_OPTS(patch, opts);

	assert_int_equal(pipe(inside_pipe), 0);
	pthread_t thread = start_inside(sleep_inside);
	opts.consistency = TRAPLINE_PATCH_PER_THREAD;
	opts.timeout_ns = 20000000;
	assert_true(trapline_patch(target, functions, 2, &opts, &patch) > 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(catch_thrown(old_around, old_thrower, i), 1000 + i);
	check(trapline_patch_stats(patch, &stats), "stats");
	assert_int_equal(stats.phase, TRAPLINE_PATCH_TO_NEW);
	end_inside(thread, 5);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_int_equal(catch_thrown(old_around, old_thrower, 7), 8);
}

/* A function that is a jump alone, and one that another one jumps to. */
int jumps_on(int x);
int is_jumped_to(int x);
__asm__(".text\n.p2align 4\n.type jumps_on,@function\njumps_on: inc %edi\njmp is_jumped_to\n"
	".p2align 4\n.type is_jumped_to,@function\nis_jumped_to: lea 10(%rdi), %eax\nret\n");

static void tail_calls_lead_to_the_new_function(void **state)
{
	struct trapline_patch_function functions[2] = {
		{ .name = "jumps_on",
		  .old_address = ADDR(jumps_on),
		  .old_bytes = 7,
		  .new_address = ADDR(new_answer) },
		{ .name = "is_jumped_to",
		  .old_address = ADDR(is_jumped_to),
		  .old_bytes = 4,
		  .new_address = ADDR(new_answer) },
	};
	struct trapline_patch *patch = NULL;

	assert_int_equal(jumps_on(1), 12);
	check(trapline_patch(target, &functions[1], 1, NULL, &patch), "patch the second");
	assert_int_equal(jumps_on(1), 1002);
	assert_int_equal(is_jumped_to(1), 1001);
	check(trapline_patch_undo(patch, 0), "undo");
	check(trapline_patch(target, &functions[0], 1, NULL, &patch), "patch the first");
	assert_int_equal(jumps_on(1), 1001);
	assert_int_equal(is_jumped_to(1), 11);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_int_equal(jumps_on(1), 12);
}

/* ---- a library that goes ---- */

/* lea 10(%rdi), %eax; ret; nop */
static const uint8_t plus_ten[] = { 0x8d, 0x47, 0x0a, 0xc3, 0x0f, 0x1f, 0x40, 0x00 };

static void *map_code(void *at, const uint8_t *bytes, size_t n)
{
	void *code = mmap(at, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	assert_ptr_not_equal(code, MAP_FAILED);
	memcpy(code, bytes, n);
	assert_int_equal(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);
	return code;
}

static void code_that_was_unmapped_takes_its_patch_along(void **state)
{
	uint8_t *code = map_code(NULL, plus_ten, sizeof(plus_ten));
	struct trapline_patch_function function = { .name = "plus_ten",
						    .old_address = (uintptr_t)code,
						    .old_bytes = sizeof(plus_ten),
						    .new_address = ADDR(new_answer) };
	struct trapline_patch *patch = NULL;
	uint8_t others[sizeof(plus_ten)];
	int (*call)(int) = (int (*)(int))code;

	memset(others, 0x90, sizeof(others));
	check(trapline_patch(target, &function, 1, NULL, &patch), "patch");
	assert_int_equal(call(1), 1001);
	munmap(code, 4096);
	check(trapline_patch_undo(patch, 0), "undo what is gone");
	/* Another library is there now. It is not written to, and can be patched. */
	map_code(code, plus_ten, sizeof(plus_ten));
	check(trapline_patch(target, &function, 1, NULL, &patch), "patch the next");
	assert_int_equal(call(1), 1001);
	map_code(code, others, sizeof(others));
	int err = trapline_patch_undo(patch, 0);
	assert_memory_equal(code, others, sizeof(others));
	map_code(code, plus_ten, sizeof(plus_ten));
	assert_int_equal(call(1), 11);
	print_message("# undone over foreign code: %d\n", err);
	munmap(code, 4096);
	if (err)
		check(trapline_patch_undo(patch, 0), "undo again");
}

/* ---- threads ---- */

static atomic_uint births;
static atomic_uint wrong_answers;

static void *answer_once(void *arg)
{
	for (int i = 0; i < 50; i++) {
		int result = old_answer(1);

		wrong_answers += result != 2 && result != 1001;
	}
	return NULL;
}

/* Threads are born, call the function, and end, all the time. */
static void *give_birth(void *arg)
{
	pthread_t thread;

	while (!must_stop)
		if (!pthread_create(&thread, NULL, answer_once, NULL)) {
			births++;
			answer_once(NULL);
			pthread_join(thread, NULL);
		}
	return NULL;
}

static void *answer_with_sigtrap_blocked(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!must_stop)
		answer_once(NULL);
	return NULL;
}

static void *answer_in_real_time(void *arg)
{
	struct sched_param first = { .sched_priority = 10 };

	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first))
		print_message("# no real-time priority\n");
	while (!must_stop) {
		answer_once(NULL);
		usleep(50);
	}
	return NULL;
}

/* Back and forth, while others run the function. A mask that is in the way is a refusal, no harm. */
static unsigned int swap_beside(void *(*run)(void *), int threads, unsigned int swaps)
{
	static const uint32_t kinds[] = { TRAPLINE_PATCH_NO_THREAD_INSIDE,
					  TRAPLINE_PATCH_PER_THREAD, TRAPLINE_PATCH_IMMEDIATE };
	pthread_t others[4];
	unsigned int done = 0;

	must_stop = 0;
	wrong_answers = 0;
	for (int i = 0; i < threads; i++)
		pthread_create(&others[i], NULL, run, NULL);
	usleep(10000);
	for (unsigned int i = 0; i < swaps; i++) {
		struct trapline_patch_function function = answer_function();
		struct trapline_patch *patch = NULL;
		TRAPLINE_OPTS(patch, opts);

		opts.consistency = kinds[i % 3];
		opts.timeout_ns = 20000000000u;
		check(trapline_patch(target, &function, 1, &opts, &patch), "patch");
		assert_int_equal(old_answer(1), 1001);
		check(trapline_patch_undo(patch, opts.timeout_ns), "undo");
		assert_int_equal(old_answer(1), 2);
		done++;
	}
	must_stop = 1;
	for (int i = 0; i < threads; i++)
		pthread_join(others[i], NULL);
	assert_int_equal(wrong_answers, 0);
	return done;
}

static void threads_are_born_at_each_step(void **state)
{
	births = 0;
	swap_beside(give_birth, 3, scaled(30));
	print_message("# %u births\n", births);
	assert_true(births > 0);
}

static void threads_with_all_signals_blocked_go_on(void **state)
{
	swap_beside(answer_with_sigtrap_blocked, 2, scaled(30));
}

static void a_real_time_thread_goes_on(void **state)
{
	swap_beside(answer_in_real_time, 1, scaled(30));
}

static void a_child_of_vfork_runs_the_new_function(void **state)
{
	struct trapline_patch_function function = answer_function();
	struct trapline_patch *patch = NULL;
	int status;

	check(trapline_patch(target, &function, 1, NULL, &patch), "patch");
	pid_t child = vfork();
	if (!child)
		_exit(old_answer(1) == 1001 ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	check(trapline_patch_undo(patch, 0), "undo");
	assert_int_equal(old_answer(1), 2);
}

/* ---- a gate that is left by force ---- */

static __thread sigjmp_buf out_of_gate;
static atomic_int has_left;

static void leave_gate(int sig)
{
	siglongjmp(out_of_gate, 1);
}

static void *wait_in_gate(void *arg)
{
	if (!sigsetjmp(out_of_gate, 1)) {
		atomic_store(&has_left, 1);
		while (!must_stop)
			old_answer(1);
	}
	atomic_store(&has_left, 2);
	while (!must_stop)
		usleep(1000);
	return (void *)(intptr_t)old_answer(1);
}

static void *kill_when_it_waits(void *thread)
{
	usleep(100000);
	pthread_kill(*(pthread_t *)thread, SIGUSR2);
	return NULL;
}

/* Another thread is inside, so that the first one waits; it leaves by siglongjmp(). */
static void a_thread_may_leave_a_gate_by_longjmp(void **state)
{
	struct trapline_patch_function functions[2] = { answer_function(), sleeper_function() };
	struct sigaction action = { .sa_handler = leave_gate };
	struct trapline_patch *patch = NULL;
	pthread_t waiter;
	pthread_t killer;
	void *result;
	TRAPLINE_OPTS(patch, opts);

	sigaction(SIGUSR2, &action, NULL);
	assert_int_equal(pipe(inside_pipe), 0);
	must_stop = 0;
	has_left = 0;
	pthread_t inside = start_inside(sleep_inside);
	pthread_create(&waiter, NULL, wait_in_gate, NULL);
	while (!has_left)
		usleep(100);
	pthread_create(&killer, NULL, kill_when_it_waits, &waiter);
	opts.timeout_ns = 500000000;
	assert_int_equal(trapline_patch(target, functions, 2, &opts, &patch), -ETIMEDOUT);
	pthread_join(killer, NULL);
	while (has_left != 2)
		usleep(100);
	end_inside(inside, 5);
	opts.timeout_ns = 20000000000u;
	for (int i = 0; i < 3; i++) {
		check(trapline_patch(target, functions, 2, &opts, &patch), "patch");
		assert_int_equal(old_answer(1), 1001);
		check(trapline_patch_undo(patch, opts.timeout_ns), "undo");
		assert_int_equal(old_answer(1), 2);
	}
	must_stop = 1;
	pthread_join(waiter, &result);
	assert_int_equal((intptr_t)result, 2);
}

/* ---- seccomp ---- */

/* What the quick ways need is refused: clocks of threads, and the count of them. */
static int refuse_quick_ways(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void a_filter_of_system_calls_leaves_the_slow_ways(void **state)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (refuse_quick_ways())
			_exit(77);
		swap_beside(give_birth, 1, 9);
		swap_beside(answer_once, 2, 9);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_jump_may_land_where_the_heap_would_grow, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(exceptions_pass_a_patched_function, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(exceptions_pass_a_gate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(tail_calls_lead_to_the_new_function, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(code_that_was_unmapped_takes_its_patch_along,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(threads_are_born_at_each_step, set_up, tear_down),
		cmocka_unit_test_setup_teardown(threads_with_all_signals_blocked_go_on, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_real_time_thread_goes_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_child_of_vfork_runs_the_new_function, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_thread_may_leave_a_gate_by_longjmp, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_filter_of_system_calls_leaves_the_slow_ways,
						set_up, tear_down),
	};

	return cmocka_run_group_tests_name("patch_adversaries", tests, NULL, NULL);
}
