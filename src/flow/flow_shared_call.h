/* SPDX-License-Identifier: MIT */
/*
 * flow_shared_call.h - the system calls of a function that makes them for others.
 *
 * From glibc 2.41 on, functions that are cancellation points have no system call of their own.
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
 */
uint32_t flow_shared_calls(uint64_t function, uint64_t start, uint64_t end,
			   struct flow_shared_call *out);

#endif
