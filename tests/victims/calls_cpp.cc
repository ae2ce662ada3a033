/* SPDX-License-Identifier: MIT */
// calls_cpp.cc - C++ functions called round after round, until killed.
#include <string>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))
#define KEEP __asm__ volatile("" ::: "memory")

namespace shop {

struct Item {
	int price;
	const char *name;
};

class Basket {
	long sum = 0;

public:
	virtual ~Basket() = default;
	NOINLINE long add(const Item &item, int count);
	NOINLINE bool has(const std::string &name) const;
	NOINLINE virtual int operator()(int by);
};

long Basket::add(const Item &item, int count)
{
	KEEP;
	sum += static_cast<long>(item.price) * count;
	return sum;
}

bool Basket::has(const std::string &name) const
{
	KEEP;
	return name.size() > static_cast<size_t>(sum % 2);
}

int Basket::operator()(int by)
{
	KEEP;
	return static_cast<int>(sum) % 100 + by;
}

template <typename T> NOINLINE T most(T a, T b)
{
	KEEP;
	return a > b ? a : b;
}

} // namespace shop

static NOINLINE int overloaded(int a)
{
	KEEP;
	return a + 1;
}

static NOINLINE int overloaded(const char *a)
{
	KEEP;
	return a[0];
}

int main()
{
	shop::Basket basket;
	shop::Item apple = {3, "apple"};

	for (;;) {
		long sum = basket.add(apple, 2);
		bool has = basket.has("apple");
		int rest = basket(has);
		shop::most<long>(sum, rest);
		overloaded(rest);
		overloaded(apple.name);
		usleep(2000);
	}
}
