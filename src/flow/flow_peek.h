/* SPDX-License-Identifier: MIT */
/* flow_peek.h - memory and arguments of the program, read so that a fault cannot happen. */
#ifndef FLOW_FLOW_PEEK_H
#define FLOW_FLOW_PEEK_H

#include <stddef.h>
#include <stdint.h>

#include "flow/flow_state.h"

/* Bytes of the program; fewer if not all can be read. */
size_t flow_peek(const struct flow_moment *m, void *to, uint64_t from, size_t n);
uint64_t flow_argument(const struct flow_moment *m, unsigned int number);
/* The length of a string, at most `most`; -1: it cannot be read. */
int64_t flow_string(const struct flow_moment *m, uint64_t at, size_t most);

#endif
