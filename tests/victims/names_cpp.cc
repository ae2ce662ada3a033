/* SPDX-License-Identifier: MIT */
/*
 * names_cpp.cc - writes C++ variables of every kind: in namespaces, class statics, members of base
 * classes and of a virtual one, templates, references, thread-local.
 */
#include <cstdlib>
#include <unistd.h>

namespace net {

enum class Mode : unsigned char { Off, Slow = 3, Fast };

struct Base {
	long base_count = 0;
	virtual ~Base() = default;
};

struct Left : virtual Base {
	int common = 0;
};

struct Right : virtual Base {
	int common = 0;
};

class Session : public Left, public Right
{
      public:
	static long total;
	static inline int inline_total = 0;
	Mode mode = Mode::Off;
	bool is_open = false;
	int &alias;
	explicit Session(int &to) : alias(to) {}
};

long Session::total;

namespace inner {
int depth;
}

namespace {
int hidden;
}

int target;
Session session(target);
Session *current = &session;
int &reference = target;

template <typename T> struct Box {
	static T content;
	T value;
};
template <typename T> T Box<T>::content;
Box<long> box;

} // namespace net

thread_local int local_depth;

__attribute__((noinline)) static void step(int i)
{
	static int step_count;

	net::Session::total += 1;
	net::Session::inline_total += 2;
	net::inner::depth = i;
	net::hidden -= i;
	net::target = i * 10;
	net::current->mode = i & 1 ? net::Mode::Fast : net::Mode::Slow;
	net::current->is_open = i & 1;
	net::current->base_count = i;
	net::current->net::Left::common = i;
	net::current->net::Right::common = i + 1000;
	net::Box<long>::content = i;
	net::box.value = i;
	local_depth = i;
	if (++step_count == 1000000)
		_exit(net::hidden);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 0;

	for (int i = 1; !rounds || i <= rounds; i++) {
		step(i);
		usleep(10000);
	}
	return 0;
}
