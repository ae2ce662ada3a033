/* SPDX-License-Identifier: MIT */
/*
 * test_race_code.c DIRECTORY - which bytes of a library a sweep takes for instructions: those behind a
 * call only if it comes back. What the library calls is in itself, in another one and in libc, and the
 * words of its linkage table are bound, or not yet.
 */
#include "../kernel/common.h"

#include "../victims/last_here.h"
#include "race/race_modules.h"
#include "race/race_state.h"
#include "race/sweep/race_calls.h"
#include "race/sweep/race_returns.h"
#include "race/sweep/race_sites.h"
#include "race/sweep/race_sites_find.h"
#include "record/race_region.h"

#include <dlfcn.h>
#include <sys/mman.h>

#define SPOTS 4096u
#define BYTES 16u

static const char *directory;

void here_or_in_the_program(void);

/* For libraries too: last_here.c has one that returns. */
__attribute__((visibility("default"), noinline)) void here_or_in_the_program(void)
{
	abort();
}

struct found {
	void *library;
	uint32_t count;
	uint64_t unproven;
	struct race_spot spots[SPOTS];
};

static void *map_zeros(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* As a search does at its start. */
static void begin_state(void)
{
	if (race.region)
		return;
	race.pid = getpid();
	race.region = map_zeros(sizeof(*race.region));
	race.process = race_add_process(race.region, race.pid);
	assert_non_null(race.process);
}

static struct found *search(const char *name)
{
	struct found *found = map_zeros(sizeof(*found));
	const struct race_module *module;
	struct race_listing listing;
	uint32_t first = 0;
	char path[4096];

	begin_state();
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	found->library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!found->library)
		fail_msg("%s", dlerror());
	race_returns_renew();
	assert_int_equal(race_policy_of((uintptr_t)dlsym(found->library, "after_own"), &module),
			 RACE_CODE_INCLUDED);
	assert_int_equal(race_listing_begin(&listing, module, race_count_functions(module)), 0);
	assert_int_equal(race_module_keep_code(module), 0);
	race_calls_find(module, &listing.calls);
	found->count = race_find_spots(&listing, &first, 0, found->spots, SPOTS);
	found->unproven = listing.unproven;
	race_listing_drop(&listing);
	return found;
}

static uint64_t address_of(const struct found *found, const char *name, const char *end)
{
	char symbol[64];

	snprintf(symbol, sizeof(symbol), "%s%s", name, end);
	uint64_t address = (uintptr_t)dlsym(found->library, symbol);
	assert_true(address != 0);
	return address;
}

static unsigned int spots_in(const struct found *found, uint64_t start, uint64_t bytes)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < found->count; i++)
		n += found->spots[i].address - start < bytes;
	return n;
}

/* Five instructions are behind the call, and one more, which is reached by a branch as well. */
static int check(const struct found *found, const char *name, unsigned int wanted)
{
	uint64_t bytes = address_of(found, name, "_bytes");
	unsigned int behind = spots_in(found, bytes, BYTES);
	unsigned int beside = spots_in(found, bytes + BYTES, 1);

	if (behind != wanted || beside != 1)
		print_message("# %s: %u sites behind the call, %u beside it\n", name, behind,
			      beside);
	return behind == wanted && beside == 1;
}

static void check_all(const char *library)
{
	struct found *found = search(library);
	int good = 1;

#define NEVER(name, callee) good &= check(found, #name, 0);
#define RETURNS(name, callee) good &= check(found, #name, 5);
	LAST_HERE_NEVER(NEVER)
	LAST_HERE_NEVER_BY_WORD(NEVER)
	LAST_HERE_RETURNS(RETURNS)
	LAST_HERE_RETURNS_BY_WORD(RETURNS)
	/* What is left out is counted. */
	assert_true(found->unproven >= 12 * 5);
	assert_true(good);
	dlclose(found->library);
	munmap(found, sizeof(*found));
}

static void what_is_behind_calls_that_are_not_bound_yet(void **state)
{
	check_all("liblast_here_lazy.so");
}

static void what_is_behind_calls_that_are_bound(void **state)
{
	check_all("liblast_here_now.so");
}

static void what_is_behind_calls_by_the_older_hash_table(void **state)
{
	check_all("liblast_here_sysv.so");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_behind_calls_that_are_not_bound_yet),
		cmocka_unit_test(what_is_behind_calls_that_are_bound),
		cmocka_unit_test(what_is_behind_calls_by_the_older_hash_table),
	};

	directory = argc > 1 ? argv[1] : ".";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
