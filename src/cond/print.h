/* SPDX-License-Identifier: MIT */
/* print.h - conditions and programs as text, for trapline_condition_explain(). */
#ifndef COND_PRINT_H
#define COND_PRINT_H

#include <stdio.h>

#include "base/ebpf.h"
#include "cond/ir.h"

void cond_print(FILE *out, const struct condition *c);
void ebpf_print(FILE *out, const struct ebpf *p);

#endif
