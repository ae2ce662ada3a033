/* SPDX-License-Identifier: MIT */
/* code_frames.h - which instructions are one function, by the unwind table (.eh_frame). */
#ifndef CODE_REACH_CODE_FRAMES_H
#define CODE_REACH_CODE_FRAMES_H

#include "code/reach/returns.h"

/* Addresses as in the headers of the file. */
struct code_frames {
	uint64_t index; /* .eh_frame_hdr; 0: there is none, and the entries are read one by one */
	uint64_t start;
	uint64_t end;
};

/* 0; -ENOENT: no entry has the address; -EILSEQ: the table is not as it must be. */
int code_frames_find(const struct code_frames *frames, const struct returns_code *code,
		     uint64_t address, struct returns_range *out);
/* True if the memory begins as such a table does. */
int code_frames_are(const struct returns_code *code, uint64_t start, uint64_t bytes);

#endif
