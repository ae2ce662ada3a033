/* SPDX-License-Identifier: MIT */
/* member.h - a member of a member, by the names that debug information has. */
#ifndef REPORT_LANG_MEMBER_H
#define REPORT_LANG_MEMBER_H

#include "report/dwarf/types.h"

/* Each name leads one level down; offsets add up. Not found: bit-fields, virtual bases. */
bool member_at(const struct type *t, const char *const *names, struct type_place *out);

/* `optional` of `std::optional<int>`, also where a typedef names it. */
bool is_template(const struct type *t, const char *name);

#define MEMBER(t, out, ...) member_at(t, (const char *const[]){ __VA_ARGS__, NULL }, out)

#endif
