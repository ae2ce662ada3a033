/* SPDX-License-Identifier: MIT */
/* branch_cxx.cc - branches in C++: in functions that each object has and the linker keeps once. */
#include <trapline/code.h>

extern "C" {
extern struct trapline_branch_key shared_key;
int cxx_state(void);
struct trapline_branch_key *cxx_key(void);
}

namespace inner
{
struct trapline_branch_key key = TRAPLINE_BRANCH_OFF;
}
static struct trapline_branch_key local_key = TRAPLINE_BRANCH_ON;

inline int in_a_group(void)
{
	return trapline_branch(&shared_key) ? 1 : 0;
}

template <typename T> T in_a_template(T value)
{
	if (trapline_branch(&inner::key))
		return value;
	return 0;
}

class object
{
      public:
	int method(void) const
	{
		try {
			if (trapline_branch_likely(&shared_key))
				throw 8;
		} catch (int value) {
			return value;
		}
		return 0;
	}
};

int cxx_state(void)
{
	int is_local_on = trapline_branch(&local_key);

	return in_a_group() | in_a_template<int>(2) | (int)in_a_template<long>(4) |
	       object().method() | is_local_on << 4;
}

struct trapline_branch_key *cxx_key(void)
{
	return &inner::key;
}
