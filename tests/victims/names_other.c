/* SPDX-License-Identifier: MIT */
/* names_other.c - the second file of the victim `names`. */
#include "names.h"

static long same_name;
struct opaque the_opaque;

void other_round(int i)
{
	same_name += i;
	the_opaque.spare[1] = i;
}
