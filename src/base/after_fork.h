/* SPDX-License-Identifier: MIT */
/* after_fork.h - what a forked child runs and writes at once. */
#ifndef BASE_AFTER_FORK_H
#define BASE_AFTER_FORK_H

/* Together, since the kernel copies each page that the child writes. */
#define AFTER_FORK __attribute__((section("after_fork")))

/*
 * The same for code: each page of it is a fault in the child. The linker puts this part first,
 * beside the calls of libc.
 */
#define AT_FORK __attribute__((section(".text.unlikely.at_fork")))

#endif
