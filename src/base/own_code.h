/* SPDX-License-Identifier: MIT */
/* own_code.h - is an instruction one of the library's? See own_text.h. */
#ifndef BASE_OWN_CODE_H
#define BASE_OWN_CODE_H

#include <stdint.h>

/* Each from the address of the member itself. */
struct own_text {
	int32_t start;
	int32_t end;
};

extern const struct own_text __start_trapline_own[] __attribute__((visibility("hidden")));
extern const struct own_text __stop_trapline_own[] __attribute__((visibility("hidden")));
extern const char __start_trap_path[] __attribute__((visibility("hidden")));
extern const char __stop_trap_path[] __attribute__((visibility("hidden")));

static inline int own_code_has(uint64_t pc)
{
	if (pc - (uintptr_t)__start_trap_path < (uintptr_t)(__stop_trap_path - __start_trap_path))
		return 1;
	for (const struct own_text *t = __start_trapline_own; t < __stop_trapline_own; t++) {
		uint64_t start = (uintptr_t)&t->start + (uint64_t)(int64_t)t->start;
		uint64_t end = (uintptr_t)&t->end + (uint64_t)(int64_t)t->end;

		if (pc - start < end - start)
			return 1;
	}
	return 0;
}

#endif
