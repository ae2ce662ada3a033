/* SPDX-License-Identifier: MIT */
/* road_send.h - findings in the form of each receiver, and the programs that carry them. */
#ifndef CLI_PATROL_ROAD_SEND_H
#define CLI_PATROL_ROAD_SEND_H

#include "cli/patrol/road.h"

/* One finding to the journal or a file. 0 or -errno. */
int road_send_one(struct road *r, const struct road_entry *e);

/* Begins to send the first entries by curl or psql. 0 or -errno. */
int road_send_begin(struct road *r, size_t count);

enum road_answer {
	ROAD_TAKEN,
	ROAD_FAILED,  /* later perhaps */
	ROAD_REFUSED, /* these findings, or one of them */
};
/* The sender has ended; its message is in the road. */
enum road_answer road_send_answer(struct road *r, int status);
/* Reads what the sender prints. */
void road_send_read(struct road *r);

#endif
