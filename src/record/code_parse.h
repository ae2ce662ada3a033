/* SPDX-License-Identifier: MIT */
/*
 * code_parse.h - a stream of changes to code, read: see code_layout.h for the format and
 * <trapline/code_log.h> for the meaning.
 */
#ifndef RECORD_CODE_PARSE_H
#define RECORD_CODE_PARSE_H

#include <trapline/code_log.h>

#include "record/code_layout.h"

#define CODE_SOURCES 4u
#define CODE_SHORT_MAX 15u
#define CODE_NO_LIFE UINT32_MAX
#define CODE_LIVES_MAX 65536u

/* A process from the begin of its record, or from an exec, to the end. */
struct code_life {
	int32_t pid;
	uint32_t parent; /* a life; CODE_NO_LIFE: the program was loaded, not forked */
	uint64_t image;
	uint64_t fork_ns;
	uint64_t start_ns;
	uint64_t end_ns; /* the last record */
	uint32_t source_count;
	uint64_t sources[CODE_SOURCES];
	uint32_t current[CODE_SOURCES]; /* change that has begun there; its index + 1 */
};

/* Times are 0 before they are known. */
struct code_change {
	uint64_t batch;
	uint64_t begin_ns;
	uint64_t trap_ns;
	uint64_t open_ns;
	uint64_t end_ns;
	uint32_t life;
	uint32_t missing; /* so many sites have not come yet */
	uint8_t form;	  /* enum code_form */
	uint8_t outcome;  /* enum trapline_code_stage; BEGIN: not finished */
};

struct code_item {
	struct trapline_code_entry entry;
	uint32_t life;
	uint32_t change; /* of a site, a slot, a fill, a poke of the kernel */
};

struct code_loss {
	uint32_t life;
	uint64_t from_ns;
	uint64_t to_ns;
};

struct trapline_code_log {
	uint8_t *data;
	size_t bytes;
	size_t good_bytes; /* up to the first record that is damaged */
	struct code_item *items;
	size_t count;
	size_t item_room;
	struct code_change *changes;
	size_t change_count;
	size_t change_room;
	struct code_life *lives;
	size_t life_count;
	size_t life_room;
	struct code_loss *losses;
	size_t loss_count;
	size_t loss_room;
	/* Items with bytes: short ones by life and address, then the long ones. */
	uint32_t *by_address;
	size_t short_count;
	size_t by_address_count;
};

/* Takes data, from malloc(). 0, -EBADMSG, -EPROTO, -ENOMEM: data is freed. */
int code_log_read(uint8_t *data, size_t bytes, struct trapline_code_log **out);
void code_log_free(struct trapline_code_log *log);

#endif
