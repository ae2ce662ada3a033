/* SPDX-License-Identifier: MIT */
/* patch_check.c - see patch_check.h. */
#include "patch/patch_check.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>

#include "base/maps.h"
#include "base/sys.h"
#include "code/insn/insn.h"
#include "code/unwind/unwind_code.h"
#include "patch/patch_code.h"

#define CODE_BYTES_MAX (1u << 20)

/* A chooser of functions (STT_GNU_IFUNC) ran before the program began. */
static int is_chooser(uint64_t address)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	return dladdr1((void *)(uintptr_t)address, &info, (void **)&symbol, RTLD_DL_SYMENT) &&
	       symbol && (uintptr_t)info.dli_saddr == address &&
	       ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
}

static int is_executable(uint64_t address)
{
	struct maps_row row;

	return !maps_find(0, address, NULL, 0, &row) && row.mode[2] == 'x';
}

/* A head of a loop at the entry would begin the new function again and again. */
static int is_jumped_into(const struct patch_plan *plan, const uint8_t *code, size_t n)
{
	struct insn insn;

	for (size_t at = 0; at < n; at += insn.length) {
		if (insn_decode(code + at, n - at, &insn))
			return 0;
		uint64_t target = plan->old_address + at + (uint64_t)insn.target;

		if ((insn.kind == INSN_JUMP || insn.kind == INSN_JUMP_CONDITIONAL) &&
		    target - plan->old_address <= plan->site - plan->old_address)
			return 1;
	}
	return 0;
}

static int check_code(const struct patch_plan *plan, const uint8_t *code, size_t n,
		      const char **why)
{
	size_t at = plan->site - plan->old_address;

	*why = "it is a stub of the linkage table (PLT), not the function; give the function itself";
	if (patch_is_linkage(code + at, n - at))
		return -EOPNOTSUPP;
	*why = "the function jumps to its own entry, where the new function would begin again";
	return is_jumped_into(plan, code, n) ? -EOPNOTSUPP : 0;
}

static int check_old(struct patch_plan *plan, const char **why)
{
	static uint8_t code[CODE_BYTES_MAX];
	uint64_t bytes = plan->old_end - plan->old_address;
	size_t n = bytes < sizeof(code) ? bytes : sizeof(code);

	*why = "the old function is not mapped";
	if (sys_read_memory(sys_getpid(), plan->old_address, code, n) != (ssize_t)n)
		return -EFAULT;
	*why = "the old address is not in code";
	if (!is_executable(plan->old_address))
		return -EINVAL;
	*why = "it chooses a function (IFUNC), and has done so; give the function that it chose";
	if (is_chooser(plan->old_address))
		return -EOPNOTSUPP;
	plan->site = plan->old_address + patch_landing_bytes(code, n);
	*why = "the function has no instruction that can be replaced";
	if (plan->site >= plan->old_end)
		return -EOPNOTSUPP;
	return check_code(plan, code, n, why);
}

int patch_check(const struct trapline_patch_function *function, struct patch_plan *out,
		const char **why)
{
	struct patch_plan plan = { .old_address = function->old_address,
				   .new_address = function->new_address };
	uint64_t old_bytes = function->old_bytes;
	uint64_t new_bytes = function->new_bytes;

	plan.old_end = old_bytes ? plan.old_address + old_bytes :
				   unwind_function_end(plan.old_address);
	plan.new_end = new_bytes ? plan.new_address + new_bytes :
				   unwind_function_end(plan.new_address);
	*why = "the new function is not in executable memory";
	if (!is_executable(plan.new_address))
		return -EINVAL;
	*why = "the unwind table does not have the old function; give its size";
	if (!plan.old_end)
		return -EINVAL;
	*why = "the unwind table does not have the new function; give its size";
	if (!plan.new_end)
		return -EINVAL;
	*why = "the new function lies inside the old one";
	if (plan.new_address - plan.old_address < plan.old_end - plan.old_address)
		return -EINVAL;
	int err = check_old(&plan, why);
	if (!err)
		*out = plan;
	return err;
}
