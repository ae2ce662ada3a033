/* SPDX-License-Identifier: MIT */
/*
 * test_code_log.c - the stream of all changes to code: what is in it, what it answers, and what
 * becomes of it when there is no room, no reader, or another process.
 */
#include "log_sites.h"

#include <sys/stat.h>

#include <trapline/code_log.h>
#include <trapline/trapline.h>

static uint8_t *page;
static struct site site;
static char file_name[] = "/tmp/trapline-code-log-XXXXXX";
static int file = -1;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int begin(void **state)
{
	page = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(page, fill_byte, 2 * 4096);
	make_log_site(&site, page + 64, page + 512);
	mprotect(page, 2 * 4096, PROT_READ | PROT_EXEC);
	strcpy(strchr(file_name, 0) - 6, "XXXXXX");
	file = mkstemp(file_name);
	return file < 0 || trapline_code_free(code_or_skip(4096));
}

static int end(void **state)
{
	trapline_log_code_to(-1);
	close(file);
	unlink(file_name);
	return munmap(page, 2 * 4096);
}

static int poke_site(int from, int to)
{
	struct trapline_poke_site change = { ADDR(site.code), site.variants[from],
					     site.variants[to], SITE_LEN };

	return trapline_poke(&change, 1, NULL);
}

static struct trapline_code_log *open_log(void)
{
	struct trapline_code_log *log = NULL;

	assert_int_equal(trapline_code_log_open(file_name, &log), 0);
	return log;
}

static struct trapline_code_entry entry_at(const struct trapline_code_log *log, size_t i)
{
	struct trapline_code_entry entry = { .size = sizeof(entry) };

	if (trapline_code_log_entry(log, i, &entry))
		entry.kind = 0;
	return entry;
}

/* The first of a kind from *i on; kind is 0 at the end. */
static struct trapline_code_entry find_entry(const struct trapline_code_log *log, uint32_t kind,
					     size_t *i)
{
	struct trapline_code_entry entry;

	do
		entry = entry_at(log, (*i)++);
	while (entry.kind && entry.kind != kind);
	return entry;
}

static void a_poke_is_in_the_stream_with_its_stages(void **state)
{
	assert_int_equal(trapline_log_code_to(file), 0);
	uint64_t before = now_ns();
	assert_int_equal(poke_site(0, 3), 0);
	uint64_t after = now_ns();
	assert_int_equal(trapline_log_code_to(-1), 0);

	struct trapline_code_log *log = open_log();
	size_t i = 0;
	assert_int_equal(entry_at(log, 0).kind, TRAPLINE_CODE_ENTRY_START);
	struct trapline_code_entry e = find_entry(log, TRAPLINE_CODE_ENTRY_SITE, &i);
	assert_int_equal(e.kind, TRAPLINE_CODE_ENTRY_SITE);
	assert_int_equal(e.pid, getpid());
	assert_int_equal(e.address, ADDR(site.code));
	assert_int_equal(e.len, SITE_LEN);
	assert_memory_equal(e.before, site.variants[0], SITE_LEN);
	assert_memory_equal(e.after, site.variants[3], SITE_LEN);
	uint64_t last = before;
	for (uint32_t stage = 1; stage <= 3; stage++) {
		struct trapline_code_entry s = entry_at(log, i++);
		assert_int_equal(s.kind, TRAPLINE_CODE_ENTRY_STAGE);
		assert_int_equal(s.stage, stage);
		assert_int_equal(s.batch, e.batch);
		assert_true(s.time_ns >= last && s.time_ns <= after);
		last = s.time_ns;
	}
	assert_int_equal(entry_at(log, i).kind, TRAPLINE_CODE_ENTRY_END);
	trapline_code_log_close(log);
}

