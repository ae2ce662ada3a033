/* SPDX-License-Identifier: MIT */
/* probe_table.c - what a thread that comes from a probe looks at: on the trap path. */
#include "code/probe/code_probe.h"

struct code_probe code_probes[CODE_PROBES_MAX];
