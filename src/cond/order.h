/* SPDX-License-Identifier: MIT */
/*
 * order.h - floating-point numbers as whole numbers in the same order.
 *
 * The bits of an IEEE 754 number with a plus sign are in its order, and those with a minus sign in
 * the reverse one. So a condition compares floating-point numbers by the operators that it has, in
 * the kernel too. Each comparison with a NaN is false, except by !=. So the rank of a NaN is the
 * first or the last of all, as the comparison needs it.
 */
#ifndef COND_ORDER_H
#define COND_ORDER_H

#include <stdint.h>

#define ORDER_SIGN (UINT64_C(1) << 63)
#define ORDER_INFINITY (UINT64_C(0x7ff) << 52)
#define ORDER_FIRST UINT64_C(0)
#define ORDER_LAST UINT64_MAX

/* The bits of a double with the value of a float. */
static inline uint64_t order_widen(uint32_t bits)
{
	const uint64_t sign = (uint64_t)(bits >> 31) << 63;
	uint64_t exponent = bits >> 23 & 0xff;
	uint64_t fraction = bits & 0x7fffff;

	if (exponent == 0xff)
		return sign | ORDER_INFINITY | fraction << 29;
	if (!exponent && !fraction)
		return sign;
	/* Below the smallest normal float there is no hidden first bit; a double has one. */
	if (!exponent) {
		exponent = 1;
		while (!(fraction >> 23)) {
			fraction <<= 1;
			exponent--;
		}
		fraction &= 0x7fffff;
	}
	return sign | (exponent + 1023 - 127) << 52 | fraction << 29;
}

/* The rank of a double; nan is that of a NaN. Both zeros have the same. */
static inline uint64_t order_of(uint64_t bits, uint64_t nan)
{
	const uint64_t size = bits & ~ORDER_SIGN;

	if (size > ORDER_INFINITY)
		return nan;
	if (!size)
		return ORDER_SIGN;
	return bits & ORDER_SIGN ? ~bits : bits | ORDER_SIGN;
}

#endif
