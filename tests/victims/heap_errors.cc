// SPDX-License-Identifier: MIT
/*
 * heap_errors.cc KIND - makes one error of the heap in a program that goes on after it, or something that
 * only looks like one. It prints "went on" at its end.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <sys/uio.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile char sink;
static char data[256];

extern "C" {
NOINLINE char *make(size_t bytes)
{
	return static_cast<char *>(malloc(bytes));
}

NOINLINE void drop(void *p)
{
	free(p);
}

NOINLINE void put(char *p, long at)
{
	static_cast<volatile char *>(p)[at] = 1;
}

NOINLINE void get(char *p, long at)
{
	sink = static_cast<volatile char *>(p)[at];
}
}

static void use_after_free()
{
	char *p = make(40);

	drop(p);
	put(p, 7);
}

static void read_after_free()
{
	char *p = make(40);

	drop(p);
	get(p, 7);
}

static void double_free()
{
	char *p = make(40);

	drop(p);
	drop(p);
}

static void overflow()
{
	char *p = make(48);

	put(p, 48);
	drop(p);
}

static void overread()
{
	char *p = make(48);

	get(p, 49);
	drop(p);
}

/* The bytes up to the next multiple of its alignment are no part of the block. */
static void overflow_odd()
{
	char *p = make(13);

	put(p, 13);
	drop(p);
}

static void underflow()
{
	char *p = make(40);

	put(p, -1);
	drop(p);
}

static void underflow_kept()
{
	put(make(40), -1);
}

static void underread()
{
	/* One block of four lies at the start of its page. */
	for (int i = 0; i < 8; i++)
		get(make(40), -1);
}

static void free_stack()
{
	char local[100];

	put(local, 0);
	drop(local + 16);
}

static void free_data()
{
	drop(data + 16);
}

static void free_middle()
{
	drop(make(40) + 8);
}

static void free_unaligned()
{
	/* Too large to be sampled. */
	drop(make(5000000) + 3);
}

static void realloc_freed()
{
	char *p = make(40);

	drop(p);
	drop(realloc(p, 80));
}

static void new_and_free_array()
{
	int *volatile p = new int;

	delete[] p;
}

static void kernel_reads()
{
	char *p = make(100);
	int ends[2];

	if (!pipe(ends) && write(ends[1], p, 104) != 104)
		perror("write");
	drop(p);
}

static void kernel_writes_freed()
{
	char *p = make(100);
	int ends[2];

	drop(p);
	if (!pipe(ends) && write(ends[1], "x", 1) == 1 && read(ends[0], p, 100) != 1)
		perror("read");
}

/* ---- no errors ---- */

static void kernel_fits()
{
	/* The count is larger than the block, and what comes fits. */
	char *p = make(100);
	struct iovec v[2] = { { p, 60 }, { p + 60, 4000 } };
	int ends[2];

	if (pipe(ends) || write(ends[1], "0123456789", 10) != 10 || read(ends[0], p, 5000) != 10)
		perror("read");
	if (write(ends[1], p, 10) != 10 || readv(ends[0], v, 2) != 10)
		perror("readv");
	drop(p);
}

static void resizes()
{
	char *p = make(10);

	memcpy(p, "123456789", 10);
	for (size_t n = 20; n < 400000; n = n * 3 / 2) {
		p = static_cast<char *>(realloc(p, n));
		if (memcmp(p, "123456789", 10) != 0 || malloc_usable_size(p) < n)
			abort();
		memset(p + 10, 1, n - 10);
	}
	drop(p);
	char *z = static_cast<char *>(calloc(33, 3));
	for (int i = 0; i < 99; i++)
		if (z[i])
			abort();
	drop(z);
}

static void aligned()
{
	for (size_t a = 8; a <= 8192; a *= 2)
		for (size_t n = 1; n < 9000; n = n * 2 + 1) {
			void *p = nullptr;

			if (posix_memalign(&p, a, n) || reinterpret_cast<size_t>(p) % a)
				abort();
			memset(p, 1, n);
			drop(p);
			p = memalign(a, n);
			if (reinterpret_cast<size_t>(p) % a)
				abort();
			memset(p, 1, n);
			drop(p);
		}
	struct alignas(64) wide {
		char bytes[64];
	};
	delete new wide;
	delete[] new wide[3];
	delete new int;
	delete[] new int[7];
	drop(nullptr);
	drop(make(0));
}

static const struct {
	const char *name;
	void (*run)();
} kinds[] = {
	{ "use_after_free", use_after_free },
	{ "read_after_free", read_after_free },
	{ "double_free", double_free },
	{ "overflow", overflow },
	{ "overread", overread },
	{ "overflow_odd", overflow_odd },
	{ "underflow", underflow },
	{ "underflow_kept", underflow_kept },
	{ "underread", underread },
	{ "free_stack", free_stack },
	{ "free_data", free_data },
	{ "free_middle", free_middle },
	{ "free_unaligned", free_unaligned },
	{ "realloc_freed", realloc_freed },
	{ "new_and_free_array", new_and_free_array },
	{ "kernel_reads", kernel_reads },
	{ "kernel_writes_freed", kernel_writes_freed },
	{ "kernel_fits", kernel_fits },
	{ "resizes", resizes },
	{ "aligned", aligned },
};

int main(int argc, char **argv)
{
	bool is_known = false;

	for (const auto &kind : kinds)
		if (argc > 1 && !strcmp(kind.name, argv[1])) {
			kind.run();
			is_known = true;
		}
	if (!is_known)
		return 2;
	puts("went on");
	return 0;
}
