/* SPDX-License-Identifier: MIT */
/*
 * race_rbp.c MODE - `free`: a thread accesses a variable of its caller through rbp, which is not the
 * frame there, and another thread accesses it too. `frame`: each thread accesses its own frame through rbp alone.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

void rbp_store(int *p);
void rbp_frame(long rounds);

__asm__(".text\n"
	".type rbp_store, @function\n"
	"rbp_store:\n"
	".cfi_startproc\n"
	"push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset 6, -16\n"
	"mov %rdi, %rbp\n"
	"incl (%rbp)\n"
	"pop %rbp\n"
	".cfi_def_cfa_offset 8\n"
	"ret\n"
	".cfi_endproc\n"
	".size rbp_store, .-rbp_store\n"
	".type rbp_frame, @function\n"
	"rbp_frame:\n"
	".cfi_startproc\n"
	"push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset 6, -16\n"
	"nop\n" /* as a compiler moves another instruction into the prologue */
	"mov %rsp, %rbp\n"
	".cfi_def_cfa_register 6\n"
	"sub $32, %rsp\n"
	"1:\n"
	"mov %rdi, -8(%rbp)\n"
	"dec %rdi\n"
	"jnz 1b\n"
	"leave\n"
	".cfi_def_cfa 7, 8\n"
	"ret\n"
	".cfi_endproc\n"
	".size rbp_frame, .-rbp_frame\n");

static void sleep_us(long us)
{
	struct timespec ts = { 0, us * 1000 };

	nanosleep(&ts, NULL);
}

/* Locked, so it is not stalled: only a stall of the owner shows the race. */
static void *add(void *arg)
{
	for (int i = 0; i < 20; i++) {
		__atomic_fetch_add((int *)arg, 1, __ATOMIC_SEQ_CST);
		sleep_us(200);
	}
	return NULL;
}

static void store(int *p)
{
	for (int i = 0; i < 20; i++) {
		rbp_store(p);
		sleep_us(200);
	}
}

static void *use_frame(void *arg)
{
	rbp_frame(2000000);
	return NULL;
}

int main(int argc, char **argv)
{
	int is_free = argc > 1 && !strcmp(argv[1], "free");
	pthread_t thread;
	int shared = 0;

	pthread_create(&thread, NULL, is_free ? add : use_frame, &shared);
	if (is_free)
		store(&shared);
	else
		use_frame(NULL);
	pthread_join(thread, NULL);
	return 0;
}
