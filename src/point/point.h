/* SPDX-License-Identifier: MIT */
/* point.h - what running to a point asks of the kernel, apart from events. */
#ifndef POINT_POINT_H
#define POINT_POINT_H

#include <stdint.h>
#include <sys/types.h>

struct condition;

/* `rax == 0x... && ...` for the registers in use. 0, or -EINVAL: there is no such register. */
int point_registers(uint64_t used, const uint64_t *regs, struct condition *out);

/* 1 all threads of the process are stopped, 0 not yet, or -ESRCH. */
int point_is_stopped(pid_t pid);

/* The thread, tid or any when that is 0, of a stopped process that is about to run ip; 0: none. */
pid_t point_find_thread(pid_t pid, pid_t tid, uint64_t ip);

#endif
