/* SPDX-License-Identifier: MIT */
/* race_second.h - the second access: which thread, which instruction, and does it count? */
#ifndef RACE_SECOND_H
#define RACE_SECOND_H

#include <trapline/trapline.h>

enum trapline_action race_on_watch(const struct trapline_hit *hit);

#endif
