// SPDX-License-Identifier: MIT
// window_cxx.cc - exceptions, of test_window_signals.c.
#include <stdexcept>
#include <string>

namespace
{
struct counts {
	explicit counts(int *where) : where(where)
	{
	}
	~counts()
	{
		++*where;
	}
	int *where;
};

__attribute__((noinline)) int deep(int n, int *destroyed)
{
	counts c(destroyed);

	if (!n)
		throw std::runtime_error("deep " + std::to_string(*destroyed));
	return deep(n - 1, destroyed) + 1;
}
} // namespace

extern "C" int window_throws(int n)
{
	int destroyed = 0;

	try {
		return deep(n, &destroyed);
	} catch (const std::logic_error &) {
		return -1;
	} catch (const std::exception &e) {
		return destroyed * 100 + static_cast<int>(std::string(e.what()).size());
	}
}
