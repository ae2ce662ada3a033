/* SPDX-License-Identifier: MIT */
/*
 * foreign.c - symbols as compilers of other languages name them: a method of Rust with its hash, and
 * a variable of Go, whose package is called as a function is.
 */
#include <unistd.h>

long go_counter __asm__("main.counter") = 0;
__attribute__((noinline)) void rust_method(void) __asm__("_ZN1r3Acc3pay17h72ed9ad04461900fE");

void rust_method(void)
{
	go_counter++;
	__asm__ volatile("" ::: "memory");
}

int main(void)
{
	for (;;) {
		rust_method();
		usleep(20000);
	}
}
