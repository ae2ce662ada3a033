/* SPDX-License-Identifier: MIT */
/* names.h - the types of the victim `names`, whose variables a test names in every way. */
#ifndef VICTIM_NAMES_H
#define VICTIM_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum state { IDLE, OPEN, CLOSING, CLOSED = 10 };
enum flags { FLAG_READ = 1, FLAG_WRITE = 2, FLAG_SYNC = 8 };
typedef enum { RED, GREEN = 5 } color_t;

struct opaque; /* its definition is in names_other.c only */

struct conn {
	int fd;
	enum state state;
	struct conn *next;
	const char *peer;
	void (*handler)(int);
	struct {
		uint32_t id;
		double load;
	} meta;
	union {
		int as_int;
		float as_float;
	};
	unsigned int low : 3;
	unsigned int mode : 2;
	signed int delta : 4;
	unsigned int high : 12;
	uint64_t wide : 40;
	bool is_ready;
	char letter;
	char tag[16];
	struct opaque *hidden;
};

struct opaque {
	long secret;
	long spare[3];
};

extern struct opaque the_opaque;
void other_round(int i);

#endif