static void each_stage_has_its_answer(void **state)
{
	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(poke_site(0, 3), 0);
	trapline_log_code_to(-1);
	struct trapline_code_log *log = open_log();
	struct trapline_code_span span = { .size = sizeof(span) };
	uint64_t address = ADDR(site.code);
	uint8_t bytes[SITE_LEN + 1] = { 0 };
	size_t i = 0;
	uint64_t t[4] = { find_entry(log, TRAPLINE_CODE_ENTRY_SITE, &i).time_ns };
	for (int stage = 1; stage <= 3; stage++)
		t[stage] = entry_at(log, i++).time_ns;

	bytes[SITE_LEN] = 0x77;
	assert_int_equal(trapline_code_at(log, getpid(), address, t[0] - 1, bytes, SITE_LEN + 1, &span), 0);
	assert_memory_equal(bytes, site.variants[0], SITE_LEN);
	assert_int_equal(bytes[SITE_LEN], 0x77); /* the log does not know it */
	assert_int_equal(span.known, SITE_LEN);
	assert_int_equal(span.until_ns, t[0]);
	/* Old or the trap; the other bytes are certain. */
	assert_int_equal(trapline_code_at(log, getpid(), address, t[0], bytes, SITE_LEN, &span), -EAGAIN);
	assert_int_equal(span.from_ns, t[0]);
	assert_int_equal(span.until_ns, t[1]);
	if (TRAP_LEN < SITE_LEN) {
		assert_int_equal(trapline_code_at(log, getpid(), address + TRAP_LEN, t[0], bytes,
						  SITE_LEN - TRAP_LEN, &span),
				 0);
		assert_memory_equal(bytes, site.variants[0] + TRAP_LEN, SITE_LEN - TRAP_LEN);
	}
	if (t[2] > t[1]) {
		assert_int_equal(trapline_code_at(log, getpid(), address, t[1], bytes, TRAP_LEN,
						  &span),
				 0);
		assert_memory_equal(bytes, trap_bytes, TRAP_LEN);
	}
	assert_int_equal(trapline_code_at(log, getpid(), address, t[2], bytes, SITE_LEN, &span), -EAGAIN);
	assert_int_equal(span.until_ns, t[3]);
	assert_int_equal(trapline_code_at(log, getpid(), address, t[3], bytes, SITE_LEN, &span), 0);
	assert_memory_equal(bytes, site.variants[3], SITE_LEN);
	/* Outside of the record nothing is known. */
	assert_int_equal(trapline_code_at(log, getpid(), address, 1, bytes, SITE_LEN, &span), -ENODATA);
	assert_int_equal(trapline_code_at(log, getpid(), address, now_ns(), bytes, SITE_LEN, NULL),
			 -ENODATA);
	assert_int_equal(trapline_code_at(log, 1, address, t[3], bytes, SITE_LEN, NULL), -ESRCH);
	trapline_code_log_close(log);
}

static enum trapline_action on_hit(const struct trapline_hit *hit)
{
	return TRAPLINE_GO_ON;
}

/* Each entry that has bytes is what memory had at the end, where nothing came later. */
static void compare_with_memory(const struct trapline_code_log *log, uint64_t at_ns)
{
	struct trapline_code_entry e;

	for (size_t i = 0; (e = entry_at(log, i)).kind; i++) {
		uint8_t bytes[4096];
		struct trapline_code_span span = { .size = sizeof(span) };

		if ((e.kind != TRAPLINE_CODE_ENTRY_SLOT && e.kind != TRAPLINE_CODE_ENTRY_SITE) ||
		    e.pid != getpid())
			continue;
		int err = trapline_code_at(log, getpid(), e.address, at_ns, bytes, e.len, &span);
		assert_int_equal(err, 0);
		if (span.known == e.len)
			assert_memory_equal(bytes, (void *)(uintptr_t)e.address, e.len);
	}
}

