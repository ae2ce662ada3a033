// SPDX-License-Identifier: MIT
/* headlines.cc - errors in functions that are put into others: the user wrote some, and the C++ library has some. */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace store
{
struct Cell {
	uint64_t *at;
	[[gnu::always_inline]] uint64_t read() const
	{
		return *(volatile uint64_t *)at;
	}
};
struct Counter {
	long value;
	[[gnu::always_inline]] void bump()
	{
		value++;
	}
};
struct Source {
	char bytes[32];
	[[gnu::always_inline]] long fill(int fd)
	{
		return ::read(fd, bytes, sizeof(bytes));
	}
};
} // namespace store

[[gnu::noinline]] uint64_t inlined_method(store::Cell c)
{
	return c.read();
}
[[gnu::noinline]] uint64_t with_vector(const std::vector<uint64_t> &v)
{
	return v[1] + 1;
}
[[gnu::noinline]] uint64_t plain(uint64_t *at)
{
	return *(volatile uint64_t *)at;
}

static int heap()
{
	uint64_t *a = new uint64_t[4]();
	delete[] a;
	uint64_t sum = inlined_method({ a });
	uint64_t *b = new uint64_t[4]();
	delete[] b;
	sum += plain(b);
	std::vector<uint64_t> v(8);
	std::vector<uint64_t> w;
	std::memcpy((void *)&w, (void *)&v, sizeof(v));
	{
		std::vector<uint64_t> gone(std::move(v));
	}
	sum += with_vector(w);
	std::memset((void *)&w, 0, sizeof(w));
	std::printf("%d\n", sum != 1);
	return 0;
}

static store::Counter counter;
static std::vector<long> numbers(2);
[[gnu::noinline]] void count_method()
{
	counter.bump();
}
[[gnu::noinline]] void count_vector()
{
	numbers[1]++;
}

static int which;
static void work()
{
	for (int i = 0; i < 10000000; i++) {
		if (which)
			count_method();
		else
			count_vector();
	}
}

static int race(int method)
{
	which = method;
	std::thread a(work);
	std::thread b(work);
	a.join();
	b.join();
	return 0;
}

[[gnu::noinline]] int flow()
{
	store::Source s;
	int fd = open("/proc/self/exe", O_RDONLY);
	long n = s.fill(fd);
	int to = open("/dev/null", O_WRONLY);
	return n > 0 && write(to, s.bytes, (size_t)n) == n ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "heap"))
		return heap();
	if (argc > 1 && !strcmp(argv[1], "race"))
		return race(argc > 2);
	return flow();
}
