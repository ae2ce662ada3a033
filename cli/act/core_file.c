/* SPDX-License-Identifier: MIT */
/* core_file.c - see core_file.h. */
#include "cli/act/core_file.h"

#include "base/maps.h"
#include "cli/act/core_pages.h"
#include "cli/launch/program.h"
#include "cli/watchdog.h"
#include "report/safe/private_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CORE_THREADS_MAX 4096
#define CORE_PAGE 4096u
#define CORE_BLOCK (256u * 1024)
#define VECTORS_MAX 16384
#define AUXV_MAX 4096

#if defined(__x86_64__)
#define CORE_MACHINE EM_X86_64
#define CORE_VECTORS NT_X86_XSTATE
#else
#define CORE_MACHINE EM_AARCH64
#define CORE_VECTORS NT_PRFPREG
#endif

struct core_map {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file behind it */
	uint32_t flags;	 /* PF_ */
	bool is_kept;	 /* its bytes are written, else only the first page */
	bool is_shared;
	char *path; /* NULL: no file */
};

struct core_notes {
	char *text; /* all notes as they are in the file */
	size_t size;
	FILE *f; /* that makes the text */
	struct core_map *map;
	size_t map_count;
};

static void note_put(FILE *f, uint32_t type, const char *name, const void *data, size_t n)
{
	const Elf64_Nhdr header = { .n_namesz = (Elf64_Word)strlen(name) + 1,
				    .n_descsz = (Elf64_Word)n,
				    .n_type = type };
	const char zeros[4] = "";

	fwrite(&header, sizeof(header), 1, f);
	fwrite(name, header.n_namesz, 1, f);
	fwrite(zeros, -header.n_namesz & 3, 1, f);
	fwrite(data, n, 1, f);
	fwrite(zeros, -n & 3, 1, f);
}

static void put_regset(FILE *f, pid_t tid, uint32_t type, const char *name)
{
	static uint8_t bytes[VECTORS_MAX];
	struct iovec iov = { bytes, sizeof(bytes) };

	if (!ptrace(PTRACE_GETREGSET, tid, type, &iov))
		note_put(f, type, name, bytes, iov.iov_len);
}

static int put_registers(FILE *f, pid_t tid)
{
	struct elf_prstatus status = { .pr_pid = tid };
	struct iovec iov = { &status.pr_reg, sizeof(status.pr_reg) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov))
		return -errno;
	note_put(f, NT_PRSTATUS, "CORE", &status, sizeof(status));
	put_regset(f, tid, NT_PRFPREG, "CORE");
	if (CORE_VECTORS != NT_PRFPREG)
		put_regset(f, tid, CORE_VECTORS, "LINUX");
	return 0;
}

/* One thread: in its stop by SIGSTOP it traps at once, and is in that stop again afterwards. */
static int put_thread(FILE *f, pid_t tid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
		return -errno;
	int err = ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ? -errno : 0;
	if (!err && waitpid(tid, &status, __WALL) != tid)
		err = -errno;
	if (!err)
		err = WIFSTOPPED(status) ? put_registers(f, tid) : -ESRCH;
	ptrace(PTRACE_DETACH, tid, NULL, NULL);
	return err;
}

static void put_process(FILE *f, pid_t pid)
{
	struct elf_prpsinfo info = { .pr_pid = pid, .pr_sname = 'T', .pr_uid = (unsigned)getuid() };
	char path[48];
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	FILE *comm = fopen(path, "re");
	if (comm) {
		n = fread(info.pr_fname, 1, sizeof(info.pr_fname) - 1, comm);
		info.pr_fname[n ? n - 1 : 0] = 0;
		fclose(comm);
	}
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	FILE *line = fopen(path, "re");
	if (line) {
		n = fread(info.pr_psargs, 1, sizeof(info.pr_psargs) - 1, line);
		for (size_t i = 0; i + 1 < n; i++)
			info.pr_psargs[i] = info.pr_psargs[i] ? info.pr_psargs[i] : ' ';
		fclose(line);
	}
	note_put(f, NT_PRPSINFO, "CORE", &info, sizeof(info));
}

static void put_auxv(FILE *f, pid_t pid)
{
	uint8_t bytes[AUXV_MAX];
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	FILE *auxv = fopen(path, "re");
	if (!auxv)
		return;
	size_t n = fread(bytes, 1, sizeof(bytes), auxv);
	note_put(f, NT_AUXV, "CORE", bytes, n);
	fclose(auxv);
}

