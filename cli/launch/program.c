/* SPDX-License-Identifier: MIT */
/* program.c - see program.h. */
#include "cli/launch/program.h"

#include "base/maps.h"
#include "base/own_thread_name.h"
#include "report/safe/target_file.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NOTES_MAX 1024 /* true files have less than ten */

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
	bool is_elf; /* of 64 bits */
	bool is_32_bit;
	bool has_loader;
	bool is_go;
};

/* left: notes that are still to be inspected, in all parts of the file together. */
static bool is_go_note(int fd, const Elf64_Phdr *ph, unsigned int *left)
{
	struct {
		Elf64_Nhdr note;
		char name[4];
	} start;

	/* The linker may have put others before it. */
	for (uint64_t at = 0; *left && at + sizeof(start) <= ph->p_filesz; (*left)--) {
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
	Elf64_Ehdr ehdr = { 0 };
	Elf64_Phdr ph;
	unsigned int notes = NOTES_MAX;
	int fd = target_file_open(path);

	if (fd < 0)
		return p;
	/*
	 * A 32-bit file may be shorter than this header; its class is in the part that both have.
	 */
	bool is_elf = read(fd, &ehdr, sizeof(ehdr)) >= EI_NIDENT &&
		      !memcmp(ehdr.e_ident, ELFMAG, SELFMAG);
	p.is_32_bit = is_elf && ehdr.e_ident[EI_CLASS] == ELFCLASS32;
	p.is_elf = is_elf && ehdr.e_ident[EI_CLASS] == ELFCLASS64;
	for (int i = 0; p.is_elf && i < ehdr.e_phnum; i++) {
		off_t at = (off_t)(ehdr.e_phoff + (uint64_t)i * sizeof(ph));

		if (pread(fd, &ph, sizeof(ph), at) != sizeof(ph))
			break;
		p.has_loader |= ph.p_type == PT_INTERP;
		p.is_go |= ph.p_type == PT_NOTE && is_go_note(fd, &ph, &notes);
	}
	close(fd);
	return p;
}

bool program_is_static(const char *path)
{
	struct program p = read_program(path);

	return p.is_elf && !p.has_loader;
}

bool program_is_32_bit(const char *path)
{
	return read_program(path).is_32_bit;
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
	return geteuid() &&
	       getxattr(path, "security.capability", capabilities, sizeof(capabilities)) > 0;
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

pid_t program_tracer(pid_t pid, pid_t tid)
{
	char tracer[32];

	return program_status(pid, tid, "TracerPid", tracer, sizeof(tracer)) ? atoi(tracer) : 0;
}

bool program_stat(pid_t pid, pid_t tid, int field, int64_t *out)
{
	char line[1024];

	snprintf(line, sizeof(line), "/proc/%d/task/%d/stat", pid, tid);
	FILE *f = fopen(line, "re");
	if (!f)
		return false;
	line[fread(line, 1, sizeof(line) - 1, f)] = '\0';
	fclose(f);
	/* The name, which is field 2, may have anything in it. */
	const char *at = strrchr(line, ')');
	for (int i = 2; at && i < field; i++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, "%" SCNd64, out) == 1;
}

char program_thread_state(pid_t pid, pid_t tid)
{
	char state[32];

	return program_status(pid, tid, "State", state, sizeof(state)) ?
		       state[strspn(state, " \t")] :
		       '\0';
}

bool program_has_our_thread(pid_t pid, pid_t tid)
{
	char name[32];

	return tid != pid && program_status(pid, tid, "Name", name, sizeof(name)) &&
	       own_thread_has_name(name + strspn(name, "\t "));
}

bool program_find_mapping(pid_t pid, program_fits fits, const void *arg, uint64_t *start,
			  uint64_t *end)
{
	char name[MAPS_NAME];
	struct maps maps;
	bool is_found = false;

	maps_open(&maps, pid, name, sizeof(name));
	for (const struct maps_row *row; !is_found && (row = maps_next(&maps));) {
		if (!(is_found = fits(row, arg)))
			continue;
		*start = row->start;
		*end = row->end;
	}
	maps_close(&maps);
	return is_found;
}

struct wanted {
	const char *text;
	uint64_t address;
};

static bool is_wanted(const struct maps_row *row, const void *arg)
{
	const struct wanted *w = arg;

	return (!w->text || strstr(row->name, w->text)) &&
	       (!w->address || maps_has(row, w->address));
}

bool program_mapping(pid_t pid, const char *text, uint64_t address, uint64_t *start, uint64_t *end)
{
	struct wanted w = { text, address };

	return program_find_mapping(pid, is_wanted, &w, start, end);
}

/* The flag of the scheduler; Linux 6.8 and later have it as "Kthread" in status, too. */
static bool is_kernel_thread(pid_t pid)
{
	int64_t flags;

	return program_stat(pid, pid, 9, &flags) && flags & 0x00200000; /* PF_KTHREAD */
}

size_t program_threads(pid_t pid, pid_t *tids, size_t max)
{
	char path[64];
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && n < max && (e = readdir(d));)
		if (e->d_name[0] != '.')
			tids[n++] = atoi(e->d_name);
	if (d)
		closedir(d);
	return n;
}

enum program_state program_state(pid_t pid)
{
	pid_t two[2];
	char state = program_thread_state(pid, pid);
	char path[64];

	if (!state)
		return PROGRAM_IS_MISSING;
	if (is_kernel_thread(pid))
		return PROGRAM_IS_KERNEL;
	if (state == 'Z' || state == 'X')
		return program_threads(pid, two, 2) > 1 ? PROGRAM_LOST_FIRST : PROGRAM_HAS_ENDED;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return program_is_32_bit(path) ? PROGRAM_IS_32_BIT : PROGRAM_RUNS;
}

bool program_is_translated(pid_t pid)
{
	uint64_t start;
	uint64_t end;

	return program_mapping(pid, "/vgpreload_core", 0, &start, &end);
}

const char *program_why_not(pid_t pid, int *err)
{
	*err = -ESRCH;
	switch (program_state(pid)) {
	case PROGRAM_IS_MISSING:
		if (kill(pid, 0) && errno == ESRCH)
			return "no such process";
		*err = -EMFILE;
		return PROGRAM_FILES_REMEDY;
	case PROGRAM_HAS_ENDED:
		return "it has ended, and waits for its parent (zombie)";
	case PROGRAM_LOST_FIRST:
		return "its first thread has ended, and code is loaded by that thread; start the "
		       "program with this command";
	case PROGRAM_IS_KERNEL:
		*err = -EINVAL;
		return "it is a kernel thread and has no program";
	case PROGRAM_IS_32_BIT:
		*err = -ENOEXEC;
		return "it is a 32-bit program, and the agent is for 64-bit programs";
	case PROGRAM_RUNS:
		break;
	}
	*err = -EBUSY;
	return program_is_translated(pid) ? PROGRAM_TRANSLATED_REMEDY : NULL;
}

bool program_has_ended(pid_t pid)
{
	enum program_state state = program_state(pid);

	return state == PROGRAM_IS_MISSING || state == PROGRAM_HAS_ENDED;
}

pid_t program_reader(pid_t pid)
{
	char path[64];
	char text[8];
	pid_t found = 0;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (readlink(path, text, sizeof(text)) > 0)
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && !found && (e = readdir(d));) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/exe", pid, atoi(e->d_name));
		if (atoi(e->d_name) && readlink(path, text, sizeof(text)) > 0)
			found = atoi(e->d_name);
	}
	if (d)
		closedir(d);
	return found ? found : pid;
}

