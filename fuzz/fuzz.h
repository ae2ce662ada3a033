/* SPDX-License-Identifier: MIT */
/* fuzz.h - the one entry that libFuzzer and replay.c call. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
