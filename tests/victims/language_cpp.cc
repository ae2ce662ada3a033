// SPDX-License-Identifier: MIT
//
// language_cpp.cc prints each call that test_language.sh looks at, as the ground truth.

#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

struct node {
	int value;
	std::unique_ptr<node> next;
};

static std::vector<int> numbers = { 10, 20, 30 };
static std::array<long, 3> fixed = { 1, 2, 3 };
static std::unique_ptr<node> owner = std::make_unique<node>();
static std::shared_ptr<node> shared = std::make_shared<node>();
static std::string name = "a name";

extern "C" __attribute__((noinline)) int plain(int n, bool b)
{
	asm volatile("");
	return b ? n + numbers[1] : n - numbers[1];
}

extern "C" __attribute__((noinline)) double number(double f, int n)
{
	asm volatile("");
	return f * n;
}

// On the stack, and the pair behind it in all of its 16 bytes.
struct pair {
	long first, second;
};

extern "C" __attribute__((noinline)) long wide(long double f, long a, long b, long c, long d, long e,
					       struct pair p)
{
	asm volatile("");
	return (long)f + a + b + c + d + e + p.first + p.second;
}

// Its name has a tag of the library, and its first arguments go by their addresses.
__attribute__((noinline)) std::string tagged(std::string s, std::unique_ptr<int> u, int n)
{
	asm volatile("");
	return s + std::to_string(*u + n);
}

__attribute__((noinline)) std::optional<int> maybe(std::optional<int> o, int n)
{
	asm volatile("");
	return n % 2 ? std::optional<int>(o.value_or(-1) + n) : std::nullopt;
}

static std::string shown(std::optional<int> o)
{
	return o ? std::to_string(*o) : "nullopt";
}

int main()
{
	owner->next = std::make_unique<node>();
	for (int round = 0;; round = (round + 1) % 60) {
		numbers[1] = round % 5;
		fixed[2] = round % 5;
		asm volatile("" : : "r"(&fixed) : "memory");
		owner->next->value = round % 5;
		shared->value = round % 5;
		name[0] = (char)('a' + round % 5);
		int result = plain(round, round % 2 == 0);
		printf("plain %d %s %d\n", round, round % 2 == 0 ? "true" : "false", result);
		printf("number %g\n", number(1.5, round));
		printf("wide %.2Lf {.first 7, .second %d} %ld\n", round + .25L, round,
		       wide(round + .25L, 1, 2, 3, 4, 5, pair{ 7, round }));
		std::optional<int> o = round % 3 ? std::optional<int>(round) : std::nullopt;
		std::string before = shown(o);
		printf("maybe %s %d %s\n", before.c_str(), round, shown(maybe(o, round)).c_str());
		std::string text = tagged("a", std::make_unique<int>(round), round);
		printf("tagged %d %zu\n", round, text.size());
		fflush(stdout);
		usleep(2000);
	}
}
