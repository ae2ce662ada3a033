// SPDX-License-Identifier: MIT
//
// library.cc calls each function with values of the C++ library that test_values.sh knows: some are
// as programs have them, and some are broken on purpose.

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#define CALLED extern "C" __attribute__((noinline))
#define USED(x) asm volatile("" : : "r"(&(x)) : "memory")

struct point {
	int x, y;
	std::string name;
};

struct large {
	char text[300];
	int last;
};

struct with_base : std::string {
	int more;
};

using words = std::map<std::string, int>;
using choice = std::variant<int, std::string, double>;

CALLED void text(const std::string &s, std::string_view v, std::string by_value)
{
	USED(s);
	USED(v);
	USED(by_value);
}

CALLED void wide(const std::wstring &w, const std::u16string &u)
{
	USED(w);
	USED(u);
}

CALLED void sequence(const std::vector<int> &v, const std::list<int> &l)
{
	USED(v);
	USED(l);
}

CALLED void points(const std::vector<point> &p, const std::array<short, 2> &a)
{
	USED(p);
	USED(a);
}

CALLED void maps(const words &m, const std::set<int> &s)
{
	USED(m);
	USED(s);
}

CALLED void hashes(const std::unordered_map<int, std::string> &u)
{
	USED(u);
}

CALLED void maybe(const std::optional<point> &p, const std::optional<large> &l,
		  std::optional<int> &n)
{
	USED(p);
	USED(l);
	USED(n);
}

CALLED void alternative(const choice &c)
{
	USED(c);
}

CALLED void others(const std::tuple<int, std::string> &t, const std::atomic<long> &a,
		   const with_base &b)
{
	USED(t);
	USED(a);
	USED(b);
}

CALLED void owners(std::unique_ptr<point> &u, const std::shared_ptr<point> &s)
{
	USED(u);
	USED(s);
}

// Names of the library, and something else inside.
namespace mine
{
template <typename T> struct optional {
	T value;
	int engaged;
};
struct list_like {
	int _M_impl, _M_size;
};
}

CALLED void lookalikes(const mine::optional<int> &o, const mine::list_like &l)
{
	USED(o);
	USED(l);
}

template <typename T> struct broken {
	alignas(T) unsigned char bytes[sizeof(T)];

	explicit broken(int byte)
	{
		memset(bytes, byte, sizeof(bytes));
		USED(bytes);
	}
	T &value()
	{
		return *reinterpret_cast<T *>(bytes);
	}
	void word(size_t index, uint64_t number)
	{
		memcpy(bytes + index * 8, &number, sizeof(number));
		USED(bytes);
	}
};

static void good()
{
	std::string by_value = "a text of more than forty bytes, which is cut";
	text("hello", "view", by_value);
	wide(L"w\u00efde", u"u16 \U0001f600");
	sequence({ 1, 2, 3 }, { 4, 5 });
	points({ { 1, 2, "one" }, { 3, 4, "two" } }, { 7, 8 });
	maps({ { "a", 1 }, { "b", 2 } }, { 5, 6, 7 });
	hashes({ { 7, "seven" } });
	std::optional<large> l;
	std::optional<int> n = 5;
	l.emplace();
	memset(&*l, 0, sizeof(large));
	strcpy(l->text, "large");
	maybe(point{ 1, 2, "inside" }, l, n);
	alternative(3);
	alternative("chosen");
	with_base b;
	b.assign("base");
	b.more = 6;
	others({ 4, "tuple" }, 9, b);
	auto u = std::make_unique<point>(point{ 11, 12, "unique" });
	auto s = std::make_shared<point>(point{ 21, 22, "shared" });
	owners(u, s);
	lookalikes({ 1, 2 }, { 3, 4 });
}

static void empty()
{
	std::unique_ptr<point> u;
	std::optional<large> l;
	std::optional<int> n;

	text("", "", "");
	wide(L"", u"");
	sequence({}, {});
	points({}, {});
	maps({}, {});
	hashes({});
	maybe(std::nullopt, l, n);
	owners(u, nullptr);
}

static void moved()
{
	std::string s = "a text that is long enough for the heap";
	words m = { { "a", 1 } };
	std::string other = std::move(s);
	words others = std::move(m);

	text(s, "", other);
	maps(m, { 1 });
}

static void huge()
{
	words m;
	std::set<int> s;
	std::list<int> l(1000, 1);
	std::vector<int> v(100000, 2);

	for (int i = 0; i < 5000; i++)
		m[std::to_string(10000 + i)] = i;
	for (int i = 0; i < 100; i++)
		s.insert(i);
	sequence(v, l);
	maps(m, s);
}

static void garbage()
{
	broken<std::string> s(0x5a);
	broken<std::vector<int>> v(0);
	broken<std::list<int>> l(0x5a);
	broken<words> m(0x5a);
	broken<std::set<int>> set(0x5a);
	broken<choice> c(0x5a);
	broken<std::optional<int>> n(0x5a);
	broken<std::unordered_map<int, std::string>> u(0x5a);
	std::optional<large> none;

	text(s.value(), "", "");
	v.word(0, 0x2000);
	v.word(1, 0x1000);
	sequence(v.value(), l.value());
	maps(m.value(), set.value());
	hashes(u.value());
	alternative(c.value());
	maybe(std::nullopt, none, n.value());
}

// The node of a list that leads to itself, and a map whose only node is its own child.
static void cyclic()
{
	uint64_t node[8] = {};
	broken<std::list<int>> l(0);
	broken<words> m(0);
	broken<std::set<int>> s(0);

	for (int i = 0; i < 4; i++)
		node[i] = (uint64_t)node;
	node[2] = 77;
	l.word(0, (uint64_t)node);
	l.word(1, (uint64_t)node);
	l.word(2, 3);
	sequence({}, l.value());
	for (int i = 0; i < 4; i++)
		node[i] = (uint64_t)node;
	node[4] = 88;
	for (size_t i = 2; i < 5; i++)
		s.word(i, (uint64_t)node);
	s.word(5, 1000);
	USED(node);
	maps(m.value(), s.value());
}

int main()
{
	good();
	empty();
	moved();
	huge();
	garbage();
	cyclic();
}
