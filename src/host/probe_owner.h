/* SPDX-License-Identifier: MIT */
/* probe_owner.h - the process that makes and closes the command's probes. */
#ifndef HOST_PROBE_OWNER_H
#define HOST_PROBE_OWNER_H

/* From here on: see event/uprobe/uprobe_owner.h. The process begins with the first probe, */
void probe_owner_use(void);

/* or here, where a later beginning would look like a process of the program that is observed. */
void probe_owner_begin(void);

#endif
