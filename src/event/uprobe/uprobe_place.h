/* SPDX-License-Identifier: MIT */
/* uprobe_place.h - where a uprobe goes that sees each execution of an instruction and harms none. */
#ifndef UPROBE_PLACE_H
#define UPROBE_PLACE_H

#include "event/uprobe/uprobe_exits.h"

/*
 * Of sites that are sorted by file: the offset of one on a nop under which the kernel writes below
 * the stack pointer becomes that of what follows the nop, if control reaches that only through the
 * nop. The address stays, so its hits are those of the nop.
 *
 * 0 or -errno, and *why is a reason then. EOPNOTSUPP: there is no such location, or the kernel
 * would execute the instruction wrongly.
 */
int uprobe_places_find(pid_t pid, struct uprobe_site *sites, size_t count, const char **why);

#endif
