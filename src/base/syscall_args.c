/* SPDX-License-Identifier: MIT */
/* syscall_args.c - see syscall_args.h. The table is made of syscall_args.txt at build time. */
#include "base/syscall_args.h"

#include <stddef.h>
#include <sys/syscall.h>

static const char *const args[] = {
#include "src/base/syscall_args.inc"
};

const char *syscall_args(int64_t number)
{
	return number >= 0 && (uint64_t)number < sizeof(args) / sizeof(args[0]) ? args[number] :
										  NULL;
}

static uint32_t result_of(char kind)
{
	switch (kind) {
	case 'd':
		return SYSCALL_CREATES;
	case 'c':
		return SYSCALL_DUPLICATES;
	case '0':
		return SYSCALL_PAIR_FIRST;
	case '3':
		return SYSCALL_PAIR_LAST;
	default:
		return 0;
	}
}

uint32_t syscall_descriptors(int64_t number)
{
	const char *at = syscall_args(number);
	uint32_t found = number == SYS_close_range ? SYSCALL_RANGE : 0;

	for (uint32_t i = 0; at && *at; i++) {
		if (*at == '=')
			return found | result_of(at[1]);
		if (*at == 'd' || *at == 'D' || *at == 'f')
			found |= 1u << i;
		while (*at && *at != ' ')
			at++;
		at += *at == ' ';
	}
	return found;
}
