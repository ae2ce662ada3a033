/* SPDX-License-Identifier: MIT */
/*
 * after_calls.c - functions with constants behind calls that never return; the constants are those of
 * `ret`. Each round calls each function and reads its constants, until SIGTERM. Exit status 0: they
 * never changed.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION(name, call)                                              \
	__asm__("	.text\n"                                                \
		"	.globl " #name ", " #name "_bytes\n"              \
		"	.type " #name ", @function\n" #name ":\n"         \
		"	.cfi_startproc\n"                                       \
		"	test %rdi, %rdi\n"                                      \
		"	jne 1f\n" call "\n" #name "_bytes:\n"             \
		"	.byte 0x48, 0x8b, 0x07, 0xc3, 0x48, 0x8b, 0x07, 0xc3\n" \
		"1:	mov (%rdi), %rax\n"                                   \
		"	ret\n"                                                  \
		"	.cfi_endproc\n"                                         \
		"	.size " #name ", . - " #name "\n");               \
	long name(const long *word);                                      \
	extern const volatile uint64_t name##_bytes;

void give_up(int status) __attribute__((noreturn));

/* With a branch, as those have that print first. */
__attribute__((noinline, noclone)) void give_up(int status)
{
	if (status > 1)
		exit(status);
	abort();
}

FUNCTION(by_table, "call abort@plt")
FUNCTION(by_word, "call *abort@GOTPCREL(%rip)")
FUNCTION(by_own_function, "call give_up")
FUNCTION(by_register, "mov abort@GOTPCREL(%rip), %rax; call *%rax")

/* Of a library, by names that are known nowhere. None of them is bound before its first call. */
FUNCTION(by_library, "call there_aborts@plt")
FUNCTION(by_library_deep, "call there_deep@plt")
FUNCTION(by_library_word, "call *there_loops_by_word@GOTPCREL(%rip)")
FUNCTION(by_library_turns, "call there_turns@plt")

static volatile sig_atomic_t is_ending;

static void on_term(int signal)
{
	is_ending = 1;
}

int main(void)
{
	long (*const functions[])(const long *) = {
		by_table,   by_word,	     by_own_function, by_register,
		by_library, by_library_deep, by_library_word, by_library_turns,
	};
	const volatile uint64_t *const bytes[] = {
		&by_table_bytes,	&by_word_bytes,		 &by_own_function_bytes,
		&by_register_bytes,	&by_library_bytes,	 &by_library_deep_bytes,
		&by_library_word_bytes, &by_library_turns_bytes,
	};
	const long word = 7;
	uint64_t rounds = 0;
	uint64_t wrong = 0;
	uint64_t before;

	signal(SIGTERM, on_term);
	memcpy(&before, "\x48\x8b\x07\xc3\x48\x8b\x07\xc3", sizeof(before));
	puts("ready");
	fflush(stdout);
	for (; !is_ending; rounds++) {
		for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
			wrong += functions[i](&word) != 7 || *bytes[i] != before;
		usleep(1000);
	}
	printf("%lu rounds, %s wrong\n", (unsigned long)rounds, wrong ? "some" : "none");
	return wrong != 0;
}
