/* SPDX-License-Identifier: MIT */
/* bigstruct.c - writes single members of a large structure and of a 16-byte pair. */
#include <unistd.h>

struct big {
	char head[64];
	int at_64;
	char tail[300];
};

struct pair {
	long low;
	long high;
};

struct big big_struct;
struct pair small_pair __attribute__((aligned(16)));

__attribute__((noinline)) static void write_big(int i)
{
	big_struct.at_64 = i;
}

__attribute__((noinline)) static void write_high(int i)
{
	small_pair.high = i;
}

int main(void)
{
	for (int i = 1;; i++) {
		write_big(i);
		write_high(i);
		usleep(10000);
	}
}
