/* SPDX-License-Identifier: MIT */
/*
 * missing.c - see missing.h. The lists of dpkg are read, and dpkg is not run: it may be locked, and
 * its answer to one file takes longer than to read them.
 */
#include "report/dwarf/missing.h"
#include "report/dwarf/debuginfod.h"
#include "report/dwarf/symbols_priv.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define DPKG_LISTS "/var/lib/dpkg/info"
#define DPKG_END ".list"

/* Of a build id, which has 20 bytes most often. */
static void missing_debug_file(const unsigned char *id, size_t bytes, char *buf, size_t n)
{
	size_t used = (size_t)snprintf(buf, n, "/usr/lib/debug/.build-id/");

	for (size_t i = 0; i < bytes && used + 3 < n; i++)
		used += (size_t)snprintf(buf + used, n - used, i ? "%02x" : "%02x/", id[i]);
	snprintf(buf + used, n - used, ".debug");
}

/* Has the list this path? In a list /bin/sh may be that of /usr/bin/sh, or the other way round. */
static bool list_has(const char *list, const char *path)
{
	const char *merged = strncmp(path, "/usr/", 5) ? path : path + 4;
	FILE *f = fopen(list, "re");
	char *line = NULL;
	size_t size = 0;
	bool has = false;

	while (f && !has && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		has = !strcmp(strncmp(line, "/usr/", 5) ? line : line + 4, merged);
	}
	free(line);
	if (f)
		fclose(f);
	return has;
}

/* The package whose list has the file. 0 or -ENOENT. */
static int missing_package(const char *path, char *buf, size_t n)
{
	DIR *lists = opendir(DPKG_LISTS);
	struct dirent *entry;
	bool has = false;
	char list[PATH_MAX];

	while (lists && !has && (entry = readdir(lists))) {
		const char *name = entry->d_name;
		size_t length = strlen(name);
		size_t end = strlen(DPKG_END);
		if (length <= end || strcmp(name + length - end, DPKG_END) != 0)
			continue;
		snprintf(list, sizeof(list), "%s/%s", DPKG_LISTS, name);
		has = list_has(list, path);
		/* libc6:amd64.list is of the package libc6. */
		if (has)
			snprintf(buf, n, "%.*s", (int)strcspn(name, ":"), name);
		if (has && !strchr(name, ':'))
			buf[length - end < n ? length - end : n - 1] = 0;
	}
	if (lists)
		closedir(lists);
	return has ? 0 : -ENOENT;
}

static int first_module(Dwfl_Module *mod, void *arg)
{
	*(Dwfl_Module **)arg = mod;
	return 1;
}

void missing_remedy(struct symbols *s, char *buf, size_t n)
{
	const unsigned char *id = NULL;
	Dwfl_Module *mod = NULL;
	GElf_Addr address;
	char package[200] = "";
	char file[200] = "";

	symbols_each_module(s, NULL, first_module, &mod);
	int bytes = mod ? dwfl_module_build_id(mod, &id, &address) : 0;
	if (bytes > 0)
		missing_debug_file(id, (size_t)bytes, file, sizeof(file));
	/* In another tree of mounts the packages are others too. */
	bool is_packaged = !s->root && s->exe[0] &&
			   !missing_package(s->exe, package, sizeof(package) - 8);
	strcat(package, is_packaged ? "-dbgsym" : "");
	snprintf(buf, n, "%sinstall its debug symbols (%s%s%s)",
		 debuginfod_is_refused() ?
			 "use --debuginfod to ask the servers of DEBUGINFOD_URLS, "
			 "or " :
		 debuginfod_has_given_up() ? "debuginfod did not answer within 60 s; " :
					     "",
		 is_packaged ? package : "a -dbgsym package", file[0] ? ", with " : "", file);
}
