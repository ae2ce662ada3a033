/* SPDX-License-Identifier: MIT */
/*
 * unwinding.cc - functions that are left in every way: by exceptions that pass them, are caught in
 * them and thrown again, by pthread_exit(), cancellation and longjmp(), by a tail call, and by
 * returns of a switch. Two have data among their instructions. It counts what the destructors and results must be, does ROUNDS rounds (none:
 * until SIGTERM), and says `N rounds, none wrong` in the end.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

#define SEEN extern "C" __attribute__((noinline))
#define KEEP __asm__ volatile("" ::: "memory")

static unsigned long wrong;
static __thread unsigned long destroyed;

struct counted {
	~counted() { destroyed++; }
};

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	if (!wrong++)
		fprintf(stderr, "wrong: %s\n", what);
}

SEEN int throws(int n)
{
	KEEP;
	if (n)
		throw std::runtime_error("thrown");
	return 7;
}

SEEN int is_passed(int n)
{
	counted c;
	int result = throws(n) + 1;
	KEEP;
	return result;
}

SEEN int throws_again(int n)
{
	counted c;
	try {
		return is_passed(n) + 1;
	} catch (const std::exception &) {
		KEEP;
		throw;
	}
}

SEEN int catches(int n)
{
	try {
		return throws_again(n);
	} catch (const std::runtime_error &) {
		KEEP;
		return -n;
	}
}

SEEN int descends(int depth, int n)
{
	counted c;
	int result = depth ? descends(depth - 1, n) : throws_again(n);
	KEEP;
	return result + 1;
}

SEEN void never_returns()
{
	KEEP;
	throw 3;
}

SEEN int ends_thread(int cancelled)
{
	counted c;
	if (!cancelled)
		pthread_exit((void *)5);
	for (;;)
		pause();
	return 0;
}

SEEN int outside_of_thread(int cancelled)
{
	counted c;
	int result = ends_thread(cancelled) + 1;
	KEEP;
	return result;
}

static jmp_buf out;

SEEN int jumps_out(int n)
{
	KEEP;
	if (n)
		longjmp(out, n);
	return 1;
}

SEEN int passes_jump(int n)
{
	int result = jumps_out(n) + 1;
	KEEP;
	return result;
}

SEEN __attribute__((optimize("optimize-sibling-calls"))) int ends_with_call(int n)
{
	KEEP;
	return catches(n);
}

SEEN __attribute__((optimize("optimize-sibling-calls"))) int ends_with_pointer(int (*f)(int), int n)
{
	KEEP;
	return f(n);
}

SEEN int chooses(int n)
{
	switch (n) {
	case 0: KEEP; return n * 3;
	case 1: KEEP; return getppid() ? 11 : 12;
	case 2: KEEP; return 22 + n;
	case 3: KEEP; return getppid() ? 33 : 34;
	case 4: KEEP; return n + 40;
	case 5: KEEP; return n ^ 50;
	case 6: KEEP; return -n;
	case 7: KEEP; return getppid() ? 77 : 78;
	default: return -1;
	}
}

static const int chosen[] = { 0, 11, 24, 33, 44, 55, -6, 77, -1 };

/* Bytes that would be returns, if they were instructions. */
__asm__(".text\n"
	".globl has_data\n.type has_data, @function\nhas_data:\n.cfi_startproc\n"
	"jmp 1f\n"
	"data_of_function: .quad 0xc3c3c3c3c3c3c3c3\n"
	"1: mov data_of_function(%rip), %rax\n"
	"ret\n.cfi_endproc\n.size has_data, . - has_data\n"
	".globl steps_over_data\n.type steps_over_data, @function\nsteps_over_data:\n.cfi_startproc\n"
	"call 1f\n"
	".quad 0xc3c3c3c3c3c3c3c3\n"
	"1: pop %rax\n"
	"mov (%rax), %rax\n"
	"ret\n.cfi_endproc\n.size steps_over_data, . - steps_over_data\n");
extern "C" unsigned long has_data();
extern "C" unsigned long steps_over_data();

