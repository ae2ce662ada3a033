// SPDX-License-Identifier: MIT
/* program.c - see program.h. */
#include "cli/program.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

int program_find(const char *name, char *path, size_t n)
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/')) {
		snprintf(path, n, "%s", name);
		return access(path, X_OK);
	}
	for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir; dir = strchr(dir, ':')) {
		dir += *dir == ':';
		snprintf(path, n, "%.*s/%s", (int)strcspn(dir, ":"), dir, name);
		if (!access(path, X_OK))
			return 0;
	}
	return -1;
}

struct program {
	bool is_elf;
	bool has_loader;
	bool is_go;
};

static bool is_go_note(int fd, const Elf64_Phdr *ph)
{
	struct {
		Elf64_Nhdr note;
		char name[4];
	} start;

	/* The linker may have put others before it. */
	for (uint64_t at = 0; at + sizeof(start) <= ph->p_filesz;) {
		if (pread(fd, &start, sizeof(start), (off_t)(ph->p_offset + at)) != sizeof(start))
			break;
		if (start.note.n_namesz == 4 && !memcmp(start.name, "Go\0", 4))
			return true;
		at += sizeof(start.note) + ((start.note.n_namesz + 3ull) & ~3ull) +
		      ((start.note.n_descsz + 3ull) & ~3ull);
	}
	return false;
}

static struct program read_program(const char *path)
{
	struct program p = { 0 };
	Elf64_Ehdr ehdr;
	Elf64_Phdr ph;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return p;
	p.is_elf = read(fd, &ehdr, sizeof(ehdr)) == sizeof(ehdr) &&
		   !memcmp(ehdr.e_ident, ELFMAG, SELFMAG) && ehdr.e_ident[EI_CLASS] == ELFCLASS64;
	for (int i = 0; p.is_elf && i < ehdr.e_phnum; i++) {
		off_t at = (off_t)(ehdr.e_phoff + (uint64_t)i * sizeof(ph));

		if (pread(fd, &ph, sizeof(ph), at) != sizeof(ph))
			break;
		p.has_loader |= ph.p_type == PT_INTERP;
		p.is_go |= ph.p_type == PT_NOTE && is_go_note(fd, &ph);
	}
	close(fd);
	return p;
}

bool program_is_static(const char *path)
{
	struct program p = read_program(path);

	return p.is_elf && !p.has_loader;
}

bool program_is_go(const char *path)
{
	return read_program(path).is_go;
}

bool program_is_secure(const char *path)
{
	char capabilities[64];
	struct stat st;

	if (stat(path, &st))
		return false;
	if (st.st_mode & S_ISUID && st.st_uid != geteuid())
		return true;
	if (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getegid())
		return true;
	return geteuid() && getxattr(path, "security.capability", capabilities,
				     sizeof(capabilities)) > 0;
}

bool program_status(pid_t pid, pid_t tid, const char *field, char *text, size_t n)
{
	size_t length = strlen(field);
	char line[256];
	bool found = false;

	snprintf(line, sizeof(line), "/proc/%d/task/%d/status", pid, tid);
	FILE *f = fopen(line, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, field, length) && line[length] == ':';
	if (f)
		fclose(f);
	if (found)
		snprintf(text, n, "%s", line + length + 1);
	return found;
}

bool program_mapping(pid_t pid, const char *text, uint64_t address, uint64_t *start, uint64_t *end)
{
	char line[512];
	bool is_found = false;

	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *f = fopen(line, "re");
	while (f && !is_found && fgets(line, sizeof(line), f))
		is_found = sscanf(line, "%" SCNx64 "-%" SCNx64, start, end) == 2 &&
			   (!text || strstr(line, text)) &&
			   (!address || (address >= *start && address < *end));
	if (f)
		fclose(f);
	return is_found;
}

int program_seccomp(pid_t pid)
{
	char text[32];

	return program_status(pid, pid, "Seccomp", text, sizeof(text)) ? atoi(text) : 0;
}

int program_cpus(pid_t pid)
{
	cpu_set_t all;
	cpu_set_t one;
	char path[64];

	CPU_ZERO(&all);
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && !sched_getaffinity(atoi(e->d_name), sizeof(one), &one))
			CPU_OR(&all, &all, &one);
	if (d)
		closedir(d);
	return CPU_COUNT(&all);
}
