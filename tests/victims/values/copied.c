/* SPDX-License-Identifier: MIT */
/*
 * copied.c - a library, the program that has a copy of its variable (PROGRAM), and one that loads the
 * library twice (LOADER).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#ifdef PROGRAM
extern int shared_total;
void bump(int n);

int main(void)
{
	for (int i = 1; i < 3000; i++) {
		bump(i);
		printf("total %d at %p\n", shared_total, (void *)&shared_total);
		fflush(stdout);
		usleep(20000);
	}
}
#elif defined(LOADER)
int main(void)
{
	void *one = dlopen("./libcopied.so", RTLD_NOW);
	void *two = dlmopen(LM_ID_NEWLM, "./libcopied.so", RTLD_NOW);
	void (*first)(int) = (void (*)(int))dlsym(one, "bump");
	void (*second)(int) = (void (*)(int))dlsym(two, "bump");

	for (int i = 1; i < 3000; i++) {
		first(1);
		second(100);
		puts("both");
		fflush(stdout);
		usleep(20000);
	}
}
#else
int shared_total = 5;
int only_there = 1;

void bump(int n)
{
	shared_total += n;
	only_there += n;
}
#endif
