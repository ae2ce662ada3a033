/* SPDX-License-Identifier: MIT */
/* grow.h - arrays that become twice as long when they are full. They allocate: not AS-Safe. */
#ifndef BASE_GROW_H
#define BASE_GROW_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define GROW_FIRST 64u /* rows */

static inline int grow_array(void **rows, size_t count, size_t *capacity, size_t bytes)
{
	if (count < *capacity)
		return 0;
	const size_t more = *capacity ? 2 * *capacity : GROW_FIRST;
	void *larger = reallocarray(*rows, more, bytes);
	if (!larger)
		return -ENOMEM;
	*rows = larger;
	*capacity = more;
	return 0;
}

/* Room for one more row behind count: 0, or -ENOMEM, and the array is as it was. */
#define grow_room(rows, count, capacity) \
	grow_array((void **)(void *)&(rows), (count), &(capacity), sizeof(*(rows)))

#endif
