/* SPDX-License-Identifier: MIT */
/*
 * debuginfod.h - debug information from the servers of DEBUGINFOD_URLS, for files that have none
 * here.
 *
 * libdw asks them by build id, if libdebuginfod is installed. The answer is data that a stranger
 * may have made, so a process of root asks only if it has the option. All questions of a run
 * together take at most a minute.
 */
#ifndef REPORT_DWARF_DEBUGINFOD_H
#define REPORT_DWARF_DEBUGINFOD_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>

/* Are the servers asked, if the variable names some? Before this call: unless this is root. */
void debuginfod_allow(bool is_allowed);
/*
 * Called with the progress while a server answers: `names: 1.2 of 3.4 MB`; with NULL when it is
 * over.
 */
void debuginfod_show(void (*show)(const char *text));

/*
 * Servers are named and not asked, in a command that shows progress: it has the option to ask them.
 */
bool debuginfod_is_refused(void);
/* The time of a minute is over: what may be there was not fetched. */
bool debuginfod_has_given_up(void);

/*
 * The debug file of a build ID, in hexadecimal digits, which a server has: its path in the cache of
 * libdebuginfod. 0 or -errno.
 */
int debuginfod_file(const char *build_id, char *path, size_t n);

/* The callback find_debuginfo of libdwfl. */
int debuginfod_find(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		    const char *file_name, const char *link, GElf_Word crc, char **found);

#endif
