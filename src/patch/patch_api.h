/* SPDX-License-Identifier: MIT */
/* patch_api.h - the public calls of <trapline/tools.h> that replace functions. */
#ifndef PATCH_PATCH_API_H
#define PATCH_PATCH_API_H

#include <trapline/tools.h>

#endif
