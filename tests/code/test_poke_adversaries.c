/* SPDX-License-Identifier: MIT */
/*
 * test_poke_adversaries.c - poking beside forks, spawns, threads and libraries that come and go,
 * blocked and real-time threads, tracers and other patchers.
 */
#include "beside.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>

#define FORKS 3000
#define POKERS 4

/* ---- processes and threads that come and go ---- */

/* A child has its own copy: it runs, changes it, and the parent sees nothing of that. */
static void *keep_forking(void *arg)
{
	for (int n = 0; n < 5 || !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		int status;
		pid_t child = fork();

		if (!child) {
			NEED(is_result(sites[0].length, run_site(sites[0].code)));
			for (size_t i = 0; i < COUNT;
			     i++) /* whatever the parent had just then */
				for (int v = 0; v < VARIANTS; v++)
					if (!memcmp(sites[i].code, sites[i].variants[v],
						    site_lengths[sites[i].length]))
						sites[i].now = v;
			for (int k = 0; k < 5; k++) {
				NEED_OK(flip(0, COUNT, 0, 0));
				check_all();
			}
			_exit(0);
		}
		NEED(child > 0);
		NEED(waitpid(child, &status, 0) == child);
		NEED(status == 0);
	}
	return NULL;
}

static void fork_private(void)
{
	make_all(false);
	/* The first change notes forks from then on: one that began before it is refused its own. */
	NEED_OK(flip(0, COUNT, 0, 0));
	flip_beside(keep_forking, 0, 0);
}

static void fork_aliased(void)
{
	make_all(true);
	flip_beside(keep_forking, 0, 0);
}

static void forks_have_their_own_code(void **state)
{
	expect_success(fork_private);
}

static void forks_have_their_own_copy_of_code_memory(void **state)
{
	expect_success(fork_aliased);
}

static void *keep_poking_one(void *arg)
{
	size_t which = (size_t)(uintptr_t)arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		NEED_OK(flip(which, which + 1, 0, 0));
	return NULL;
}

/* The loader's lock must never be copied while a poke holds it. */
static void fork_and_load(void)
{
	pthread_t threads[POKERS];
	int status;

	make_all(false);
	NEED_OK(flip(0, 1, 0, 0));
	for (size_t i = 0; i < POKERS; i++)
		NEED(!pthread_create(&threads[i], NULL, keep_poking_one, (void *)i));
	for (int i = 0; i < (int)scaled(FORKS); i++) {
		pid_t child = fork();

		if (!child) {
			alarm(60);
			_exit(dlopen("libm.so.6", RTLD_NOW) ? 0 : 1);
		}
		NEED(waitpid(child, &status, 0) == child);
		NEED(status == 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < POKERS; i++)
		NEED(!pthread_join(threads[i], NULL));
}

static void forked_children_may_load_libraries(void **state)
{
	expect_success(fork_and_load);
}

static void *keep_spawning(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		char *argv[] = { "true", NULL };
		pid_t child;
		int status;

		NEED(!posix_spawn(&child, "/bin/true", NULL, NULL, argv, NULL));
		NEED(waitpid(child, &status, 0) == child);
		NEED(status == 0);
	}
	return NULL;
}

static void spawn_beside(void)
{
	make_all(false);
	flip_beside(keep_spawning, 0, 0);
}

static void spawns_go_on(void **state)
{
	expect_success(spawn_beside);
}

static void *run_once(void *arg)
{
	run_all();
	return NULL;
}

static void *keep_creating(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		pthread_t thread;

		NEED(!pthread_create(&thread, NULL, run_once, NULL));
		NEED(!pthread_join(thread, NULL));
	}
	return NULL;
}

static void threads_beside(void)
{
	make_all(false);
	flip_beside(keep_creating, 0, 0);
}

static void threads_born_during_a_batch_are_covered(void **state)
{
	expect_success(threads_beside);
}

static void *keep_loading(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

		NEED(library);
		double (*function)(double) = (double (*)(double))dlsym(library, "cbrt");
		NEED(function && function(27.0) > 2.9);
		dlclose(library);
	}
	return NULL;
}

static void load_beside(void)
{
	make_all(false);
	flip_beside(keep_loading, 0, 0);
}

static void libraries_come_and_go(void **state)
{
	expect_success(load_beside);
}

/* A trap in a library that is unloaded, and loaded again. */
static void unload_trapped(void)
{
	struct trapline_traps *traps;
	uint64_t hits;

	for (int i = 0; i < 20; i++) {
		void *library = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);
		if (!library)
			SKIP_CHILD("libjansson.so.4 is not installed");
		const char *(*function)(void) =
			(const char *(*)(void))dlsym(library, "jansson_version_str");
		if (!function)
			SKIP_CHILD("libjansson has no jansson_version_str()");
		uint64_t address = ADDR(function);

		NEED_OK(trapline_traps_set(&address, 1, NULL, &traps));
		NEED(function());
		NEED_OK(trapline_traps_hits(traps, 0, NULL, &hits));
		NEED(hits == 1);
		dlclose(library);
		NEED_OK(trapline_traps_remove(traps));
	}
}

