/* SPDX-License-Identifier: MIT */
/*
 * uprobe_text.c - see uprobe_text.h.
 *
 * Under a uprobe the kernel runs the instruction of the file, and when the uprobe goes it writes
 * the first byte of that. So a location with other bytes is left alone: the jump of a probe or of a
 * patch, a branch that was switched, text that the loader relocates. The int3 of another uprobe or
 * of a debugger is not such a thing, nor is the call that the kernel makes of a nop below a uprobe.
 */
#include "event/uprobe/uprobe_text.h"

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "code/insn/insn.h"

#define INT3 0xcc
#define CALL 0xe8

static int is_of_file(const uint8_t *memory, const uint8_t *file, size_t n)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	const int is_call = memory[0] == CALL && n == sizeof(nop) && !memcmp(file, nop, n);
	const int is_same = memory[0] == file[0] || memory[0] == INT3;

	return is_call || (is_same && !memcmp(memory + 1, file + 1, n - 1));
}

static int is_right(pid_t pid, int fd, const struct uprobe_site *site)
{
	uint8_t file[INSN_LENGTH_MAX];
	uint8_t memory[INSN_LENGTH_MAX];
	const ssize_t available = pread(fd, file, sizeof(file), (off_t)site->offset);
	const int length = available > 0 ? insn_length_x86_64(file, (size_t)available) : 0;
	/* It may be some bytes behind what it is for. */
	const uint64_t at = site->offset - site->file.offset + site->file.start;

	if (length <= 0 || sys_read_memory(pid, at, memory, (size_t)length) != (ssize_t)length)
		return 1;
	return is_of_file(memory, file, (size_t)length);
}

int uprobe_text_check(pid_t pid, const struct uprobe_site *sites, size_t count, const char **why)
{
	const struct code_file *opened = NULL;
	int fd = -1;
	int err = 0;

	for (size_t i = 0; !err && i < count; i++) {
		if (!opened || !code_file_is_same(&sites[i].file, opened)) {
			if (fd >= 0)
				close(fd);
			opened = &sites[i].file;
			fd = open(opened->path, O_RDONLY | O_CLOEXEC);
		}
		if (fd >= 0 && !is_right(pid, fd, &sites[i]))
			err = -EBUSY;
	}
	if (fd >= 0)
		close(fd);
	if (err)
		*why = "the process has other bytes there than its file has (a probe, a patch or a "
		       "switched branch), and a uprobe would undo them";
	return err;
}
#else
int uprobe_text_check(pid_t pid, const struct uprobe_site *sites, size_t count, const char **why)
{
	(void)pid;
	(void)sites;
	(void)count;
	(void)why;
	return 0;
}
#endif
