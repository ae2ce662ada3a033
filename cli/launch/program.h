/* SPDX-License-Identifier: MIT */
/* program.h - facts about a program: from its file before it runs, from /proc while it runs. */
#ifndef CLI_LAUNCH_PROGRAM_H
#define CLI_LAUNCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The path that execvp() would use. 0 or -1. */
int program_find(const char *name, char *path, size_t n);

/* It has no loader, so that the agent cannot be loaded into it. */
bool program_is_static(const char *path);
/* For a 32-bit processor, which this 64-bit agent does not fit. */
bool program_is_32_bit(const char *path);
/* Written in Go: it has a note of that name. */
bool program_is_go(const char *path);
/*
 * setuid, setgid or with capabilities that this user lacks: the loader does not preload
 * the agent.
 */
bool program_is_secure(const char *path);

/*
 * The text of a field, such as "Seccomp", of /proc/PID/task/TID/status; false: it does
 * not exist.
 */
bool program_status(pid_t pid, pid_t tid, const char *field, char *text, size_t n);
/* The process that traces the thread; 0: none does, or the thread does not exist. */
pid_t program_tracer(pid_t pid, pid_t tid);
/*
 * A number of /proc/PID/task/TID/stat, by its field in proc(5), 4 or a later one; false: it does
 * not exist.
 */
bool program_stat(pid_t pid, pid_t tid, int field, int64_t *out);
/* The letter of proc(5): 'R' runs or waits for a CPU. 0: it does not exist. */
char program_thread_state(pid_t pid, pid_t tid);
/*
 * It is a thread of an agent (base/own_thread_name.h), which blocks all signals, and does nothing
 * of the program.
 */
bool program_has_our_thread(pid_t pid, pid_t tid);

/*
 * The first mapping of a process that contains the address and has the text in its name,
 * such as "[vdso]". 0 and NULL fit any. false: not found.
 */
bool program_mapping(pid_t pid, const char *text, uint64_t address, uint64_t *start, uint64_t *end);

/* Between exec and the end of the loader's work: it looks as if it had no libc. */
bool program_has_only_begun(pid_t pid);

/* The first mapping that fits. false: none does. */
struct maps_row;
typedef bool (*program_fits)(const struct maps_row *row, const void *arg);
bool program_find_mapping(pid_t pid, program_fits fits, const void *arg, uint64_t *start,
			  uint64_t *end);

/* What hinders access to a running process, as far as /proc has it. */
enum program_state {
	PROGRAM_RUNS,
	PROGRAM_IS_MISSING, /* no process has this id */
	PROGRAM_IS_KERNEL,  /* a kernel thread, which has no program */
	PROGRAM_HAS_ENDED,  /* a zombie: it waits for its parent */
	/* its first thread has ended, and /proc has its memory by that one only */
	PROGRAM_LOST_FIRST,
	PROGRAM_IS_32_BIT,
};
enum program_state program_state(pid_t pid);
/*
 * Does valgrind run it? Then it executes a translation of its code, and its threads are valgrind's.
 */
bool program_is_translated(pid_t pid);
#define PROGRAM_TRANSLATED_REMEDY \
	"it runs under valgrind, which executes a translation of its code; start it without valgrind"
/* The root of this command, which reads /proc. */
#define PROGRAM_FILES_REMEDY \
	"this command cannot open more files; raise its limit of descriptors (ulimit -n)"
/*
 * Why no code can be loaded into a process, and the number for that; NULL: nothing speaks against
 * it.
 */
const char *program_why_not(pid_t pid, int *err);
/* It is gone, or a zombie. */
bool program_has_ended(pid_t pid);

/*
 * The thread that /proc has the memory and the program by: pid, or another if that one has ended.
 */
pid_t program_reader(pid_t pid);

/*
 * The memory of the program as it is now: after it has ended or called exec, it reads as empty. -1:
 * none.
 */
int program_open_memory(pid_t pid);
/*
 * Has the program at the other end of such a descriptor ended? address was mapped when it was
 * opened.
 */
bool program_is_gone(int memory_fd, uint64_t address);
/* By SIGSTOP, SIGTSTP or a debugger: none of its threads runs. */
bool program_is_stopped(pid_t pid);

/*
 * Why the kernel does not permit to trace a process, and the remedy: `it has a debugger
 * ...`.
 */
void program_explain_refusal(pid_t pid, char *text, size_t n);

/* The ids of the threads of a process. Returns how many; 0: it does not exist. */
size_t program_threads(pid_t pid, pid_t *tids, size_t max);

/* The kind of seccomp filter that a thread runs under; 0: none. */
int program_seccomp(pid_t pid, pid_t tid);

/* How many CPUs the threads of a process may use, together. */
int program_cpus(pid_t pid);

#endif
