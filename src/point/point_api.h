/* SPDX-License-Identifier: MIT */
/* point_api.h - letting the process run, and seeing it stopped. */
#ifndef POINT_POINT_API_H
#define POINT_POINT_API_H

#include "point/point_leg.h"

/* SIGCONT, and until a program, or what is past the end, has stopped the process. */
int leg_go(struct leg *leg);
/* SIGSTOP, and until it is; nothing if it does already. */
int leg_stand(const struct leg *leg);
/* Reports it, with the distance. */
int point_missed(uint64_t count, uint64_t wanted);

#endif
