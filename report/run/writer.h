/* SPDX-License-Identifier: MIT */
/*
 * writer.h - what a memory function of libc accesses is an access of the function that called it.
 */
#ifndef REPORT_RUN_WRITER_H
#define REPORT_RUN_WRITER_H

#include "report/run/run.h"

/*
 * If the hit is in such a function and has a stack, its code becomes that of the caller, and `via`
 * the name of the function. The frames stay as they are.
 */
void run_hit_set_writer(struct run_hit *hit);

#endif
