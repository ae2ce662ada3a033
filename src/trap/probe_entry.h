/* SPDX-License-Identifier: MIT */
/* probe_entry.h - where the code of a probe leads to. */
#ifndef TRAP_PROBE_ENTRY_H
#define TRAP_PROBE_ENTRY_H

/* Where a probe's code jumps to; and what that needs to know first. */
void trap_probe_entry(void);
void trap_probe_prepare(void);

#endif
