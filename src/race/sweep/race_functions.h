/* SPDX-License-Identifier: MIT */
/* race_functions.h - the addresses of libc's memory functions. */
#ifndef RACE_FUNCTIONS_H
#define RACE_FUNCTIONS_H

void race_functions_prepare(void);

#endif
