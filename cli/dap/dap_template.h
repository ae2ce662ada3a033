/* SPDX-License-Identifier: MIT */
/*
 * dap_template.h - the text of a logpoint: `open {path} of {conn->id}` with the values of a hit.
 *
 * In braces is a parameter, a local variable, a member that it leads to, a global, or one of the
 * words thread, tid, caller, arg0 to arg5. `\{` is a brace.
 */
#ifndef CLI_DAP_DAP_TEMPLATE_H
#define CLI_DAP_DAP_TEMPLATE_H

#include "cli/observe/hit_copies.h"
#include "report/dwarf/symbols.h"
#include "report/lang/expression.h"
#include "report/lang/signature.h"

#include <trapline/trapline.h>

struct dap_template;

/*
 * Takes the text apart. 0, -EINVAL with why, or -ENOMEM. *out is released by dap_template_free().
 */
int dap_template_parse(const char *text, struct dap_template **out, char *why, size_t n);
/* It has a name in braces that is looked up in the code around the site. */
bool dap_template_has_names(const struct dap_template *t);

/* What the names mean at one site. */
struct dap_bound;
/*
 * signature: of the site, NULL: not known; it stays the caller's. 0, -EINVAL with why, or -ENOMEM.
 */
int dap_template_bind(const struct dap_template *t, struct symbols *s, const struct code_site *site,
		      const struct signature *signature, struct dap_bound **out, char *why,
		      size_t n);
/* The registers whose text is wanted at the hit: see trapline_event_opts.texts. */
uint32_t dap_bound_texts(const struct dap_bound *bound);
/* Values are on the stack, of which the record is to have a copy. */
bool dap_bound_wants_stack(const struct dap_bound *bound);
/* The memory that the text needs from the hit. */
void dap_bound_copies(const struct dap_bound *bound, struct hit_copies *c);
/* *is_later becomes true where memory was read after the hit. */
void dap_template_text(const struct dap_template *t, const struct dap_bound *bound,
		       struct symbols *s, const struct trapline_hit *hit, char *buf, size_t n,
		       bool *is_later);
void dap_bound_free(struct dap_bound *bound);
void dap_template_free(struct dap_template *t);

/* What memory contains now, by the type of a location that was found there. */
void dap_place_text(struct symbols *s, const struct expression_place *place, uint64_t address,
		    char *buf, size_t n);

#endif
