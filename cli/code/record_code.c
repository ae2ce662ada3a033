/* SPDX-License-Identifier: MIT */
/*
 * record_code.c - see record_code.h.
 *
 * The library in the command's processes writes its records into a pipe, which a record enters
 * whole or not at all. It does not wait there. This side empties the pipe into the file. When it is
 * killed, the processes continue, and the file is readable up to there.
 */
#include "cli/code/record_code.h"

#include "base/clock.h"
#include "cli/code/kernel_code.h"
#include "cli/launch/agent_start.h"
#include "cli/launch/inherited.h"
#include "cli/message.h"
#include "cli/output.h"
#include "record/code_layout.h"
#include "report/safe/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <trapline/code_log.h>

#define PIPE_BYTES (1 << 20)
#define LOOK_MS 20

static volatile sig_atomic_t is_asked_to_end;

static void ask_to_end(int signal)
{
	is_asked_to_end = 1;
}

static int record_code_failed(const struct observe_settings *set)
{
	cli_wrong(set->name, "cannot write %s: %s", set->record, strerror(errno));
	return CLI_NO;
}

/* So that a command that changes no code leaves a log too. */
static bool write_format(FILE *f)
{
	struct code_record record = { .head = { .time_ns = clock_now_ns() } };

	code_open(&record.head, CODE_FORMAT);
	code_put(&record.head, CODE_MAGIC, 8);
	code_put32(&record.head, CODE_VERSION);
	code_put32(&record.head, CODE_CLOCK_MONOTONIC);
	code_close(&record.head);
	return fwrite(&record, record.head.bytes, 1, f) == 1 && !fflush(f);
}

/* In the child. */
static bool name_pipe(void *arg)
{
	return !setenv("TRAPLINE_CODE_LOG", arg, 1);
}

static bool drain(int fd, FILE *f)
{
	char bytes[65536];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		if (fwrite(bytes, (size_t)n, 1, f) != 1)
			return false;
	return !fflush(f);
}

/* Where the records come from. */
struct code_sources {
	int fd; /* of the command's processes; -1: there is no command */
	pid_t pid;
	struct kernel_code *kernel; /* NULL: it is not asked for */
};

static bool drain_all(const struct code_sources *from, FILE *f)
{
	return (from->fd < 0 || drain(from->fd, f)) &&
	       (!from->kernel || kernel_code_drain(from->kernel));
}

/* Until the command ends, and what it left in the pipe has been read. */
static int follow(const struct observe_settings *set, const struct code_sources *from, FILE *f)
{
	uint64_t end_ns = set->for_ns ? clock_now_ns() + set->for_ns : UINT64_MAX;
	bool has_ended = false;

	while (!has_ended && !is_asked_to_end && clock_now_ns() < end_ns) {
		struct pollfd ready = { .fd = from->fd, .events = POLLIN };

		poll(&ready, 1, LOOK_MS);
		has_ended = from->fd >= 0 && waitpid(from->pid, NULL, WNOHANG) == from->pid;
		if (!drain_all(from, f))
			return record_code_failed(set);
	}
	return CLI_OK;
}

/* What the file has, as its reader counts it: what arrived, and no more. */
static int say_recorded(const struct observe_settings *set)
{
	struct trapline_code_entry entry = { .size = sizeof(entry) };
	struct trapline_code_log *log;
	size_t changes = 0;
	struct stat st;

	if (stat(set->record, &st) || !S_ISREG(st.st_mode))
		return CLI_OK; /* a pipe does not give back what it got */
	int err = trapline_code_log_open(set->record, &log);
	if (err)
		return cli_wrong(set->name, "cannot read %s: %s", set->record, strerror(-err));
	for (size_t i = 0; !trapline_code_log_entry(log, i, &entry); i++)
		changes += entry.kind == TRAPLINE_CODE_ENTRY_SITE ||
			   entry.kind == TRAPLINE_CODE_ENTRY_KERNEL_POKE ||
			   entry.kind == TRAPLINE_CODE_ENTRY_KSYMBOL;
	trapline_code_log_close(log);
	printf("%zu change%s of code recorded in %s\n", changes, changes == 1 ? "" : "s",
	       set->record);
	return CLI_OK;
}

static int start_command(const struct observe_settings *set, struct code_sources *from, FILE *f)
{
	char text[96];
	struct stat st;
	int fds[2];

	if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) || fstat(fds[1], &st))
		return cli_wrong(set->name, "cannot make a pipe: %s", strerror(errno));
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller one loses records earlier */
	snprintf(text, sizeof(text), "/proc/%d/fd/%d#%llu", getpid(), fds[1],
		 (unsigned long long)st.st_ino);
	from->fd = fds[0];
	int status = inherited_start(set->name, set->command, name_pipe, text, &from->pid);
	if (!status)
		status = follow(set, from, f);
	close(fds[0]);
	close(fds[1]);
	return status;
}

static int start_kernel(const struct observe_settings *set, struct code_sources *from, FILE *f)
{
	from->kernel = set->kernel ? kernel_code_open(f) : NULL;
	if (!set->kernel || from->kernel)
		return CLI_OK;
	const char *remedy = errno == EACCES || errno == EPERM ?
				     "run as root, or with CAP_PERFMON and CAP_IPC_LOCK" :
			     errno == EINVAL ?
				     "this kernel does not report them: use Linux 5.9 or later" :
				     "record without --kernel";
	return cli_wrong(set->name, "cannot record the kernel's changes of code: %s; %s",
			 strerror(errno), remedy);
}

static int start(const struct observe_settings *set, FILE *f)
{
	struct code_sources from = { .fd = -1 };

	signal(SIGINT, ask_to_end);
	signal(SIGTERM, ask_to_end);
	int status = start_kernel(set, &from, f);
	if (!status)
		status = set->command ? start_command(set, &from, f) : follow(set, &from, f);
	if (from.kernel && !kernel_code_close(from.kernel) && !status)
		status = record_code_failed(set);
	if (fclose(f) && !status)
		status = record_code_failed(set);
	return status ? status : say_recorded(set);
}

static int check(const struct observe_settings *set)
{
	if (set->operand_count)
		return cli_wrong(set->name, "--code records all changes of code: remove '%s'",
				 set->operands[0]);
	if (set->is_break)
		return cli_wrong(set->name, "--code cannot be combined with --break");
	if (set->pids.count)
		return cli_wrong(set->name,
				 "cannot record the code of process %d: it runs "
				 "already; start it with -- CMD, or let it call "
				 "trapline_log_code_to()",
				 set->pids.pid[0]);
	if (set->command)
		return agent_is_for_this(set->name);
	return set->kernel ?
		       CLI_OK :
		       cli_wrong(set->name, "-- CMD is missing: give the command to start, or "
					    "--kernel for the kernel's own changes");
}

int record_code_run(const struct observe_settings *set)
{
	int status = check(set);

	if (status)
		return status;
	FILE *f = private_file(set->record);
	if (!f || !write_format(f))
		return record_code_failed(set);
	return start(set, f);
}
