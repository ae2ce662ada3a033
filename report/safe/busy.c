/* SPDX-License-Identifier: MIT */
/* busy.c - see busy.h. */
#include "report/safe/busy.h"

volatile sig_atomic_t busy_depth;
volatile sig_atomic_t busy_steps;
