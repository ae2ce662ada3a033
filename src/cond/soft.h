/* SPDX-License-Identifier: MIT */
/*
 * soft.h - arithmetic of doubles by whole numbers alone, as IEEE 754 and C have it.
 *
 * A handler leaves the vector registers alone (general_regs.h), and eBPF has none: emit_float.c
 * writes the same. Rounding is to the nearest, ties to even, and there are no traps. Arithmetic of
 * floats is that of doubles, rounded: two roundings are one, since 53 >= 2 * 24 + 2 bits.
 */
#ifndef COND_SOFT_H
#define COND_SOFT_H

#include <stdint.h>

#include "cond/order.h"

#define SOFT_NAN (UINT64_C(0x7ff8) << 48)
#define SOFT_NAN_FLOAT UINT64_C(0x7fc00000)
#define SOFT_INFINITY_FLOAT UINT64_C(0x7f800000)
#define SOFT_HIDDEN (UINT64_C(1) << 52) /* the first bit of a fraction */
#define SOFT_BIAS 1023
#define SOFT_BIAS_FLOAT 127
#define SOFT_WHOLE (SOFT_BIAS + 62) /* the exponent of soft_pack() for a whole number */

/* What is shifted out leaves a last bit that is 1. */
static inline uint64_t soft_shift(uint64_t fraction, uint64_t bits)
{
	bits = bits < 63 ? bits : 63;
	uint64_t rest = fraction >> bits;

	return rest | (rest << bits != fraction);
}

/*
 * The bits of a number whose fraction has `extra` bits more than the `bits` of its type, rounded to
 * the nearest one, even at a tie. An exponent below 1 is that of a small one. Without its sign.
 */
static inline uint64_t soft_rounded(int64_t exponent, uint64_t fraction, int extra, int bits)
{
	if (exponent < 1) {
		fraction = soft_shift(fraction, (uint64_t)(1 - exponent));
		exponent = 1;
	}
	fraction = (fraction + (UINT64_C(1) << (extra - 1)) - 1 + (fraction >> extra & 1)) >> extra;
	return ((uint64_t)(exponent - 1) << bits) + fraction;
}

/* The double fraction * 2^(exponent - SOFT_WHOLE), rounded; fraction below 2^63. */
static inline uint64_t soft_pack(uint64_t sign, int64_t exponent, uint64_t fraction)
{
	if (!fraction)
		return sign;
	const int unused = __builtin_clzll(fraction) - 1;
	const uint64_t bits = soft_rounded(exponent - unused, fraction << unused, 10, 52);
	return sign | (bits < ORDER_INFINITY ? bits : ORDER_INFINITY);
}

struct soft_parts {
	int64_t exponent;
	uint64_t fraction; /* its first bit is SOFT_HIDDEN */
};

/* The number is not 0. */
static inline struct soft_parts soft_parts(uint64_t bits)
{
	struct soft_parts out = { (int64_t)(bits >> 52 & 0x7ff), bits & (SOFT_HIDDEN - 1) };

	if (out.exponent) {
		out.fraction |= SOFT_HIDDEN;
	} else {
		const int unused = __builtin_clzll(out.fraction) - 11;
		out.fraction <<= unused;
		out.exponent = 1 - unused;
	}
	return out;
}

static inline int soft_is_nan(uint64_t bits)
{
	return (bits & ~ORDER_SIGN) > ORDER_INFINITY;
}

/* 9 bits more than the fraction has; its first bit is bit 61. */
static inline uint64_t soft_guarded(uint64_t bits)
{
	return (bits & (SOFT_HIDDEN - 1)) << 9 | (bits >> 52 & 0x7ff ? SOFT_HIDDEN << 9 : 0);
}

static inline uint64_t soft_add(uint64_t a, uint64_t b)
{
	if (soft_is_nan(a) || soft_is_nan(b))
		return SOFT_NAN;
	if (a << 1 < b << 1) {
		const uint64_t other = a;
		a = b;
		b = other;
	}
	if (a << 1 == ORDER_INFINITY << 1)
		return (a ^ b) == ORDER_SIGN ? SOFT_NAN : a;
	int64_t exponent = (int64_t)(a >> 52 & 0x7ff);
	int64_t smaller = (int64_t)(b >> 52 & 0x7ff);
	exponent += !exponent;
	smaller += !smaller;
	uint64_t fraction = soft_guarded(a);
	const uint64_t other = soft_shift(soft_guarded(b), (uint64_t)(exponent - smaller));
	if (!((a ^ b) & ORDER_SIGN))
		fraction += other;
	else if (fraction == other)
		return 0;
	else
		fraction -= other;
	return soft_pack(a & ORDER_SIGN, exponent + 1, fraction);
}

