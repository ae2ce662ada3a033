/* SPDX-License-Identifier: MIT */
/* flow_source.h - what becomes a source. */
#ifndef FLOW_FLOW_SOURCE_H
#define FLOW_FLOW_SOURCE_H

#include "flow/flow_state.h"

/* Bytes that are a source wherever they are read: of a variable, or of the environment. */
struct flow_variable {
	uint64_t address;
	uint32_t bytes;
	uint32_t source; /* what they are now; 0: not yet */
	enum flow_origin origin;
	const char *name;
};

#define FLOW_VARIABLES 4u
extern struct flow_variable flow_variables[FLOW_VARIABLES];
extern uint32_t flow_variable_count;

/* A row, and room for n bytes of it. 0: there is none. */
uint32_t flow_source_add(uint32_t n, uint8_t **bytes);
void flow_source_fill(const struct flow_moment *m, uint32_t number, enum flow_origin origin,
		      const char *name, int fd);
/* The row is complete: it is reported, at the end of a window. */
void flow_source_ready(const struct flow_moment *m, uint32_t number);
/* n bytes of the source, from an offset on, lie at this address. */
void flow_source_mark(struct flow_thread *t, uint32_t number, uint32_t offset, uint64_t at,
		      uint64_t n);
/* All its bytes lie at this address: they were found there. */
void flow_source_found(struct flow_thread *t, uint32_t number, uint64_t at, uint64_t n);
/* The bytes of memory become a source. 1: some are followed. */
int flow_source_memory(const struct flow_moment *m, enum flow_origin origin, const char *name,
		       int fd, uint64_t at, uint64_t bytes);
int flow_source_site(const struct flow_moment *m, const struct flow_site *site);
/* All about a trap that a thread has reached natively. */
void flow_on_site(const struct flow_site *site, ucontext_t *context);

/* A variable whose bytes are not those of its source any more is a new one. */
void flow_source_variable(const struct flow_moment *m, struct flow_variable *v);
/* Looks among those that have been a source: a window may have seen only a part of a change. */
void flow_source_variables(const struct flow_moment *m);
/* Does the user want what comes by this descriptor? */
int flow_source_wants(int fd);

/* ---- flow_join.c ---- */

/* What is read in parts that are too small for what is followed. 1: some are followed. */
int flow_join(const struct flow_moment *m, const char *name, int fd, uint64_t at, uint64_t bytes);

/* ---- flow_kernel.c ---- */

/*
 * A file that becomes memory; or bytes that the kernel passes on. 1: some are followed in memory.
 */
int flow_kernel_pass(const struct flow_moment *m, const struct flow_site *site);

/* The copies of what was followed become zeros. */
void flow_source_wipe(void);
void flow_source_give(void);

#endif
