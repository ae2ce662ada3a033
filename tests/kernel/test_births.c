/* SPDX-License-Identifier: MIT */
/*
 * test_births.c - an event is moved, disabled and enabled while threads are born: no hit is missing
 * after the call has returned, and none is one too many.
 *
 * Each store has a number of its own, in a register that the hit shows. The storing thread notes what
 * was due: if no call was under way, before the store and after it, its hit must be there or must not.
 * Threads are born by threads that were themselves born under the event, since it is their clones
 * that a change can overtake.
 */
#include "common.h"

#include <sched.h>
#include <sys/mman.h>

#define CYCLES 200
#define CYCLES_OF_FORKS 50
#define STORES_MAX (8u << 20)
/* So much that seldom is a hit lost for want of room: such a loss could hide one that has no name. */
#define ROOM_BYTES (256u << 20)
#define LITTLE_ROOM_BYTES (64u << 10)
#define BIRTHS_THAT_FILL 1000 /* such a room, several times */
#define RELAYS 3
#define STACK_BYTES 65536
#define RAX 0 /* by DWARF; arm64: x0 */

enum due { EITHER, DUE, NOT_DUE };
enum kind { BY_PTHREAD, BY_CLONE, BY_FORK, BY_VFORK, BY_FORK_FOLLOWED };

/* Shared with forked children. */
struct truth {
	_Atomic uint64_t stage; /* odd while a call is under way */
	_Atomic int where;	/* the word that is watched, or -1: none */
	_Atomic uint64_t stores;
	_Atomic uint64_t births;
	_Atomic int alive;
	_Atomic bool is_over;
	uint8_t due[STORES_MAX];
	uint8_t hits[STORES_MAX];
};

static struct truth *truth;
static enum kind kind;
static bool has_program;

static struct {
	volatile uint64_t word __attribute__((aligned(64)));
} words[2];

/* One instruction, with the number in the register whose DWARF number is 0. */
#if defined(__x86_64__)
static void store_by_register(uint64_t number, volatile uint64_t *word)
{
	__asm__ volatile("movq %0, (%1)" : : "a"(number), "r"(word) : "memory");
}
#else
static void store_by_register(uint64_t number, volatile uint64_t *word)
{
	register uint64_t x0 __asm__("x0") = number;

	__asm__ volatile("str %0, [%1]" : : "r"(x0), "r"(word) : "memory");
}
#endif

static void store_numbered(int which, bool is_covered)
{
	uint64_t before = truth->stage;
	int where = truth->where;
	uint64_t number = truth->stores++;

	if (number >= STORES_MAX)
		return;
	store_by_register(number, &words[which].word);
	if (before % 2 || truth->stage != before)
		return;
	truth->due[number] = is_covered && where == which ? DUE : NOT_DUE;
}

static void live(bool is_covered)
{
	store_numbered(0, is_covered);
	store_numbered(1, is_covered);
	truth->births++;
}

static int live_as_guest(void *arg)
{
	live(kind == BY_FORK_FOLLOWED);
	return 0;
}

static void *relay(void *arg);

static void bear_pthread(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	truth->alive++;
	while (pthread_create(&thread, &attr, relay, NULL))
		usleep(100);
	pthread_attr_destroy(&attr);
}

static int live_bare(void *arg)
{
	live(true);
	return 0;
}

/* The kernel clears the word when the thread has left its stack. */
static void bear_bare(void)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			  CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	static __thread char stack[8192] __attribute__((aligned(16)));
	volatile pid_t tid = 0;

	if (clone(live_bare, stack + sizeof(stack), flags, NULL, &tid, NULL, &tid) < 0)
		return;
	while (tid)
		sched_yield();
}

static void bear_process(int flags)
{
	static __thread char stack[8192] __attribute__((aligned(16)));
	pid_t pid = clone(live_as_guest, stack + sizeof(stack), flags | SIGCHLD, NULL);

	if (pid > 0)
		waitpid(pid, NULL, 0);
}

