/* SPDX-License-Identifier: MIT */
/* poke_store.h - which changes of text one store can make, by processor. */
#ifndef CODE_POKE_POKE_STORE_H
#define CODE_POKE_POKE_STORE_H

#include "code/poke/poke_view.h"

/* 1: the form without a trap that the flags ask for can be stored. */
int poke_can_store(const struct poke_entry *entry, uint32_t flags);

#endif
