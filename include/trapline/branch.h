/* SPDX-License-Identifier: MIT */
/*
 * branch.h - branches that cost one instruction while they are off, and are switched while
 * all threads run.
 *
 *	struct trapline_branch_key debugging = TRAPLINE_BRANCH_OFF;
 *
 *	if (trapline_branch(&debugging))
 *		print_state();
 *
 *	trapline_branch_enable(&debugging);
 *
 * On x86-64 the branch is a test instruction without effect, or a jump of the same five
 * bytes. The two differ in the first byte alone. On arm64 it is a nop or a b. Elsewhere it
 * is a load and a conditional branch, with the same meaning. <trapline/code.h> includes
 * this header; trapline_branch_enable(3) explains it.
 */
#ifndef TRAPLINE_BRANCH_H
#define TRAPLINE_BRANCH_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Any number of branches have the same key. A key is a variable with static storage.
 * Several objects may share it, as any other variable. Only the library writes to it.
 */
struct trapline_branch_key {
	/* So many calls of enable() had no disable() yet. */
	uint32_t count;
	uint32_t reserved;
	/* These are the branches, as the library keeps them. */
	void *sites;
};

/* A key that is off at the start of the program, and one that is on. */
#define TRAPLINE_BRANCH_OFF \
	{                   \
		0, 0, NULL  \
	}
#define TRAPLINE_BRANCH_ON \
	{                  \
		1, 0, NULL \
	}

/*
 * trapline_branch_enable - turn the branches of a key on, or count one more wish to have
 * them on.
 *
 * When the first enable() of a key returns 0, every thread that reaches one of its
 * branches takes it. Branches of objects that dlopen() loads later are then on, too. A
 * failed call counts nothing and changes nothing, except with EIO: see trapline_poke().
 * Errors: EACCES no writer works; EBUSY a debugger or another patcher has changed a
 * branch, or the library cannot handle SIGTRAP; EDEADLK the call comes from a callback;
 * EINVAL key is NULL, or enable() was called too often; EIO; ENOMEM; EOPNOTSUPP
 * membarrier is refused; EPERM the call comes from a vfork child. MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_branch_enable(struct trapline_branch_key *key);

/*
 * trapline_branch_disable - take back one enable().
 *
 * When the last disable() of a key returns 0, no thread that reaches one of its branches
 * takes it.
 * Errors: EINVAL key is NULL, or is off; others as trapline_branch_enable(). MT-Safe.
 * AS-Unsafe.
 */
TRAPLINE_API int trapline_branch_disable(struct trapline_branch_key *key);

/*
 * trapline_branch_register - make the branches of an object known.
 *
 * The header calls it when an object with branches is loaded; a program does not need
 * to. Branches whose key is on are switched. If that fails, the next enable() or
 * disable() of the key tries again.
 * Errors: ENOMEM; others as trapline_branch_enable(). MT-Safe. AS-Unsafe.
 */
TRAPLINE_API int trapline_branch_register(const void *start, const void *end);

/*
 * trapline_branch_unregister - forget the branches of an object that is unloaded.
 *
 * The header calls it. start is as trapline_branch_register() had it. MT-Safe.
 * AS-Unsafe.
 */
TRAPLINE_API void trapline_branch_unregister(const void *start);

#ifdef __cplusplus
}
#endif

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__LP64__)

/* The compiler takes such text for one instruction when it decides what to inline. */
#if defined(__clang__) || __GNUC__ >= 9
#define TRAPLINE_BRANCH_ASM __asm__ __inline__ goto
#else
#define TRAPLINE_BRANCH_ASM __asm__ goto
#endif

/* What an object reports to the library: where its records begin, and where they end. */
#if defined(__x86_64__)
#define TRAPLINE_BRANCH_FUNCTIONS                      \
	"endbr64\n"                                    \
	"lea __start_trapline_branches(%%rip),%%rdi\n" \
	"lea __stop_trapline_branches(%%rip),%%rsi\n"  \
	"jmp trapline_branch_register@PLT\n"           \
	".Ltrapline_branch_end:\n"                     \
	"endbr64\n"                                    \
	"lea __start_trapline_branches(%%rip),%%rdi\n" \
	"jmp trapline_branch_unregister@PLT\n"
#else
#define TRAPLINE_BRANCH_FUNCTIONS                       \
	"hint #34\n" /* bti c */                        \
	"adrp x0, __start_trapline_branches\n"          \
	"add x0, x0, :lo12:__start_trapline_branches\n" \
	"adrp x1, __stop_trapline_branches\n"           \
	"add x1, x1, :lo12:__stop_trapline_branches\n"  \
	"b trapline_branch_register\n"                  \
	".Ltrapline_branch_end:\n"                      \
	"hint #34\n"                                    \
	"adrp x0, __start_trapline_branches\n"          \
	"add x0, x0, :lo12:__start_trapline_branches\n" \
	"b trapline_branch_unregister\n"
#endif

/*
 * Once in each object: functions that report to the library where its records begin and end.
 * The group keeps the first of several copies.
 */
