/* SPDX-License-Identifier: MIT */
/*
 * frames_cpp.cc - frames that exceptions leave, and frames that catch them.
 *
 *   frames_cpp MODE ROUNDS	thrown: the function ends by an exception; caught: it catches one, and
 *				goes on. Prints `ready`, and `writes N` at the end.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

static volatile unsigned long writes;

#define WRITE(variable, value) (writes = writes + 1, (variable) = (value))

__attribute__((noinline)) static void overwrite()
{
	volatile int words[256];

	for (int i = 0; i < 256; i++)
		words[i] = 0x5555;
	(void)words[255];
}

/* Its destructor runs while the stack is unwound, where the frames below were. */
struct cleaner {
	~cleaner()
	{
		overwrite();
	}
};

__attribute__((noinline)) int thrown(int n)
{
	volatile int value;

	WRITE(value, n);
	WRITE(value, n + 1);
	if (n >= 0)
		throw n;
	return value;
}

__attribute__((noinline)) static int below(int n)
{
	cleaner c;

	return thrown(n);
}

__attribute__((noinline)) int caught(int n)
{
	volatile int value;

	WRITE(value, n);
	try {
		below(n);
	} catch (int) {
		WRITE(value, n + 2);
	}
	WRITE(value, n + 3);
	return value;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	bool is_thrown = !strcmp(argv[1], "thrown");
	unsigned long others = 0;

	puts("ready");
	fflush(stdout);
	for (int i = 0; i < atoi(argv[2]); i++) {
		if (is_thrown) {
			try {
				below(i);
			} catch (int) {
			}
		} else {
			caught(i);
			others += 2; /* those of thrown() */
		}
		overwrite();
		usleep(10000);
	}
	printf("writes %lu\n", writes - others);
	return 0;
}
