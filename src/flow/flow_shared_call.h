/* SPDX-License-Identifier: MIT */
/*
 * flow_shared_call.h - the system calls of a function that makes them for others.
 *
 * From glibc 2.41 on, functions that are cancellation points have no system call of their own.
 * read() and its like push the number and call one function, in which are two. Which function made
 * the call is stated by its return address, which is a known number of bytes above the stack
 * pointer there.
 */
#ifndef FLOW_FLOW_SHARED_CALL_H
#define FLOW_FLOW_SHARED_CALL_H

#include <stdint.h>

#define FLOW_SHARED_CALLS 4u

struct flow_shared_call {
	uint64_t behind; /* the instruction behind the system call */
	uint32_t above;	 /* where the return address is that leads to the caller: bytes above rsp */
};

/*
 * Those that the function at this address reaches, itself or by functions that it calls, with a
 * number that it gets. The code is in [start, end). Returns how many.
 */
uint32_t flow_shared_calls(uint64_t function, uint64_t start, uint64_t end,
			   struct flow_shared_call *out);

#endif