#define TRAPLINE_BRANCH_OBJECT                                                               \
	".ifndef .Ltrapline_branch_object\n"                                                 \
	".set .Ltrapline_branch_object, 1\n"                                                 \
	".pushsection .text.trapline_branch_object,\"axG\",@progbits,"                       \
	"trapline_branch_object,comdat\n"                                                    \
	".weak trapline_branch_object\n"                                                     \
	".hidden trapline_branch_object\n"                                                   \
	".type trapline_branch_object,@function\n"                                           \
	".weak __start_trapline_branches\n"                                                  \
	".weak __stop_trapline_branches\n"                                                   \
	".hidden __start_trapline_branches\n"                                                \
	".hidden __stop_trapline_branches\n"                                                 \
	"trapline_branch_object:\n" TRAPLINE_BRANCH_FUNCTIONS                                \
	".size trapline_branch_object,.-trapline_branch_object\n"                            \
	".popsection\n"                                                                      \
	".pushsection .init_array.00101,\"awG\",@init_array,trapline_branch_object,comdat\n" \
	".balign 8\n"                                                                        \
	".quad trapline_branch_object\n"                                                     \
	".popsection\n"                                                                      \
	".pushsection .fini_array.00101,\"awG\",@fini_array,trapline_branch_object,comdat\n" \
	".balign 8\n"                                                                        \
	".quad .Ltrapline_branch_end\n"                                                      \
	".popsection\n"                                                                      \
	".endif\n"

/*
 * On x86-64 a9 is "test $number, %eax", e9 is "jmp", and the number is the distance. On
 * arm64 the record has the distance. The record has the branch and its key, whose lowest
 * bit is 1 if the jump is taken while the key is off.
 */
#if defined(__x86_64__)
#define TRAPLINE_BRANCH_SITE(reference, inverted, label)                                 \
	TRAPLINE_BRANCH_ASM(                                                             \
		".Ltrapline_branch%=: .byte 0xa9\n"                                      \
		".long %l[" #label "] - 1f\n"                                            \
		"1:\n"                                                                   \
		".pushsection trapline_branches,\"ao?\",@progbits,.Ltrapline_branch%=\n" \
		".balign 4\n"                                                            \
		".long .Ltrapline_branch%= - .\n"                                        \
		".long %c0 + " #inverted " - .\n"                                        \
		".popsection\n" TRAPLINE_BRANCH_OBJECT                                   \
		:                                                                        \
		: "i"(reference)                                                         \
		: "cc"                                                                   \
		: label)
#else
#define TRAPLINE_BRANCH_SITE(reference, inverted, label)                                 \
	TRAPLINE_BRANCH_ASM(                                                             \
		".Ltrapline_branch%=: nop\n"                                             \
		".pushsection trapline_branches,\"ao?\",@progbits,.Ltrapline_branch%=\n" \
		".balign 4\n"                                                            \
		".long .Ltrapline_branch%= - .\n"                                        \
		".long %c0 + " #inverted " - .\n"                                        \
		".long %l[" #label "] - .\n"                                             \
		".popsection\n" TRAPLINE_BRANCH_OBJECT                                   \
		:                                                                        \
		: "S"(reference)                                                         \
		:                                                                        \
		: label)
#endif

/* A pointer beside the code: the address of a key in another object is known to the loader only. */
#ifdef __cplusplus
template <struct trapline_branch_key *Key>
struct __attribute__((visibility("hidden"))) trapline_branch_reference {
	static struct trapline_branch_key *const value;
};
template <struct trapline_branch_key *Key>
struct trapline_branch_key *const trapline_branch_reference<Key>::value = Key;
#define TRAPLINE_BRANCH_REFERENCE(key)
#define TRAPLINE_BRANCH_REFERENCE_OF(key) &trapline_branch_reference<key>::value
#else
#define TRAPLINE_BRANCH_REFERENCE(key) \
	static struct trapline_branch_key *const trapline_reference = (key);
#define TRAPLINE_BRANCH_REFERENCE_OF(key) &trapline_reference
#endif

#define TRAPLINE_BRANCH_BODY(key, inverted, leave)                                        \
	__label__ trapline_jump;                                                          \
	TRAPLINE_BRANCH_REFERENCE(key)                                                    \
	int trapline_is_on;                                                               \
	trapline_is_on = inverted;                                                        \
	TRAPLINE_BRANCH_SITE(TRAPLINE_BRANCH_REFERENCE_OF(key), inverted, trapline_jump); \
	if (0) {                                                                          \
trapline_jump:                                                                            \
		trapline_is_on = !inverted;                                               \
	}                                                                                 \
	leave trapline_is_on;

/* In C++ it is a function, so that no jump passes the objects of the one around it. */
#ifdef __cplusplus
#define TRAPLINE_BRANCH(key, inverted)                                                    \
	__builtin_expect([]() __attribute__((always_inline))                              \
				 ->int{ TRAPLINE_BRANCH_BODY(key, inverted, return ) }(), \
			 inverted)
#else
#define TRAPLINE_BRANCH(key, inverted) \
	__builtin_expect(__extension__({ TRAPLINE_BRANCH_BODY(key, inverted, ) }), inverted)
#endif

#else

#define TRAPLINE_BRANCH(key, inverted) \
	__builtin_expect(__atomic_load_n(&(key)->count, __ATOMIC_RELAXED) != 0, inverted)

#endif

/*
 * These are true while the key, given by a constant address, is on. Both have the same
 * meaning. The first is free while the key is off, the other one while the key is on.
 */
#define trapline_branch(key) TRAPLINE_BRANCH(key, 0)
#define trapline_branch_likely(key) TRAPLINE_BRANCH(key, 1)

#endif
