/* SPDX-License-Identifier: MIT */
/* branch_code.h - the two instructions of a branch, and its record, by architecture. */
#ifndef CODE_BRANCH_BRANCH_CODE_H
#define CODE_BRANCH_BRANCH_CODE_H

#if defined(__x86_64__)
#include "code/branch/branch_code_x86_64.h"
#elif defined(__aarch64__)
#include "code/branch/branch_code_arm64.h"
#endif

#endif
