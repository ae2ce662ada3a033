/* SPDX-License-Identifier: MIT */
/* flow_exec.h - what a program gets that the process starts or becomes. */
#ifndef FLOW_FLOW_EXEC_H
#define FLOW_FLOW_EXEC_H

void flow_exec_start(void);
void flow_exec_end(void);

#endif
