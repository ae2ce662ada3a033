/* SPDX-License-Identifier: MIT */
/* vector_values.c - arguments in vector registers. Each call prints what it got, as the command does. */
#include <complex.h>
#include <immintrin.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct pair {
	float x, y;
};

struct triple {
	float x, y, z;
};

struct doubles {
	double a, b;
};

struct mixed {
	double weight;
	long n;
};

#define NOT_INLINED __attribute__((noinline))

NOT_INLINED void vectors_plain(double a, int n, float b, double c)
{
	printf("vectors_plain(a=%g, n=%d, b=%g, c=%g)\n", a, n, (double)b, c);
}

NOT_INLINED void vectors_structs(struct pair p, struct triple t, struct doubles d)
{
	printf("vectors_structs(p={.x %g, .y %g}, t={.x %g, .y %g, .z %g}, d={.a %g, .b %g})\n",
	       (double)p.x, (double)p.y, (double)t.x, (double)t.y, (double)t.z, d.a, d.b);
}

NOT_INLINED void vectors_mixed(struct mixed m, double after)
{
	printf("vectors_mixed(m={.weight %g, .n %ld}, after=%g)\n", m.weight, m.n, after);
}

NOT_INLINED void vectors_wide(__m128 v, double after)
{
	printf("vectors_wide(v=[%g, %g, %g, %g], after=%g)\n", (double)v[0], (double)v[1],
	       (double)v[2], (double)v[3], after);
}

NOT_INLINED void vectors_many(double a, double b, double c, double d, double e, double f, double g,
			      double h, double i)
{
	printf("vectors_many(a=%g, b=%g, c=%g, d=%g, e=%g, f=%g, g=%g, h=%g, i=%g)\n", a, b, c, d,
	       e, f, g, h, i);
}

NOT_INLINED void vectors_variadic(double x, ...)
{
	va_list args;

	va_start(args, x);
	printf("vectors_variadic(x=%g, ...) %g\n", x, va_arg(args, double));
	va_end(args);
}

NOT_INLINED void vectors_complex(double complex z, float complex w)
{
	printf("vectors_complex(z={.real %g, .imag %g}, w={.real %g, .imag %g})\n", creal(z),
	       cimag(z), (double)crealf(w), (double)cimagf(w));
}

NOT_INLINED void vectors_long(long double l, double after)
{
	printf("vectors_long(l=%Lg, after=%g)\n", l, after);
}

/* The convention of another system: its second argument is in the second register. */
__attribute__((noinline, ms_abi)) void vectors_other(int n, double b)
{
	printf("vectors_other(n=%d, b=%g)\n", n, b);
}

NOT_INLINED double vectors_result(double a)
{
	printf("vectors_result(a=%g)\n", a);
	return a * 2;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 3;
	double sum = 0;

	for (int i = 0; i < n; i++) {
		float f = (float)i;
		vectors_plain(1.5 + i, i, 2.25f * f, -3.125);
		vectors_structs((struct pair){ 1.5f + f, -2.5f }, (struct triple){ 3, f, 5.5f },
				(struct doubles){ 6.25, 7.75 + i });
		vectors_mixed((struct mixed){ 8.5 + i, 9 + i }, 10.5);
		vectors_wide((__m128){ f, 2, 3, 4.5f }, 11.5);
		vectors_many(1 + i, 2, 3, 4, 5, 6, 7, 8.5, 9.5);
		vectors_variadic(12.5 + i, 13.5);
		vectors_complex(1.5 + i + 2.5 * I, 3.5f + 4.5f * I);
		vectors_long(1.25L + i, 15.5);
		vectors_other(i, 16.5 + i);
		sum += vectors_result(i);
	}
	printf("%g\n", sum);
	fflush(stdout);
	/* For those that come to a process that runs. */
	for (char c; argc > 2 && fread(&c, 1, 1, stdin) == 1;)
		vectors_plain(n, n, 0.5f, c);
	return 0;
}
