/* SPDX-License-Identifier: MIT */
/*
 * test_branch.c - branches that are switched while threads run them: their state, many at once, in
 * libraries that come and go, and beside what gets in the way.
 *
 * $1: the library branch_plugin. TRAPLINE_SEED: what was printed.
 */
#include <dlfcn.h>

#include "branch_text.h"

struct trapline_branch_key shared_key = TRAPLINE_BRANCH_OFF;
static struct trapline_branch_key first_key = TRAPLINE_BRANCH_ON;
static struct trapline_branch_key many_key = TRAPLINE_BRANCH_OFF;
static const char *plugin_path;

/* Not there where the compiler for C++ is not. */
__attribute__((weak)) int cxx_state(void);
__attribute__((weak)) struct trapline_branch_key *cxx_key(void);

/* ---- one branch ---- */

__attribute__((noipa)) static int shared_state(void)
{
	int state = 0;

	if (trapline_branch(&shared_key))
		state |= 1;
	if (trapline_branch_likely(&shared_key))
		state |= 2;
	return state;
}

static int wait_for(pid_t child)
{
	int status = 0;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void enable(struct trapline_branch_key *key)
{
	int err = trapline_branch_enable(key);

	if (err)
		fail_with(err, "enable");
	assert_int_equal(err, 0);
}

static void disable(struct trapline_branch_key *key)
{
	int err = trapline_branch_disable(key);

	if (err)
		fail_with(err, "disable");
	assert_int_equal(err, 0);
}

static void a_branch_is_taken_only_while_its_key_is_on(void **state)
{
	assert_int_equal(shared_state(), 0);
	for (int i = 0; i < 3; i++) {
		enable(&shared_key);
		assert_int_equal(shared_state(), 3);
		disable(&shared_key);
		assert_int_equal(shared_state(), 0);
	}
}

/* Runs first: SIGTRAP is still the program's. */
static void a_program_may_fork_before_it_switches(void **state)
{
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();

		if (!child)
			_exit(shared_state() != 0 || trapline_branch_enable(&shared_key) ||
			      shared_state() != 3);
		assert_int_equal(wait_for(child), 0);
	}
	enable(&shared_key);
	assert_int_equal(shared_state(), 3);
	disable(&shared_key);
}

static void a_key_counts_its_wishes(void **state)
{
	enable(&shared_key);
	enable(&shared_key);
	disable(&shared_key);
	assert_int_equal(shared_state(), 3);
	disable(&shared_key);
	assert_int_equal(shared_state(), 0);
	assert_int_equal(trapline_branch_disable(&shared_key), -EINVAL);
	assert_int_equal(trapline_branch_disable(NULL), -EINVAL);
	assert_int_equal(trapline_branch_enable(NULL), -EINVAL);
	enable(&shared_key);
	assert_int_equal(shared_state(), 3);
	disable(&shared_key);
}

__attribute__((noipa)) static int first_state(void)
{
	return trapline_branch(&first_key) | trapline_branch_likely(&first_key) << 1;
}

static int state_in_constructor;

/* The branches are ready before constructors without a priority run. */
__attribute__((constructor)) static void look_early(void)
{
	state_in_constructor = first_state();
}

static void a_key_may_be_on_from_the_start(void **state)
{
	assert_int_equal(state_in_constructor, 3);
	assert_int_equal(first_state(), 3);
	disable(&first_key);
	assert_int_equal(first_state(), 0);
	enable(&first_key);
	assert_int_equal(first_state(), 3);
}

static void branches_of_cxx_are_switched_too(void **state)
{
	if (!cxx_state)
		skip();
	assert_int_equal(cxx_state(), 16);
	enable(&shared_key);
	assert_int_equal(cxx_state(), 16 | 8 | 1);
	enable(cxx_key());
	assert_int_equal(cxx_state(), 16 | 8 | 4 | 2 | 1);
	disable(&shared_key);
	assert_int_equal(cxx_state(), 16 | 4 | 2);
	disable(cxx_key());
	assert_int_equal(cxx_state(), 16);
}

/* ---- thousands of them ---- */

#define TWICE(x) x x
#define MANY(x) TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(x))))))))))
#define BRANCHES 4096
#define ONE_MORE                        \
	if (trapline_branch(&many_key)) \
		n++;

