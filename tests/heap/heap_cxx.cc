// SPDX-License-Identifier: MIT
/* heap_cxx.cc - new and delete, in pairs that do not belong together, and objects after delete. */
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "heap_cases.h"

namespace
{

struct alignas(64) Wide {
	char bytes[128];
};

/* Not told: an operator delete that is linked into the program calls free() as this does. */
void cxx_new_free(int bad)
{
	long *p = new long(1);

	if (bad)
		std::free(hide(p));
	else
		delete p;
}

void cxx_malloc_delete(int bad)
{
	void *p = std::malloc(40);

	if (bad)
		::operator delete(hide(p));
	else
		std::free(p);
}

void cxx_array_delete(int bad)
{
	char *p = new char[40];

	if (bad)
		::operator delete(hide(p));
	else
		delete[] p;
}

void cxx_new_delete_array(int bad)
{
	void *p = ::operator new(40);

	if (bad)
		::operator delete[](hide(p));
	else
		::operator delete(p);
}

void cxx_twice(int bad)
{
	void *p = ::operator new(40);

	::operator delete(p);
	if (bad)
		::operator delete(hide(p));
}

void cxx_over(int bad)
{
	char *p = new char[32];

	put(p + 31 + bad, 'x');
	delete[] p;
}

void cxx_over_aligned(int bad)
{
	Wide *p = new Wide;

	heap_require(reinterpret_cast<size_t>(p) % 64 == 0, "new aligns");
	put(p->bytes + 127 + bad, 'x');
	delete p;
}

void cxx_over_nothrow(int bad)
{
	char *p = new (std::nothrow) char[32];

	put(p + 31 + bad, 'x');
	delete[] p;
}

void cxx_freed(int bad)
{
	char *p = new char[40];

	if (bad)
		delete[] p;
	get(p + 8);
	if (!bad)
		delete[] p;
}

/* The vector has moved its elements. */
void cxx_iterator(int bad)
{
	std::vector<long> v(4, 1);
	long *first = static_cast<long *>(hide(&v[0]));

	if (bad)
		v.resize(5000);
	get_long(first + 1);
}

/* The characters of a string that is gone. */
void cxx_string(int bad)
{
	auto s = std::make_unique<std::string>(47, 'x');
	const char *c = static_cast<const char *>(hide(s->c_str()));

	if (bad)
		s.reset();
	get(c + 47);
}

#define CXX(n, k, a, g, s, o, b, f)        \
	{                                  \
#n, n, k, a, g, s, o, b, f \
	}

} // namespace

const struct heap_case heap_case_cxx[] = {
	CXX(cxx_new_free, nullptr, nullptr, nullptr, 0, 0, 0, 0),
	CXX(cxx_malloc_delete, nullptr, nullptr, nullptr, 0, 0, 0, 0),
	CXX(cxx_array_delete, "invalid-free", nullptr, "A", ANY, ANY, 40, 'k'),
	CXX(cxx_new_delete_array, "invalid-free", nullptr, "A", ANY, ANY, 40, 'k'),
	CXX(cxx_twice, "double-free", nullptr, "A", ANY, ANY, 40, 0),
	CXX(cxx_over, "overflow", "write", "A", 1, 32, 32, 0),
	CXX(cxx_over_aligned, "overflow", "write", "A", 1, 128, 128, 0),
	CXX(cxx_over_nothrow, "overflow", "write", "A", 1, 32, 32, 0),
	CXX(cxx_freed, "use-after-free", "read", "A", 1, 8, 40, 0),
	CXX(cxx_iterator, "use-after-free", "read", "A", 8, 8, 32, 0),
	CXX(cxx_string, "use-after-free", "read", "A", 1, 47, 48, 0),
	{ nullptr, nullptr, nullptr, nullptr, nullptr, 0, 0, 0, 0 },
};
