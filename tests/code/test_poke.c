/* SPDX-License-Identifier: MIT */
/* test_poke.c - what a poke does, what it refuses with which reason, and what it leaves behind. */
#include "sites.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "code/poke/poke.h"

static uint8_t *page; /* private text: an int3 and a site in it */
static struct site site;

static int map_page(void **state)
{
	page = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(page, 0xcc, 2 * 4096);
	far_a = far_b = far_c = page + 512;
	make_site(&site, page + 64, page + 64, 2);
	mprotect(page, 2 * 4096, PROT_READ | PROT_EXEC);
	/* Skips where nothing of this is possible. */
	return trapline_code_free(code_or_skip(4096));
}

static int unmap_page(void **state)
{
	return munmap(page, 2 * 4096);
}

static struct trapline_poke_site change_of(int from, int to)
{
	return (struct trapline_poke_site){ ADDR(site.code), site.variants[from], site.variants[to],
					    5 };
}

static int poke_one(const void *expect, const void *bytes, size_t len, uint32_t flags,
		    uint32_t writers)
{
	struct trapline_poke_site change = { ADDR(site.code), expect, bytes, len };
	TRAPLINE_OPTS(poke, opts);

	opts.flags = flags;
	opts.writers = writers;
	return trapline_poke(&change, 1, &opts);
}

static void expect_reason(int err, int expected, const char *word)
{
	char why[500] = "";

	trapline_explain(err, why, sizeof(why));
	assert_int_equal(err, expected);
	if (!strstr(why, word))
		fail_msg("'%s' is not in: %s", word, why);
}

static void a_poke_changes_the_bytes(void **state)
{
	struct trapline_code_stats before = read_stats();
	struct trapline_poke_site change = change_of(0, 3);

	assert_int_equal(run_site(site.code), 1);
	assert_int_equal(trapline_poke(&change, 1, NULL), 0);
	assert_memory_equal(site.code, site.variants[3], 5);
	assert_int_equal(run_site(site.code), 0x1a2b3c4e);
	struct trapline_code_stats after = read_stats();
	assert_int_equal(after.batches - before.batches, 1);
	assert_int_equal(after.sites - before.sites, 1);
	assert_int_equal(after.by_mem - before.by_mem, is_text_forced());
	assert_int_equal(after.by_mprotect - before.by_mprotect, !is_text_forced());
	assert_int_equal(after.syncs - before.syncs, 2);
}

/* No core can fetch such an instruction half old and half new. */
static void first_bytes_alone_take_one_sync(void **state)
{
	uint8_t *last = page + 4096 - 1;
	struct trapline_poke_site change = { ADDR(last), "\xcc", "\xc3", 1 };
	struct trapline_code_stats before = read_stats();

	assert_int_equal(trapline_poke(&change, 1, NULL), 0);
	assert_int_equal(*last, 0xc3);
	assert_int_equal(read_stats().syncs - before.syncs, 1);
	change = (struct trapline_poke_site){ ADDR(last), "\xc3", "\xcc", 1 };
	assert_int_equal(trapline_poke(&change, 1, NULL), 0);
}

static void one_wrong_byte_changes_nothing(void **state)
{
	struct trapline_code_stats before = read_stats();
	struct trapline_poke_site changes[2] = { change_of(0, 3),
						 { ADDR(page) + 4096, "\x90", "\xc3", 1 } };
	TRAPLINE_OPTS(poke, opts);
	size_t failed = 9;

	opts.failed = &failed;
	int err = trapline_poke(changes, 2, &opts);
	expect_reason(err, -EBUSY, "not those expected");
	assert_int_equal(failed, 1);
	assert_memory_equal(site.code, site.variants[0], 5);
	struct trapline_code_stats after = read_stats();
	assert_int_equal(after.refused - before.refused, 1);
	assert_int_equal(after.syncs, before.syncs);
	assert_int_equal(after.batches, before.batches);
}

