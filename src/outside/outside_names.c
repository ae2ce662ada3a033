/* SPDX-License-Identifier: MIT */
/* outside_names.c - see outside_names.h. */
#include "outside/outside_names.h"

#include <dlfcn.h>
#include <string.h>

static bool names_begin(const char *name, const char *const *beginnings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
			return true;
	return false;
}
#define BEGINS(name, list) names_begin(name, list, sizeof(list) / sizeof(*(list)))

/*
 * The scheduler, the collector, channels and locks are built of plain accesses. A function without
 * a package is written in assembly, and belongs to them.
 */
enum outside_policy outside_policy_of_go(const char *name)
{
	static const char *const runtimes[] = { "runtime.",
						"runtime/",
						"sync.",
						"sync/",
						"internal/",
						"_cgo",
						"_rt0_",
						"go:",
						"type:",
						"x_cgo_",
						"reflect.",
						"syscall.",
						"vendor/golang.org/x/sys/" };

	return !strchr(name, '.') || BEGINS(name, runtimes) ? OUTSIDE_RUNTIME : OUTSIDE_INCLUDED;
}

bool outside_is_libc_name(const char *name)
{
	static const char *const reserved[] = { "__", "_IO_", "_dl_", "_nl_", "_int_", "_Exit" };
	static void *libc;

	if (!strncmp(name, "__cxx", 5) || !strncmp(name, "__gnu_cxx", 9))
		return false;
	if (!libc)
		libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	return BEGINS(name, reserved) || (libc && dlsym(libc, name));
}

bool outside_is_rust_runtime(const char *name)
{
	static const char *const runtimes[] = {
		"_ZN3std2rt",	  "_ZN3std3sys",       "_ZN3std4sync",
		"_ZN3std6thread", "_ZN3std9panicking", "_ZN3std10sys_common",
		"_ZN3std2io",	  "_ZN4core4sync",     "_ZN3std7process",
	};

	return BEGINS(name, runtimes);
}
