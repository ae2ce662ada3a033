/* SPDX-License-Identifier: MIT */
/* probe_cost.h - what operations cost. */
#ifndef CHECK_PROBE_COST_H
#define CHECK_PROBE_COST_H

double probe_cost_clock(void);
double probe_cost_syscall(void);
double probe_cost_hardware_trap(void);
double probe_cost_signal(void);
double probe_cost_move(void);
double probe_cost_enable_disable(void);
double probe_cost_open_close(void);
double probe_cost_arm_per_thread(void);

#endif
