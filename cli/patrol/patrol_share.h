/* SPDX-License-Identifier: MIT */
/*
 * patrol_share.h - where a host begins in what all hosts have: hosts with the same rules would all
 * begin with the same process, tool and point.
 *
 * A hash of the host and the day decides. So hosts need not talk to each other, and the same host
 * begins with the same on the same day. What a tool does in a process is drawn there.
 */
#ifndef CLI_PATROL_PATROL_SHARE_H
#define CLI_PATROL_PATROL_SHARE_H

#include <stdint.h>

#define PATROL_MACHINE_ID "/etc/machine-id"

/*
 * The number is made of the file and the name: copies of an image often have the file in common.
 * The file may be missing. No road and no state has the number.
 */
uint64_t patrol_share_host(const char *machine_id, const char *name);
/* A number of the host, the UTC day of `now` in seconds of the epoch, and a process. */
uint64_t patrol_share(uint64_t host, double now, uint64_t process);

#endif