/* The address of a function tells the compiler nothing, so each branch stays. */
#define MANY_FUNCTION(name)                          \
	__attribute__((noipa)) static int name(void) \
	{                                            \
		int n = 0;                           \
                                                     \
		MANY(ONE_MORE)                       \
		return n;                            \
	}
MANY_FUNCTION(many_0)
MANY_FUNCTION(many_1)
MANY_FUNCTION(many_2)
MANY_FUNCTION(many_3)

/* The compiler may copy a branch that is at the end of two ways. */
static uint64_t many_sites;

static int many_state(void)
{
	return many_0() + many_1() + many_2() + many_3();
}

static void thousands_of_branches_take_one_sync(void **state)
{
	assert_int_equal(many_state(), 0);
	struct trapline_code_stats before = read_stats();
	enable(&many_key);
	struct trapline_code_stats after = read_stats();
	assert_int_equal(many_state(), BRANCHES);
	assert_int_equal(after.syncs - before.syncs, 1);
	assert_int_equal(after.batches - before.batches, 1);
	many_sites = after.sites - before.sites;
	assert_true(many_sites >= BRANCHES);
	disable(&many_key);
	assert_int_equal(many_state(), 0);
	/* A second wish changes no code. */
	enable(&many_key);
	before = read_stats();
	enable(&many_key);
	disable(&many_key);
	assert_int_equal(read_stats().syncs, before.syncs);
	disable(&many_key);
}

/* ---- under threads ---- */

#define THREADS 8
#define FLIPS 3000

static uint64_t epoch; /* odd: a call is running */
static int expected;
static bool stop;
static struct runner {
	pthread_t thread;
	uint64_t passes;
	uint64_t exact;
	uint64_t wrong;
	bool is_blocked; /* SIGTRAP */
} runners[THREADS];

static void run_once(struct runner *me)
{
	uint64_t before = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
	int wanted = __atomic_load_n(&expected, __ATOMIC_RELAXED);
	int seen = shared_state();

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	__atomic_store_n(&me->passes, me->passes + 1, __ATOMIC_RELAXED);
	if (before & 1 || __atomic_load_n(&epoch, __ATOMIC_RELAXED) != before)
		return;
	me->exact++;
	me->wrong += seen != wanted;
}

static void *run(void *arg)
{
	struct runner *me = arg;
	sigset_t trap;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	if (me->is_blocked)
		pthread_sigmask(SIG_BLOCK, &trap, NULL);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		run_once(me);
	return NULL;
}

static void start_runners(bool is_blocked)
{
	stop = false;
	memset(runners, 0, sizeof(runners));
	for (int i = 0; i < THREADS; i++) {
		runners[i].is_blocked = is_blocked;
		assert_int_equal(pthread_create(&runners[i].thread, NULL, run, &runners[i]), 0);
		while (!__atomic_load_n(&runners[i].passes, __ATOMIC_RELAXED))
			usleep(100);
	}
}

static void stop_runners(void)
{
	uint64_t exact = 0;
	uint64_t wrong = 0;

	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(runners[i].thread, NULL);
		exact += runners[i].exact;
		wrong += runners[i].wrong;
	}
	print_message("# %llu passes while no call ran\n", (unsigned long long)exact);
	assert_true(exact > 0);
	assert_int_equal(wrong, 0);
}

static void flip_shared(int on)
{
	__atomic_store_n(&epoch, epoch + 1, __ATOMIC_SEQ_CST);
	if (on)
		enable(&shared_key);
	else
		disable(&shared_key);
	__atomic_store_n(&expected, on ? 3 : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&epoch, epoch + 1, __ATOMIC_SEQ_CST);
}

static void flip_for_a_while(unsigned int flips)
{
	uint64_t random = seed_from_environment();

	expected = 0;
	for (unsigned int i = 0; i < flips; i++) {
		flip_shared(!(i & 1));
		for (uint64_t n = next_random(&random) % 4096; n; n--)
			wait_a_little();
	}
	if (flips & 1)
		flip_shared(0);
}

static void every_thread_sees_the_state_when_the_call_returns(void **state)
{
	start_runners(false);
	flip_for_a_while(scaled(FLIPS));
	stop_runners();
}

/* The int3 stands while its record is told: so long that a thread that runs there meets it. */
static void keep_the_int3(const struct trapline_code_record *record)
{
	if (record->stage == TRAPLINE_CODE_TRAP)
		usleep(300);
}

