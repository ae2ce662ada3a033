/* SPDX-License-Identifier: MIT */
/*
 * hit_template.h - the text of a logpoint: `open {path} of {conn->id}` with the values of a hit.
 *
 * In braces is a parameter, a local variable, a member that it leads to, a global, or one of the
 * words thread, tid, caller, arg0 to arg5. `\{` is a brace.
 */
#ifndef CLI_OBSERVE_HIT_TEMPLATE_H
#define CLI_OBSERVE_HIT_TEMPLATE_H

#include "cli/observe/hit_copies.h"
#include "cli/opts.h"
#include "report/dwarf/symbols.h"
#include "report/lang/expression.h"
#include "report/lang/signature.h"

#include <trapline/trapline.h>

struct hit_template;

/*
 * Takes the text apart. 0, -EINVAL with why, or -ENOMEM. *out is released by hit_template_free().
 */
int hit_template_parse(const char *text, struct hit_template **out, char *why, size_t n);
/* It has a name in braces that is looked up in the code around the site. */
bool hit_template_has_names(const struct hit_template *t);

/* What the names mean at one site. */
struct hit_bound;
/*
 * signature: of the site, NULL: not known; it stays the caller's. 0, -EINVAL with why, or -ENOMEM.
 */
int hit_template_bind(const struct hit_template *t, struct symbols *s, const struct code_site *site,
		      const struct signature *signature, struct hit_bound **out, char *why,
		      size_t n);
/* What has one of these names is not printed. */
void hit_bound_redact(struct hit_bound *bound, const struct hit_template *t,
		      const struct opt_list *names);
/* The registers whose text is wanted at the hit: see trapline_event_opts.texts. */
uint32_t hit_bound_texts(const struct hit_bound *bound);
/* So many vector registers, from the first one on. */
uint32_t hit_bound_vectors(const struct hit_bound *bound);
/* Values are on the stack, of which the record is to have a copy. */
bool hit_bound_wants_stack(const struct hit_bound *bound);
/* The memory that the text needs from the hit. */
void hit_bound_copies(const struct hit_bound *bound, struct hit_copies *c);
/* *is_later becomes true where memory was read after the hit. */
void hit_template_text(const struct hit_template *t, const struct hit_bound *bound,
		       struct symbols *s, const struct trapline_hit *hit, char *buf, size_t n,
		       bool *is_later);
void hit_bound_free(struct hit_bound *bound);
void hit_template_free(struct hit_template *t);

/* What memory contains now, by the type of a location that was found there. */
void hit_place_text(struct symbols *s, const struct expression_place *place, uint64_t address,
		    char *buf, size_t n);

#endif