static void wrong_sites_are_refused_with_a_reason(void **state)
{
	struct trapline_poke_site overlap[2] = { change_of(0, 1), change_of(0, 1) };
	struct trapline_poke_site unmapped = { 16, "\x90", "\xc3", 1 };
	struct trapline_poke_site empty = change_of(0, 1);
	struct {
		struct trapline_poke_opts known;
		uint64_t newer;
	} opts = { .known = { .size = sizeof(opts) }, .newer = 1 };

	overlap[1].address += 4;
	overlap[1].expect = site.code + 4;
	expect_reason(trapline_poke(overlap, 2, NULL), -EBUSY, "overlap");
	expect_reason(trapline_poke(&unmapped, 1, NULL), -EFAULT, "not mapped");
	empty.len = 0;
	expect_reason(trapline_poke(&empty, 1, NULL), -EINVAL, "1 to 15 bytes");
	empty.len = 16;
	expect_reason(trapline_poke(&empty, 1, NULL), -EINVAL, "1 to 15 bytes");
	assert_int_equal(trapline_poke(NULL, 1, NULL), -EINVAL);
	assert_int_equal(trapline_poke(overlap, 0, NULL), -EINVAL);
	assert_int_equal(trapline_poke(overlap, 1, &opts.known), -E2BIG);
	opts.newer = 0;
	expect_reason(trapline_poke(overlap, 2, &opts.known), -EBUSY, "overlap");
	opts.known.size = sizeof(size_t);
	expect_reason(trapline_poke(overlap, 2, &opts.known), -EBUSY, "overlap");
	assert_int_equal(poke_one(site.code, site.code, 5, 64, 0), -EINVAL);
	assert_int_equal(poke_one(site.code, site.code, 5, 0, 64), -EINVAL);
	assert_memory_equal(site.code, site.variants[0], 5);
}

extern char __start_trap_path[];

static void what_the_handler_runs_is_not_changed(void **state)
{
	struct trapline_poke_site change = { ADDR(__start_trap_path), __start_trap_path,
					     __start_trap_path, 1 };

	expect_reason(trapline_poke(&change, 1, NULL), -EINVAL, "handler itself");
}

static void errno_is_left_alone(void **state)
{
	struct trapline_poke_site unmapped = { 16, "\x90", "\xc3", 1 };
	TRAPLINE_OPTS(poke, opts);

	errno = 4711;
	assert_int_equal(trapline_poke(&unmapped, 1, NULL), -EFAULT);
	opts.writers = TRAPLINE_WRITE_MPROTECT;
	struct trapline_poke_site change = change_of(0, 3);
	assert_int_equal(trapline_poke(&change, 1, &opts), 0);
	assert_int_equal(errno, 4711);
}

static void several_instructions_need_a_promise(void **state)
{
	static const uint8_t nops[] = { 0x90, 0x66, 0x90, 0x66, 0x90 };
	static const uint8_t two[] = { 0xb2, 8, 0x0f, 0x1f, 0x00 }; /* mov $8, %dl; nop */

	/* New ones may be several. */
	assert_int_equal(poke_one(site.variants[0], nops, 5, 0, 0), 0);
	assert_int_equal(run_site(site.code), 1);
	expect_reason(poke_one(nops, two, 5, 0, 0), -EINVAL, "not exactly one instruction");
	assert_memory_equal(site.code, nops, 5);
	assert_int_equal(poke_one(nops, two, 5, TRAPLINE_POKE_QUIESCENT, 0), 0);
	assert_int_equal(run_site(site.code), 9);
	expect_reason(poke_one(two, "\x06\x06\x06\x06\x06", 5, TRAPLINE_POKE_QUIESCENT, 0), -EINVAL,
		      "no instruction");
}

static char *protection_of(const void *address)
{
	static char mode[8];
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	mode[0] = '\0';
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long from;
		unsigned long to;
		char text[8];

		if (sscanf(line, "%lx-%lx %7s", &from, &to, text) == 3 && ADDR(address) >= from &&
		    ADDR(address) < to)
			memcpy(mode, text, sizeof(mode));
	}
	if (maps)
		fclose(maps);
	return mode;
}

static void each_writer_writes_and_leaves_the_protection(void **state)
{
	static const uint32_t writers[] = { TRAPLINE_WRITE_MEM, TRAPLINE_WRITE_MPROTECT };

	if (!is_text_forced()) {
		print_message("# skipped: a kernel that writes text for a tracer\n");
		skip();
	}
	for (int i = 0; i < 4; i++) {
		int now = i % 4;
		int next = (i + 1) % 4;

		assert_int_equal(
			poke_one(site.variants[now], site.variants[next], 5, 0, writers[i % 2]), 0);
		assert_memory_equal(site.code, site.variants[next], 5);
		assert_string_equal(protection_of(page), "r-xp");
	}
}

static void no_writer_is_said_with_the_reason(void **state)
{
	int fd = memfd_create("text", MFD_CLOEXEC);
	static const uint8_t text[] = { 0x0f, 0x1f, 0x44, 0, 0, 0xc3 };

	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	uint8_t *shared = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	struct trapline_poke_site change = { ADDR(shared), text, "\xe9\0\0\0\0", 5 };
	TRAPLINE_OPTS(poke, opts);

	opts.writers = TRAPLINE_WRITE_MEM | TRAPLINE_WRITE_ALIAS;
	expect_reason(trapline_poke(&change, 1, &opts), -EACCES, "shared mapping");
	assert_memory_equal(shared, text, 5);
	opts.writers = 0;
	assert_int_equal(trapline_poke(&change, 1, &opts), 0);
	assert_int_equal(shared[0], 0xe9);
	munmap(shared, 4096);
	close(fd);
}

