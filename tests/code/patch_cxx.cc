// SPDX-License-Identifier: MIT
// patch_cxx.cc - functions that throw, of test_patch_adversaries.c.

namespace
{
struct counts_down {
	~counts_down()
	{
		alive--;
	}
	static int alive;
};
int counts_down::alive;
} // namespace

extern "C" {

__attribute__((noipa)) int old_thrower(int x)
{
	if (x < 0)
		throw x;
	return x;
}

__attribute__((noipa)) int new_thrower(int x)
{
	throw 1000 + x;
}

/* The old function is inside of itself, and leaves by what the inner one throws. */
__attribute__((noipa)) int old_around(int (*inner)(int), int x)
{
	counts_down frame;

	counts_down::alive++;
	return inner(x) + 1;
}

__attribute__((noipa)) int new_around(int (*)(int), int x)
{
	return 5000 + x;
}

/* What was thrown, or was returned. A frame that was left without its destructor is seen. */
int catch_thrown(int (*around)(int (*)(int), int), int (*inner)(int), int x)
{
	counts_down::alive = 0;
	try {
		x = around ? around(inner, x) : inner(x);
	} catch (int thrown) {
		x = thrown;
	}
	return counts_down::alive ? -1 : x;
}
}
