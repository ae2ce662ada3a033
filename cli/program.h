/* SPDX-License-Identifier: MIT */
/* program.h - what the file of a program tells before it runs, and /proc of one that does. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As execvp() will find it. 0 or -1. */
int program_find(const char *name, char *path, size_t n);

/* No loader: the agent cannot be given to it. */
bool program_is_static(const char *path);
/* Written in Go: it carries a note of that name. */
bool program_is_go(const char *path);
/* setuid, setgid or with capabilities that we do not have: the loader takes nothing of ours. */
bool program_is_secure(const char *path);

/* The text of a field, as "Seccomp", of /proc/PID/task/TID/status; false: it is not there. */
bool program_status(pid_t pid, pid_t tid, const char *field, char *text, size_t n);

/*
 * The first mapping of a process that holds the address and has the text in its line of
 * /proc/PID/maps, as "[vdso]"; 0 and NULL: any. false: there is none.
 */
bool program_mapping(pid_t pid, const char *text, uint64_t address, uint64_t *start, uint64_t *end);

/* The kind of seccomp filter that a process runs under; 0: none. */
int program_seccomp(pid_t pid);

/* How many CPUs the threads of a process may use, together. */
int program_cpus(pid_t pid);

#endif
