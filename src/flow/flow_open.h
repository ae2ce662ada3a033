/* SPDX-License-Identifier: MIT */
/* flow_open.h - what a descriptor leads to while the bytes go by: later it may be another one. */
#ifndef FLOW_FLOW_OPEN_H
#define FLOW_FLOW_OPEN_H

#include "flow/flow_state.h"

/* As /proc/self/fd has it, cut to n bytes; fd -1, or one that is not open: empty. */
void flow_open_path(int fd, char *out, size_t n);
/* The path, and the peer of a socket that is connected. */
void flow_open_fill(int fd, struct flow_open *out);
/* The address that a call names; at 0: none. */
void flow_open_to(const struct flow_moment *m, uint64_t at, uint64_t bytes, struct flow_open *out);
/* A path that has the bytes of the source is not reported: they may be a secret. */
void flow_open_hide(uint32_t source, struct flow_open *open);

#endif