/* One page of a batch can be written, the other cannot: nothing stays. */
static void a_batch_that_fails_midway_is_undone(void **state)
{
	struct trapline_code_stats before = read_stats();
	int fd = memfd_create("text", MFD_CLOEXEC);
	static const uint8_t text[] = { 0x0f, 0x1f, 0x44, 0, 0, 0xc3 };
	TRAPLINE_OPTS(poke, opts);

	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	uint8_t *shared =
		mmap(page + 4096, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0);
	struct trapline_poke_site changes[2] = { change_of(0, 3),
						 { ADDR(shared), text, "\xe9\0\0\0\0", 5 } };

	opts.writers = TRAPLINE_WRITE_MEM;
	assert_int_equal(trapline_poke(changes, 2, &opts), -EACCES);
	assert_memory_equal(site.code, site.variants[0], 5);
	assert_memory_equal(shared, text, 5);
	assert_int_equal(read_stats().rolled_back - before.rolled_back, 1);
	assert_int_equal(run_site(site.code), 1);
	close(fd);
}

static int stages[8];
static int stage_count;
static bool sites_were_told;

static void note(const struct trapline_code_record *record)
{
	if (stage_count < 8)
		stages[stage_count++] = (int)record->stage;
	if (record->stage == TRAPLINE_CODE_BEGIN)
		sites_were_told = record->count == 1 && record->arg == &site &&
				  record->sites[0].address == ADDR(site.code) &&
				  !memcmp(record->sites[0].bytes, site.variants[1], 5);
}

static void the_log_is_told_every_stage(void **state)
{
	struct trapline_poke_site change = change_of(0, 1);
	struct trapline_code_stats before = read_stats();

	assert_int_equal(trapline_log_code(note, &site), 0);
	assert_int_equal(trapline_poke(&change, 1, NULL), 0);
	assert_int_equal(stage_count, 4);
	/* After the last stage no thread runs into the int3. */
	assert_int_equal(read_stats().syncs - before.syncs, 3);
	for (int i = 0; i < 4; i++)
		assert_int_equal(stages[i], i);
	assert_true(sites_were_told);
	expect_reason(poke_one(site.variants[1], site.variants[0], 5, TRAPLINE_POKE_SINGLE_STORE,
			       0),
		      -EOPNOTSUPP, "code log is on");
	assert_int_equal(trapline_log_code(NULL, NULL), 0);
	change = change_of(1, 0);
	assert_int_equal(trapline_poke(&change, 1, NULL), 0);
	assert_int_equal(stage_count, 4);
}

/* One site and back; which writer did it. No other thread runs it, so each processor can do both. */
static void single_stores_are(enum poke_promise promise, uint64_t stored, uint64_t exchanged)
{
	struct trapline_code_stats before = read_stats();

	poke_promise = promise;
	assert_int_equal(poke_one(site.variants[0], site.variants[3], 5,
				  TRAPLINE_POKE_SINGLE_STORE, 0),
			 0);
	assert_int_equal(run_site(site.code), 0x1a2b3c4e);
	assert_int_equal(poke_one(site.variants[3], site.variants[0], 5,
				  TRAPLINE_POKE_SINGLE_STORE, 0),
			 0);
	assert_int_equal(run_site(site.code), 1);
	struct trapline_code_stats after = read_stats();
	assert_int_equal(after.by_mprotect - before.by_mprotect, stored);
	assert_int_equal(after.by_exchange - before.by_exchange, exchanged);
	assert_int_equal(after.syncs - before.syncs, 2);
}

