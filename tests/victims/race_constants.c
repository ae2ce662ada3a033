/* SPDX-License-Identifier: MIT */
/*
 * race_constants.c - functions with bytes that are no instructions: MODE SECONDS on the command line.
 *
 * Each mode runs one such function in two threads, and compares the bytes all the time. Exit status
 * 0: they never changed. The bytes are those of instructions that access memory, so a decoder that
 * does not follow control flow takes them for that.
 */
#include "race_common.h"

/* mov (%rdi), %rax five times, and a nop */
#define BYTES                                                                              \
	"\t.byte 0x48, 0x8b, 0x07, 0x48, 0x8b, 0x07, 0x48, 0x8b\n"                         \
	"\t.byte 0x07, 0x48, 0x8b, 0x07, 0x48, 0x8b, 0x07, 0x90\n"
#define BEGIN(name)                                                                        \
	"\t.text\n\t.globl " name ", " name "_bytes\n\t.type " name ", @function\n" name   \
	":\n\t.cfi_startproc\n"
#define END(name) "\t.cfi_endproc\n\t.size " name ", . - " name "\n"

void constants_die(void) __attribute__((noreturn));
void constants_die_deep(void) __attribute__((noreturn));

NOINLINE void constants_die(void)
{
	abort();
}

NOINLINE void constants_die_deep(void)
{
	constants_die();
}

/* It never runs. The tiny tables have no room for so many names, so that of abort() is not known. */
__asm__(BEGIN("many_names")
	"call getpid@plt; call getppid@plt; call getuid@plt; call geteuid@plt; "
	"call getgid@plt; call getegid@plt; call getpgrp@plt; call sync@plt; "
	"call pause@plt; call rand@plt; call random@plt; call srand@plt; "
	"call srandom@plt; call clock@plt; call time@plt; call tzset@plt; "
	"call labs@plt; call toupper@plt; call tolower@plt; call isalpha@plt; "
	"call isdigit@plt; call isspace@plt; call isupper@plt; call islower@plt; "
	"call ispunct@plt; call isprint@plt; call iscntrl@plt; call isgraph@plt; "
	"call isxdigit@plt; call isalnum@plt; call alarm@plt; call sleep@plt; "
	"call usleep@plt; call getpagesize@plt; call getdtablesize@plt; call nice@plt; "
	"call close@plt; call dup@plt; call umask@plt; call raise@plt; "
	"call lrand48@plt; call mrand48@plt; call drand48@plt; call fork@plt; ret\n"
	"many_names_bytes:\n" END("many_names"));

__asm__(BEGIN("after_jump")
	"	jmp 1f\n"
	"after_jump_bytes:\n" BYTES
	"1:	mov (%rdi), %rax\n"
	"	ret\n" END("after_jump"));

__asm__(BEGIN("after_return")
	"	mov (%rdi), %rax\n"
	"	ret\n"
	"after_return_bytes:\n" BYTES END("after_return"));

__asm__(BEGIN("after_last_call")
	"	test %rdi, %rdi\n"
	"	jne 1f\n"
	"	call constants_die_deep\n"
	"after_last_call_bytes:\n" BYTES
	"1:	mov (%rdi), %rax\n"
	"	ret\n" END("after_last_call"));

__asm__(BEGIN("after_abort")
	"	test %rdi, %rdi\n"
	"	jne 1f\n"
	"	call abort@plt\n"
	"after_abort_bytes:\n" BYTES
	"1:	mov (%rdi), %rax\n"
	"	ret\n" END("after_abort"));

