/* SPDX-License-Identifier: MIT */
/* uprobe_exits.h - where the functions of an event are left: there its returns are seen. */
#ifndef UPROBE_EXITS_H
#define UPROBE_EXITS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "code/reach/code_file.h"

/* An instruction to be probed, and the address that its hits have: that of the function. */
struct uprobe_site {
	struct code_file file;
	uint64_t offset; /* in the file */
	uint64_t address;
};

struct uprobe_sites {
	struct uprobe_site *sites;
	size_t count;
	size_t capacity;
};

struct uprobe_exits {
	struct uprobe_sites returns;
	struct uprobe_sites leaves; /* jumps to code that is not followed */
};

/*
 * The exits of all functions, which are sorted by file. 0 or -errno, and *why is a reason then.
 * *out is given to uprobe_exits_free(), also after an error. An instruction by which several
 * functions are left is in it once for each.
 */
int uprobe_exits_find(pid_t pid, const struct uprobe_site *functions, size_t count,
		      struct uprobe_exits *out, const char **why);
void uprobe_exits_free(struct uprobe_exits *exits);

#endif