/* With a log there is an int3 between the two instructions. */
static void with_a_log_too(void **state)
{
	struct trapline_code_stats before = read_stats();

	assert_int_equal(trapline_log_code(keep_the_int3, NULL), 0);
	start_runners(false);
	flip_for_a_while(scaled(FLIPS));
	stop_runners();
	assert_int_equal(trapline_log_code(NULL, NULL), 0);
	struct trapline_code_stats after = read_stats();
	print_message("# %llu traps\n", (unsigned long long)(after.emulated - before.emulated));
	assert_true(after.emulated + after.orphans > before.emulated + before.orphans);
	assert_int_equal(after.foreign, before.foreign);
}

static void threads_that_block_sigtrap_live(void **state)
{
	start_runners(true);
	flip_for_a_while(scaled(FLIPS));
	stop_runners();
}

/* ---- libraries ---- */

struct plugin {
	void *handle;
	int (*state)(void);
	struct trapline_branch_key *key;
};

static struct plugin load_plugin(void)
{
	struct plugin plugin = { .handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL) };

	if (!plugin.handle)
		fail_msg("%s", dlerror());
	plugin.state = (int (*)(void))dlsym(plugin.handle, "plugin_state");
	struct trapline_branch_key *(*key)(void) = (struct trapline_branch_key * (*)(void))
		dlsym(plugin.handle, "plugin_key");
	plugin.key = key();
	return plugin;
}

static void a_library_takes_the_state_of_the_key(void **state)
{
	struct plugin plugin = load_plugin();

	assert_int_equal(plugin.state(), 0);
	enable(&shared_key);
	assert_int_equal(plugin.state(), 3);
	enable(plugin.key);
	assert_int_equal(plugin.state(), 7);
	dlclose(plugin.handle);
	assert_null(dlopen(plugin_path, RTLD_NOW | RTLD_NOLOAD));
	/* Its branches are not looked for any more. */
	disable(&shared_key);
	enable(&shared_key);
	assert_int_equal(shared_state(), 3);
	/* Loaded while the key is on. Its own key is as in the file. */
	plugin = load_plugin();
	assert_int_equal(plugin.state(), 3);
	disable(&shared_key);
	assert_int_equal(plugin.state(), 0);
	dlclose(plugin.handle);
}

