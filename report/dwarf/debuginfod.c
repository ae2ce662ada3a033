/* SPDX-License-Identifier: MIT */
/*
 * debuginfod.c - see debuginfod.h.
 *
 * libdw inspects DEBUGINFOD_URLS at each question. If no server may be asked, it does not see the
 * variable, which the commands that are started still get.
 */
#include "report/dwarf/debuginfod.h"

#include "base/clock.h"
#include "report/dwarf/symbols_priv.h"
#include "report/safe/busy.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libdw loads the library by this name. Its header is in a package that nothing else needs. */
#define DEBUGINFOD_LIBRARY "libdebuginfod.so.1"
#define DEBUGINFOD_URLS "DEBUGINFOD_URLS"
#define LIMIT_NS 60000000000u

static struct {
	bool is_set;
	bool is_allowed;
	uint64_t spent_ns; /* by earlier questions */
	uint64_t since_ns; /* the question that is asked now */
	const char *name;  /* of its file */
	void (*show)(const char *text);
	bool is_shown;
} servers;

void debuginfod_allow(bool is_allowed)
{
	servers.is_allowed = is_allowed;
	servers.is_set = true;
}

void debuginfod_show(void (*show)(const char *text))
{
	servers.show = show;
}

static bool has_servers(void)
{
	const char *urls = getenv(DEBUGINFOD_URLS);

	return urls && *urls;
}

static bool is_allowed(void)
{
	return servers.is_set ? servers.is_allowed : geteuid() != 0;
}

bool debuginfod_is_refused(void)
{
	return servers.show && has_servers() && !is_allowed();
}

bool debuginfod_has_given_up(void)
{
	return servers.spent_ns > LIMIT_NS;
}

/* libdebuginfod calls it at least once a second; not 0 ends the question. */
static int debuginfod_progress(debuginfod_client *client, long done, long all)
{
	char text[200];

	if (servers.show) {
		if (all > 0)
			snprintf(text, sizeof(text), "%s: %.1f of %.1f MB of debug information",
				 servers.name, (double)done / 1e6, (double)all / 1e6);
		else
			snprintf(text, sizeof(text), "%s: asking for debug information",
				 servers.name);
		servers.show(text);
		servers.is_shown = true;
	}
	return servers.spent_ns + clock_now_ns() - servers.since_ns > LIMIT_NS;
}

struct library {
	debuginfod_client *(*begin)(void);
	void (*end)(debuginfod_client *client);
	void (*follow)(debuginfod_client *client,
		       int (*f)(debuginfod_client *c, long done, long all));
	/* A length of 0: id is text. The descriptor, or -errno. */
	int (*find)(debuginfod_client *client, const unsigned char *id, int n, char **path);
};

/* NULL: it is not installed. */
static const struct library *library(void)
{
	static struct library l;
	void *object = l.find ? NULL : dlopen(DEBUGINFOD_LIBRARY, RTLD_LAZY);

	if (object) {
		*(void **)&l.begin = dlsym(object, "debuginfod_begin");
		*(void **)&l.end = dlsym(object, "debuginfod_end");
		*(void **)&l.follow = dlsym(object, "debuginfod_set_progressfn");
		*(void **)&l.find = dlsym(object, "debuginfod_find_debuginfo");
	}
	return l.begin && l.end && l.follow && l.find ? &l : NULL;
}

/* libdw has loaded the library if it is installed. */
static void follow_progress(Dwfl *dwfl)
{
	debuginfod_client *client = dwfl_get_debuginfod_client(dwfl);
	const struct library *l = client ? library() : NULL;

	if (l)
		l->follow(client, debuginfod_progress);
}

int debuginfod_file(const char *build_id, char *path, size_t n)
{
	char *found = NULL;

	if (!has_servers() || !is_allowed() || debuginfod_has_given_up())
		return -ENOENT;
	const struct library *l = library();
	debuginfod_client *client = l ? l->begin() : NULL;
	if (!client)
		return l ? -ENOMEM : -ENOENT;
	l->follow(client, debuginfod_progress);
	servers.name = build_id;
	servers.since_ns = clock_now_ns();
	int fd = l->find(client, (const unsigned char *)build_id, 0, &found);
	servers.spent_ns += clock_now_ns() - servers.since_ns;
	l->end(client);
	if (servers.is_shown)
		servers.show(NULL);
	servers.is_shown = false;
	if (fd < 0)
		return fd;
	close(fd);
	int length = snprintf(path, n, "%s", found);
	free(found);
	return length < (int)n ? 0 : -ENAMETOOLONG;
}

int debuginfod_find(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		    const char *file_name, const char *link, GElf_Word crc, char **found)
{
	BUSY;
	struct symbols *s = *userdata;
	bool asks = s && has_servers() && is_allowed() && !debuginfod_has_given_up();
	const char *urls = getenv(DEBUGINFOD_URLS);
	char *kept = urls && !asks ? strdup(urls) : NULL;

	if (urls && !asks)
		unsetenv(DEBUGINFOD_URLS);
	if (asks) {
		follow_progress(s->dwfl);
		servers.name = symbols_module_name(mod);
		servers.since_ns = clock_now_ns();
	}
	int fd = dwfl_standard_find_debuginfo(mod, userdata, name, base, file_name, link, crc,
					      found);
	if (kept)
		setenv(DEBUGINFOD_URLS, kept, 1);
	free(kept);
	if (asks)
		servers.spent_ns += clock_now_ns() - servers.since_ns;
	if (servers.is_shown)
		servers.show(NULL);
	servers.is_shown = false;
	return fd;
}
