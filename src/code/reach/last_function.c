/* SPDX-License-Identifier: MIT */
/* last_function.c - see last_function.h. */
#include "code/reach/last_function.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {
	"abort",
	"exit",
	"_exit",
	"_Exit",
	"quick_exit",
	"__assert",
	"__assert_fail",
	"__assert_perror_fail",
	"__stack_chk_fail",
	"__chk_fail",
	"__fortify_fail",
	"longjmp",
	"_longjmp",
	"siglongjmp",
	"__longjmp_chk",
	"pthread_exit",
	"thrd_exit",
	"err",
	"errx",
	"verr",
	"verrx",
	"__libc_start_main",
	"__cxa_throw",
	"__cxa_rethrow",
	"__cxa_bad_cast",
	"__cxa_bad_typeid",
	"__cxa_call_unexpected",
	"__cxa_pure_virtual",
	"__cxa_deleted_virtual",
	"__cxa_throw_bad_array_new_length",
	"__cxa_throw_bad_array_length",
	"_Unwind_Resume",
	"_ZSt9terminatev",
	"_ZSt10unexpectedv",
	"_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE",
	"__cxa_call_terminate",
	"__pthread_unwind_next",
};

int last_function_is(const char *name)
{
	/* std::__throw_... */
	if (!strncmp(name, "_ZSt", 4) && strstr(name, "__throw_"))
		return 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return 1;
	return 0;
}
