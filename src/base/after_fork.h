/* SPDX-License-Identifier: MIT */
/* after_fork.h - what a forked child writes at once. */
#ifndef BASE_AFTER_FORK_H
#define BASE_AFTER_FORK_H

/* Together, since the kernel copies each page that the child writes. */
#define AFTER_FORK __attribute__((section("after_fork")))

#endif
