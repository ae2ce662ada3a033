/* SPDX-License-Identifier: MIT */
/*
 * beside.h - flipping sites beside something that gets in the way.
 *
 * Each case runs in a child of its own, so that a filter or a crash stays there. The child says
 * in a pipe which line failed.
 */
#ifndef TESTS_CODE_BESIDE_H
#define TESTS_CODE_BESIDE_H

#include "sites.h"

#include <time.h>

#define COUNT (OFFSETS * 2) /* of 5 and 6 bytes */
#define CODE_BYTES (COUNT * BLOCK_BYTES + 4096)
#define MILLISECONDS 2000
#define BATCHES_MIN 20 /* on a busy machine it takes longer */
#define CHILD_SECONDS 120 /* then it hangs */
#define EXIT_SKIP 77

static struct site sites[COUNT];
static uint8_t *code;
static bool stop;

static int report_pipe = -1;

static inline void give_up(int line, const char *what, int err)
{
	char text[600];
	char why[400] = "";

	if (err)
		trapline_explain(err, why, sizeof(why));
	int n = snprintf(text, sizeof(text), "line %d: %s %d %s\n", line, what, err, why);
	if (write(report_pipe, text, (size_t)n) < 0)
		_exit(2);
	_exit(1);
}

#define NEED(condition)                                   \
	do {                                              \
		if (!(condition))                         \
			give_up(__LINE__, #condition, 0); \
	} while (0)
#define NEED_OK(call)                                       \
	do {                                                \
		int need_err = (call);                      \
		if (need_err)                               \
			give_up(__LINE__, #call, need_err); \
	} while (0)
#define SKIP_CHILD(why)                                            \
	do {                                                       \
		if (write(report_pipe, why "\n", sizeof(why)) > 0) \
			_exit(EXIT_SKIP);                          \
	} while (0)

static inline int run_child(void (*body)(void), char *text, size_t n)
{
	int pipes[2];
	int status;

	assert_int_equal(pipe(pipes), 0);
	fflush(NULL);
	pid_t child = fork();
	if (!child) {
		close(pipes[0]);
		report_pipe = pipes[1];
		alarm(CHILD_SECONDS);
		body();
		_exit(0);
	}
	close(pipes[1]);
	ssize_t got = read(pipes[0], text, n - 1);
	text[got > 0 ? got : 0] = '\0';
	waitpid(child, &status, 0);
	close(pipes[0]);
	return status;
}

static inline void expect_success(void (*body)(void))
{
	char text[700];
	int status = run_child(body, text, sizeof(text));

	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
		print_message("# SKIP %s", text);
		skip();
	}
	if (status)
		fail_msg("status %#x: %s", status, text);
}

/* ---- code to change and who runs it ---- */

static inline void make_all(bool aliased)
{
	static uint8_t image[CODE_BYTES];

	if (aliased)
		NEED_OK(trapline_code_alloc(0, CODE_BYTES, (void **)&code));
	else
		code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(map_fars(code));
	memset(image, 0xcc, sizeof(image));
	for (size_t i = 0; i < COUNT; i++) {
		size_t at = i * BLOCK_BYTES + 64 + i % OFFSETS;

		make_site(&sites[i], code + at, image + at, 2 + i / OFFSETS);
	}
	if (aliased) {
		NEED_OK(trapline_code_write(code, image, sizeof(image)));
		return;
	}
	memcpy(code, image, sizeof(image));
	mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC);
}

static inline void run_all(void)
{
	for (size_t i = 0; i < COUNT; i++)
		NEED(is_result(sites[i].length, run_site(sites[i].code)));
}

static inline int flip(size_t from, size_t to, uint32_t flags, uint32_t writers)
{
	struct trapline_poke_site changes[COUNT] = { { 0 } };
	TRAPLINE_OPTS(poke, opts);
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		if (flags & TRAPLINE_POKE_SPIN && (ADDR(sites[i].code) & 7) == 7)
			continue;
		changes[n++] = (struct trapline_poke_site){
			ADDR(sites[i].code), sites[i].variants[sites[i].now],
			sites[i].variants[(sites[i].now + 1) % VARIANTS],
			site_lengths[sites[i].length]
		};
	}
	opts.flags = flags;
	opts.writers = writers;
	int err = trapline_poke(changes, n, &opts);
	for (size_t i = from; i < to && !err; i++)
		if (!(flags & TRAPLINE_POKE_SPIN && (ADDR(sites[i].code) & 7) == 7))
			sites[i].now = (sites[i].now + 1) % VARIANTS;
	return err;
}

static inline void check_all(void)
{
	for (size_t i = 0; i < COUNT; i++)
		NEED(run_site(sites[i].code) ==
		     site_results[sites[i].length][sites[i].now]);
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void *keep_running(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		run_all();
	return NULL;
}

/* Two threads run the sites, this one flips them, for a while or until other() has had enough. */
static inline void flip_beside(void *(*other)(void *), uint32_t flags, uint32_t writers)
{
	double end = seconds() + scaled(MILLISECONDS) / 1e3;
	uint64_t batches = 0;
	pthread_t threads[3];

	NEED(!pthread_create(&threads[0], NULL, keep_running, NULL));
	NEED(!pthread_create(&threads[1], NULL, keep_running, NULL));
	NEED(!pthread_create(&threads[2], NULL, other ? other : keep_running, NULL));
	while (seconds() < end || batches < BATCHES_MIN) {
		NEED_OK(flip(0, COUNT, flags, writers));
		if (++batches % 16 == 0)
			check_all();
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		NEED(!pthread_join(threads[i], NULL));
	check_all();
	NEED(read_stats().foreign == 0);
}

#endif