/* Which files are mapped where: debuggers find symbols by it. */
static void put_files(FILE *f, const struct core_notes *notes)
{
	uint64_t count = 0;
	char *text;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return;
	for (size_t i = 0; i < notes->map_count; i++)
		count += notes->map[i].path != NULL;
	fwrite((uint64_t[]){ count, CORE_PAGE }, sizeof(uint64_t), 2, to);
	for (size_t i = 0; i < notes->map_count; i++) {
		const struct core_map *m = &notes->map[i];
		if (m->path)
			fwrite((uint64_t[]){ m->start, m->end, m->offset / CORE_PAGE },
			       sizeof(uint64_t), 3, to);
	}
	for (size_t i = 0; i < notes->map_count; i++)
		if (notes->map[i].path)
			fwrite(notes->map[i].path, strlen(notes->map[i].path) + 1, 1, to);
	fclose(to);
	note_put(f, NT_FILE, "CORE", text, size);
	free(text);
}

/* Code that is as in its file, which debuggers read, is left out except for its first page. */
static bool is_in_file(const char *access, const char *path)
{
	return path[0] == '/' && access[1] != 'w' && access[3] == 'p' &&
	       !strstr(path, " (deleted)");
}

static int add_map(struct core_notes *notes, const struct maps_row *row)
{
	struct core_map m = { .start = row->start, .end = row->end, .offset = row->offset };
	const char *access = row->mode;
	const char *path = row->name;

	if (access[0] != 'r' || !strncmp(path, "[vvar", 5) || !strncmp(path, "[vsyscall", 9))
		return 0;
	struct core_map *map = realloc(notes->map, (notes->map_count + 1) * sizeof(*map));
	if (!map)
		return -ENOMEM;
	notes->map = map;
	m.flags = PF_R | (access[1] == 'w' ? PF_W : 0) | (access[2] == 'x' ? PF_X : 0);
	m.is_kept = !is_in_file(access, path);
	m.is_shared = access[3] == 's';
	m.path = path[0] == '/' ? strdup(path) : NULL;
	map[notes->map_count++] = m;
	return 0;
}

static int read_maps(struct core_notes *notes, pid_t pid)
{
	struct maps maps;
	char name[MAPS_NAME];
	int err = 0;

	maps_open(&maps, pid, name, sizeof(name));
	for (const struct maps_row *row; !err && (row = maps_next(&maps));)
		err = add_map(notes, row);
	const int failed = maps_close(&maps);
	err = err ? err : failed;
	return err ? err : notes->map_count ? 0 : -ESRCH;
}

static int put_threads(struct core_notes *notes, pid_t pid, pid_t tid)
{
	static pid_t tids[CORE_THREADS_MAX];
	size_t n = program_threads(pid, tids, CORE_THREADS_MAX);
	int err = put_thread(notes->f, tid);

	/*
	 * A debugger takes the first as the one to show, and what belongs to the process after it.
	 */
	put_process(notes->f, pid);
	put_auxv(notes->f, pid);
	put_files(notes->f, notes);
	/* One that ends in the meantime, or waits in vfork(2), is left out. */
	for (size_t i = 0; !err && i < n; i++)
		if (tids[i] != tid && program_thread_state(pid, tids[i]) == 'T')
			put_thread(notes->f, tids[i]);
	return err;
}

int core_notes_read(pid_t pid, pid_t tid, struct core_notes **out, char *why, size_t n)
{
	struct core_notes *notes = calloc(1, sizeof(*notes));

	if (notes)
		notes->f = open_memstream(&notes->text, &notes->size);
	int err = notes && notes->f ? read_maps(notes, pid) : -ENOMEM;
	if (!err)
		err = put_threads(notes, pid, tid);
	if (notes && notes->f)
		fclose(notes->f);
	if (!err) {
		*out = notes;
		return 0;
	}
	if (err == -EPERM || err == -EACCES)
		program_explain_refusal(pid, why, n);
	else
		snprintf(why, n, "%s", strerror(-err));
	core_notes_free(notes);
	return err;
}

void core_notes_free(struct core_notes *notes)
{
	if (!notes)
		return;
	for (size_t i = 0; i < notes->map_count; i++)
		free(notes->map[i].path);
	free(notes->map);
	free(notes->text);
	free(notes);
}

static uint64_t bytes_of(const struct core_map *m)
{
	return m->is_kept ? m->end - m->start : CORE_PAGE;
}

static uint64_t whole_pages(uint64_t n)
{
	return (n + CORE_PAGE - 1) & ~(uint64_t)(CORE_PAGE - 1);
}