int program_open_memory(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", program_reader(pid));
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* A page that was unmapped gives an error. */
bool program_is_gone(int memory_fd, uint64_t address)
{
	char byte;

	return memory_fd >= 0 && pread(memory_fd, &byte, 1, (off_t)address) == 0;
}

bool program_is_stopped(pid_t pid)
{
	char state = program_thread_state(pid, pid);

	return state == 'T' || state == 't';
}

static bool has_capability(pid_t pid, int capability)
{
	char text[32];

	return program_status(pid, pid, "CapEff", text, sizeof(text)) &&
	       strtoull(text, NULL, 16) >> capability & 1;
}

static int first_number(const char *path)
{
	FILE *f = fopen(path, "re");
	int number = 0;

	if (f && fscanf(f, "%d", &number) != 1)
		number = 0;
	if (f)
		fclose(f);
	return number;
}

void program_explain_refusal(pid_t pid, char *text, size_t n)
{
	int scope = first_number("/proc/sys/kernel/yama/ptrace_scope");
	pid_t tracer = program_tracer(pid, pid);
	char uids[64] = "";
	unsigned int uid = 0;

	if (program_status(pid, pid, "Uid", uids, sizeof(uids)))
		sscanf(uids, "%u", &uid);
	if (tracer)
		snprintf(text, n, "it has a debugger or tracer, process %d; end that one first",
			 tracer);
	else if (has_capability(getpid(), CAP_SYS_PTRACE))
		snprintf(text, n,
			 "not even root may: a user namespace, a container or a security module "
			 "protects it; run this command where the process was started");
	else if (uid != getuid())
		snprintf(text, n,
			 "it belongs to another user (uid %u); run as that user or as root", uid);
	else if (scope > 0)
		snprintf(text, n,
			 "kernel.yama.ptrace_scope is %d; run as root, or sysctl "
			 "kernel.yama.ptrace_scope=0",
			 scope);
	else
		snprintf(text, n,
			 "it has privileges that this user lacks (setuid, capabilities), or made "
			 "itself undumpable; run as root");
}

int program_seccomp(pid_t pid, pid_t tid)
{
	char text[32];

	return program_status(pid, tid, "Seccomp", text, sizeof(text)) ? atoi(text) : 0;
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

bool program_has_only_begun(pid_t pid)
{
	uint64_t start;
	uint64_t end;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return !program_is_static(path) && !program_mapping(pid, "libc", 0, &start, &end);
}
