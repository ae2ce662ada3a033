/* SPDX-License-Identifier: MIT */
/* spelled.c - functions with the symbols that compilers of other languages give them, for test_spelled.sh. */
#include <stdio.h>
#include <unistd.h>

#define NAMED(name, symbol)                                          \
	__attribute__((noinline)) long name(long n) __asm__(symbol); \
	long name(long n)                                            \
	{                                                            \
		__asm__ volatile("" : "+r"(n)::"memory");            \
		return n + 1;                                        \
	}

/* Rust: a function, a method, one of a trait, a closure's user; and as rustc wrote names before. */
NAMED(rust_work, "_RNvNtNtCs6dOqIu7e05Q_4ring4deep2er4work")
NAMED(rust_push, "_RNvMCs6dOqIu7e05Q_4ringINtB2_4RingyE4pushB2_")
NAMED(rust_area, "_RNvXs_Cs6dOqIu7e05Q_4ringNtB4_2SqNtB4_5Shape4area")
NAMED(rust_apply, "_RINvCs6dOqIu7e05Q_4ring5applyNCNvB2_4main0EB2_")
NAMED(rust_call,
      "_RNvYFEuINtNtNtCsgEmfK2I1SDS_4core3ops8function6FnOnceuE9call_onceCs6dOqIu7e05Q_4ring")
NAMED(rust_old, "_ZN42_$LT$ring..Disc$u20$as$u20$ring..Shape$GT$4area17h72ed9ad04461900fE")
/* Not of Rust, although they begin alike; and one that refers to itself. */
NAMED(not_rust, "_Really")
NAMED(endless, "_RNvB_4work")

/* A function in a function, with one that is inlined into it. */
volatile long touched;

static inline __attribute__((always_inline)) void touch(long n)
{
	touched += n;
}

static __attribute__((noinline)) void outer(long n)
{
	__attribute__((noinline)) void inner(long more)
	{
		touch(more);
	}

	inner(n);
	inner(n + 1);
}

int main(void)
{
	for (long n = 0;; n++) {
		printf("%ld\n", rust_work(n) + rust_push(n) + rust_area(n) + rust_apply(n) +
					rust_call(n) + rust_old(n) + not_rust(n) + endless(n));
		outer(n);
		fflush(stdout);
		usleep(10000);
	}
}