static void single_stores_only_where_they_are_promised(void **state)
{
	single_stores_are(PROMISE_STORES, 2, 0);
	single_stores_are(PROMISE_NONE, 0, 2);
	expect_reason(poke_one(site.variants[0], site.variants[3], 5, TRAPLINE_POKE_SINGLE_STORE,
			       TRAPLINE_WRITE_MEM),
		      -EOPNOTSUPP, "not promised here");
	poke_promise = PROMISE_STORES;
	assert_int_equal(run_site(site.code), 1);
	expect_reason(poke_one(site.variants[0], site.variants[3], 5, TRAPLINE_POKE_SINGLE_STORE,
			       TRAPLINE_WRITE_MEM),
		      -EOPNOTSUPP, "mapping that can be written");
	assert_int_equal(run_site(site.code), 1);
	expect_reason(poke_one(site.variants[3], site.variants[0], 5,
			       TRAPLINE_POKE_SINGLE_STORE | TRAPLINE_POKE_SPIN, 0),
		      -EINVAL, "exclude each other");
	/* Across the end of a word of 8; and the spin form, whose first two bytes cross it. */
	struct trapline_poke_site crossing = { ADDR(page) + 4096 - 1 - 8, "\xcc\xcc", "\xeb\x10",
					       2 };

	for (int flag = 1; flag <= 2; flag++) {
		TRAPLINE_OPTS(poke, opts);

		struct trapline_poke_site back = { crossing.address, crossing.bytes,
						   crossing.expect, 2 };
		uint64_t before = read_stats().by_exchange;

		opts.flags = (uint32_t)flag | TRAPLINE_POKE_QUIESCENT;
		assert_int_equal(trapline_poke(&crossing, 1, &opts), 0);
		assert_int_equal(trapline_poke(&back, 1, &opts), 0);
		assert_int_equal(read_stats().by_exchange - before, 2);
	}
	poke_promise = PROMISE_UNKNOWN;
}

static void a_site_under_a_trap_is_busy(void **state)
{
	uint64_t address = ADDR(site.code);
	struct trapline_traps *traps;

	assert_int_equal(trapline_traps_set(&address, 1, NULL, &traps), 0);
	expect_reason(poke_one(site.variants[0], site.variants[1], 5, 0, 0), -EBUSY, "expected");
	expect_reason(poke_one("\xcc", "\x90", 1, 0, 0), -EBUSY, "a site has a trap");
	assert_int_equal(run_site(site.code), 1);
	assert_int_equal(trapline_traps_remove(traps), 0);
}

static void code_memory_is_executable_and_not_writable(void **state)
{
	uint8_t *code = code_or_skip(5000);
	void *more;

	assert_string_equal(protection_of(code), "r-xs");
	for (int i = 0; i < 8192; i++)
		assert_int_equal(code[i], 0xcc);
	assert_int_equal(trapline_code_write(code + 8190, "ab", 2), 0);
	assert_int_equal(trapline_code_write(code + 8191, "ab", 2), -EINVAL);
	assert_int_equal(trapline_code_write(page, "ab", 2), -EINVAL);
	assert_int_equal(trapline_code_alloc(ADDR(page), 4096, &more), 0);
	int64_t away = (int64_t)(ADDR(more) - ADDR(page));
	assert_true(away < 0x7fffffff && away > -0x7fffffff);
	assert_int_equal(trapline_code_free(code + 16), -EINVAL);
	assert_int_equal(trapline_code_free(code), 0);
	assert_int_equal(trapline_code_free(code), -EINVAL);
	assert_int_equal(trapline_code_free(more), 0);
	assert_int_equal(trapline_code_free(NULL), 0);
	assert_int_equal(trapline_code_alloc(0, 0, &more), -EINVAL);
}

/* A file of memory is a file: the kernel sends SIGXFSZ, which ends the process. */
static void a_limit_of_file_sizes_refuses_memory_for_code(void **state)
{
	struct rlimit before;
	struct rlimit none;
	char why[200];
	void *more = NULL;

	code_or_skip(4096);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	int err = trapline_code_alloc(0, 4096, &more);
	trapline_explain(err, why, sizeof(why));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(err, -EFBIG);
	assert_non_null(strstr(why, "RLIMIT_FSIZE"));
	assert_int_equal(trapline_code_alloc(0, 4096, &more), 0);
	assert_int_equal(trapline_code_free(more), 0);
}

/* Mappings of memory for code that can be written now. */
static int writable_code(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	while (fgets(line, sizeof(line), maps)) {
		char protection[8];
		n += strstr(line, "trapline-code") && sscanf(line, "%*s %7s", protection) == 1 &&
		     protection[1] == 'w';
	}
	fclose(maps);
	return n;
}

#define WRITES 300

static void *write_again(void *code)
{
	unsigned char bytes[64];

	for (int i = 0; i < WRITES; i++) {
		memset(bytes, 0x40 + i % 16, sizeof(bytes));
		if (trapline_code_write(code, bytes, sizeof(bytes)) ||
		    memcmp(code, bytes, sizeof(bytes)))
			return code;
	}
	return NULL;
}

/* Each thread has its own memory, and some share a region. */
static void writers_at_once(unsigned char *const code[2])
{
	pthread_t thread[4];
	void *failed;

	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, write_again, code[i % 2] + i / 2 * 64), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &failed);
		assert_null(failed);
	}
}

