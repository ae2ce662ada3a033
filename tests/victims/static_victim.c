/* SPDX-License-Identifier: MIT */
/* static_victim.c - a program into which nothing can be loaded. */
#include <unistd.h>

int main(void)
{
	for (;;)
		pause();
}