SEEN int goes_anywhere(int n)
{
	static const void *const labels[] = { &&first, &&second, &&third };
	goto *labels[n];
first:
	KEEP;
	return getppid() ? 1 : 0;
second:
	KEEP;
	return getppid() ? 2 : 0;
third:
	KEEP;
	return getppid() ? 3 : 0;
}

struct object {
	int count;
};

static object objects[4];

/* In one piece, so that its types are found. */
SEEN __attribute__((optimize("no-reorder-blocks-and-partition"))) object *finds(int n)
{
	counted c;
	throws(n & 1);
	KEEP;
	return &objects[n / 2];
}

static void round_of_objects()
{
	int caught = 0;

	for (int n = 0; n < 8; n++) {
		try {
			finds(n)->count++;
		} catch (const std::runtime_error &) {
			caught++;
		}
	}
	expect(caught == 4, "exceptions that pass finds()");
}

static void *thread_main(void *arg)
{
	unsigned long *seen = static_cast<unsigned long *>(arg);
	struct at_end {
		unsigned long *seen;
		~at_end() { *seen = destroyed; }
	} end = { seen };

	outside_of_thread(0);
	return NULL;
}

static void *cancelled_main(void *arg)
{
	unsigned long *seen = static_cast<unsigned long *>(arg);
	struct at_end {
		unsigned long *seen;
		~at_end() { *seen = destroyed; }
	} end = { seen };

	outside_of_thread(1);
	return NULL;
}

static void round_of_threads()
{
	pthread_t t[2];
	unsigned long seen[2] = { 0, 0 };
	void *result = NULL;

	pthread_create(&t[0], NULL, thread_main, &seen[0]);
	pthread_create(&t[1], NULL, cancelled_main, &seen[1]);
	pthread_join(t[0], &result);
	expect(result == (void *)5 && seen[0] == 2, "pthread_exit() ran two destructors");
	usleep(1000);
	pthread_cancel(t[1]);
	pthread_join(t[1], &result);
	expect(result == PTHREAD_CANCELED && seen[1] == 2, "cancellation ran two destructors");
}

static void round_of_calls()
{
	volatile int caught = 0;
	unsigned long before = destroyed;

	expect(catches(0) == 9, "catches(0)");
	expect(destroyed - before == 2, "destructors without an exception");
	expect(catches(4) == -4, "catches(4)");
	expect(destroyed - before == 4, "destructors with an exception");
	expect(descends(5, 0) == 15, "descends(5, 0)");
	try {
		descends(5, 1);
	} catch (const std::runtime_error &) {
		caught = 1;
	}
	expect(caught && destroyed - before == 20, "destructors of a recursion");
	try {
		never_returns();
	} catch (int n) {
		caught = n;
	}
	expect(caught == 3, "never_returns()");
	if (!setjmp(out))
		passes_jump(1);
	else
		caught = 9;
	expect(caught == 9, "longjmp()");
	expect(passes_jump(0) == 2, "passes_jump(0)");
	expect(ends_with_call(6) == -6, "ends_with_call()");
	expect(ends_with_pointer(catches, 8) == -8, "ends_with_pointer()");
	for (int i = 0; i < 9; i++)
		expect(chooses(i) == chosen[i], "chooses()");
}

static void round_of_data()
{
	expect(has_data() == 0xc3c3c3c3c3c3c3c3, "has_data()");
	expect(steps_over_data() == 0xc3c3c3c3c3c3c3c3, "steps_over_data()");
	for (int i = 0; i < 3; i++)
		expect(goes_anywhere(i) == i + 1, "goes_anywhere()");
}

static volatile sig_atomic_t is_over;

static void end(int)
{
	is_over = 1;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long done = 0;

	signal(SIGTERM, end);
	while (!is_over && (!rounds || done < rounds)) {
		round_of_calls();
		round_of_objects();
		round_of_data();
		round_of_threads();
		done++;
	}
	printf("%lu rounds, %s wrong\n", done, wrong ? "some" : "none");
	return wrong ? 1 : 0;
}
