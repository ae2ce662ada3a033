/* SPDX-License-Identifier: MIT */
/* safepoint_trap.c - see safepoint_trap.h. */
#include "safepoint/safepoint_trap.h"

#include "safepoint/safepoint_wait.h"

enum trapline_action safepoint_trap(const struct trapline_hit *hit)
{
	safepoint_arrive_by(hit->context);
	return TRAPLINE_GO_ON;
}
