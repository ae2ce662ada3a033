/* SPDX-License-Identifier: MIT */
/*
 * test_safepoint_sites.c - safepoints in code come and go with libraries. This program has none itself.
 */
#include "../kernel/common.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <trapline/code.h>
#define TRAPLINE_SAFEPOINT_NO_SITES
#include <trapline/safepoint.h>

#define TIMEOUT_MS 60000
#define OFF 0xa9
#define ON 0xe9

struct plugin {
	void *handle;
	void (*pass)(uint64_t *count);
	const uint8_t *(*site)(void);
};

static struct trapline_safepoint *domain;
static struct plugin plugin;
static _Atomic int quit;
static uint64_t count;

/* Each number is an object of its own: a copy of the file. */
static struct plugin load_plugin(int number)
{
	char path[600];
	char command[1300];
	struct plugin p;

	snprintf(path, sizeof(path), "%s", PLUGIN);
	if (number) {
		snprintf(path, sizeof(path), "%s.%d", PLUGIN, number);
		snprintf(command, sizeof(command), "cp %s %s", PLUGIN, path);
		assert_int_equal(system(command), 0);
	}
	p.handle = dlopen(path, RTLD_NOW);
	if (number)
		unlink(path);
	if (!p.handle)
		print_message("# %s\n", dlerror());
	assert_non_null(p.handle);
	*(void **)&p.pass = dlsym(p.handle, "plugin_pass");
	*(void **)&p.site = dlsym(p.handle, "plugin_site");
	assert_non_null(p.site);
	return p;
}

static int open_by(uint32_t backend)
{
	TRAPLINE_OPTS(safepoint, opts);

	opts.backend = backend;
	return trapline_safepoint_open(&opts, &domain);
}

static void *work(void *arg)
{
	if (trapline_safepoint_register(domain, NULL))
		return arg;
	while (!quit)
		plugin.pass(&count);
	trapline_safepoint_unregister();
	return NULL;
}

static uint64_t count_now(void)
{
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

static pthread_t start(void)
{
	pthread_t thread;
	uint64_t before = count_now();

	quit = 0;
	pthread_create(&thread, NULL, work, &count);
	WAIT_UNTIL(count_now() > before + 10);
	return thread;
}

static void end(pthread_t thread)
{
	void *failure;

	quit = 1;
	pthread_join(thread, &failure);
	assert_null(failure);
	assert_int_equal(trapline_safepoint_close(domain), 0);
}

static void a_domain_without_its_sites_is_refused_with_the_remedy(void **state)
{
	char why[400];

	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POKE), -ENOENT);
	trapline_explain(-ENOENT, why, sizeof(why));
	assert_non_null(strstr(why, "-DTRAPLINE_SAFEPOINT_POKED"));
	plugin = load_plugin(0);
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POLL), -ENOENT);
	trapline_explain(-ENOENT, why, sizeof(why));
	assert_non_null(strstr(why, "without -DTRAPLINE_SAFEPOINT_POKED"));
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POKE), 0);
	assert_int_equal(trapline_safepoint_close(domain), 0);
	dlclose(plugin.handle);
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POKE), -ENOENT);
	/* Without any, a runtime may have polls of its own. */
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POLL), 0);
	assert_int_equal(trapline_safepoint_close(domain), 0);
}

static void sites_of_a_library_stop_threads(void **state)
{
	plugin = load_plugin(0);
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POKE), 0);
	pthread_t thread = start();
	for (int i = 0; i < 50; i++) {
		assert_int_equal(trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL), 0);
		uint64_t before = count_now();
		assert_int_equal(*plugin.site(), ON);
		usleep(100);
		assert_int_equal(count_now(), before);
		assert_int_equal(trapline_safepoint_resume(domain), 0);
		assert_int_equal(*plugin.site(), OFF);
		WAIT_UNTIL(count_now() > before);
	}
	end(thread);
	dlclose(plugin.handle);
}

static void a_library_loaded_during_a_stop_is_stopped_too(void **state)
{
	plugin = load_plugin(0);
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POKE), 0);
	pthread_t thread = start();
	assert_int_equal(trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL), 0);
	struct plugin other = load_plugin(1);
	assert_ptr_not_equal(other.site(), plugin.site());
	assert_int_equal(*other.site(), ON);
	assert_int_equal(trapline_safepoint_resume(domain), 0);
	assert_int_equal(*other.site(), OFF);
	/* And one that goes away while its site is a jump. */
	assert_int_equal(trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL), 0);
	dlclose(other.handle);
	assert_int_equal(trapline_safepoint_resume(domain), 0);
	other = load_plugin(2);
	assert_int_equal(*other.site(), OFF);
	dlclose(other.handle);
	end(thread);
	dlclose(plugin.handle);
}

