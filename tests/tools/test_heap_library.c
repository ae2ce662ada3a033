/* SPDX-License-Identifier: MIT */
/* test_heap_library.c - trapline_heap_start(): a program searches its own heap. */
#include "../kernel/common.h"

#include <sys/mman.h>

#include <trapline/heap.h>

#define BLOCKS 200

struct seen {
	int reports;
	int kinds[8];
	int complete; /* with all stacks that they must have */
	uint64_t block_size;
	pid_t reader;
	char json[400];
};

static void *hide(void *p)
{
	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}

static __attribute__((noinline, noclone)) void write_after_free(void)
{
	volatile char *p = malloc(40);

	free(hide((void *)p));
	p = hide((void *)p);
	p[16] = 'x';
}

static __attribute__((noinline, noclone)) void write_behind(void)
{
	char *p = malloc(48);

	*(volatile char *)hide(p + 48) = 'x';
	free(p);
}

static __attribute__((noinline, noclone)) void do_right(void)
{
	char *p = malloc(48);

	memset(hide(p), 'x', 48);
	free(hide(p));
}

static void on_report(void *arg, const struct trapline_heap_report *r)
{
	struct seen *seen = arg;

	seen->reader = gettid();
	seen->reports++;
	seen->kinds[r->kind & 7]++;
	seen->block_size = r->block_size;
	seen->complete += r->first && r->first->frame_count && r->allocated &&
			  r->allocated->frame_count && r->allocated->frames[0].module &&
			  r->grade == TRAPLINE_HEAP_A && r->access == TRAPLINE_WRITE &&
			  r->size == sizeof(*r) && strlen(r->json) == r->json_length;
	snprintf(seen->json, sizeof(seen->json), "%s", r->json);
}

static struct trapline *self;

static struct trapline_heap *begin(struct seen *seen)
{
	struct trapline_heap *heap = NULL;
	TRAPLINE_OPTS(heap, opts);

	memset(seen, 0, sizeof(*seen));
	opts.first = 100;
	opts.report = on_report;
	opts.arg = seen;
	int err = trapline_heap_start(self, &opts, &heap);
	if (err) {
		char why[300];

		trapline_explain(err, why, sizeof(why));
		fail_msg("trapline_heap_start(): %s", why);
	}
	return heap;
}

static void errors_are_reported_and_the_program_goes_on(void **state)
{
	struct trapline_heap_stats stats = { .size = sizeof(stats) };
	struct seen seen;
	struct trapline_heap *heap = begin(&seen);

	write_after_free();
	write_behind();
	assert_int_equal(trapline_heap_stats(heap, &stats), 0);
	trapline_heap_stop(heap);
	assert_int_equal(seen.reports, 2);
	assert_int_equal(seen.kinds[TRAPLINE_HEAP_USE_AFTER_FREE], 1);
	assert_int_equal(seen.kinds[TRAPLINE_HEAP_OVERFLOW], 1);
	assert_int_equal(seen.complete, 2);
	assert_int_equal(seen.block_size, 48);
	assert_int_not_equal(seen.reader, gettid());
	assert_non_null(
		strstr(seen.json, "{\"type\":\"heap\",\"kind\":\"overflow\",\"grade\":\"A\""));
	assert_true(stats.sampled >= 2 && stats.found == 2 && !stats.lost && stats.cost_ns);
}

static void what_is_right_is_not_reported(void **state)
{
	struct seen seen;
	struct trapline_heap *heap = begin(&seen);

	for (int i = 0; i < BLOCKS; i++)
		do_right();
	trapline_heap_stop(heap);
	assert_int_equal(seen.reports, 0);
}

/* The entry of malloc() is as it was, and blocks that were sampled can be used and freed. */
static void after_the_end_nothing_is_sampled(void **state)
{
	struct seen seen;

	for (int i = 0; i < 3; i++) {
		unsigned char before[16];
		unsigned char after[16];
		memcpy(before, (void *)(uintptr_t)malloc, sizeof(before));
		struct trapline_heap *heap = begin(&seen);
		char *kept = malloc(24);

		trapline_heap_stop(heap);
		memcpy(after, (void *)(uintptr_t)malloc, sizeof(after));
		assert_memory_equal(before, after, sizeof(before));
		memset(hide(kept), 'x', 24);
		kept = realloc(kept, 100);
		assert_int_equal(kept[23], 'x');
		free(kept);
		do_right();
		assert_int_equal(seen.reports, 0);
	}
}

