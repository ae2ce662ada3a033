/* SPDX-License-Identifier: MIT */
// line_locals.cc - a method with locals of each kind and relations between them, called until killed.
#include <cstdio>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))

struct Item {
	const char *name;
	int price;
};

static volatile long sink;

class Basket {
	long rounds = 0;
	int tid = 7; // a word of the language of conditions

public:
	NOINLINE long add(const Item &item, int count);
};

// Inlined, where it is called.
static inline __attribute__((always_inline)) int doubled(int n)
{
	int result = n + n;

	sink += result;
	return result;
}

long Basket::add(const Item &item, int count)
{
	long twice = 2L * count;
	int hits = count + 1;

	rounds++;
	for (int i = 0; i < count; i++) {
		sink += twice + i + hits + item.price; /* in the loop */
		if (i == 1) {
			long twice = -count;
			sink += twice; /* in the block */
		}
	}
	sink += doubled(count) + tid; /* a call that is inlined */
	return sink + twice + hits;
}

NOINLINE double weigh(double weight, float share)
{
	double half = weight / 2;

	sink += (long)half; /* behind the entry */
	return half * share;
}

int main()
{
	static const Item items[] = {{"none", 0}, {"apple", 1}, {"pear", 2}, {"plum", 3}};
	Basket basket;

	for (int n = 0;; n++) {
		int count = n % 3 + 1;
		basket.add(items[count], count);
		weigh(count * 1.25, count * 0.5f);
		usleep(1000);
	}
}