static void *load_and_unload(void *arg)
{
	uint64_t *loads = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct plugin plugin = load_plugin();
		int seen = plugin.state();
		/* Another thread switches the key; its two branches may differ for a moment. */
		if (seen & ~3)
			_exit(3);
		dlclose(plugin.handle);
		__atomic_store_n(loads, *loads + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void a_library_comes_and_goes_while_a_key_is_switched(void **state)
{
	static uint64_t loads;
	pthread_t thread;

	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, load_and_unload, &loads), 0);
	for (unsigned int i = 0;
	     i < scaled(FLIPS) || __atomic_load_n(&loads, __ATOMIC_RELAXED) < 10; i++) {
		enable(&shared_key);
		assert_int_equal(shared_state(), 3);
		disable(&shared_key);
		assert_int_equal(shared_state(), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	print_message("# loaded %llu times\n", (unsigned long long)loads);
}

/* ---- fork ---- */

static void a_child_of_fork_has_branches_of_its_own(void **state)
{
	enable(&shared_key);
	pid_t child = fork();

	if (!child) {
		int bad = shared_state() != 3 || trapline_branch_disable(&shared_key) ||
			  shared_state() != 0 || trapline_branch_enable(&many_key) ||
			  many_state() != BRANCHES;
		_exit(bad);
	}
	assert_int_equal(wait_for(child), 0);
	assert_int_equal(shared_state(), 3);
	assert_int_equal(many_state(), 0);
	disable(&shared_key);
}

static void *flip_until_stopped(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		enable(&shared_key);
		disable(&shared_key);
	}
	return NULL;
}

static void children_made_during_a_flip_can_flip(void **state)
{
	pthread_t thread;

	stop = false;
	pthread_create(&thread, NULL, flip_until_stopped, NULL);
	for (unsigned int i = 0; i < scaled(200); i++) {
		pid_t child = fork();

		if (!child) {
			/* As the thread left it, between two calls. */
			int was_on = shared_key.count;
			int bad = shared_state() != (was_on ? 3 : 0);

			alarm(60);
			bad |= trapline_branch_enable(&shared_key) || shared_state() != 3;
			bad |= trapline_branch_disable(&shared_key);
			bad |= shared_state() != (was_on ? 3 : 0);
			_exit(bad);
		}
		assert_int_equal(wait_for(child), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(shared_state(), 0);
}

/* ---- what gets in the way ---- */

static void a_breakpoint_on_a_branch_changes_nothing(void **state)
{
	branch_code *at = find_branch(many_2);
	char why[400];

	write_text(at, BREAKPOINT);
	int err = trapline_branch_enable(&many_key);
	write_text(at, BRANCH_OFF);
	assert_int_equal(err, -EBUSY);
	trapline_explain(err, why, sizeof(why));
	assert_non_null(strstr(why, "debugger"));
	assert_int_equal(many_state(), 0);
	assert_int_equal(trapline_branch_disable(&many_key), -EINVAL);
	enable(&many_key);
	assert_int_equal(many_state(), BRANCHES);
	disable(&many_key);
}

static int err_in_callback;

static void enable_inside(const struct trapline_trap_hit *hit)
{
	err_in_callback = trapline_branch_enable(&shared_key);
}

__attribute__((noipa)) static void trapped(void)
{
	__asm__ volatile("nop");
}

static void a_callback_cannot_switch(void **state)
{
	uint64_t address = ADDR(trapped);
	TRAPLINE_OPTS(traps, opts);
	struct trapline_traps *traps;

	opts.callback = enable_inside;
	assert_int_equal(trapline_traps_set(&address, 1, &opts, &traps), 0);
	trapped();
	assert_int_equal(trapline_traps_remove(traps), 0);
	assert_int_equal(err_in_callback, -EDEADLK);
	assert_int_equal(shared_state(), 0);
}

static int err_in_log;

static void enable_in_log(const struct trapline_code_record *record)
{
	err_in_log = trapline_branch_enable(&many_key);
}

static void a_log_cannot_switch(void **state)
{
	assert_int_equal(trapline_log_code(enable_in_log, NULL), 0);
	enable(&shared_key);
	disable(&shared_key);
	assert_int_equal(trapline_log_code(NULL, NULL), 0);
	assert_int_equal(err_in_log, -EDEADLK);
	assert_int_equal(many_state(), 0);
}

/* The header does it once for each object. Another call finds the object known. */
static void an_object_is_registered_once(void **state)
{
	extern const char first[] __asm__("__start_trapline_branches");
	extern const char last[] __asm__("__stop_trapline_branches");

	assert_int_equal(trapline_branch_register(first, last), 0);
	struct trapline_code_stats before = read_stats();
	enable(&many_key);
	assert_int_equal(read_stats().sites - before.sites, many_sites);
	disable(&many_key);
	/* Without its object a key has no branch, and gets its state back with it. */
	trapline_branch_unregister(first);
	enable(&many_key);
	assert_int_equal(many_state(), 0);
	assert_int_equal(trapline_branch_register(first, last), 0);
	assert_int_equal(many_state(), BRANCHES);
	disable(&many_key);
	assert_int_equal(many_state(), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_may_fork_before_it_switches),
		cmocka_unit_test(a_branch_is_taken_only_while_its_key_is_on),
		cmocka_unit_test(a_key_counts_its_wishes),
		cmocka_unit_test(a_key_may_be_on_from_the_start),
		cmocka_unit_test(branches_of_cxx_are_switched_too),
		cmocka_unit_test(thousands_of_branches_take_one_sync),
		cmocka_unit_test(every_thread_sees_the_state_when_the_call_returns),
		cmocka_unit_test(with_a_log_too),
		cmocka_unit_test(threads_that_block_sigtrap_live),
		cmocka_unit_test(a_library_takes_the_state_of_the_key),
		cmocka_unit_test(a_library_comes_and_goes_while_a_key_is_switched),
		cmocka_unit_test(a_child_of_fork_has_branches_of_its_own),
		cmocka_unit_test(children_made_during_a_flip_can_flip),
		cmocka_unit_test(a_breakpoint_on_a_branch_changes_nothing),
		cmocka_unit_test(a_callback_cannot_switch),
		cmocka_unit_test(a_log_cannot_switch),
		cmocka_unit_test(an_object_is_registered_once),
	};

	plugin_path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
