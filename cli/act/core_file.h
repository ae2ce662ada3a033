/* SPDX-License-Identifier: MIT */
/*
 * core_file.h - an ELF core of a process, as the kernel writes it when a program crashes.
 *
 * What belongs to the threads is read while they are stopped. The memory can come from a frozen
 * copy of the process, so that the process itself need not wait for the disk.
 */
#ifndef CLI_ACT_CORE_FILE_H
#define CLI_ACT_CORE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct core_notes;

/*
 * The registers of all threads of a stopped process, tid first, its mappings and its auxiliary
 * vector. 0 or -errno with the reason in why.
 */
int core_notes_read(pid_t pid, pid_t tid, struct core_notes **out, char *why, size_t n);
void core_notes_free(struct core_notes *notes);

/*
 * Writes the file from the memory of a process. 0 or -errno; ECANCELED: the command was asked to
 * end. Of a file that failed nothing is left.
 */
int core_write(const char *path, const struct core_notes *notes, pid_t memory_of, uint64_t *bytes);

#endif
