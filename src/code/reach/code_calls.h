/* SPDX-License-Identifier: MIT */
/* code_calls.h - whether calls in another process come back (code/reach/back.h). AS-Unsafe. */
#ifndef CODE_REACH_CODE_CALLS_H
#define CODE_REACH_CODE_CALLS_H

#include <stdint.h>
#include <sys/types.h>

struct back;
struct code_calls;

/* The objects that are in the process now. 0 or -errno; *out is given to code_calls_close(). */
int code_calls_open(pid_t pid, struct code_calls **out);
void code_calls_close(struct code_calls *calls);
/* To be asked with addresses of the process. */
struct back *code_calls_back(struct code_calls *calls);

#endif
