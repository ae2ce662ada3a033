/* SPDX-License-Identifier: MIT */
/* patch_print.h - what `trapline patch` prints, as text or as JSON lines. */
#ifndef CLI_PATCH_PATCH_PRINT_H
#define CLI_PATCH_PATCH_PRINT_H

#include "cli/patch/patch_request.h"

/* --dry-run: what would be done. */
void patch_print_plan(const struct patch_settings *set, const struct patch_plan *plan);
/* What was done. */
void patch_print_applied(const struct patch_settings *set, const struct patch_plan *plan,
			 const struct patch_answer *answer);
void patch_print_undone(const struct patch_settings *set, const struct patch_answer *answer);
/* --list */
void patch_print_list(const struct patch_settings *set, const struct patch_answer *answer);

#endif
