/* SPDX-License-Identifier: MIT */
/* poke_keeps.c - apart from what changes code: a tool that changes none sets it too. */
#include "code/poke/poke.h"

int poke_keeps_mappings;
