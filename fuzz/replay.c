/* SPDX-License-Identifier: MIT */
/*
 * replay.c - runs a fuzz target over the files of a folder, and over mutations of them, where
 * there is no libFuzzer: the corpus is a test wherever the tests run.
 *
 * replay FOLDER [MUTATIONS]; TRAPLINE_SEED as in all random tests.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define INPUT_MAX 65536

static uint8_t input[INPUT_MAX];

static size_t read_file(const char *folder, const char *name)
{
	char path[4096];
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "r");
	if (f) {
		n = fread(input, 1, sizeof(input), f);
		fclose(f);
	}
	return n;
}

static size_t mutate(size_t n)
{
	uint8_t changed[INPUT_MAX];
	size_t at = n ? (size_t)random() % n : 0;

	switch (random() % 4) {
	case 0: /* one byte */
		input[at] = (uint8_t)random();
		return n ? n : 1;
	case 1: /* end here */
		return at;
	case 2: /* repeat a piece */
		if (n + n - at > INPUT_MAX)
			return n;
		memcpy(changed, input + at, n - at);
		memcpy(input + n, changed, n - at);
		return n + n - at;
	default: /* take one out */
		if (n)
			memmove(input + at, input + at + 1, n - at - 1);
		return n ? n - 1 : 0;
	}
}

static void run_file(const char *folder, const char *name, long mutations)
{
	size_t n = read_file(folder, name);

	LLVMFuzzerTestOneInput(input, n);
	for (long i = 0; i < mutations; i++) {
		if (i % 16 == 0)
			n = read_file(folder, name);
		n = mutate(n);
		LLVMFuzzerTestOneInput(input, n);
	}
}

int main(int argc, char **argv)
{
	const char *given = getenv("TRAPLINE_SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0)
				  : (unsigned int)(time(NULL) ^ getpid() << 8);
	long mutations = argc > 2 ? atol(argv[2]) : 0;
	DIR *folder = argc > 1 ? opendir(argv[1]) : NULL;
	int files = 0;

	if (!folder) {
		fprintf(stderr, "replay: no folder of inputs\n");
		return 2;
	}
	srandom(seed);
	for (struct dirent *e; (e = readdir(folder));) {
		if (e->d_name[0] == '.')
			continue;
		run_file(argv[1], e->d_name, mutations);
		files++;
	}
	closedir(folder);
	printf("TAP version 13\n1..1\n# TRAPLINE_SEED=%u\n", seed);
	printf("%s 1 - %d inputs and %ld mutations of each\n", files ? "ok" : "not ok", files,
	       mutations);
	return !files;
}
