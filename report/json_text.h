/* SPDX-License-Identifier: MIT */
/* json_text.h - the values of which all JSON of the command is made. */
#ifndef REPORT_JSON_TEXT_H
#define REPORT_JSON_TEXT_H

#include "report/dwarf/symbols.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* Prints the object as one line, and releases it. */
void run_jsonl_line(FILE *f, json_t *object);

/* `2026-11-24T19:07:23.123456789Z`, or null. */
json_t *run_json_time(uint64_t unix_ns);

/* A string that need not be UTF-8, as foreign names need not; NULL gives null. */
json_t *run_json_text(const char *text);

/* The names of same_code as an array. */
json_t *run_json_same_code(const char *names);

json_t *run_json_hex(uint64_t value);

/* An integer, or text in hexadecimal for a number that is too large for JSON. */
json_t *run_json_count(uint64_t value);

/* The members function, offset, module, module_offset, file and line. */
void run_json_place(json_t *to, const struct place *p);

#endif
