/* SPDX-License-Identifier: MIT */
/* test_exchange_maps.c - what exchanges of pages leave in the list of mappings. */
#include "exchanges.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Which bytes of which file lie at the text of this program, whatever the number of mappings. */
static void read_text_mapping(char *out, size_t n)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[600];
	uint64_t last_end = 0;
	uint64_t last_delta = 0;

	*out = '\0';
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start;
		uint64_t end;
		uint64_t offset;
		char mode[5];
		char rest[500];

		if (sscanf(line, "%lx-%lx %4s %lx %499[^\n]", &start, &end, mode, &offset, rest) <
			    5 ||
		    strcmp(mode, "r-xp") || !strstr(rest, "test_exchange"))
			continue;
		if (start == last_end && offset - start == last_delta) {
			last_end = end;
			continue;
		}
		size_t used = strlen(out);
		snprintf(out + used, n - used, "%lx %lx %s;", start, offset, rest);
		last_end = end;
		last_delta = offset - start;
	}
	size_t used = strlen(out);
	snprintf(out + used, n - used, "%lx", last_end);
	fclose(maps);
}

static void the_same_part_of_the_same_file_is_mapped(void **state)
{
	uint8_t before[64];
	char maps_before[2000];
	char maps_after[2000];

	memcpy(before, (const void *)crossing, sizeof(before));
	read_text_mapping(maps_before, sizeof(maps_before));
	flip(crossing_site, 1);
	read_text_mapping(maps_after, sizeof(maps_after));
	assert_string_equal(maps_after, maps_before);
	flip(crossing_site, 0);
	read_text_mapping(maps_after, sizeof(maps_after));
	assert_string_equal(maps_after, maps_before);
	assert_memory_equal(before, (const void *)crossing, sizeof(before));
}

static int count_pieces(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[600];
	int count = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, " r-xp ") && strstr(line, "test_exchange");
	fclose(maps);
	return count;
}

/* Since v5.13 a page of a file can leave its place mapped. */
static int can_leave_place(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *page = mmap(NULL, FILE_PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	void *moved = mremap(page, FILE_PAGE, FILE_PAGE, MREMAP_MAYMOVE | 4, NULL);
	int can = moved != MAP_FAILED;

	close(fd);
	munmap(page, FILE_PAGE);
	if (can)
		munmap(moved, FILE_PAGE);
	return can;
}

/* Each round ends with the file's bytes; the second site is in the second page of the first. */
static void change_and_restore(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		flip(crossing_site, 1);
		flip(pausing_site, 1);
		flip(i % 2 ? crossing_site : pausing_site, 0);
		flip(i % 2 ? pausing_site : crossing_site, 0);
	}
}

static void the_text_is_one_mapping_again(void **state)
{
	int status;

	if (!can_leave_place())
		skip();
	assert_int_equal(count_pieces(), 1);
	change_and_restore(20);
	assert_int_equal(count_pieces(), 1);
	pid_t child = fork();
	if (!child) {
		change_and_restore(20);
		_exit(count_pieces() != 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	change_and_restore(20);
	assert_int_equal(count_pieces(), 1);
}

static void read_flags(const void *at, char flags[200])
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[600];
	int is_there = 0;

	flags[0] = '\0';
	while (smaps && !flags[0] && fgets(line, sizeof(line), smaps)) {
		uint64_t start;
		uint64_t end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_there = ADDR(at) >= start && ADDR(at) < end;
		else if (is_there && !strncmp(line, "VmFlags:", 8))
			snprintf(flags, 200, "%.199s", line + 8);
	}
	if (smaps)
		fclose(smaps);
}

static int is_locked(const void *at)
{
	char flags[200];

	read_flags(at, flags);
	return flags[0] ? strstr(flags, " lo") != NULL : -1;
}

static void locked_memory_stays_locked(void **state)
{
	const void *page = (const void *)(uintptr_t)(ADDR(crossing_site) & ~4095ull);

	assert_int_equal(is_locked(crossing_site), 0);
	if (mlock(page, 8192))
		skip();
	assert_int_equal(is_locked(crossing_site), 1);
	flip(crossing_site, 1);
	assert_int_equal(is_locked(crossing_site), 1);
	flip(crossing_site, 0);
	munlock(page, 8192);
	flip(crossing_site, 1);
	flip(crossing_site, 0);
	assert_int_equal(is_locked(crossing_site), 0);
}

static unsigned long read_locked_kib(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[300];
	unsigned long kib = 0;

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "VmLck: %lu", &kib);
	if (status)
		fclose(status);
	return kib;
}

