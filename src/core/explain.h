/* SPDX-License-Identifier: MIT */
/* explain.h - why a call failed. */
#ifndef CORE_EXPLAIN_H
#define CORE_EXPLAIN_H

/* Note where a call failed in this thread, for trapline_explain(). Returns err. */
enum failed_step {
	FAILED_ARGUMENT,
	FAILED_TARGET,
	FAILED_EVENT,
	FAILED_PROGRAM,
	FAILED_RING,
	FAILED_SIGNAL,
	FAILED_CODE,
};
/* AS-Safe, as long as what is a constant. */
int failed(int err, enum failed_step step, const char *what);
/* What an earlier call recorded is not about this one. */
void failed_forget(void);

#endif
