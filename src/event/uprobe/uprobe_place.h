/* SPDX-License-Identifier: MIT */
/*
 * uprobe_place.h - where a uprobe goes that sees each execution of an instruction and harms none.
 */
#ifndef UPROBE_PLACE_H
#define UPROBE_PLACE_H

#include "event/uprobe/uprobe_exits.h"

/*
 * Sites are sorted by file. If the kernel writes below the stack pointer at a nop, the offset of
 * its site becomes that of what follows the nop. This is so only where control reaches that through
 * the nop alone. The address stays, so its hits are those of the nop.
 *
 * 0 or -errno, and *why is a reason then. EOPNOTSUPP: there is no such location, or the kernel
 * would execute the instruction wrongly.
 */
int uprobe_places_find(pid_t pid, struct uprobe_site *sites, size_t count, const char **why);

#endif
