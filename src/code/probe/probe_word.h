/* SPDX-License-Identifier: MIT */
/* probe_word.h - words that the code of a probe jumps through: see code_filter. */
#ifndef CODE_PROBE_PROBE_WORD_H
#define CODE_PROBE_PROBE_WORD_H

#include <stdint.h>

/* One near to that code, for ever. NULL: no memory is near. Lock of pokes held. AS-Unsafe. */
uint64_t *probe_word_near(uint64_t near);

#endif
