// SPDX-License-Identifier: MIT
//
// language_abi.c prints each call that test_language.sh looks at, as the ground truth: arguments and
// results that the calling convention treats in ways of their own.

#include <complex.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define CALLED __attribute__((noinline))

typedef int four __attribute__((vector_size(16)));

struct mixed {
	double d;
	long n;
};

struct large {
	long first, second, third;
};

struct __attribute__((packed)) packed {
	char c;
	int n;
};

struct pair {
	float x;
	int n;
};

struct aligned {
	_Alignas(16) long n;
};

struct text {
	char c[3];
};

CALLED int vector(four v, int n)
{
	asm volatile("");
	return v[0] + n;
}

CALLED int complexes(complex float f, complex double d, complex long double l, int n)
{
	asm volatile("");
	return (int)crealf(f) + (int)creal(d) + (int)creall(l) + n;
}

CALLED int halves(struct mixed m, struct pair p, int n)
{
	asm volatile("");
	return (int)m.d + (int)m.n + p.n + n;
}

CALLED int unaligned(struct packed p, int n)
{
	asm volatile("");
	return p.n + n;
}

CALLED long on_the_stack(long a, long b, long c, long d, long e, long f, long g, long double h,
				long i, struct aligned k, long l)
{
	asm volatile("");
	return a + b + c + d + e + f + g + (long)h + i + k.n + l;
}

CALLED struct packed packed_result(int n)
{
	asm volatile("");
	return (struct packed){ 'p', n };
}

CALLED struct mixed mixed_result(int n)
{
	asm volatile("");
	return (struct mixed){ n, n + 1 };
}

CALLED struct text text_result(int n)
{
	asm volatile("");
	return (struct text){ { (char)n, '\n', '\f' } };
}

CALLED int nine(double a, double b, double c, double d, double e, double f, double g, double h,
		       double i, int n, float j)
{
	asm volatile("");
	return (int)(a + b + c + d + e + f + g + h + i + j) + n;
}

#ifdef __SIZEOF_INT128__
CALLED __int128 wide(__int128 a, int n)
{
	asm volatile("");
	return a + n;
}

CALLED int wide_pairs(int a, int b, int c, int d, int e, __int128 f, int g, int h, __int128 i)
{
	asm volatile("");
	return a + b + c + d + e + (int)f + g + h + (int)i;
}
#endif

// No caller uses its result, so a compiler may leave it out.
static CALLED int ignored(int n)
{
	asm volatile("");
	return n * 3;
}

static void line(int r)
{
	int n = r + 100;

	printf("vector %d %d\n", n, vector((four){ r, 2, 3, 4 }, n));
	printf("complexes %d %d\n", n, complexes(r + 1.0f * I, 2.0 + r * I, 3.0L + r * I, n));
	printf("halves {.d null, .n %d} %d %d\n", r, n, halves((struct mixed){ 1.5, r },
							       (struct pair){ 2, r }, n));
	printf("unaligned {.c 122 'z', .n %d} %d %d\n", r, n, unaligned((struct packed){ 'z', r }, n));
	printf("stack %d 7 8.5 %d {.n %d} 12 %ld\n", r, n, r + 1,
	       on_the_stack(r, 2, 3, 4, 5, 6, 7, 8.5L, n, (struct aligned){ r + 1 }, 12));
	ignored(n);
	printf("ignored %d %d\n", n, n * 3);
	packed_result(r);
	printf("packed_result %d\n", r);
	mixed_result(r);
	printf("mixed_result %d {.d null, .n %d}\n", r, r + 1);
	text_result(r + 14);
	printf("text_result %d {.c 0x0c0a%02x}\n", r + 14, r + 14);
	printf("nine %d %d 2.5 %d\n", r, n, nine(1, 2, 3, 4, 5, 6, 7, 8, r, n, 2.5f));
#ifdef __SIZEOF_INT128__
	printf("wide %d %d %d\n", r, n, (int)wide(r, n));
	printf("wide_pairs %d 5 %d 7 %d 9 %d\n", r, n, r, wide_pairs(r, 2, 3, 4, 5, n, 7, r, 9));
#endif
}

int main(void)
{
	for (int r = 0;; r = (r + 1) % 50) {
		line(r);
		fflush(stdout);
		usleep(2000);
	}
}