static void trapped_libraries_may_be_unloaded(void **state)
{
	expect_success(unload_trapped);
}

static void poke_in_vfork(void)
{
	make_all(false);
	NEED_OK(flip(0, 1, 0, 0));
	volatile int err = 1;
	pid_t child = vfork();
	if (!child) {
		err = flip(0, 1, 0, 0);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	NEED(err == -EPERM);
	NEED_OK(flip(0, 1, 0, 0));
	check_all();
}

static void a_vfork_child_must_not_poke(void **state)
{
	expect_success(poke_in_vfork);
}

static void on_alarm(int sig)
{
	run_all();
}

static void *keep_alarming(void *arg)
{
	struct itimerval every = { { 0, 500 }, { 0, 500 } };

	setitimer(ITIMER_REAL, &every, NULL);
	keep_running(NULL);
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_REAL, &every, NULL);
	return NULL;
}

static void signals_beside(void)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };

	make_all(false);
	alarm(0);
	sigaction(SIGALRM, &action, NULL);
	flip_beside(keep_alarming, 0, 0);
}

static void signal_handlers_run_sites_too(void **state)
{
	expect_success(signals_beside);
}

/* ---- threads that cannot take a signal, or do not let others run ---- */

static void *run_blocked(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	return keep_running(arg);
}

static void trap_blocked(void)
{
	make_all(false);
	flip_beside(run_blocked, 0, 0);
}

/* Shows why the spin form is there, and that the thread below would be hit. */
static void int3_kills_who_has_sigtrap_blocked(void **state)
{
	char text[700];
	int status = run_child(trap_blocked, text, sizeof(text));

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTRAP)
		fail_msg("status %#x: %s", status, text);
}

static void spin_blocked(void)
{
	make_all(false);
	NEED_OK(flip(1, 2, TRAPLINE_POKE_SPIN, 0));
	flip_beside(run_blocked, TRAPLINE_POKE_SPIN, 0);
	NEED(read_stats().emulated == 0);
}

static void spin_form_spares_who_has_sigtrap_blocked(void **state)
{
	expect_success(spin_blocked);
}

static void *run_real_time(void *arg)
{
	struct sched_param param = { .sched_priority = 50 };
	struct timespec nap = { 0, 50000 };

	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &param))
		SKIP_CHILD("no permission for real-time threads");
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 10; i++)
			run_all();
		nanosleep(&nap, NULL);
	}
	return NULL;
}

/* All on one CPU: whoever waits for the poker without letting it run waits for ever. */
static void use_one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void trap_real_time(void)
{
	use_one_cpu();
	make_all(false);
	flip_beside(run_real_time, 0, 0);
}

static void spin_real_time(void)
{
	use_one_cpu();
	make_all(false);
	NEED_OK(flip(1, 2, TRAPLINE_POKE_SPIN, 0));
	flip_beside(run_real_time, TRAPLINE_POKE_SPIN, 0);
}

static void real_time_threads_do_not_lock_up(void **state)
{
	expect_success(trap_real_time);
}

static void real_time_threads_do_not_lock_up_the_spin_form(void **state)
{
	expect_success(spin_real_time);
}

/* ---- tracers and other patchers ---- */

static int trace_pipe[2];

static void traced(void)
{
	char go;

	close(trace_pipe[1]);
	NEED(read(trace_pipe[0], &go, 1) == 1);
	make_all(false);
	flip_beside(NULL, 0, 0);
}

/* As a debugger that passes every signal on. */
static void trace(void)
{
	int status;

	NEED(!pipe(trace_pipe));
	pid_t child = fork();
	if (!child) {
		traced();
		_exit(0);
	}
	if (ptrace(PTRACE_SEIZE, child, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL))
		SKIP_CHILD("ptrace is not permitted");
	NEED(write(trace_pipe[1], "g", 1) == 1);
	uint64_t traps = 0;
	for (;;) {
		pid_t tid = waitpid(-1, &status, __WALL);

		NEED(tid > 0);
		if (tid == child && (WIFEXITED(status) || WIFSIGNALED(status)))
			break;
		if (!WIFSTOPPED(status))
			continue;
		int sig = status >> 16 ? 0 : WSTOPSIG(status);
		traps += sig == SIGTRAP;
		ptrace(PTRACE_CONT, tid, NULL, (void *)(uintptr_t)sig);
	}
	NEED(status == 0);
	NEED(traps > 0);
}

static void a_tracer_that_passes_signals_changes_nothing(void **state)
{
	expect_success(trace);
}

static void write_by_other_process(uint64_t address, const void *bytes, size_t n)
{
	char path[64];
	int status;

	snprintf(path, sizeof(path), "/proc/%d/mem", getpid());
	pid_t child = fork();
	if (!child) {
		/* Some kernels let only a tracer write text. */
		ptrace(PTRACE_SEIZE, getppid(), NULL, NULL);
		int fd = open(path, O_RDWR);

		_exit(fd < 0 || pwrite(fd, bytes, n, (off_t)address) != (ssize_t)n);
	}
	waitpid(child, &status, 0);
	if (status)
		SKIP_CHILD("another process may not write this one's text");
}

