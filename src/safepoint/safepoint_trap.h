/* SPDX-License-Identifier: MIT */
/* safepoint_trap.h - a thread has hit the watch of a domain. */
#ifndef SAFEPOINT_SAFEPOINT_TRAP_H
#define SAFEPOINT_SAFEPOINT_TRAP_H

#include <trapline/trapline.h>

enum trapline_action safepoint_trap(const struct trapline_hit *hit);

#endif
