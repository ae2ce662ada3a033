/* SPDX-License-Identifier: MIT */
/*
 * writers.c - writes variables by instructions of many forms, round after round, until it is killed. Each
 * variable `w_FORM` is set to 7 once a round, by a store of that form, and to other values by the same store.
 */
#include <stdint.h>
#include <unistd.h>

/* In memory of its own, so that no compiler knows what is written where. */
#define VARIABLE(type, name) volatile type name __attribute__((aligned(8)))
VARIABLE(uint64_t, w_register);
VARIABLE(int32_t, w_signed);
VARIABLE(uint8_t, w_byte);
VARIABLE(uint16_t, w_word);
VARIABLE(uint32_t, w_number);
VARIABLE(uint64_t, w_add);
VARIABLE(int32_t, w_sub);
VARIABLE(uint32_t, w_xor);
VARIABLE(uint64_t, w_locked);
VARIABLE(uint64_t, w_xadd);
VARIABLE(uint32_t, w_decrement);
VARIABLE(uint64_t, w_two);
VARIABLE(uint64_t, w_high);
VARIABLE(uint64_t, w_string);
VARIABLE(uint64_t, w_wide);
VARIABLE(uint64_t, w_silent);
uint64_t w_array[16];

enum state { OPEN = 1, CLOSED = 7 };
volatile enum state w_state;

__attribute__((noipa)) static void at_pointer(uint64_t *to, uint64_t index, uint64_t value)
{
	__asm__ volatile("mov %2, 8(%0,%1,8)" : : "r"(to), "r"(index), "r"(value) : "memory");
}

__attribute__((noipa)) static void first(uint64_t value)
{
	__asm__ volatile("mov %1, %0" : "=m"(w_two) : "r"(value));
}

__attribute__((noipa)) static void second(uint64_t value)
{
	__asm__ volatile("mov %1, %0" : "=m"(w_two) : "r"(value));
}

__attribute__((noipa)) static void one_round(uint64_t i)
{
	__asm__ volatile("mov %1, %0" : "=m"(w_register) : "r"(i));
	__asm__ volatile("mov %k1, %0" : "=m"(w_signed) : "r"(i - 14));
	__asm__ volatile("mov %b1, %0" : "=m"(w_byte) : "q"(i));
	__asm__ volatile("mov %w1, %0" : "=m"(w_word) : "r"(i + 0x10000));
	__asm__ volatile("movl $7, %0" : "=m"(w_number));
	__asm__ volatile("addq $1, %0" : "+m"(w_add));
	__asm__ volatile("subl %k1, %0" : "+m"(w_sub) : "r"(1));
	__asm__ volatile("xorl $7, %0" : "+m"(w_xor));
	__asm__ volatile("lock incq %0" : "+m"(w_locked));
	uint64_t one = 1;
	__asm__ volatile("lock xaddq %1, %0" : "+m"(w_xadd), "+r"(one));
	__asm__ volatile("decl %0" : "+m"(w_decrement));
	__asm__ volatile("movb %%ah, %0" : "=m"(w_high) : "a"(i << 8));
	const uint64_t *from = &i;
	volatile uint64_t *to = &w_string;
	__asm__ volatile("movsq" : "+S"(from), "+D"(to) : : "memory");
	__asm__ volatile("movq %1, %%xmm0; movdqu %%xmm0, %0" : "=m"(w_wide) : "r"(i) : "xmm0");
	w_state = i == 7 ? CLOSED : OPEN;
	(i & 1 ? first : second)(i);
	at_pointer(w_array, i, i);
}

int main(void)
{
	for (;;) {
		w_add = w_locked = w_xadd = 0;
		w_sub = w_decrement = 14;
		for (uint64_t i = 0; i < 14; i++)
			one_round(i);
		usleep(2000);
	}
}
