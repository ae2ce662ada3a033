/* SPDX-License-Identifier: MIT */
/* test_probe_adversaries.c - probes under threads, signals, unwinding, small stacks and unloading. */
#include "probes.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/time.h>

/* ---- threads ---- */

static volatile int stop;
static uint64_t runs[4];

static void *run_without_end(void *arg)
{
	uint64_t *own = arg;

	while (!stop) {
		assert_int_equal(five(*own, 1), *own * 3 + 1);
		assert_int_equal(pushes(*own), *own + 3);
		++*own;
	}
	return NULL;
}

static void probes_come_and_go_under_running_threads(void **state)
{
	pthread_t threads[4];
	uint64_t cycles = scaled(2000);
	uint64_t delivered = 0;

	stop = 0;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run_without_end, &runs[i]);
	for (uint64_t i = 0; i < cycles; i++) {
		const void *function = i & 1 ? (const void *)five : (const void *)pushes;
		struct trapline_event *event =
			probe_if(function, i & 2 ? "arg0 % 64 == 3" : NULL, count);

		if (i % 16 == 0)
			usleep(1000);
		delivered += stats_of(event).delivered;
		trapline_event_close(event);
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_true(delivered > 0 && delivered <= callbacks);
}

static void each_pass_of_each_thread_is_one_hit(void **state)
{
	struct trapline_event *event = probe_if(five, NULL, count);
	pthread_t threads[4];
	uint64_t sum = 0;

	stop = 0;
	memset(runs, 0, sizeof(runs));
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run_without_end, &runs[i]);
	usleep(100000);
	stop = 1;
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		sum += runs[i];
	}
	assert_int_equal(callbacks, sum);
	assert_int_equal(stats_of(event).taken, sum);
	trapline_event_close(event);
}

/* ---- adversaries ---- */

/* The first instruction here is a call: its copy pushes the original's return address. */
void call_through(void (*function)(void));
__asm__(".text\n.p2align 4\n.globl call_through\ncall_through:\n"
	".cfi_startproc\n"
	"sub $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"call_through_site: call *%rdi\n"
	"add $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"ret\n"
	".cfi_endproc\n");
extern const char call_through_site[];
static volatile int cleaned;

static void clean_up(void *arg)
{
	cleaned = 1;
}

static void leave_thread(void)
{
	pthread_exit((void *)7);
}

static void *unwind_through(void *arg)
{
	pthread_cleanup_push(clean_up, NULL);
	call_through(leave_thread);
	pthread_cleanup_pop(0);
	return NULL;
}

static void unwinding_passes_a_probed_call(void **state)
{
	struct trapline_event *event = probe_if(call_through_site, NULL, count);
	pthread_t thread;
	void *result = NULL;

	cleaned = 0;
	pthread_create(&thread, NULL, unwind_through, NULL);
	pthread_join(thread, &result);
	assert_ptr_equal(result, (void *)7);
	assert_int_equal(cleaned, 1);
	assert_int_equal(callbacks, 1);
	trapline_event_close(event);
}

static volatile uint64_t interruptions;

static void look_at_stack(int sig)
{
	void *frames[16];

	backtrace(frames, 16);
	interruptions++;
}

/* They come anywhere: in the jump, its landing, the stub, the entry, the callback. */
static void signals_come_at_any_instruction(void **state)
{
	struct sigaction action = {.sa_handler = look_at_stack, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}};
	struct itimerval never = {0};
	struct sigaction before;
	struct trapline_event *all = probe_if(five, NULL, count);
	struct trapline_event *some = probe_if(pushes, "arg0 % 7 == 3 && arg1 != 5", count);
	uint64_t n = scaled(3000000);
	void *frames[2];

	backtrace(frames, 2); /* loads the unwinder, which allocates */
	sigaction(SIGPROF, &action, &before);
	setitimer(ITIMER_PROF, &often, NULL);
	for (uint64_t i = 0; i < n; i++) {
		assert_int_equal(five(i, 1), i * 3 + 1);
		assert_int_equal(pushes(i), i + 3);
	}
	setitimer(ITIMER_PROF, &never, NULL);
	sigaction(SIGPROF, &before, NULL);
	assert_int_equal(stats_of(all).delivered, n);
	assert_true(interruptions > 0);
	trapline_event_close(some);
	trapline_event_close(all);
}

static void *run_once(void *arg)
{
	return (void *)(uintptr_t)five(2, 1);
}

static void the_smallest_stack_has_room(void **state)
{
	struct trapline_event *event = probe_if(five, NULL, count);
	pthread_attr_t attr;
	pthread_t thread;
	void *result = NULL;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	assert_int_equal(pthread_create(&thread, &attr, run_once, NULL), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, (void *)7);
	assert_int_equal(callbacks, 1);
	pthread_attr_destroy(&attr);
	trapline_event_close(event);
}

/* Loaded for this alone, so that it can go. */
static void an_unloaded_library_takes_its_probe_along(void **state)
{
	void *library = dlopen("libBrokenLocale.so.1", RTLD_NOW);

	if (!library || dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL)
		skip();
	dlclose(library);
	void *function = dlsym(library, "__ctype_get_mb_cur_max");
	struct trapline_event *event = probe_if(function, NULL, count);
	assert_true(((size_t (*)(void))function)() > 0);
	assert_int_equal(callbacks, 1);
	dlclose(library);
	trapline_event_close(event);
	trapline_event_close(probe_if(five, NULL, count));
}

/* A thread that blocks SIGTRAP and runs the code meanwhile: it must not meet an int3. */
static void *run_with_sigtrap_blocked(void *arg)
{
	sigset_t trap;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &trap, NULL);
	return run_without_end(arg);
}

static void a_thread_that_blocks_sigtrap_comes_to_no_harm(void **state)
{
	pthread_t thread;
	uint64_t opened = 0;
	uint64_t cycles = scaled(200);

	stop = 0;
	pthread_create(&thread, NULL, run_with_sigtrap_blocked, &runs[0]);
	usleep(20000);
	for (uint64_t i = 0; i < cycles; i++) {
		struct trapline_event *event = NULL;
		TRAPLINE_OPTS(event, opts);

		opts.callback = count;
		int err = trapline_probe(target, ADDR(pushes), &opts, &event);
		if (err == -EBUSY)
			break; /* this processor promises no single store */
		check(err, "probe");
		opened++;
		trapline_event_close(event);
	}
	stop = 1;
	pthread_join(thread, NULL);
	print_message("# %llu probes beside it\n", (unsigned long long)opened);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(probes_come_and_go_under_running_threads),
		T(each_pass_of_each_thread_is_one_hit),
		T(unwinding_passes_a_probed_call),
		T(signals_come_at_any_instruction),
		T(the_smallest_stack_has_room),
		T(an_unloaded_library_takes_its_probe_along),
		T(a_thread_that_blocks_sigtrap_comes_to_no_harm),
	};

	cmocka_set_test_filter(getenv("TRAPLINE_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
