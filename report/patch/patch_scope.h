/* SPDX-License-Identifier: MIT */
/* patch_scope.h - what a process lends to an object that is loaded into it. */
#ifndef REPORT_PATCH_PATCH_SCOPE_H
#define REPORT_PATCH_PATCH_SCOPE_H

#include "report/dwarf/symbols.h"
#include "report/patch/patch_object.h"

/*
 * Does an object of the process export the name, so that the loader binds to it? Its file name, or
 * NULL.
 */
const char *patch_scope_exporter(struct symbols *s, const char *name);

/* Whether all objects that it names are loaded. */
bool patch_scope_has_needed(struct symbols *s, const struct patch_object *o);

/*
 * Whether the loader would find all that the object takes from others. 0, or -ENOENT with a reason
 * in why. Where the object brings others along, which are not loaded yet, only the loader knows: 0.
 */
int patch_scope_check(struct symbols *s, const struct patch_object *o, char *why, size_t n);

#endif
