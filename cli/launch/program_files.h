/* SPDX-License-Identifier: MIT */
/*
 * program_files.h - whether two processes map the same files.
 *
 * What a search found in the files of one program is true for the next one with the same files. A
 * build runs the same few programs a thousand times.
 */
#ifndef CLI_LAUNCH_PROGRAM_FILES_H
#define CLI_LAUNCH_PROGRAM_FILES_H

#include <stdint.h>
#include <sys/types.h>

/*
 * A hash of the files that a process maps: their devices, numbers, sizes and times of change. A
 * file that was written between the two is another one. 0: not known, because a file is not at its
 * path any more.
 */
uint64_t program_files_key(pid_t pid);

#endif
