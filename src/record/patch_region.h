/* SPDX-License-Identifier: MIT */
/*
 * patch_region.h - what `trapline patch` and the process that it patches share.
 *
 * The command has read the object and the names, and asks in the head. The agent answers in the
 * data, where the process can write: the command copies what it prints, and limits each count.
 */
#ifndef RECORD_PATCH_REGION_H
#define RECORD_PATCH_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "record/share_head.h"

#define PATCH_MAGIC 0x6863746170656b69u
#define PATCH_NAME_BYTES 64
#define PATCH_PLACES 384 /* functions, data and hooks of one object */
#define PATCH_PARTS 3	 /* of a function, beside itself */
#define PATCH_KEPT 32	 /* patches of a process at one time */
#define PATCH_LISTED 512 /* functions of all patches, in an answer */

enum patch_action {
	PATCH_APPLY = 1,
	PATCH_UNDO = 2,
	PATCH_LIST = 3,
};

/* Code of a function that lies apart from it, as what seldom runs. */
struct patch_part {
	uint64_t address;
	uint64_t bytes; /* 0: without it */
};

/* What the command found for a record of the object; the order is that of the section. */
struct patch_place {
	uint64_t address; /* of the old function or of old data; 0: none */
	uint64_t bytes;
	struct patch_part parts[PATCH_PARTS];
	uint64_t new_bytes;	    /* of the replacement */
	struct patch_part new_part; /* its address counts from the begin of the object */
	char name[PATCH_NAME_BYTES];
};

enum patch_state {
	PATCH_IS_ASKED = 0,
	PATCH_IS_LOADING = 1,
	PATCH_IS_CHANGING = 2,
	PATCH_IS_DONE = 3,
	PATCH_HAS_FAILED = 4,
};

/* A function of a patch that is in force. */
struct patch_listed {
	char name[PATCH_NAME_BYTES];
	uint64_t address;     /* of the old function */
	uint64_t replacement; /* of the new one */
	uint64_t patch;	      /* index of its patch */
};

struct patch_kept {
	char name[PATCH_NAME_BYTES]; /* of the object */
	uint64_t consistency;	     /* enum trapline_patch_consistency */
	uint64_t phase;		     /* enum trapline_patch_phase */
	uint64_t since_ns;	     /* CLOCK_REALTIME */
	uint64_t traps;		     /* functions with an int3, where a jump does not fit */
	uint64_t pending;	     /* threads that have not changed */
	uint64_t pending_tid;	     /* one of them */
	uint64_t pending_function;   /* the index of the one that it is inside of, in this patch */
	uint64_t waits;
	uint64_t longest_wait_ns;
};

struct patch_region {
	/* Only trapline writes this, before the call: see record/share_head.h. */
	union {
		struct {
			struct share_head share;
			uint32_t action; /* enum patch_action */
			uint32_t consistency;
			uint64_t timeout_ns;
			uint64_t section; /* of the records, in the object */
			uint64_t section_bytes;
			/*
			 * 1: all that the object needs is loaded, and its initializers are these,
			 * which the loader does not see. Addresses count from the begin of the
			 * object.
			 */
			uint64_t is_apart;
			uint64_t init;
			uint64_t init_array;
			uint64_t init_count;
			uint64_t since_ns;	     /* now, as it is to be listed */
			char name[PATCH_NAME_BYTES]; /* of the object; of what is undone */
			uint64_t count;
			struct patch_place places[PATCH_PLACES];
		};
		uint8_t head[SHARE_HEAD_BYTES];
	};
	/* The agent writes this. */
	uint32_t state; /* enum patch_state */
	int32_t error;	/* -errno, with PATCH_HAS_FAILED */
	char why[400];
	uint64_t took_ns;
	uint64_t pending; /* threads that have not changed, of what was asked for */
	uint64_t kept_count;
	struct patch_kept kept[PATCH_KEPT];
	uint64_t listed_count;
	struct patch_listed listed[PATCH_LISTED];
};

_Static_assert(offsetof(struct patch_region, state) == SHARE_HEAD_BYTES,
	       "what is asked for has room in the head");

#endif
