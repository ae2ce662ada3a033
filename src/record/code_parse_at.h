/* SPDX-License-Identifier: MIT */
/*
 * code_parse_at.h - the bytes at an address at a time, by a stream of changes to code that was
 * read.
 */
#ifndef RECORD_CODE_PARSE_AT_H
#define RECORD_CODE_PARSE_AT_H

#include <trapline/code_log.h>

/* As trapline_code_at(). */
int code_log_at(const struct trapline_code_log *log, int32_t pid, uint64_t address,
		uint64_t time_ns, uint8_t *bytes, size_t len, struct trapline_code_span *span);

#endif
