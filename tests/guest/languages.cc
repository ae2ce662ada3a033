// SPDX-License-Identifier: MIT
// languages.cc - exceptions and coroutines of C++. See guest.h.
#include "guest.h"

#include <coroutine>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static volatile int destroyed;

struct counted {
	~counted()
	{
		destroyed = destroyed + 1;
	}
};

__attribute__((noinline)) static long dig(long n)
{
	counted guard;

	step(n);
	if (!n)
		throw std::runtime_error("deep");
	return dig(n - 1) + 1;
}

static const char *catch_all(long)
{
	for (int i = 0; i < 20; i++) {
		int caught = 0;

		destroyed = 0;
		try {
			dig(10);
		} catch (const std::exception &e) {
			caught = std::string(e.what()) == "deep";
		}
		EXPECT(caught && destroyed == 11, "an exception: caught %d, %d of 11 destroyed", caught, destroyed);
	}
	return nullptr;
}

static const char *catch_in_threads(long)
{
	std::vector<std::thread> threads;
	std::exception_ptr kept;

	for (int i = 0; i < 3; i++)
		threads.emplace_back([&kept, i] {
			try {
				dig(5);
			} catch (...) {
				if (!i)
					kept = std::current_exception();
			}
		});
	for (auto &t : threads)
		t.join();
	try {
		if (kept)
			std::rethrow_exception(kept);
	} catch (const std::runtime_error &) {
		return nullptr;
	}
	return wrong("an exception of another thread is lost");
}

struct generator {
	struct promise_type {
		long value = 0;
		generator get_return_object()
		{
			return { std::coroutine_handle<promise_type>::from_promise(*this) };
		}
		std::suspend_always initial_suspend()
		{
			return {};
		}
		std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		std::suspend_always yield_value(long v)
		{
			value = v;
			return {};
		}
		void return_void()
		{
		}
		void unhandled_exception()
		{
			throw;
		}
	};
	std::coroutine_handle<promise_type> handle;
};

static generator numbers(long n)
{
	for (long i = 0; i < n; i++)
		co_yield step(i);
}

static const char *resume(long)
{
	generator g = numbers(100);
	long sum = 0;

	while (g.handle.resume(), !g.handle.done())
		sum += g.handle.promise().value;
	g.handle.destroy();
	EXPECT(sum == 5050, "a coroutine gave %ld", sum);
	return nullptr;
}

const struct behaviour behaviours[] = {
	{ "cxx_exceptions", catch_all, 0, 0, nullptr, nullptr },
	{ "cxx_exceptions_threads", catch_in_threads, 0, 0, nullptr, nullptr },
	{ "cxx_coroutine", resume, 0, 0, nullptr, nullptr },
	{ nullptr, nullptr, 0, 0, nullptr, nullptr },
};
