/* SPDX-License-Identifier: MIT */
/*
 * trap_code.h - the instruction that traps, its bytes and its trace in a context, by architecture.
 *
 * trap_store() replaces the first TRAP_BYTES of a site by one store. No processor fetches them half
 * old and half new.
 */
#ifndef CODE_POKE_TRAP_CODE_H
#define CODE_POKE_TRAP_CODE_H

#if defined(__x86_64__)
#include "code/poke/trap_code_x86_64.h"
#elif defined(__aarch64__)
#include "code/poke/trap_code_arm64.h"
#endif

#endif
