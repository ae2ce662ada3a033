/* SPDX-License-Identifier: MIT */
/* tree_path.h - the paths of an expression. */
#ifndef COND_TREE_PATH_H
#define COND_TREE_PATH_H

#include "cond/tree_priv.h"

/* A path, in the rules that p->lexing has. */
struct tree_node *tree_path(struct tree_parser *p);
/* The path of a location, and what is behind it. */
void tree_place(struct tree_parser *p);
/* The name that a path begins with; NULL: it begins with a number. */
const struct tree_node *tree_first(const struct tree_node *path);

#endif
