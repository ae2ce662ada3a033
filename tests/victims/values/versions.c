/* SPDX-License-Identifier: MIT */
/*
 * versions.c - a library (no macro) with two versions of a function and of a variable, and programs that
 * are linked to the new ones (PROGRAM), to the old ones (OLD too), and to both (BOTH too, by dlvsym()).
 */
#define _GNU_SOURCE
#ifndef PROGRAM
int step_old(int n);
int step_new(int n);
__asm__(".symver step_old,step@V1");
__asm__(".symver step_new,step@@V2");
int total_old = 1000;
long total_new;
__asm__(".symver total_old,total@V1");
__asm__(".symver total_new,total@@V2");

__attribute__((noinline)) int step_old(int n)
{
	total_old += n;
	return n + 1;
}

__attribute__((noinline)) int step_new(int n)
{
	total_new += n;
	return n + 2;
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int step(int n);
#ifdef OLD
__asm__(".symver step,step@V1");
__asm__(".symver total,total@V1");
extern int total;
#else
extern long total;
#endif

int main(void)
{
	int (*other)(int) = NULL;

#ifdef BOTH
	other = (int (*)(int))dlvsym(RTLD_DEFAULT, "step", "V1");
#endif
	printf("total at %p\n", (void *)&total);
	fflush(stdout);
	for (;;) {
		total += step(5);
		if (other)
			other(7);
		usleep(2000);
	}
}
#endif
