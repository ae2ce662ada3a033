/* SPDX-License-Identifier: MIT */
/* uprobe_exits.c - see uprobe_exits.h. */
#include "event/uprobe/uprobe_exits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "code/reach/code_image.h"

static int add(struct uprobe_sites *list, const struct uprobe_site *function, uint64_t offset)
{
	if (grow_room(list->sites, list->count, list->capacity))
		return -ENOMEM;
	list->sites[list->count] = *function;
	list->sites[list->count++].offset = offset;
	return 0;
}

static const char *reason(int err)
{
	switch (err) {
	case -ENOENT:
	case -ENOEXEC:
		return "the unwind table (.eh_frame) of its file does not have the function, and without it "
		       "return instructions cannot be found; observe it without returns";
	case -E2BIG:
		return "the function is too large to find its return instructions; observe it without returns";
	case -ENOMEM:
		return "out of memory";
	case -ENOLINK:
		return "the function calls another that may never return, which is not loaded yet or not "
		       "understood, so its return instructions are not known; observe it without returns";
	case -EILSEQ:
		return "the function has bytes that are not instructions, so its return instructions are not "
		       "known; observe it without returns";
	default:
		return "the function has a jump whose target is not known, so its return instructions are not "
		       "known; observe it without returns";
	}
}

static int add_all(const struct code_image *image, const struct uprobe_site *function,
		   struct uprobe_exits *out)
{
	struct returns_found found;
	uint64_t start = code_image_address(image, function->offset);
	int err = returns_find(code_image_code(image), start, &found);

	for (size_t i = 0; !err && i < found.count; i++) {
		uint64_t offset = code_image_offset(image, found.exit[i].address);
		err = offset == UINT64_MAX ?
			      -EILSEQ :
			      add(found.exit[i].is_jump ? &out->leaves : &out->returns, function,
				  offset);
	}
	returns_free(&found);
	return err;
}

int uprobe_exits_find(pid_t pid, const struct uprobe_site *functions, size_t count,
		      struct uprobe_exits *out, const char **why)
{
	struct code_image *image = NULL;
	int err = 0;

	for (size_t i = 0; !err && i < count; i++) {
		if (!i || !code_file_is_same(&functions[i].file, &functions[i - 1].file)) {
			code_image_close(image);
			image = NULL;
			*why = "cannot read the file of the code";
			err = code_image_open(pid, &functions[i].file, &image);
			if (err && err != -ENOEXEC)
				return err;
		}
		if (!err)
			err = add_all(image, &functions[i], out);
	}
	code_image_close(image);
	if (err)
		*why = reason(err);
	return err && err != -ENOMEM ? -EOPNOTSUPP : err;
}

void uprobe_exits_free(struct uprobe_exits *exits)
{
	free(exits->returns.sites);
	free(exits->leaves.sites);
	memset(exits, 0, sizeof(*exits));
}
