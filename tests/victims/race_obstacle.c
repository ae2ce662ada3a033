/* SPDX-License-Identifier: MIT */
/*
 * race_obstacle.c - what stands in the way of a search for races:
 *
 *	registers PID SECONDS	takes all debug registers of a process, prints "taken" when it has them
 *	registers -- CMD...	those of a command
 *	some N CMD...		N of those of a command
 *	claimed CMD...		a command while the events of the CPUs are another search's
 *	filtered CMD...		a command under a seccomp filter that allows all
 *	filtered_sleep SECONDS	the same, and it stays
 *	sealed CMD...		a command that the kernel kills for what a detector needs
 */
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define REGISTERS 4

static long never_touched[REGISTERS];

/* A search beside us, in another test, has two of each CPU for a while. */
static long take_when_free(struct perf_event_attr *attr, pid_t tid)
{
	long fd = -1;

	for (int i = 0; i < 600 && fd < 0; i++) {
		fd = syscall(SYS_perf_event_open, attr, tid, -1, -1, 0);
		if (fd < 0 && errno != ENOSPC)
			break;
		if (fd < 0)
			usleep(100000);
	}
	return fd;
}

static int take_registers(pid_t tid, int n)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_W,
		.bp_len = sizeof(long),
		.inherit = 1,
		.exclude_kernel = 1,
	};

	for (int i = 0; i < n; i++) {
		attr.bp_addr = (unsigned long)&never_touched[i];
		if (take_when_free(&attr, tid) < 0) {
			perror("perf_event_open");
			return 1;
		}
	}
	return 0;
}

static int take_all(const char *pid, const char *seconds)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && take_registers(atoi(e->d_name), REGISTERS))
			return 1;
	puts("taken");
	fflush(stdout);
	usleep((unsigned int)(atof(seconds) * 1e6));
	return 0;
}

static int run(char **argv)
{
	execvp(argv[0], argv);
	perror(argv[0]);
	return 127;
}

/* As src/race/host/race_cpu_events.c does, and it stays open over exec(). */
static int claim(void)
{
	struct sockaddr_un name = { AF_UNIX, "\0trapline race: events of the CPUs" };

	for (int i = 0; i < 600; i++) {
		int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

		if (!bind(fd, (struct sockaddr *)&name, sizeof(name)))
			return 0;
		close(fd);
		usleep(100000); /* a search has them */
	}
	return 0;
}

static int filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Without perf_event_open(2), bpf(2), ptrace(2) and memfd_create(2). */
static int seal(void)
{
	static const unsigned int forbidden[] = { SYS_perf_event_open, SYS_bpf, SYS_ptrace,
						  SYS_memfd_create };
	enum { CALLS = sizeof(forbidden) / sizeof(forbidden[0]) };
	struct sock_filter steps[CALLS + 3];
	struct sock_fprog program = { CALLS + 3, steps };

	steps[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						offsetof(struct seccomp_data, nr));
	for (unsigned char i = 0; i < CALLS; i++)
		steps[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i],
							    (unsigned char)(CALLS - i), 0);
	steps[CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	steps[CALLS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "registers") && !strcmp(argv[2], "--"))
		return take_registers(0, REGISTERS) ? 1 : run(argv + 3);
	if (argc > 3 && !strcmp(argv[1], "some"))
		return take_registers(0, atoi(argv[2])) ? 1 : run(argv + 3);
	if (argc > 3 && !strcmp(argv[1], "registers"))
		return take_all(argv[2], argv[3]);
	if (argc > 2 && !strcmp(argv[1], "claimed"))
		return claim() ? 1 : run(argv + 2);
	if (argc > 2 && !strcmp(argv[1], "filtered"))
		return filter() ? 1 : run(argv + 2);
	if (argc > 2 && !strcmp(argv[1], "sealed"))
		return seal() ? 1 : run(argv + 2);
	if (argc > 2 && !strcmp(argv[1], "filtered_sleep")) {
		if (filter())
			return 1;
		usleep((unsigned int)(atof(argv[2]) * 1e6));
		return 0;
	}
	fputs("usage: race_obstacle registers|filtered|filtered_sleep|sealed ...\n", stderr);
	return 2;
}