static void patch_from_outside(void)
{
	make_all(false);
	NEED_OK(flip(0, COUNT, 0, 0));
	/* A debugger's breakpoint in the last of the sites. */
	write_by_other_process(ADDR(sites[COUNT - 1].code), "\xcc", 1);
	NEED(flip(0, COUNT, 0, 0) == -EBUSY);
	NEED(sites[COUNT - 1].code[0] == 0xcc);
	NEED(!memcmp(sites[0].code, sites[0].variants[1], 5));
	NEED(read_stats().refused == 1);
	NEED_OK(flip(0, COUNT - 1, 0, 0));
	NEED(sites[COUNT - 1].code[0] == 0xcc);
}

static void a_foreign_patch_is_noticed_and_kept(void **state)
{
	expect_success(patch_from_outside);
}

static uint8_t *foreign; /* a byte in the page of site 0, that no site owns */

static bool write_foreign(int fd, uint8_t byte)
{
	if (pwrite(fd, &byte, 1, (off_t)ADDR(foreign)) == 1)
		return true;
	/* Some kernels refuse that: by a mapping that stays writable. */
	if (mprotect((void *)(ADDR(foreign) & ~4095ul), 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		return false;
	__atomic_store_n(foreign, byte, __ATOMIC_RELAXED);
	return true;
}

static void *patch_beside(void *arg)
{
	int fd = open("/proc/self/mem", O_RDWR);

	for (uint8_t n = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		NEED(write_foreign(fd, n));
		NEED(__atomic_load_n(foreign, __ATOMIC_RELAXED) == n);
		sched_yield();
		NEED(__atomic_load_n(foreign, __ATOMIC_RELAXED) == n);
	}
	close(fd);
	return NULL;
}

/* Through /proc whole pages are written, and a patch in the microsecond before may be undone. */
static void share_a_page(void)
{
	make_all(false);
	foreign = sites[0].code + 150;
	flip_beside(patch_beside, 0, TRAPLINE_WRITE_MPROTECT);
}

static void a_patcher_in_the_same_page_loses_nothing(void **state)
{
	expect_success(share_a_page);
}

/* A patcher that opens and closes the page for each change; the kernel stores for it. */
static void *open_and_close(void *arg)
{
	void *page = (void *)(ADDR(foreign) & ~4095ul);

	for (uint8_t n = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		struct iovec from = { &n, 1 };
		struct iovec to = { foreign, 1 };

		NEED(!mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
		process_vm_writev(getpid(), &from, 1, &to, 1, 0);
		NEED(!mprotect(page, 4096, PROT_READ | PROT_EXEC));
	}
	return NULL;
}

static void share_a_page_by_mprotect(void)
{
	make_all(false);
	foreign = sites[0].code + 150;
	flip_beside(open_and_close, 0, TRAPLINE_WRITE_MPROTECT);
}

static void a_patcher_that_closes_the_page_does_no_harm(void **state)
{
	expect_success(share_a_page_by_mprotect);
}

/* Text may be written through a helper process: it is gone afterwards. */
static void nothing_left(void)
{
	if (!is_text_forced())
		SKIP_CHILD("a kernel that writes text for a tracer");
	make_all(false);
	for (int i = 0; i < 5; i++) {
		NEED_OK(flip(0, COUNT, 0, TRAPLINE_WRITE_MEM));
		NEED(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD);
	}
	int before = dup(0);
	NEED(before >= 0 && !close(before));
	NEED_OK(flip(0, COUNT, 0, TRAPLINE_WRITE_MEM));
	NEED(dup(0) == before);
	check_all();
}

static void a_batch_leaves_neither_child_nor_descriptor(void **state)
{
	expect_success(nothing_left);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forks_have_their_own_code),
		cmocka_unit_test(forks_have_their_own_copy_of_code_memory),
		cmocka_unit_test(forked_children_may_load_libraries),
		cmocka_unit_test(spawns_go_on),
		cmocka_unit_test(threads_born_during_a_batch_are_covered),
		cmocka_unit_test(libraries_come_and_go),
		cmocka_unit_test(trapped_libraries_may_be_unloaded),
		cmocka_unit_test(a_vfork_child_must_not_poke),
		cmocka_unit_test(signal_handlers_run_sites_too),
		cmocka_unit_test(int3_kills_who_has_sigtrap_blocked),
		cmocka_unit_test(spin_form_spares_who_has_sigtrap_blocked),
		cmocka_unit_test(real_time_threads_do_not_lock_up),
		cmocka_unit_test(real_time_threads_do_not_lock_up_the_spin_form),
		cmocka_unit_test(a_tracer_that_passes_signals_changes_nothing),
		cmocka_unit_test(a_foreign_patch_is_noticed_and_kept),
		cmocka_unit_test(a_patcher_in_the_same_page_loses_nothing),
		cmocka_unit_test(a_patcher_that_closes_the_page_does_no_harm),
		cmocka_unit_test(a_batch_leaves_neither_child_nor_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