static __attribute__((noinline, noclone)) int probed(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

static void a_probe_is_in_it_with_all_code_that_it_made(void **state)
{
	struct trapline *t = NULL;
	struct trapline_event *ev = NULL;
	TRAPLINE_OPTS(event, opts);

	opts.callback = on_hit;
	assert_int_equal(trapline_open(0, NULL, &t), 0);
	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(trapline_probe(t, ADDR(probed), &opts, &ev), 0);
	assert_int_equal(probed(1), 4);
	uint64_t with_probe = now_ns();
	trapline_code_free(code_or_skip(4096)); /* a record later than that time */
	struct trapline_code_log *log = open_log();
	size_t i = 0;
	struct trapline_code_entry slot = find_entry(log, TRAPLINE_CODE_ENTRY_SLOT, &i);
	assert_int_equal(slot.kind, TRAPLINE_CODE_ENTRY_SLOT);
	assert_int_equal(slot.other, ADDR(probed)); /* it stands for this instruction */
	/* Before any thread can go there: no jump to it has begun. */
	size_t j = 0;
	struct trapline_code_entry jump = find_entry(log, TRAPLINE_CODE_ENTRY_SITE, &j);
	assert_int_equal(jump.address, ADDR(probed));
	assert_true(i < j && slot.time_ns <= jump.time_ns);
	compare_with_memory(log, with_probe);
	trapline_code_log_close(log);
	trapline_event_close(ev);
	trapline_log_code_to(-1);
	log = open_log();
	assert_int_equal(trapline_code_at(log, getpid(), ADDR(probed), entry_at(log, 0).time_ns,
					  &(uint8_t){ 0 }, 1, NULL),
			 0);
	trapline_code_log_close(log);
	trapline_close(t);
}

static void a_trap_comes_and_goes(void **state)
{
	uint64_t address = ADDR(site.code);
	struct trapline_traps *traps = NULL;
	uint8_t byte = 0;

	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(trapline_traps_set(&address, 1, NULL, &traps), 0);
	uint64_t set = now_ns();
	run_site(site.code);
	assert_int_equal(trapline_traps_remove(traps), 0);
	uint64_t removed = now_ns();
	trapline_log_code_to(-1);
	struct trapline_code_log *log = open_log();
	assert_int_equal(trapline_code_at(log, getpid(), address, set, &byte, 1, NULL), 0);
	assert_int_equal(byte, trap_bytes[0]);
	assert_int_equal(trapline_code_at(log, getpid(), address, removed, &byte, 1, NULL), 0);
	assert_int_equal(byte, site.variants[0][0]);
	trapline_code_log_close(log);
}

static void memory_for_code_is_in_it(void **state)
{
	struct trapline_code_span span = { .size = sizeof(span) };
	uint8_t bytes[sizeof(some_code) + 1] = { 0 };
	void *memory = NULL;

	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(trapline_code_alloc(0, 4096, &memory), 0);
	uint64_t filled = now_ns();
	assert_int_equal(trapline_code_write(memory, some_code, sizeof(some_code)), 0);
	uint64_t written = now_ns();
	assert_int_equal(trapline_code_free(memory), 0);
	uint64_t freed = now_ns();
	trapline_log_code_to(-1);
	struct trapline_code_log *log = open_log();
	assert_int_equal(trapline_code_at(log, getpid(), ADDR(memory), filled, bytes, sizeof(bytes), NULL), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], fill_byte);
	assert_int_equal(trapline_code_at(log, getpid(), ADDR(memory), written, bytes, sizeof(bytes), NULL), 0);
	assert_memory_equal(bytes, some_code, sizeof(some_code));
	assert_int_equal(bytes[sizeof(some_code)], fill_byte);
	assert_int_equal(trapline_code_at(log, getpid(), ADDR(memory), freed, bytes, sizeof(bytes), &span), 0);
	assert_int_equal(span.known, 0);
	trapline_code_log_close(log);
}

