/* SPDX-License-Identifier: MIT */
/* syscall_args.h - what the arguments of a system call are. */
#ifndef BASE_SYSCALL_ARGS_H
#define BASE_SYSCALL_ARGS_H

#include <stdint.h>

/*
 * The arguments in their order, as words `kind.name`, and what it returns as a last word. NULL: not
 * known. Kinds:
 *	d descriptor	D descriptor of a directory	p text		x address or flags
 *	i int		l long				u size		o flags of open()
 *	m mode		s signal			r PROT_...	f -1 or descriptor
 * A last word =d: the result is a new descriptor; =c: only if argument 1 is F_DUPFD or its like.
 * =x: it is an address. =0 or =3: argument 0 or 3 leads to two new descriptors.
 */
const char *syscall_args(int64_t number);

#define SYSCALL_ARGS_MAX 6

/* What a system call does with descriptors. */
#define SYSCALL_RANGE 0x40u	  /* closes those from argument 0 to argument 1 */
#define SYSCALL_CREATES 0x80u	  /* its result is a new one */
#define SYSCALL_PAIR_FIRST 0x100u /* argument 0, and below 3, leads to two new ones */
#define SYSCALL_PAIR_LAST 0x200u
#define SYSCALL_DUPLICATES 0x400u /* its result is one, if argument 1 is F_DUPFD or its like */
#define SYSCALL_NEW (SYSCALL_CREATES | SYSCALL_PAIR_FIRST | SYSCALL_PAIR_LAST | SYSCALL_DUPLICATES)
/* Bit n: argument n is a descriptor; and the bits above. */
uint32_t syscall_descriptors(int64_t number);

#endif
