/* SPDX-License-Identifier: MIT */
/*
 * uprobe_text.h - whether the instructions below uprobes are those of their file: see
 * uprobe_text.c.
 */
#ifndef UPROBE_TEXT_H
#define UPROBE_TEXT_H

#include "event/uprobe/uprobe_exits.h"

/*
 * The sites are sorted by file. 0, or with *why: -EBUSY, where the process runs another instruction
 * than that of the file. What cannot be read is taken for right.
 */
int uprobe_text_check(pid_t pid, const struct uprobe_site *sites, size_t count, const char **why);

#endif
