/* SPDX-License-Identifier: MIT */
/* exchange.h - changed copies replace pages of text: see exchange.c. Lock held. */
#ifndef CODE_POKE_EXCHANGE_H
#define CODE_POKE_EXCHANGE_H

#include "code/poke/text.h"

/*
 * The pages of n spans that adjoin each other, with what is after. 0; -EBUSY: other bytes are there
 * now; -EOPNOTSUPP. Then no byte has changed, and *why is set.
 */
int exchange_pages(struct text *text, const struct text_span *spans, size_t n, const char **why);

/* Which of n spans, from the first on, lie in pages that adjoin each other. */
size_t exchange_count(const struct text_span *spans, size_t n);

/*
 * Pages that mprotect() opened, and that are as in the file, become the file's again, if possible.
 */
void exchange_restore(uint64_t from, uint64_t bytes);

#endif
