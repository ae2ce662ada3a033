/* SPDX-License-Identifier: MIT */
/* race_end.h - the search ends in this process. */
#ifndef RACE_END_H
#define RACE_END_H

#include "record/race_region.h"

/* No command is there any more that could print a race. */
int race_is_unwatched(void);
/* End the search when that is so, or the command is done. 1: it was. */
int race_end_if_over(void);
/*
 * -EALREADY: it is not running, or another thread ends it. -EBUSY: ended; what callbacks use is not
 * freed.
 */
int race_end(enum race_step why, int error);
/* In a forked child. */
void race_let_go_of_copies(void);

#endif
