/* SPDX-License-Identifier: MIT */
/*
 * missing.c - see missing.h. dpkg-query takes no lock, so that it answers while packages are installed.
 */
#include "report/dwarf/missing.h"
#include "report/dwarf/debuginfod.h"
#include "report/dwarf/symbols_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DPKG_QUERY "/usr/bin/dpkg-query"

/* Of a build id, which has 20 bytes most often. */
static void missing_debug_file(const unsigned char *id, size_t bytes, char *buf, size_t n)
{
	size_t used = (size_t)snprintf(buf, n, "/usr/lib/debug/.build-id/");

	for (size_t i = 0; i < bytes && used + 3 < n; i++)
		used += (size_t)snprintf(buf + used, n - used, i ? "%02x" : "%02x/", id[i]);
	snprintf(buf + used, n - used, ".debug");
}

/* `dpkg-query --search PATH`, without a shell: a target chose the path. Its pid or -errno. */
static pid_t missing_ask(const char *path, int out)
{
	const char *argv[] = { "dpkg-query", "--search", "--", path, NULL };
	char *envp[] = { "LC_ALL=C", "PATH=/usr/bin:/bin", NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	int err = -posix_spawn(&pid, DPKG_QUERY, &actions, NULL, (char **)argv, envp);
	posix_spawn_file_actions_destroy(&actions);
	return err ? err : pid;
}

/* The package of the file: the first name of `libc6:amd64, other: /usr/lib/...`. 0 or -ENOENT. */
static int missing_package_of(const char *path, char *buf, size_t n)
{
	char line[PATH_MAX + 200] = "";
	int ends[2];

	/* A pattern would have other answers. */
	if (strpbrk(path, "*?[\\") || pipe2(ends, O_CLOEXEC) < 0)
		return -ENOENT;
	pid_t pid = missing_ask(path, ends[1]);
	close(ends[1]);
	FILE *f = fdopen(ends[0], "r");
	if (!f)
		close(ends[0]);
	else if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	size_t length = strcspn(line, ":,");
	if (length == 0 || !strncmp(line, "diversion by", 12))
		return -ENOENT;
	snprintf(buf, n, "%.*s", (int)length, line);
	return 0;
}

/* The package may know /usr/bin/sh as /bin/sh, or the other way round. */
static int missing_package(const char *path, char *buf, size_t n)
{
	char other[PATH_MAX + 8];

	if (!missing_package_of(path, buf, n))
		return 0;
	if (strncmp(path, "/usr/", 5) != 0)
		snprintf(other, sizeof(other), "/usr%s", path);
	else
		snprintf(other, sizeof(other), "%s", path + 4);
	return missing_package_of(other, buf, n);
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
