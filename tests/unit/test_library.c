/* SPDX-License-Identifier: MIT */
/* test_library.c - what does not need a hit: version, options, check, descriptors. Shared library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include <trapline/trapline.h>

static uint64_t word;

static void version_is_that_of_the_headers(void **state)
{
	assert_int_equal(trapline_version(), TRAPLINE_VERSION);
	assert_int_equal(TRAPLINE_VERSION >> 16, TRAPLINE_VERSION_MAJOR);
}

static void check_answers_each_feature(void **state)
{
	static struct trapline_caps caps = {.size = sizeof(caps)};
	int works = trapline_check(&caps);

	assert_in_range(works, 0, 1);
	assert_true(caps.feature_count > 20);
	for (uint32_t i = 0; i < caps.feature_count; i++) {
		const struct trapline_feature *f = &caps.features[i];

		assert_true(strlen(f->evidence) > 0);
		assert_true(f->ok || strlen(f->remedy) > 0);
	}
}

static void check_refuses_a_wrong_size(void **state)
{
	static struct trapline_caps caps = {.size = 4};

	assert_int_equal(trapline_check(&caps), -EINVAL);
}

static struct trapline_event *watch_or_skip(struct trapline *t)
{
	struct trapline_event *event;
	TRAPLINE_OPTS(event, opts);
	int err = trapline_watch(t, (uintptr_t)&word, 8, TRAPLINE_WRITE, &opts, &event);

	if (err) {
		char why[300];

		trapline_explain(err, why, sizeof(why));
		print_message("# SKIP watch: %s\n", why);
		skip();
	}
	return event;
}

static void check_refuses_beside_open_events(void **state)
{
	static struct trapline_caps caps = {.size = sizeof(caps)};
	struct trapline *t;

	assert_int_equal(trapline_open(0, NULL, &t), 0);
	watch_or_skip(t);
	assert_int_equal(trapline_check(&caps), -EBUSY);
	trapline_close(t);
}

static enum trapline_action ignore(const struct trapline_hit *hit)
{
	return TRAPLINE_GO_ON;
}

static void descriptor_is_readable_with_a_record_only(void **state)
{
	struct trapline *t;

	assert_int_equal(trapline_open(0, NULL, &t), 0);
	assert_int_equal(trapline_fd(t), -ENODATA);
	struct trapline_event *event = watch_or_skip(t);
	struct pollfd fd = {.fd = trapline_fd(t), .events = POLLIN};
	/* Without BPF the descriptor is readable every 10 ms, with or without a record. */
	const int by_record = trapline_event_mechanism(event) != TRAPLINE_BY_RING;

	assert_true(!by_record || poll(&fd, 1, 0) == 0);
	assert_int_equal(trapline_poll(t, 0, ignore), 0);
	__atomic_store_n(&word, 1, __ATOMIC_RELAXED);
	assert_int_equal(poll(&fd, 1, 1000), 1);
	assert_int_equal(trapline_poll(t, 0, ignore), 1);
	assert_true(!by_record || poll(&fd, 1, 0) == 0);
	assert_int_equal(trapline_poll(t, 0, ignore), 0);
	trapline_close(t);
}

static void closing_nothing_is_allowed(void **state)
{
	trapline_event_close(NULL);
	trapline_close(NULL);
}

static void explanations_fit_their_buffer(void **state)
{
	char small[8];

	memset(small, 'x', sizeof(small));
	assert_true(trapline_explain(-ENOSPC, small, 4) > 4);
	assert_int_equal(strlen(small), 3);
	assert_int_equal(small[4], 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_is_that_of_the_headers),
		cmocka_unit_test(check_answers_each_feature),
		cmocka_unit_test(check_refuses_a_wrong_size),
		cmocka_unit_test(check_refuses_beside_open_events),
		cmocka_unit_test(descriptor_is_readable_with_a_record_only),
		cmocka_unit_test(closing_nothing_is_allowed),
		cmocka_unit_test(explanations_fit_their_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
