/* SPDX-License-Identifier: MIT */
/* in_code_filter.h - what decides at a probe whether the handler is asked, by architecture. */
#ifndef CORE_IN_CODE_FILTER_H
#define CORE_IN_CODE_FILTER_H

#include "cond/native.h"
#include "event/event.h"

/*
 * The condition as machine code. length 0: each passing thread asks the interpreter. It also sets
 * where the event states that its condition is evaluated.
 */
void in_code_compile(struct trapline_event *ev, struct native_code *code);

#endif
