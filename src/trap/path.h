/* SPDX-License-Identifier: MIT */
/* path.h - code that runs inside SIGTRAP: see base/trap_path.h. */
#ifndef TRAP_PATH_H
#define TRAP_PATH_H

#include "base/trap_path.h"

#endif