/* The same through the word that the loader fills, as compiled with -fno-plt. */
#define AFTER_SLOT(name, function)                                                         \
	__asm__(BEGIN(#name)                                                               \
		"	test %rdi, %rdi\n"                                                  \
		"	jne 1f\n"                                                           \
		"	call *" #function "@GOTPCREL(%rip)\n" #name "_bytes:\n" BYTES      \
		"1:	mov (%rdi), %rax\n"                                                 \
		"	ret\n" END(#name))
AFTER_SLOT(after_abort_slot, abort);
AFTER_SLOT(after_guard_slot, __stack_chk_fail);
AFTER_SLOT(after_longjmp_slot, longjmp);
AFTER_SLOT(after_own_slot, constants_die); /* of the same object: the linker makes it a direct call */

/* Of a library, by names that are known nowhere; none is bound before its first call. */
#define AFTER_LIBRARY(name, call)                                                          \
	__asm__(BEGIN(#name)                                                               \
		"	test %rdi, %rdi\n"                                                  \
		"	jne 1f\n"                                                           \
		"	call " call "\n" #name "_bytes:\n" BYTES "1:	mov (%rdi), %rax\n"    \
		"	ret\n" END(#name))
AFTER_LIBRARY(after_library, "there_aborts@plt");
AFTER_LIBRARY(after_library_deep, "there_deep@plt");
AFTER_LIBRARY(after_library_word, "*there_loops_by_word@GOTPCREL(%rip)");

/* It ends with a jump through such a word. */
__asm__(BEGIN("die_by_jump")
	"	jmp *abort@GOTPCREL(%rip)\n"
	"die_by_jump_bytes:\n" BYTES END("die_by_jump"));

__asm__(BEGIN("after_jump_slot")
	"	test %rdi, %rdi\n"
	"	jne 1f\n"
	"	call die_by_jump\n"
	"after_jump_slot_bytes:\n" BYTES
	"1:	mov (%rdi), %rax\n"
	"	ret\n" END("after_jump_slot"));

/* A register has had the word since before a branch. The linker makes no lea of it. */
__asm__(BEGIN("after_register")
	"	mov abort@GOTPCREL(%rip), %rdx\n"
	"	test %rdi, %rdi\n"
	"	jne 1f\n"
	"	call *%rdx\n"
	"after_register_bytes:\n" BYTES
	"1:	mov (%rdi), %rax\n"
	"	ret\n" END("after_register"));

__asm__(BEGIN("die_by_register")
	"	mov abort@GOTPCREL(%rip), %rax\n"
	"	call *%rax\n"
	"	ret\n"
	"die_by_register_bytes:\n" BYTES END("die_by_register"));

__asm__(BEGIN("after_deep_register")
	"	test %rdi, %rdi\n"
	"	jne 1f\n"
	"	call die_by_register\n"
	"after_deep_register_bytes:\n" BYTES
	"1:	mov (%rdi), %rax\n"
	"	ret\n" END("after_deep_register"));

/* The call fetches the address of the bytes. */
__asm__(BEGIN("after_own_call")
	"	call 1f\n"
	"after_own_call_bytes:\n" BYTES
	"1:	pop %rax\n"
	"	mov (%rax), %rax\n"
	"	ret\n" END("after_own_call"));

/* A call of an unknown function never comes back, and the bytes look like nothing that is compiled. */
__asm__(BEGIN("after_unknown_call")
	"	test %rdi, %rdi\n"
	"	jne 1f\n"
	"	lea constants_die(%rip), %rax\n"
	"	call *%rax\n"
	"after_unknown_call_bytes:\n"
	"	.byte 0x2a, 0, 0, 0, 0, 0, 0, 0, 0x07, 0, 0, 0, 0, 0, 0, 0\n"
	"1:	mov (%rdi), %rax\n"
	"	ret\n" END("after_unknown_call"));

/* The function reads them itself, where control flow seems to go on. */
__asm__(BEGIN("read_by_itself")
	"	test %rdi, %rdi\n"
	"	jne 1f\n"
	"	lea constants_die(%rip), %rax\n"
	"	call *%rax\n"
	"read_by_itself_bytes:\n" BYTES
	"1:	mov read_by_itself_bytes(%rip), %rax\n"
	"	mov read_by_itself_bytes+8(%rip), %rax\n"
	"	mov (%rdi), %rax\n"
	"	ret\n" END("read_by_itself"));

/* A jump table beside its jump; each target accesses memory. */
__asm__(BEGIN("table")
	"	mov (%rdi), %eax\n"
	"	and $3, %eax\n"
	"	lea table_bytes(%rip), %rdx\n"
	"	movslq (%rdx,%rax,4), %rax\n"
	"	add %rdx, %rax\n"
	"	jmp *%rax\n"
	"table_bytes:\n"
	"	.long 1f - table_bytes, 2f - table_bytes, 3f - table_bytes, 4f - table_bytes\n"
	"1:	mov 8(%rdi), %rax\n"
	"	ret\n"
	"2:	mov 16(%rdi), %rax\n"
	"	ret\n"
	"3:	mov 24(%rdi), %rax\n"
	"	ret\n"
	"4:	mov 32(%rdi), %rax\n"
	"	ret\n" END("table"));

/* One instruction is the end of another: by a jump over a prefix and an opcode. */
__asm__(BEGIN("overlap")
	"	test %rdi, %rdi\n"
	"	jne 1f\n"
	"	mov %rdi, %rdx\n"
	"overlap_bytes:\n"
	"	.byte 0x48, 0xb8\n" /* movabs $..., %rax */
	"1:	mov (%rdi), %rcx\n"
	"	mov (%rdi), %rcx\n"
	"	.byte 0x66, 0x90\n"
	"	mov (%rdi), %rax\n"
	"	ret\n"
	"	nop\n"
	"	nop\n" END("overlap"));

/* A restartable sequence whose signature is part of no instruction, as the kernel allows. */
__asm__("	.section constants_cs, \"aw\"\n"
	"	.balign 32\n"
	"11:	.long 0, 0\n"
	"	.quad 12f, 13f - 12f, 14f\n" BEGIN("signature")
	"	lea 11b(%rip), %rax\n"
	"12:	mov (%rdi), %rax\n"
	"13:	ret\n"
	"signature_bytes:\n"
	"	.long 0x53053053\n"
	"14:	nop\n"
	"	nop\n"
	"	nop\n"
	"	jmp signature\n"
	"	nop\n"
	"	nop\n"
	"	nop\n"
	"	nop\n"
	"	nop\n"
	"	nop\n" END("signature"));

#define MODES(F)                                                                           \
	F(after_jump) F(after_return) F(after_last_call) F(after_abort) F(after_own_call)  \
	F(after_unknown_call) F(read_by_itself) F(table) F(overlap) F(signature)           \
	F(after_abort_slot) F(after_guard_slot) F(after_longjmp_slot) F(after_own_slot)    \
	F(after_jump_slot) F(after_register) F(after_deep_register) F(after_library)       \
	F(after_library_deep) F(after_library_word)

#define DECLARE(name)                                                                      \
	long name(uint64_t *word);                                                         \
	extern const volatile uint32_t name##_bytes[4];
MODES(DECLARE)

static uint64_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static uint32_t wrong;
static uint64_t reads;

/* Before there are two threads, and so before there are traps. */
static void remember(uint32_t before[4], const volatile uint32_t *bytes)
{
	for (uint32_t i = 0; i < 4; i++)
		before[i] = bytes[i];
}

static void run(long (*function)(uint64_t *), const volatile uint32_t *bytes,
		const uint32_t *before)
{
	/* Behind these, instructions follow. */
	uint32_t n = function == signature ? 1 : function == overlap ? 2 : 4;

	while (is_running())
		for (int k = 0; k < ROUND; k++) {
			function(words);
			for (uint32_t i = 0; i < n; i++)
				if (bytes[i] != before[i])
					__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
		}
}

#define RUN(name)                                                                          \
	static uint32_t before_##name[4];                                                  \
	static void run_##name(int thread)                                                 \
	{                                                                                  \
		run(name, name##_bytes, before_##name);                                    \
	}
MODES(RUN)

int main(int argc, char **argv)
{
#define MODE(name) { #name, run_##name, 2 },
	static const struct mode modes[] = { MODES(MODE) };
#define REMEMBER(name) remember(before_##name, name##_bytes);
	MODES(REMEMBER)
	int status = run_modes(argc, argv, modes, sizeof(modes) / sizeof(*modes));

	if (argc > 2)
		printf("%u of %lu reads differ\n", wrong, (unsigned long)reads);
	return status ? status : wrong != 0;
}
