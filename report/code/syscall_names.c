/* SPDX-License-Identifier: MIT */
/* syscall_names.c - see syscall_names.h. The table is made of <sys/syscall.h> at build time. */
#include "report/code/syscall_names.h"

#include <stddef.h>
#include <sys/syscall.h>

static const char *const names[] = {
#include "report/syscalls.inc"
};

const char *syscall_name(int64_t number)
{
	return number >= 0 && (uint64_t)number < sizeof(names) / sizeof(names[0]) ? names[number] :
										    NULL;
}
