/* SPDX-License-Identifier: MIT */
/* uprobe_place.c - see uprobe_place.h. The bytes are those of the file: the kernel reads these. */
#include "event/uprobe/uprobe_place.h"

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "code/insn/insn.h"
#include "code/insn/insn_uprobe.h"
#include "code/reach/code_image.h"
#include "event/uprobe/uprobe_nops.h"

#define NOPS_IN_A_ROW 4

static const char vector_reason[] =
	"it begins with a vector instruction (AVX), which the kernel would execute "
	"wrongly under a uprobe: only a hardware breakpoint or a probe works there";
static const char nop_reason[] =
	"a uprobe on that nop would overwrite variables below the stack pointer on this kernel: only a "
	"hardware breakpoint or a probe works there";

/* The file of the sites that are inspected. */
struct placing {
	pid_t pid;
	const struct code_file *file;
	int fd;
	struct code_image *image; /* opened for the first nop; NULL: it cannot be */
};

static int next_file(struct placing *p, const struct code_file *file)
{
	if (p->fd >= 0)
		close(p->fd);
	code_image_close(p->image);
	p->image = NULL;
	p->file = file;
	p->fd = file ? open(file->path, O_RDONLY | O_CLOEXEC) : -1;
	return file && p->fd < 0 ? -errno : 0;
}

static int writes_stack(unsigned int length)
{
	if (length < UPROBE_NOP_MIN)
		return 0;
	return uprobe_nops_that_write() >> (length < UPROBE_NOP_MAX ? length : UPROBE_NOP_MAX) & 1;
}

/* Is the nop the only way, in the function that the unwind table has around it? 1, 0 or -errno. */
static int is_only_way(struct placing *p, uint64_t nop, uint64_t behind)
{
	struct returns_range range;

	if (!p->image && code_image_open(p->pid, p->file, &p->image))
		return 0;
	const struct returns_code *code = code_image_code(p->image);
	nop = code_image_address(p->image, nop);
	behind = code_image_address(p->image, behind);
	if (nop == UINT64_MAX || behind == UINT64_MAX || code->range(code->arg, nop, &range) ||
	    !code_image_is_entry(p->image, range.start))
		return 0;
	int is_sole = returns_is_sole_way(code, range.start, nop, behind);
	return is_sole == -ENOMEM || is_sole > 0 ? is_sole : 0;
}

/* Behind one nop, or several. */
static int place_one(struct placing *p, struct uprobe_site *site, const char **why)
{
	for (int i = 0; i < NOPS_IN_A_ROW; i++) {
		uint8_t bytes[INSN_LENGTH_MAX];
		ssize_t n = pread(p->fd, bytes, sizeof(bytes), (off_t)site->offset);

		*why = "cannot read the file of the code";
		if (n < 0)
			return -errno;
		unsigned int refusal = insn_uprobe_refusal_x86_64(bytes, (size_t)n);
		*why = refusal == INSN_UPROBE_VECTOR ? vector_reason : nop_reason;
		if (refusal == INSN_UPROBE_VECTOR || (i && refusal))
			return -EOPNOTSUPP;
		unsigned int nop = insn_uprobe_nop_x86_64(bytes, (size_t)n);
		if (!nop || !writes_stack(nop))
			return 0;
		int is_only = is_only_way(p, site->offset, site->offset + nop);
		if (is_only <= 0)
			return is_only ? is_only : -EOPNOTSUPP;
		site->offset += nop;
	}
	return -EOPNOTSUPP;
}

int uprobe_places_find(pid_t pid, struct uprobe_site *sites, size_t count, const char **why)
{
	struct placing p = { .pid = pid, .fd = -1 };
	int err = 0;

	for (size_t i = 0; !err && i < count; i++) {
		*why = "cannot read the file of the code";
		if (!i || !code_file_is_same(&sites[i].file, p.file))
			err = next_file(&p, &sites[i].file);
		if (!err)
			err = place_one(&p, &sites[i], why);
	}
	next_file(&p, NULL);
	return err;
}
#else
int uprobe_places_find(pid_t pid, struct uprobe_site *sites, size_t count, const char **why)
{
	(void)pid;
	(void)sites;
	(void)count;
	(void)why;
	return 0;
}
#endif
