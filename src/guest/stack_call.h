/* SPDX-License-Identifier: MIT */
/*
 * stack_call.h - a function called on another stack, from where an unwinder finds the way back.
 *
 * A handler may stand on the program's own alternate stack, which has a few KiB.
 */
#ifndef GUEST_STACK_CALL_H
#define GUEST_STACK_CALL_H

/* top: one past its last byte, aligned to 16. */
void stack_call(void *top, void (*call)(void *), void *arg) __attribute__((visibility("hidden")));

#endif