static void a_child_begins_with_the_code_of_its_parent(void **state)
{
	uint8_t bytes[SITE_LEN];
	int status;
	uint64_t in_child = 0;
	int pipe_fds[2];

	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(poke_site(0, 1), 0);
	assert_int_equal(pipe(pipe_fds), 0);
	pid_t child = fork();
	if (!child) {
		in_child = now_ns();
		ssize_t n = write(pipe_fds[1], &in_child, sizeof(in_child));
		_exit(n != sizeof(in_child) || poke_site(1, 3) || trapline_log_code_to(-1));
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(read(pipe_fds[0], &in_child, sizeof(in_child)), sizeof(in_child));
	assert_int_equal(poke_site(1, 2), 0);
	uint64_t last = now_ns();
	trapline_log_code_to(-1);
	struct trapline_code_log *log = open_log();
	assert_int_equal(trapline_code_at(log, child, ADDR(site.code), in_child, bytes, SITE_LEN, NULL),
			 0);
	assert_memory_equal(bytes, site.variants[1], SITE_LEN);
	assert_int_equal(trapline_code_at(log, getpid(), ADDR(site.code), last, bytes, SITE_LEN, NULL), 0);
	assert_memory_equal(bytes, site.variants[2], SITE_LEN);
	trapline_code_log_close(log);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void what_finds_no_room_is_lost_and_said(void **state)
{
	struct trapline_code_log *log = NULL;
	static uint8_t data[1 << 18];
	int fds[2];
	uint8_t bytes[SITE_LEN];
	size_t have = 0;
	ssize_t n;

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	assert_int_equal(fcntl(fds[1], F_SETPIPE_SZ, 4096), 4096);
	assert_int_equal(trapline_log_code_to(fds[1]), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(poke_site(i % 2 ? 3 : 0, i % 2 ? 0 : 3), 0);
	while ((n = read(fds[0], data + have, sizeof(data) - have)) > 0)
		have += (size_t)n;
	uint64_t lost = now_ns();
	assert_int_equal(poke_site(0, 3), 0);
	uint64_t known = now_ns();
	trapline_log_code_to(-1);
	while ((n = read(fds[0], data + have, sizeof(data) - have)) > 0)
		have += (size_t)n;
	assert_int_equal(trapline_code_log_parse(data, have, &log), 0);
	size_t i = 0;
	struct trapline_code_entry e = find_entry(log, TRAPLINE_CODE_ENTRY_LOST, &i);
	assert_int_equal(e.kind, TRAPLINE_CODE_ENTRY_LOST);
	assert_true(e.len > 100);
	assert_int_equal(trapline_code_at(log, getpid(), ADDR(site.code), lost, bytes, SITE_LEN, NULL),
			 -ENODATA);
	/* Changed since: known again. */
	assert_int_equal(trapline_code_at(log, getpid(), ADDR(site.code), known, bytes, SITE_LEN, NULL),
			 0);
	assert_memory_equal(bytes, site.variants[3], SITE_LEN);
	assert_int_equal(poke_site(3, 0), 0);
	trapline_code_log_close(log);
	close(fds[0]);
	close(fds[1]);
}

static void a_reader_that_ends_does_not_end_the_program(void **state)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(trapline_log_code_to(fds[1]), 0);
	close(fds[0]);
	close(fds[1]);
	for (int i = 0; i < 4; i++)
		assert_int_equal(poke_site(i % 2 ? 3 : 0, i % 2 ? 0 : 3), 0);
}

static void a_descriptor_that_blocks_or_is_full_is_refused(void **state)
{
	int fds[2];
	int full = open("/dev/full", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	char why[300] = "";

	assert_int_equal(pipe(fds), 0);
	int err = trapline_log_code_to(fds[1]);
	trapline_explain(err, why, sizeof(why));
	assert_int_equal(err, -EINVAL);
	assert_non_null(strstr(why, "O_NONBLOCK"));
	assert_int_equal(trapline_log_code_to(full), -EIO);
	assert_int_equal(trapline_log_code_to(fds[0]), -EBADF);
	assert_int_equal(trapline_log_code_to(9999), -EBADF);
	close(full);
	close(fds[0]);
	close(fds[1]);
}

/* A program that closes all descriptors has others under the same numbers later. */
static void a_descriptor_of_others_gets_no_record(void **state)
{
	char other_name[] = "/tmp/trapline-code-other-XXXXXX";
	int other = mkstemp(other_name);
	int taken = 0;
	struct stat st;

	unlink(other_name);
	assert_int_equal(trapline_log_code_to(file), 0);
	for (int fd = 190; fd < 260; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			dup2(other, fd);
	assert_int_equal(poke_site(0, 3), 0);
	assert_int_equal(poke_site(3, 0), 0);
	trapline_log_code_to(-1);
	fstat(other, &st);
	assert_int_equal(st.st_size, 0);
	for (int fd = 190; fd < 260; fd++) /* nor is it closed */
		if (fcntl(fd, F_GETFD) >= 0)
			taken++;
	assert_true(taken > 0);
	close(other);
}

static void single_stores_are_refused_while_it_is_on(void **state)
{
	struct trapline_poke_site change = { ADDR(site.code), site.variants[0], site.variants[3],
					     SITE_LEN };
	TRAPLINE_OPTS(poke, opts);

	opts.flags = TRAPLINE_POKE_SINGLE_STORE;
	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(trapline_poke(&change, 1, &opts), -EOPNOTSUPP);
	assert_memory_equal(site.code, site.variants[0], SITE_LEN);
}

/* Cut anywhere, or with any bit changed: refused, or an answer that the whole gives too. */
static void damage_is_noticed(void **state)
{
	static uint8_t whole[1 << 16];
	uint8_t good[SITE_LEN];
	uint8_t bytes[SITE_LEN];
	struct trapline_code_log *log = NULL;

	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(poke_site(0, 3), 0);
	uint64_t at = now_ns();
	assert_int_equal(poke_site(3, 0), 0);
	trapline_log_code_to(-1);
	ssize_t n = pread(file, whole, sizeof(whole), 0);
	assert_true(n > 300 && (size_t)n < sizeof(whole));
	assert_int_equal(trapline_code_log_parse(whole, (size_t)n, &log), 0);
	assert_int_equal(trapline_code_at(log, getpid(), ADDR(site.code), at, good, SITE_LEN, NULL), 0);
	assert_memory_equal(good, site.variants[3], SITE_LEN);
	trapline_code_log_close(log);
	int answers = 0;
	for (int i = 0; i < 2 * n; i++) {
		size_t size = i < n ? (size_t)i : (size_t)n;
		size_t bit = (size_t)(i - n) * 8 + (size_t)i % 8;

		if (i >= n)
			whole[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (!trapline_code_log_parse(whole, size, &log)) {
			int err = trapline_code_at(log, getpid(), ADDR(site.code), at, bytes, SITE_LEN,
						   NULL);
			answers += !err;
			if (!err)
				assert_memory_equal(bytes, good, SITE_LEN);
			trapline_code_log_close(log);
		}
		if (i >= n)
			whole[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_true(answers > 0 && answers < n);
	assert_int_equal(trapline_code_log_parse("TRAPLINE", 8, &log), -EBADMSG);
	assert_int_equal(trapline_code_log_open("/nonexistent", &log), -ENOENT);
	assert_int_equal(trapline_code_log_open("/dev/zero", &log), -EBADMSG);
}

/* Threads run a site while it changes: where each one went on is in the stream. */
static int threads_end;

static void *run_on(void *arg)
{
	while (!__atomic_load_n(&threads_end, __ATOMIC_RELAXED))
		run_site(site.code);
	return NULL;
}

/* So long that a thread that runs there meets it. */
static void keep_the_trap(const struct trapline_code_record *record)
{
	if (record->stage == TRAPLINE_CODE_TRAP)
		usleep(300);
}

static void who_met_a_trap_is_in_it(void **state)
{
	struct trapline_code_stats before = read_stats();
	struct trapline_code_stats after = before;
	pthread_t threads[2];
	size_t hits = 0;

	threads_end = 0;
	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(trapline_log_code(keep_the_trap, NULL), 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run_on, NULL);
	for (int i = 0; i < 20000 && after.emulated - before.emulated < 20; i++) {
		assert_int_equal(poke_site(i % 2 ? 3 : 0, i % 2 ? 0 : 3), 0);
		after = read_stats();
	}
	__atomic_store_n(&threads_end, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	after = read_stats();
	assert_true(after.emulated > before.emulated);
	trapline_log_code(NULL, NULL);
	trapline_log_code_to(-1);
	struct trapline_code_log *log = open_log();
	struct trapline_code_entry e;
	for (size_t i = 0; (e = entry_at(log, i)).kind; i++) {
		if (e.kind != TRAPLINE_CODE_ENTRY_HIT)
			continue;
		assert_int_equal(e.address, ADDR(site.code));
		assert_true(e.tid != 0 && e.tid != getpid());
		hits++;
	}
	assert_int_equal(hits, after.emulated - before.emulated + after.orphans - before.orphans);
	trapline_code_log_close(log);
}

/* Runs the site while its trap is there. */
static const uint8_t *copied_code;

static void run_under_the_trap(const struct trapline_code_record *record)
{
	if (record->stage == TRAPLINE_CODE_TRAP)
		run_site(copied_code);
}

/* What a thread runs in place of the instruction: its bytes, the way there and the way back. */
static void a_copy_that_a_thread_runs_is_in_it(void **state)
{
	uint8_t bytes[64] = { 0 };
	struct site other;
	size_t i = 0;

	/* No other test has a copy of what is at this address. */
	mprotect(page, 2 * 4096, PROT_READ | PROT_WRITE);
	make_log_site(&other, page + 2048, page + 512);
	mprotect(page, 2 * 4096, PROT_READ | PROT_EXEC);
	copied_code = other.code;
	struct trapline_poke_site change = { ADDR(other.code), other.variants[0],
					     other.variants[3], SITE_LEN };
	uint64_t copied = read_stats().copied;
	assert_int_equal(trapline_log_code_to(file), 0);
	assert_int_equal(trapline_log_code(run_under_the_trap, NULL), 0);
	assert_int_equal(trapline_poke(&change, 1, NULL), 0);
	assert_int_equal(trapline_log_code(NULL, NULL), 0);
	trapline_log_code_to(-1);
	assert_int_equal(read_stats().copied, copied + 1);
	struct trapline_code_log *log = open_log();
	struct trapline_code_entry slot = find_entry(log, TRAPLINE_CODE_ENTRY_SLOT, &i);
	assert_int_equal(slot.other, ADDR(other.code));
	struct trapline_code_entry poke = find_entry(log, TRAPLINE_CODE_ENTRY_SITE, &i);
	assert_int_equal(poke.address, ADDR(other.code));
	assert_true(slot.time_ns <= poke.time_ns);
	struct trapline_code_entry hit = find_entry(log, TRAPLINE_CODE_ENTRY_HIT, &i);
	assert_int_equal(hit.address, ADDR(other.code));
	assert_int_equal(hit.other, slot.address);
	assert_int_equal(hit.tid, gettid());
	assert_in_range(slot.len, SITE_LEN, sizeof(bytes));
	assert_int_equal(trapline_code_at(log, getpid(), slot.address, hit.time_ns, bytes,
					  slot.len, NULL),
			 0);
	assert_memory_equal(bytes, (void *)(uintptr_t)slot.address, slot.len);
	assert_memory_equal(bytes, other.variants[3], SITE_LEN);
	trapline_code_log_close(log);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_poke_is_in_the_stream_with_its_stages),
		TEST(each_stage_has_its_answer),
		TEST(a_probe_is_in_it_with_all_code_that_it_made),
		TEST(a_trap_comes_and_goes),
		TEST(memory_for_code_is_in_it),
		TEST(a_child_begins_with_the_code_of_its_parent),
		TEST(what_finds_no_room_is_lost_and_said),
		TEST(a_reader_that_ends_does_not_end_the_program),
		TEST(a_descriptor_that_blocks_or_is_full_is_refused),
		TEST(a_descriptor_of_others_gets_no_record),
		TEST(single_stores_are_refused_while_it_is_on),
		TEST(damage_is_noticed),
		TEST(who_met_a_trap_is_in_it),
		TEST(a_copy_that_a_thread_runs_is_in_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
