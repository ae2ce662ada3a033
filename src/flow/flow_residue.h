/* SPDX-License-Identifier: MIT */
/* flow_residue.h - what is in memory at the end. */
#ifndef FLOW_FLOW_RESIDUE_H
#define FLOW_FLOW_RESIDUE_H

void flow_residue(void);

#endif
