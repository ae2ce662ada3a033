// SPDX-License-Identifier: MIT
//
// trace_calls.cc - a call that makes all kinds of calls, and logs the tree itself: `depth name` a line on
// standard output, after the call. trace_calls [WHICH] [ROUNDS]: WHICH is all, never, fork or many.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__clang__)
#define CALLED __attribute__((noinline, used))
#else
#define CALLED __attribute__((noipa, used))
#endif

static char log_text[1 << 16];
static size_t log_used;
static int depth;

// Nothing here calls anything: it must not be in the tree.
__attribute__((always_inline)) static inline void note(const char *name)
{
	log_text[log_used++] = static_cast<char>('0' + depth);
	log_text[log_used++] = ' ';
	while (*name)
		log_text[log_used++] = *name++;
	log_text[log_used++] = '\n';
}

struct enters {
	__attribute__((always_inline)) explicit enters(const char *name)
	{
		note(name);
		depth++;
	}
	__attribute__((always_inline)) ~enters()
	{
		depth--;
	}
};

extern "C" {

static jmp_buf back;

CALLED int leaf(int x)
{
	enters e("leaf");
	return x * 3;
}

CALLED int recurses(int n)
{
	enters e("recurses");
	return n ? recurses(n - 1) + leaf(n) : 0;
}

// The caller's frame is gone: its place in the log is one deeper all the same.
CALLED int tail_end(int x)
{
	note("tail_end");
	return x + 1;
}

CALLED int tail_begin(int x)
{
	note("tail_begin");
	depth++;
	return tail_end(x * 2);
}

CALLED int calls_tail(int x)
{
	enters e("calls_tail");
	int result = tail_begin(x);
	depth--;
	return result;
}

CALLED void jumps_back()
{
	note("jumps_back");
	longjmp(back, 1);
}

CALLED void jumps_deep()
{
	note("jumps_deep");
	depth++;
	jumps_back();
}

CALLED int jumps()
{
	enters e("jumps");
	int here = depth;
	if (!_setjmp(back))
		jumps_deep();
	depth = here;
	return leaf(1);
}

CALLED void throws()
{
	note("throws");
	throw 5;
}

CALLED int catches()
{
	enters e("catches");
	int here = depth;
	try {
		throws();
	} catch (int n) {
		depth = here;
		return leaf(n);
	}
	return 0;
}

int (*volatile pointer)(int) = leaf;

CALLED int by_pointer(int x)
{
	enters e("by_pointer");
	return pointer(x) + pointer(x + 1);
}

/* With room for a jump, wherever the heap begins: a running process gets no int3. */
__attribute__((patchable_function_entry(5))) CALLED int traced(int n)
{
	enters e("traced");
	int sum = leaf(n) + recurses(3) + calls_tail(n) + by_pointer(n);
	sum += jumps();
	sum += catches();
	return sum + leaf(n);
}

CALLED int traced_never(int n)
{
	leaf(n);
	exit(7);
}

CALLED int traced_fork(int n)
{
	leaf(n);
	pid_t pid = fork();
	if (!pid)
		_exit(leaf(3));
	int status = 0;
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status) + leaf(n);
}

CALLED int quiet(int x)
{
	return x ^ 1;
}

CALLED int traced_many(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += quiet(i);
	return sum;
}

CALLED int traced_slow(int n)
{
	leaf(n);
	usleep(20000);
	return leaf(n);
}
}

int main(int argc, char **argv)
{
	const char *which = argc > 1 ? argv[1] : "all";
	int rounds = argc > 2 ? atoi(argv[2]) : 1;
	int sum = 0;

	for (int i = 0; i < rounds; i++) {
		log_used = 0;
		if (!strcmp(which, "all"))
			sum = traced(7);
		else if (!strcmp(which, "never"))
			sum = traced_never(1);
		else if (!strcmp(which, "fork"))
			sum = traced_fork(1);
		else if (!strcmp(which, "many"))
			sum = traced_many(200000);
		else
			sum = traced_slow(1);
		if (rounds > 1)
			usleep(20000);
	}
	fwrite(log_text, 1, log_used, stdout);
	printf("result %d\n", sum);
	return 0;
}
