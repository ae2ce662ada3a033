/* SPDX-License-Identifier: MIT */
/* exec_begins.c - see exec_begins.h. */
#include "guest/exec_begins.h"

#include <stddef.h>

void (*exec_begins)(const struct exec_call *call);