static void code_memory_is_writable_only_during_a_write(void **state)
{
	struct trapline_poke_site poked = { .expect = "\xf5", .bytes = "\x90", .len = 1 };
	unsigned char *code[2];
	int status;

	for (int i = 0; i < 2; i++)
		assert_int_equal(trapline_code_alloc(0, 8192, (void **)&code[i]), 0);
	assert_int_equal(writable_code(), 0);
	writers_at_once(code);
	assert_int_equal(writable_code(), 0);
	assert_int_equal(trapline_code_write(code[0], "\xf5\xf5", 2), 0);
	poked.address = ADDR(code[0]);
	assert_int_equal(trapline_poke(&poked, 1, NULL), 0);
	assert_int_equal(code[0][0], 0x90);
	assert_int_equal(writable_code(), 0);
	poked.expect = "\x90"; /* it holds another: nothing is written */
	poked.bytes = "\xf8";
	poked.address++;
	assert_int_not_equal(trapline_poke(&poked, 1, NULL), 0);
	assert_int_equal(writable_code(), 0);
	pid_t child = fork();
	if (!child) {
		int wrong = writable_code();
		wrong += trapline_code_write(code[0], "\x41", 1) || code[0][0] != 0x41;
		_exit(wrong + writable_code());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(code[0][0], 0x90);
	assert_int_equal(writable_code(), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(trapline_code_free(code[i]), 0);
}

/* Descriptors of code memory, made those of another file if there is one. */
static int give_away_descriptors(int other)
{
	char path[64];
	char name[64];
	int found = 0;

	for (int fd = 0; fd < 256; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, name, sizeof(name) - 1);
		name[n > 0 ? n : 0] = '\0';
		if (!strstr(name, "memfd:trapline-code"))
			continue;
		found++;
		if (other >= 0)
			assert_int_equal(dup2(other, fd), fd);
	}
	return found;
}

/* A program that closes all descriptors may have its own file under such a number. */
static void the_descriptor_of_code_memory_is_no_others(void **state)
{
	struct trapline_poke_site poked = { .expect = "\xf5", .bytes = "\x90", .len = 1 };
	int before = give_away_descriptors(-1);
	unsigned char *code;
	struct stat st;
	int other = memfd_create("other", MFD_CLOEXEC);

	assert_true(other >= 0);
	assert_int_equal(trapline_code_alloc(0, 8192, (void **)&code), 0);
	assert_int_equal(give_away_descriptors(-1), before + 1);
	assert_int_equal(give_away_descriptors(other), before + 1);
	assert_int_equal(trapline_code_write(code, "\xf5\xf5", 2), 0);
	poked.address = ADDR(code);
	assert_int_equal(trapline_poke(&poked, 1, NULL), 0);
	assert_memory_equal(code, "\x90\xf5", 2);
	assert_int_equal(writable_code(), 0);
	assert_int_equal(fstat(other, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(trapline_code_free(code), 0);
	assert_int_equal(fstat(other, &st), 0);
	close(other);
	/* One that stays the library's goes with its memory. */
	assert_int_equal(trapline_code_alloc(0, 8192, (void **)&code), 0);
	assert_int_equal(give_away_descriptors(-1), 1);
	assert_int_equal(trapline_code_free(code), 0);
	assert_int_equal(give_away_descriptors(-1), 0);
}

static void statistics_need_their_size(void **state)
{
	struct trapline_code_stats stats = { .size = 8 };

	assert_int_equal(trapline_code_stats(&stats), -EINVAL);
	assert_int_equal(trapline_code_stats(NULL), -EINVAL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, map_page, unmap_page)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_poke_changes_the_bytes),
		TEST(first_bytes_alone_take_one_sync),
		TEST(one_wrong_byte_changes_nothing),
		TEST(wrong_sites_are_refused_with_a_reason),
		TEST(what_the_handler_runs_is_not_changed),
		TEST(errno_is_left_alone),
		TEST(several_instructions_need_a_promise),
		TEST(each_writer_writes_and_leaves_the_protection),
		TEST(no_writer_is_said_with_the_reason),
		TEST(a_batch_that_fails_midway_is_undone),
		TEST(the_log_is_told_every_stage),
		TEST(single_stores_only_where_they_are_promised),
		TEST(a_site_under_a_trap_is_busy),
		TEST(code_memory_is_executable_and_not_writable),
		TEST(a_limit_of_file_sizes_refuses_memory_for_code),
		TEST(code_memory_is_writable_only_during_a_write),
		TEST(the_descriptor_of_code_memory_is_no_others),
		TEST(statistics_need_their_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
