/* SPDX-License-Identifier: MIT */
/* moved.h - see moved.c. */
#ifndef GUEST_MOVED_H
#define GUEST_MOVED_H

/* Most threads have moved by the first look. Not in a handler. */
void moved_wait(void);

#endif
