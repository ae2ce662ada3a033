/* SPDX-License-Identifier: MIT */
/* text_byte.c - see text_byte.h. */
#include "base/text_byte.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/trap_path.h"

static uint32_t makes_no_calls;

void text_byte_make_no_calls(void)
{
	atomic_set(&makes_no_calls, 1u);
}

TRAP_PATH int text_byte(uint64_t address)
{
	uint8_t byte = 0;
	long n = -EPERM;

	if (!atomic_get(&makes_no_calls))
		n = sys_read_memory(sys_getpid(), address, &byte, 1);
	if (n == 1)
		return byte;
	if (n != -EPERM && n != -EACCES && n != -ENOSYS)
		return -1;
	/*
	 * Refused by a filter: then it is read as the processor did a moment ago. In front of the
	 * page that it is in may be nothing.
	 */
	if (address % PAGE_BYTES == PAGE_BYTES - 1)
		return -1;
	return *(volatile uint8_t *)(uintptr_t)address;
}