/* As many as a limit lets be locked, so that none can be locked beside them. */
static int limit_locked(void)
{
	const rlim_t bytes = read_locked_kib() << 10;
	const struct rlimit limit = { bytes, bytes };

	return !bytes || setrlimit(RLIMIT_MEMLOCK, &limit) || setresuid(65534, 65534, 65534);
}

static void work_locked(int flags, int is_limited)
{
	char before[200];
	char after[200];

	if (mlockall(flags) || (is_limited && (limit_locked() || prctl(PR_SET_DUMPABLE, 1))))
		_exit(77);
	unsigned long kib = read_locked_kib();
	read_flags(crossing_site, before);
	change_and_restore(5);
	read_flags(crossing_site, after);
	/* What the library maps itself is locked too. */
	_exit(count_pieces() != 1 || strcmp(before, after) || !strstr(before, " lo") ||
	      is_locked(pausing_site) != 1 || (!(flags & MCL_FUTURE) && read_locked_kib() != kib));
}

/* Skips where the child could not do what it is for. */
static void ends_well(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	if (status == 77 << 8)
		skip();
	assert_int_equal(status, 0);
}

static void text_that_is_locked_is_one_mapping_again(void **state)
{
	static const struct {
		int flags;
		int is_limited;
	} cases[] = {
		{ MCL_CURRENT, 0 },
		{ MCL_CURRENT | MCL_FUTURE, 0 },
		{ MCL_CURRENT | MCL_ONFAULT, 0 },
		{ MCL_CURRENT, 1 },
	};

	if (!can_leave_place())
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t child = fork();

		if (!child)
			work_locked(cases[i].flags, cases[i].is_limited);
		ends_well(child);
	}
}

/* In one word, so that a single store could change it. */
extern const uint8_t word_site[];
__asm__(".text\n.p2align 3\nword_site: mov $0x01010101, %eax\nret\n");

/* Another user may not open the memory of this process, nor the list of its pages. */
static void work_as(uid_t user, int promise)
{
	if (user != getuid() && (setresgid(user, user, user) || setresuid(user, user, user)))
		_exit(77);
	poke_promise = promise;
	poke_keeps_mappings = 1;
	flip(word_site, 1);
	change_and_restore(5);
	flip(word_site, 0);
	if (count_pieces() != 1)
		_exit(1);
	/* With an int3 meanwhile: at first in place of nothing, then beside what another user wrote. */
	check(change(word_site, 1, 0, TRAPLINE_WRITE_MPROTECT), "by mprotect()");
	check(change(pausing_site, 1, 0, 0), "by what there is");
	check(change(word_site, 0, 0, TRAPLINE_WRITE_MPROTECT), "by mprotect()");
	check(change(pausing_site, 0, 0, 0), "by what there is");
	_exit(count_pieces() != 1);
}

static void text_of_a_guest_is_one_mapping_again(void **state)
{
	const struct {
		uid_t user;
		int promise;
	} cases[] = {
		{ getuid(), PROMISE_STORES },
		{ 65534, PROMISE_STORES },
		{ 65534, PROMISE_NONE },
	};

	if (!can_leave_place())
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t child = fork();

		if (!child)
			work_as(cases[i].user, cases[i].promise);
		ends_well(child);
	}
}

/* Runs this program again, by a name that its user cannot open. */
static void run_hidden(void)
{
	static char name[] = "/tmp/test_exchange_hidden_XXXXXX";
	struct stat st;
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = mkstemp(name);
	int status = -1;

	assert_int_equal(fstat(from, &st), 0);
	assert_int_equal(sendfile(to, from, NULL, (size_t)st.st_size), st.st_size);
	assert_int_equal(fchmod(to, 0700), 0);
	close(from);
	close(to);
	pid_t child = fork();
	if (!child) {
		execl(name, name, "hidden", (char *)NULL);
		_exit(77);
	}
	waitpid(child, &status, 0);
	unlink(name);
	assert_int_equal(status, 0);
}

static void text_whose_file_cannot_be_opened_is_one_mapping_again(void **state)
{
	if (!can_leave_place() || getuid())
		skip();
	run_hidden();
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "hidden"))
		work_as(65534, PROMISE_NONE);

	const struct CMUnitTest tests[] = {
		TEST(the_text_is_one_mapping_again), /* first, as a copy by name leaves pieces */
		TEST(text_that_is_locked_is_one_mapping_again),
		TEST(text_of_a_guest_is_one_mapping_again),
		TEST(text_whose_file_cannot_be_opened_is_one_mapping_again),
		TEST(locked_memory_stays_locked),
		TEST(the_same_part_of_the_same_file_is_mapped),
	};

	return cmocka_run_group_tests_name("exchange_maps", tests, NULL, NULL);
}