static void lines_are_written(void **state)
{
	struct trapline_heap *heap;
	TRAPLINE_OPTS(heap, opts);
	char text[8000];
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	opts.fd = ends[1];
	opts.first = 100;
	assert_int_equal(trapline_heap_start(self, &opts, &heap), 0);
	write_after_free();
	trapline_heap_stop(heap);
	close(ends[1]);
	ssize_t n = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	assert_true(n > 0 && text[n - 1] == '\n');
	text[n] = '\0';
	assert_ptr_equal(strchr(text, '\n'), text + n - 1);
	assert_non_null(strstr(text, "\"kind\":\"use-after-free\""));
	assert_non_null(strstr(text, "\"offset\":16,"));
	assert_non_null(strstr(text, "\"freed\":{\"tid\":"));
}

static void a_child_goes_on_without_it(void **state)
{
	struct seen seen;
	struct trapline_heap *heap = begin(&seen);
	char *kept = malloc(24);
	int status;
	pid_t pid = fork();

	if (!pid) {
		free(kept);
		do_right();
		trapline_heap_stop(heap);
		_exit(seen.reports ? 1 : 7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	free(kept);
	trapline_heap_stop(heap);
	assert_int_equal(seen.reports, 0);
}

static volatile int own_faults;
static char *own_page;

static void on_own_fault(int signal)
{
	own_faults++;
	mprotect(own_page, 4096, PROT_READ | PROT_WRITE);
}

static void faults_of_the_program_are_its_own(void **state)
{
	struct sigaction action = { .sa_handler = on_own_fault };
	struct sigaction before;
	struct seen seen;

	own_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
	struct trapline_heap *heap = begin(&seen);
	*(volatile char *)own_page = 'x';
	write_behind();
	trapline_heap_stop(heap);
	assert_int_equal(own_faults, 1);
	assert_int_equal(seen.reports, 1);
	mprotect(own_page, 4096, PROT_NONE);
	*(volatile char *)own_page = 'x';
	assert_int_equal(own_faults, 2);
	sigaction(SIGSEGV, &before, NULL);
	munmap(own_page, 4096);
}

static void wrong_calls_are_refused(void **state)
{
	struct trapline_heap *heap = NULL;
	struct trapline_heap *other = NULL;
	TRAPLINE_OPTS(heap, opts);
	struct seen seen;
	char why[300];
	sigset_t segv;

	assert_int_equal(trapline_heap_start(self, &opts, &heap), -EINVAL);
	opts.report = on_report;
	opts.arg = &seen;
	opts.align = 3;
	assert_int_equal(trapline_heap_start(self, &opts, &heap), -EINVAL);
	opts.align = 0;
	opts.budget_ppm = 1000001;
	assert_int_equal(trapline_heap_start(self, &opts, &heap), -EINVAL);
	opts.budget_ppm = 0;
	assert_int_equal(trapline_heap_start(NULL, &opts, &heap), -EINVAL);
	assert_null(heap);

	sigemptyset(&segv);
	sigaddset(&segv, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &segv, NULL);
	int err = trapline_heap_start(self, &opts, &heap);
	pthread_sigmask(SIG_UNBLOCK, &segv, NULL);
	assert_int_equal(err, -EBUSY);
	trapline_explain(err, why, sizeof(why));
	assert_non_null(strstr(why, "blocks SIGSEGV"));

	heap = begin(&seen);
	err = trapline_heap_start(self, &opts, &other);
	assert_int_equal(err, -EBUSY);
	trapline_explain(err, why, sizeof(why));
	assert_non_null(strstr(why, "searched already"));
	write_behind();
	trapline_heap_stop(heap);
	trapline_heap_stop(NULL);
	assert_int_equal(seen.reports, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(errors_are_reported_and_the_program_goes_on),
		TEST(what_is_right_is_not_reported),
		TEST(after_the_end_nothing_is_sampled),
		TEST(lines_are_written),
		TEST(a_child_goes_on_without_it),
		TEST(faults_of_the_program_are_its_own),
		TEST(wrong_calls_are_refused),
	};

	if (trapline_open(0, NULL, &self))
		return 1;
	int failed = run_group(tests);
	trapline_close(self);
	return failed;
}