static inline uint64_t soft_multiply(uint64_t a, uint64_t b)
{
	const uint64_t sign = (a ^ b) & ORDER_SIGN;
	const uint64_t infinity = ORDER_INFINITY << 1;

	if (soft_is_nan(a) || soft_is_nan(b))
		return SOFT_NAN;
	if (a << 1 == infinity || b << 1 == infinity)
		return !(a << 1) || !(b << 1) ? SOFT_NAN : sign | ORDER_INFINITY;
	if (!(a << 1) || !(b << 1))
		return sign;
	const struct soft_parts x = soft_parts(a);
	const struct soft_parts y = soft_parts(b);
	const unsigned __int128 product =
		(unsigned __int128)(x.fraction << 11) * (y.fraction << 10);
	const uint64_t fraction = (uint64_t)(product >> 64) | ((uint64_t)product != 0);
	return soft_pack(sign, x.exponent + y.exponent - SOFT_BIAS + 1, fraction);
}

static inline uint64_t soft_divide(uint64_t a, uint64_t b)
{
	const uint64_t sign = (a ^ b) & ORDER_SIGN;
	const uint64_t infinity = ORDER_INFINITY << 1;

	if (soft_is_nan(a) || soft_is_nan(b))
		return SOFT_NAN;
	if (a << 1 == b << 1 && (!(a << 1) || a << 1 == infinity))
		return SOFT_NAN;
	if (a << 1 == infinity || !(b << 1))
		return sign | ORDER_INFINITY;
	if (b << 1 == infinity || !(a << 1))
		return sign;
	const struct soft_parts x = soft_parts(a);
	const struct soft_parts y = soft_parts(b);
	uint64_t quotient = x.fraction / y.fraction;
	uint64_t rest = x.fraction % y.fraction;
	/* 53 bits and two more, 11 at a time: that much room is left above the rest. */
	for (int i = 0; i < 5; i++) {
		rest <<= 11;
		quotient = quotient << 11 | rest / y.fraction;
		rest %= y.fraction;
	}
	return soft_pack(sign, x.exponent - y.exponent + SOFT_BIAS, quotient << 7 | (rest != 0));
}

/* A whole number as a double. */
static inline uint64_t soft_from(uint64_t number, int is_signed)
{
	const uint64_t sign = is_signed ? number & ORDER_SIGN : 0;
	const uint64_t size = sign ? 0 - number : number;

	if (size >> 63)
		return soft_pack(sign, SOFT_WHOLE + 1, size >> 1 | (size & 1));
	return soft_pack(sign, SOFT_WHOLE, size);
}

/*
 * A number that a double has exactly, and that becomes the same float. A float needs none of the
 * last 11 bits of a larger number, only whether they are 0.
 */
static inline uint64_t soft_for_float(uint64_t size)
{
	if (size < UINT64_C(1) << 53 || !(size & 0x7ff))
		return size;
	return (size & ~UINT64_C(0x7ff)) | 0x800;
}

/* The bits of the nearest float. */
static inline uint64_t soft_round(uint64_t bits)
{
	const uint64_t sign = bits >> 63 << 31;
	const int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - (SOFT_BIAS - SOFT_BIAS_FLOAT);
	const uint64_t fraction = (bits & (SOFT_HIDDEN - 1)) | SOFT_HIDDEN;

	if (soft_is_nan(bits))
		return SOFT_NAN_FLOAT;
	const uint64_t out = soft_rounded(exponent, fraction, 29, 23);
	return sign | (out < SOFT_INFINITY_FLOAT ? out : SOFT_INFINITY_FLOAT);
}

static inline uint64_t soft_from_as_float(uint64_t number, int is_signed)
{
	const uint64_t sign = is_signed ? number & ORDER_SIGN : 0;
	const uint64_t size = soft_for_float(sign ? 0 - number : number);

	return soft_round(sign | soft_from(size, 0));
}

/* A double cut to a whole number. 0: the type does not have it. */
static inline int soft_whole(uint64_t bits, int is_signed, uint64_t *out)
{
	const int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - SOFT_BIAS;
	const uint64_t fraction = (bits & (SOFT_HIDDEN - 1)) | SOFT_HIDDEN;
	const uint64_t least = ORDER_SIGN | (uint64_t)(SOFT_BIAS + 63) << 52; /* -2^63 */

	if (is_signed && exponent >= 63 && bits != least)
		return 0;
	if (!is_signed && (exponent >= 64 || (exponent >= 0 && bits & ORDER_SIGN)))
		return 0;
	*out = exponent < 0   ? 0 :
	       exponent >= 52 ? fraction << (exponent - 52) :
				fraction >> (52 - exponent);
	if (bits & ORDER_SIGN)
		*out = 0 - *out;
	return 1;
}

#endif
