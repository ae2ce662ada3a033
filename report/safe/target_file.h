/* SPDX-License-Identifier: MIT */
/*
 * target_file.h - opens files whose names come from a target.
 *
 * A mapping, a line table, a link to debug information: the target chose the name, and the command
 * may run as root. The file is regular, has contents of its own, and is opened without waiting, or
 * is not opened. What a name leads to is inspected before it is opened. The thing that was
 * inspected is the one that is opened, no matter what happens to the name in the meantime.
 */
#ifndef REPORT_SAFE_TARGET_FILE_H
#define REPORT_SAFE_TARGET_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * To be read. A name that begins with /proc/PID/root/ stays in that root: its links and its ..
 * cannot leave it. A descriptor, or -errno. -ENOTSUP: a device, a FIFO or a file of /proc or /sys.
 * -EFBIG: a file that is too long, or has few bytes for its length.
 */
int target_file_open(const char *path);

/*
 * Where dwfl looks for debug information of a process with other mounts: a format for its number.
 */
#define TARGET_FILE_DEBUG_PATH ":.debug:/usr/lib/debug:/proc/%d/root/usr/lib/debug"

/* Do names mean other files to a process than here? Then it has another tree of mounts. */
bool target_file_is_foreign(pid_t pid);

/* A name as process root has it, to be opened here; root 0: as this process has it. */
void target_file_name(pid_t root, const char *name, char *path, size_t n);

/*
 * Are they two files with different contents? False also where one of them cannot be read here: it
 * may have been on another machine, or have been moved.
 */
bool target_file_differs(const char *a, const char *b);

/* A copy of its text; NULL: as above, or more than max bytes. It is closed by fclose(). */
FILE *target_file_text(const char *path, size_t max);

#endif
