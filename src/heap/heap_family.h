/* SPDX-License-Identifier: MIT */
/*
 * heap_family.h - memory that a process shares with the children that it forks: the accounts of the
 * budget, what is drawn, and how often contexts were sampled. These are numbers alone: a child that
 * writes others there changes which blocks are sampled, and nothing else.
 *
 * A process that ran before has no further mapping for it: it lies in the region. Programs that are
 * executed have regions in common, and each its own memory here.
 */
#ifndef HEAP_FAMILY_H
#define HEAP_FAMILY_H

#include "record/heap_region.h"

/* Where each part begins. The memory is zero at first, and stays mapped. */
#define HEAP_FAMILY_BUDGET 0u
#define HEAP_FAMILY_DRAW 1024u
#define HEAP_FAMILY_COUNTS 4096u

#endif
