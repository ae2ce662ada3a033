/* SPDX-License-Identifier: MIT */
/* flow_locate.h - addresses become locations, which mean something after the process has ended. */
#ifndef FLOW_FLOW_LOCATE_H
#define FLOW_FLOW_LOCATE_H

#include "flow/flow_state.h"

/* Does a function of libc call the one that the thread is in? */
int flow_is_called_by_libc(const ucontext_t *context);
/* The stack of a signal handler. */
void flow_stack_of(const ucontext_t *context, struct flow_stack *out);
/* That of a function which Trapline is before. */
void flow_stack_behind(const struct flow_moment *m, struct flow_stack *out);

#endif
