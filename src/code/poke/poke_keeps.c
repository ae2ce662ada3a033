/* SPDX-License-Identifier: MIT */
/* poke_keeps.c - apart from what changes code: a tool that changes none says it too. */
#include "code/poke/poke.h"

int poke_keeps_mappings;
