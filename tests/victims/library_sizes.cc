/* SPDX-License-Identifier: MIT */
/* library_sizes.cc - what a library stores, with sizes that conditions read. Nine calls, known values. */
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct conn {
	std::string name;
	std::vector<long> parts;
};

std::string global = "a global text";

__attribute__((noinline)) void pointed(const std::string *p)
{
	__asm__ volatile("" ::"r"(p) : "memory");
}

__attribute__((noinline)) void sized(const std::string &s, std::string_view w, const std::vector<int> &v,
				     const std::map<int, int> &m, const std::optional<int> &o, conn *c)
{
	__asm__ volatile("" ::"r"(&s), "r"(w.data()), "r"(w.size()), "r"(&v), "r"(&m), "r"(&o), "r"(c)
			 : "memory");
}

int main()
{
	std::string text = "abcdefgh";
	std::map<int, int> m;
	std::vector<int> v;
	conn c;

	pointed(&global);
	for (int i = 0; i < 8; i++) {
		std::optional<int> o;

		v.push_back(i);
		if (i % 2)
			m[i] = i;
		if (i > 5)
			o = i;
		c.parts.push_back(1);
		c.name += "x";
		sized(std::string(i, 'y'), std::string_view(text.data(), i), v, m, o, &c);
	}
	sized(text, std::string_view(), v, m, {}, &c);
	return 0;
}