/* Each thread bears the next one. */
static void *relay(void *arg)
{
	live(true);
	if (kind == BY_CLONE)
		bear_bare();
	else if (kind == BY_VFORK)
		bear_process(CLONE_VM | CLONE_VFORK);
	else if (kind != BY_PTHREAD)
		bear_process(0);
	if (!truth->is_over)
		bear_pthread();
	truth->alive--;
	return NULL;
}

static enum trapline_action note(const struct trapline_hit *hit)
{
	uint64_t number;

	if (!trapline_hit_register(hit, RAX, &number) && number < STORES_MAX)
		truth->hits[number]++;
	return TRAPLINE_GO_ON;
}

static void read_all(struct rig *rig)
{
	while (!calls_back(rig->mode) && trapline_poll(rig->target, 0, note) > 0)
		;
}

/* Some are born before the next call, whatever the machine's speed. */
static void let_some_be_born(struct rig *rig)
{
	uint64_t births = truth->births + 2 * RELAYS;

	WAIT_UNTIL(truth->births >= births);
	read_all(rig);
}

static void prepare_births(enum kind how)
{
	kind = how;
	truth = mmap(NULL, sizeof(*truth), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(truth != MAP_FAILED);
}

static void end_births(void)
{
	truth->is_over = true;
	WAIT_UNTIL(!truth->alive);
}

/* After a failure they would go on. */
static int end_all_births(void **state)
{
	if (truth)
		end_births();
	return test_end(state);
}

static void change(struct rig *rig, int to)
{
	truth->stage++;
	if (to < 0)
		expect_ok(trapline_event_disable(rig->event));
	else if (truth->where < 0)
		expect_ok(trapline_event_enable(rig->event));
	else
		expect_ok(trapline_event_move(rig->event, ADDR(&words[to].word)));
	truth->where = to;
	truth->stage++;
	let_some_be_born(rig);
}

/* What the main thread is late to read, a ring loses, by name. */
static void expect_exact(struct rig *rig, unsigned int cycles, uint64_t took_ns)
{
	const struct trapline_stats stats = stats_of(rig->event);
	const uint64_t named =
		calls_back(rig->mode) ? 0 : stats.lost_ring_full + stats.lost_kernel;
	uint64_t due = 0;
	uint64_t lost = 0;
	uint64_t late = 0;
	uint64_t twice = 0;
	uint64_t stores = truth->stores < STORES_MAX ? truth->stores : STORES_MAX;

	for (uint64_t i = 0; i < stores; i++) {
		due += truth->due[i] == DUE;
		lost += truth->due[i] == DUE && !truth->hits[i];
		late += truth->due[i] == NOT_DUE && truth->hits[i];
		twice += truth->hits[i] > 1;
	}
	print_message("# %u cycles in %lu ms, %lu births, %lu stores: %lu due, %lu lost, %lu late, "
		      "%lu twice, %lu named\n",
		      cycles, took_ns / 1000000, truth->births, stores, due, lost, late, twice, named);
	print_message(
		"# taken %lu, delivered %lu, lost ring_full %lu, kernel %lu, merged %lu, late %lu, "
		"changes unsure %lu\n",
		stats.taken, stats.delivered, stats.lost_ring_full, stats.lost_kernel,
		stats.lost_merged, stats.lost_late, stats.changes_unsure);
	assert_true(stores < STORES_MAX);
	assert_true(due);
	assert_true(lost <= named);
	assert_int_equal(late, 0);
	assert_int_equal(twice, 0);
}

static void under_births(enum mode mode, enum kind how, const int *order, unsigned int steps)
{
	TRAPLINE_OPTS(event, opts);
	struct rig rig;

	rig_open_with(&rig, mode, 0, calls_back(mode) ? 0 : ROOM_BYTES);
	prepare_births(how);
	if (calls_back(mode))
		opts.callback = note;
	/* A limit that is never reached: decided by the handler, where it may not be by a program. */
	opts.limit = mode == BY_HANDLER || has_program ? INT64_MAX : 0;
	opts.flags = how == BY_FORK_FOLLOWED ? TRAPLINE_FOLLOW_FORKS : 0;
	rig_watch(&rig, &words[0].word, &opts);
	for (int i = 0; i < RELAYS; i++)
		bear_pthread();
	let_some_be_born(&rig);
	uint64_t start = now_ns();
	bool is_slow = how == BY_FORK || how == BY_FORK_FOLLOWED;
	unsigned int cycles = scaled(is_slow ? CYCLES_OF_FORKS : CYCLES);
	for (unsigned int i = 0; i < cycles; i++)
		change(&rig, order[i % steps]);
	uint64_t took = now_ns() - start;
	end_births();
	read_all(&rig);
	expect_exact(&rig, cycles, took);
	trapline_event_close(rig.event);
	close_target(rig.target);
	munmap(truth, sizeof(*truth));
	truth = NULL;
}

static void move_under_births_is_exact(void **state)
{
	under_births(MODE(state), BY_PTHREAD, (const int[]){1, 0}, 2);
}

static void disable_and_enable_under_births_are_exact(void **state)
{
	under_births(MODE(state), BY_PTHREAD, (const int[]){-1, 0}, 2);
}

static const int all[] = {1, 0, -1, 0, 1, 0};

static void changes_of_signals_by_a_program_are_exact(void **state)
{
	has_program = true;
	under_births(BY_CALLBACK, BY_PTHREAD, all, ARRAY_LEN(all));
	has_program = false;
}

static void changes_under_bare_clones_are_exact(void **state)
{
	under_births(BY_BPF, BY_CLONE, all, ARRAY_LEN(all));
}

static void changes_under_forks_are_exact(void **state)
{
	under_births(BY_BPF, BY_FORK, all, ARRAY_LEN(all));
}

static void changes_under_vforks_are_exact(void **state)
{
	under_births(BY_BPF, BY_VFORK, all, ARRAY_LEN(all));
}

/* Nothing is read until all have ended. */
static void what_a_full_ring_loses_under_births_has_a_name(void **state)
{
	struct rig rig;

	rig_open_with(&rig, MODE(state), 0, LITTLE_ROOM_BYTES);
	prepare_births(BY_PTHREAD);
	rig_watch(&rig, &words[0].word, NULL);
	truth->where = 0;
	for (int i = 0; i < RELAYS; i++)
		bear_pthread();
	WAIT_UNTIL(truth->births >= BIRTHS_THAT_FILL);
	end_births();
	read_all(&rig);

	const struct trapline_stats s = expect_identity(rig.event);
	uint64_t lost = 0;
	for (uint64_t i = 0; i < truth->stores; i++)
		lost += truth->due[i] == DUE && !truth->hits[i];
	print_message("# %lu births, %lu lost, %lu ring_full, %lu kernel\n",
		      truth->births, lost, s.lost_ring_full, s.lost_kernel);
	assert_true(lost);
	assert_int_equal(lost, s.lost_ring_full + s.lost_kernel);
	assert_int_equal(s.unread, 0);
	trapline_event_close(rig.event);
	close_target(rig.target);
	munmap(truth, sizeof(*truth));
	truth = NULL;
}

static void changes_under_followed_forks_are_exact(void **state)
{
	under_births(BY_BPF, BY_FORK_FOLLOWED, all, ARRAY_LEN(all));
}

#undef TEST
#undef TEST_IN
#define TEST(f) {#f, f, test_begin, end_all_births, NULL}
#define TEST_IN(f, m) {#f "_by_" #m, f, test_begin, end_all_births, (void *)&mode_##m}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_EACH_MODE(move_under_births_is_exact),
		TEST_IN(move_under_births_is_exact, handler),
		TEST_EACH_MODE(disable_and_enable_under_births_are_exact),
		TEST_IN(disable_and_enable_under_births_are_exact, handler),
		TEST_RECORDS(what_a_full_ring_loses_under_births_has_a_name),
		TEST(changes_of_signals_by_a_program_are_exact),
		TEST(changes_under_bare_clones_are_exact),
		TEST(changes_under_forks_are_exact),
		TEST(changes_under_vforks_are_exact),
		TEST(changes_under_followed_forks_are_exact),
	};

	return run_group(tests);
}
