/* SPDX-License-Identifier: MIT */
/* outside_names.h - what names of functions show, where the program has its runtime in it. */
#ifndef OUTSIDE_NAMES_H
#define OUTSIDE_NAMES_H

#include "outside/outside_functions.h"

/* Go's functions are known by their package. */
enum outside_policy outside_policy_of_go(const char *name);
/* A name that only a C library has, among global functions. */
bool outside_is_libc_name(const char *name);
/* Code of Rust's standard library that waits or locks. */
bool outside_is_rust_runtime(const char *name);

#endif
