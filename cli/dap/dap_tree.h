/* SPDX-License-Identifier: MIT */
/*
 * dap_tree.h - variables as a tree that the client opens branch by branch: the objects of the
 * process, their source files, the variables of a file, their members, elements and targets.
 *
 * Nothing is read before its branch is opened. A number stands for a branch in messages.
 */
#ifndef CLI_DAP_DAP_TREE_H
#define CLI_DAP_DAP_TREE_H

#include "cli/dap/dap.h"
#include "report/lang/expression.h"

#define DAP_TREE_ROOT 1	   /* the objects */
#define DAP_TREE_PAGE 100  /* rows of a branch that has more than is good to inspect */
#define DAP_TREE_ROWS 1000 /* of an array, unless the client asks for a part */

/* A row of a branch. */
struct dap_row {
	char name[300];
	char expression[500]; /* what evaluates to it; empty: nothing does */
	bool is_value;	      /* else it is a group of rows */
	struct expression_place place;
	const char *why_not; /* it has no value; NULL: it has */
	int branch;	     /* 0: it has no rows of its own */
	uint64_t elements;   /* of an array, to be asked for part by part */
};

/* A value other than 0 ends the walk and is returned. */
typedef int (*dap_row_visitor)(struct dap *d, const struct dap_row *row, void *arg);

/*
 * The rows of a branch, of an array those from start on, count of them at most (0: no limit but its
 * own). -ENOENT: there is no such branch, or it is too old.
 */
int dap_tree_each(struct dap *d, int branch, uint64_t start, uint64_t count, dap_row_visitor visit,
		  void *arg);
/* The branch of a value; 0: it has none. *elements as in a row. */
int dap_tree_branch(struct dap *d, const struct expression_place *place, const char *expression,
		    uint64_t *elements);
void dap_tree_free(struct dap *d);

/* The requests, and the members of a variable that responses have. */
void dap_variables(struct dap *d, const json_t *request);
void dap_scopes(struct dap *d, const json_t *request);
/* What evaluates to the row of that name; false: none. */
bool dap_variable_named(struct dap *d, int branch, const char *name, char *expression, size_t n);

#endif
