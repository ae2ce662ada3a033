/* SPDX-License-Identifier: MIT */
/* lasting_text.c - see lasting_text.h. */
#include "code/lasting_text.h"

#include <stdint.h>

#include "base/atomic.h"

#define TEXTS 16u /* a power of two: the turn may overflow */

char *lasting_text(void)
{
	static char texts[TEXTS][LASTING_TEXT_BYTES];
	static uint32_t turn;

	return texts[atomic_add(&turn, 1u) % TEXTS];
}