/* Returns where the memory begins. */
static uint64_t headers_write(FILE *f, const struct core_notes *notes)
{
	size_t count = notes->map_count + 1;
	Elf64_Ehdr header = { .e_type = ET_CORE,
			      .e_machine = CORE_MACHINE,
			      .e_version = EV_CURRENT,
			      .e_phoff = sizeof(header),
			      .e_ehsize = sizeof(header),
			      .e_phentsize = sizeof(Elf64_Phdr),
			      .e_phnum = (Elf64_Half)count };
	uint64_t notes_at = sizeof(header) + count * sizeof(Elf64_Phdr);
	uint64_t start = whole_pages(notes_at + notes->size);
	Elf64_Phdr note = { .p_type = PT_NOTE, .p_offset = notes_at, .p_filesz = notes->size };
	uint64_t at = start;

	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	fwrite(&header, sizeof(header), 1, f);
	fwrite(&note, sizeof(note), 1, f);
	for (size_t i = 0; i < notes->map_count; i++) {
		const struct core_map *m = &notes->map[i];
		const Elf64_Phdr load = { .p_type = PT_LOAD,
					  .p_flags = m->flags,
					  .p_offset = at,
					  .p_vaddr = m->start,
					  .p_filesz = bytes_of(m),
					  .p_memsz = m->end - m->start,
					  .p_align = CORE_PAGE };
		fwrite(&load, sizeof(load), 1, f);
		at += bytes_of(m);
	}
	fwrite(notes->text, notes->size, 1, f);
	return start;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, n - 1);
}

/* Pages that cannot be read, or have only zeros, stay holes in the file. */
static int write_memory(int to, int from, const struct core_pages *pages, const struct core_map *m,
			uint64_t at)
{
	static uint8_t block[CORE_BLOCK];
	uint64_t size = bytes_of(m);

	for (uint64_t done = 0; done < size;) {
		done = core_pages_next(pages, m->start + done) - m->start;
		if (asked_times)
			return -ECANCELED;
		if (done >= size)
			break;
		size_t n = size - done < sizeof(block) ? (size_t)(size - done) : sizeof(block);
		ssize_t got = pread(from, block, n, (off_t)(m->start + done));

		if (got <= 0) {
			done += CORE_PAGE;
			continue;
		}
		if (!is_zero(block, (size_t)got)) {
			ssize_t put = pwrite(to, block, (size_t)got, (off_t)(at + done));
			if (put != got)
				return put < 0 ? -errno : -ENOSPC;
		}
		done += (uint64_t)got;
	}
	return 0;
}

static int write_maps(int to, int memory, const struct core_notes *notes, pid_t memory_of,
		      uint64_t *at)
{
	struct core_pages pages;
	int err = 0;

	core_pages_open(&pages, memory_of);
	for (size_t i = 0; i < notes->map_count && !err; i++) {
		const struct core_map *m = &notes->map[i];

		core_pages_map(&pages, memory_of, m->start, m->end, m->offset, m->path,
			       m->is_shared);
		err = write_memory(to, memory, &pages, m, *at);
		*at += bytes_of(m);
	}
	core_pages_close(&pages);
	return err;
}

static int write_all(FILE *f, const struct core_notes *notes, pid_t memory_of, int memory,
		     uint64_t *bytes)
{
	uint64_t at = headers_write(f, notes);

	errno = 0;
	if (fflush(f) || ferror(f))
		return -(errno ? errno : EIO);
	int err = write_maps(fileno(f), memory, notes, memory_of, &at);
	*bytes = at;
	/* The last pages may be holes. A pipe or a device has no length. */
	if (!err && ftruncate(fileno(f), (off_t)at))
		return -errno;
	return err;
}

int core_write(const char *path, const struct core_notes *notes, pid_t memory_of, uint64_t *bytes)
{
	char name[48];

	if (notes->map_count >= PN_XNUM - 1)
		return -E2BIG;
	snprintf(name, sizeof(name), "/proc/%d/mem", memory_of);
	int memory = open(name, O_RDONLY | O_CLOEXEC);
	if (memory < 0)
		return -errno;
	FILE *f = private_file(path);
	int err = f ? write_all(f, notes, memory_of, memory, bytes) : -errno;
	struct stat st;
	bool is_file = f && !fstat(fileno(f), &st) && S_ISREG(st.st_mode);
	if (f && fclose(f) && !err)
		err = -errno;
	if (is_file && err)
		unlink(path);
	close(memory);
	return err;
}