static void ignore(const struct trapline_code_record *record)
{
	(*(int *)record->arg)++;
}

/* While a code log is on, the change must be one that a decoder can follow. */
static void a_code_log_sees_the_change(void **state)
{
	int records = 0;

	plugin = load_plugin(0);
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POKE), 0);
	pthread_t thread = start();
	assert_int_equal(trapline_log_code(ignore, &records), 0);
	assert_int_equal(trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL), 0);
	assert_int_equal(trapline_safepoint_resume(domain), 0);
	assert_int_equal(trapline_log_code(NULL, NULL), 0);
	assert_int_equal(records, 8); /* four stages each */
	end(thread);
	dlclose(plugin.handle);
}

static void a_breakpoint_at_a_site_fails_the_stop_and_stays(void **state)
{
	uint64_t address;
	struct trapline_traps *traps;

	plugin = load_plugin(0);
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POKE), 0);
	pthread_t thread = start();
	address = ADDR(plugin.site());
	assert_int_equal(trapline_traps_set(&address, 1, NULL, &traps), 0);
	assert_int_equal(trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL), -EBUSY);
	assert_int_equal(*plugin.site(), 0xcc);
	uint64_t before = count_now();
	WAIT_UNTIL(count_now() > before);
	assert_int_equal(trapline_traps_remove(traps), 0);
	assert_int_equal(trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL), 0);
	assert_int_equal(trapline_safepoint_resume(domain), 0);
	end(thread);
	dlclose(plugin.handle);
}

/* A program that closes all descriptors and opens a file of its own. */
static void a_descriptor_that_the_program_took_is_not_written_to(void **state)
{
	FILE *file = tmpfile();
	struct stat now;

	plugin = load_plugin(0);
	assert_int_equal(open_by(TRAPLINE_SAFEPOINT_BY_POKE), 0);
	pthread_t thread = start();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(trapline_safepoint_stop(domain, TIMEOUT_MS, NULL, NULL), 0);
		assert_int_equal(trapline_safepoint_resume(domain), 0);
		for (int fd = fileno(file) + 1; fd < 100; fd++)
			dup2(fileno(file), fd);
	}
	fstat(fileno(file), &now);
	assert_int_equal(now.st_size, 0);
	end(thread);
	dlclose(plugin.handle);
	for (int fd = fileno(file) + 1; fd < 100; fd++)
		close(fd);
}

static void wrong_options_are_refused(void **state)
{
	TRAPLINE_OPTS(safepoint, opts);

	opts.backend = 9;
	assert_int_equal(trapline_safepoint_open(&opts, &domain), -EINVAL);
	opts.backend = TRAPLINE_SAFEPOINT_BY_SIGNAL;
	opts.signal = SIGUSR1;
	assert_int_equal(trapline_safepoint_open(&opts, &domain), -EINVAL);
	opts.backend = TRAPLINE_SAFEPOINT_BY_POLL;
	assert_int_equal(trapline_safepoint_open(&opts, &domain), -EINVAL);
	opts.signal = 0;
	opts.flags = TRAPLINE_SAFEPOINT_INT3;
	assert_int_equal(trapline_safepoint_open(&opts, &domain), -EINVAL);
	opts.flags = 0;
	opts.backend = TRAPLINE_SAFEPOINT_BY_WATCH;
	assert_int_equal(trapline_safepoint_open(&opts, &domain), -EINVAL);
	assert_int_equal(trapline_safepoint_stop(NULL, 0, NULL, NULL), -EINVAL);
	assert_int_equal(trapline_safepoint_close(NULL), 0);
	/* It is called where nothing is wanted. */
	trapline_safepoint_arrive();
	trapline_safepoint_sites(NULL, NULL, 1);
	assert_int_equal(trapline_safepoint_wanted, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wrong_options_are_refused),
		TEST(a_domain_without_its_sites_is_refused_with_the_remedy),
		TEST(sites_of_a_library_stop_threads),
		TEST(a_library_loaded_during_a_stop_is_stopped_too),
		TEST(a_code_log_sees_the_change),
		TEST(a_breakpoint_at_a_site_fails_the_stop_and_stays),
		TEST(a_descriptor_that_the_program_took_is_not_written_to),
	};

	return run_group(tests);
}
