/* SPDX-License-Identifier: MIT */
/* patch_code.h - what a patch must know of code and stacks, by architecture. */
#ifndef PATCH_PATCH_CODE_H
#define PATCH_PATCH_CODE_H

#if defined(__x86_64__)
#include "patch/patch_code_x86_64.h"
#elif defined(__aarch64__)
#include "patch/patch_code_arm64.h"
#endif

#endif
