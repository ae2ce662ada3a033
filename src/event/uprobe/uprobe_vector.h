/* SPDX-License-Identifier: MIT */
/* uprobe_vector.h - instructions that the kernel executes wrongly under a uprobe. */
#ifndef UPROBE_VECTOR_H
#define UPROBE_VECTOR_H

#include "event/uprobe/uprobe_exits.h"

/* Whether one of the sites, sorted by file, is INSN_UPROBE_VECTOR: 1, 0 or -errno. */
int uprobe_any_vector(const struct uprobe_site *sites, size_t count);

#endif
