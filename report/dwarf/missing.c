/* SPDX-License-Identifier: MIT */
/*
 * missing.c - see missing.h. dpkg-query takes no lock, so that it answers while packages are
 * installed.
 */
#include "report/dwarf/missing.h"
#include "report/dwarf/debuginfod.h"
#include "report/dwarf/sections.h"
#include "report/dwarf/symbols_priv.h"
#include "report/safe/clean.h"

#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif
#define DPKG_QUERY "/usr/bin/dpkg-query"

/* The path for a build id, which has 20 bytes most often. */
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

void missing_remedy(struct symbols *s, char *buf, size_t n)
{
	const unsigned char *id = NULL;
	Dwfl_Module *mod = symbols_first_module(s, NULL);
	GElf_Addr address;
	char package[200] = "";
	char file[200] = "";

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

/* The type of compression of .debug_info; 0: none, or no such section. */
static uint32_t missing_compression(Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Chdr compression;
	const char *name;

	while ((name = section_next(elf, &section, &header)))
		if (!strcmp(name, ".debug_info") && header.sh_flags & SHF_COMPRESSED &&
		    gelf_getchdr(section, &compression))
			return compression.ch_type;
	return 0;
}

/* The compression of the file itself, or of the one that its symbols were moved to. */
static uint32_t missing_compression_of(Dwfl_Module *mod)
{
	const char *debug = NULL;
	GElf_Addr bias;
	uint32_t type = missing_compression(dwfl_module_getelf(mod, &bias));

	dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, &debug);
	int fd = type || !debug ? -1 : open(debug, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return type;
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	type = missing_compression(elf);
	elf_end(elf);
	close(fd);
	return type;
}

/* The name of the .dwo file of the first unit that has none. NULL: each has its own. */
static const char *missing_split(Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	Dwarf_Die split;
	Dwarf_Attribute attr;

	while (!dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, &split)) {
		if (split.addr || (!dwarf_attr(&unit, DW_AT_dwo_name, &attr) &&
				   !dwarf_attr(&unit, DW_AT_GNU_dwo_name, &attr)))
			continue;
		return clean_attribute(&attr);
	}
	return NULL;
}

static void missing_split_text(Dwfl_Module *mod, const char *dwo, struct missing_dwarf *out)
{
	const char *path = dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	char dwp[PATH_MAX];

	snprintf(dwp, sizeof(dwp), "%s.dwp", path ? path : "");
	if (path && !access(dwp, R_OK)) {
		snprintf(out->cause, sizeof(out->cause),
			 "has its debug information in a .dwp file, which libdw cannot read here");
		out->remedy = "keep the .dwo files, or build it without -gsplit-dwarf";
		return;
	}
	snprintf(out->cause, sizeof(out->cause),
		 "has its debug information in %.200s, which is missing", dwo);
	out->remedy = "bring that file back, or build it without -gsplit-dwarf";
}

bool missing_dwarf_of(struct symbols *s, const char *module, struct missing_dwarf *out)
{
	Dwfl_Module *mod = symbols_first_module(s, module);
	Dwarf_Addr bias;

	snprintf(out->cause, sizeof(out->cause), "has no debug information (DWARF)");
	out->remedy = "install its debug symbols, or build it with -g";
	if (!mod)
		return true;
	Dwarf *dwarf = dwfl_module_getdwarf(mod, &bias);
	const char *dwo = dwarf ? missing_split(dwarf) : NULL;
	uint32_t type = dwarf ? 0 : missing_compression_of(mod);
	if (dwo)
		missing_split_text(mod, dwo, out);
	if (!type)
		return dwo || !dwarf;
	snprintf(out->cause, sizeof(out->cause),
		 "has debug information that is compressed (%s), which libelf cannot read here",
		 type == ELFCOMPRESS_ZSTD ? "zstd" : "in an unknown way");
	out->remedy = "decompress it by objcopy --decompress-debug-sections";
	return true;
}
