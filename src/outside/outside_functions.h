/* SPDX-License-Identifier: MIT */
/* outside_functions.h - the functions of a process, and which of them are searched. */
#ifndef OUTSIDE_FUNCTIONS_H
#define OUTSIDE_FUNCTIONS_H

#include "code/reach/code_file.h"
#include "outside/outside_shared.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What an access of code there means. */
enum outside_policy {
	OUTSIDE_INCLUDED,
	OUTSIDE_RUNTIME, /* built of locks: neither side */
	OUTSIDE_LIBC,	 /* an access of its caller, as the second side */
};

struct outside_function {
	uint64_t start; /* in the process */
	uint64_t end;
	uint32_t module;
	uint8_t policy; /* enum outside_policy */
	uint8_t has_frame;
	uint16_t heat; /* turns that it ended early */
	uint32_t turns;
	uint32_t hits; /* of its sites, in all turns */
};

/* A mapping of code. */
struct outside_module {
	struct code_file file;
	char path[496]; /* as the process has it */
	uint64_t bias;
	uint64_t start; /* of all of the object */
	uint64_t end;
	uint8_t *text; /* of the file: without traps; NULL: it cannot be read */
	uint64_t text_bytes;
	uint32_t row; /* of the region's files; 0: none */
	uint8_t policy;
	uint8_t is_go;
	uint8_t by_names;    /* the policy is that of each function */
	uint8_t is_critical; /* it has restartable sequences (rseq), which no probe may be in */
	uint8_t is_nameless; /* static, without symbols: the C library's code is not known */
	struct outside_range constant[8];
	uint32_t constants;
};

struct outside_code {
	pid_t pid;
	struct outside_module *modules;
	uint32_t module_count;
	struct outside_function *functions; /* by address */
	uint32_t function_count;
	uint32_t included; /* of those */
	uint32_t left_out; /* of runtimes and the C library, in objects that are searched */
	uint32_t unmapped; /* executable memory of no file: code made at run time */
	uint32_t nameless; /* modules */
	uint32_t critical; /* modules with restartable sequences */
	bool is_go;
};

/* 0 or -errno. To be given to outside_code_close() in each case. */
int outside_code_open(pid_t pid, struct outside_code *out);
void outside_code_close(struct outside_code *code);
/* NULL: none. */
const struct outside_module *outside_module_at(const struct outside_code *code, uint64_t address);
const struct outside_function *outside_function_at(const struct outside_code *code,
						   uint64_t address);
enum outside_policy outside_policy_at(const struct outside_code *code, uint64_t address);
/* The code of runtimes as ranges: how many. */
uint32_t outside_runtimes(const struct outside_code *code, struct outside_range *out, uint32_t max);

#endif
