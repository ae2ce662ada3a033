/* SPDX-License-Identifier: MIT */
/* opts_copy.h - options whose size is that of another version. */
#ifndef CORE_OPTS_COPY_H
#define CORE_OPTS_COPY_H

#include <stddef.h>

/* Copy versioned options: older callers get defaults, newer ones are refused. */
int opts_copy(void *to, size_t size, const void *from);

#endif
