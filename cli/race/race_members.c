/* SPDX-License-Identifier: MIT */
/* race_members.c - see race_members.h. */
#include "cli/race/race_members.h"

#include "base/ebpf.h"
#include "base/maps.h"
#include "base/sys.h"
#include "cli/launch/program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define LOOKS 32u /* at members again, each time */
#define ADDS 64u  /* new ones, each time: a table full of lies does not keep trapline busy */

uint64_t race_member_start(pid_t pid)
{
	int64_t start;

	return program_stat(pid, pid, 22, &start) ? (uint64_t)start : 0;
}

int race_members_open(struct race_members *m, int fd, int map_fd)
{
	struct stat st;

	memset(m, 0, sizeof(*m));
	m->map_fd = map_fd;
	if (fstat(fd, &st))
		return -errno;
	m->device = st.st_dev;
	m->inode = st.st_ino;
	return 0;
}

static bool is_region(const struct maps_row *row, const void *arg)
{
	const struct race_members *m = arg;

	return row->inode == m->inode && makedev(row->major, row->minor) == m->device;
}

bool race_members_have(const struct race_members *m, pid_t pid)
{
	uint64_t start;
	uint64_t end;

	return pid > 1 && m->inode && program_find_mapping(pid, is_region, m, &start, &end);
}

void race_members_signal(const struct race_members *m, pid_t pid, uint64_t since, int signal)
{
	if (pid <= 1 || pid == sys_getpid())
		return;
	/* First: what is found out of the number is then true of this process, or it has ended. */
	int pidfd = (int)sys2(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return;
	if (race_members_have(m, pid) && race_member_start(pid) >= since)
		sys4(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
	sys_close(pidfd);
}

static int map_member(const struct race_members *m, pid_t pid)
{
	const uint64_t key = (uint64_t)pid;
	const uint8_t value = 1;

	return m->map_fd < 0 ? 0 : ebpf_map_write(m->map_fd, &key, &value);
}

static bool is_known(const struct race_members *m, pid_t pid)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (m->members[i].pid == pid)
			return true;
	return false;
}

bool race_members_add(struct race_members *m, pid_t pid)
{
	uint64_t start = race_member_start(pid);

	if (!start || is_known(m, pid) || !race_members_have(m, pid) ||
	    race_member_start(pid) != start)
		return true;
	if (m->count == RACE_MEMBERS || map_member(m, pid))
		return false;
	m->members[m->count++] = (struct race_member){ pid, start };
	return true;
}

static void drop_ended(struct race_members *m)
{
	uint32_t looks = m->count < LOOKS ? m->count : LOOKS;

	for (uint32_t n = 0; n < looks && m->count; n++) {
		struct race_member *member = &m->members[m->next++ % m->count];

		if (race_member_start(member->pid) == member->start)
			continue;
		const uint64_t key = (uint64_t)member->pid;
		if (m->map_fd >= 0)
			ebpf_map_remove(m->map_fd, &key);
		*member = m->members[--m->count];
	}
}

/* A row that names another process than before. */
static bool is_news(struct race_members *m, const struct race_region *region, uint32_t row)
{
	const struct race_process *p = &region->processes[row];

	if (__atomic_load_n(&p->state, __ATOMIC_SEQ_CST) != RACE_PROCESS_LIVE)
		return false;
	pid_t pid = __atomic_load_n(&p->pid, __ATOMIC_RELAXED);
	if (m->seen[row] == pid)
		return false;
	m->seen[row] = pid;
	return true;
}

void race_members_look(struct race_members *m, struct race_region *region)
{
	uint64_t rows = __atomic_load_n(&region->process_count, __ATOMIC_RELAXED);
	uint32_t adds = 0;

	if (m->map_fd < 0 || !m->inode)
		return;
	drop_ended(m);
	rows = rows < RACE_PROCESSES ? rows : RACE_PROCESSES;
	for (uint64_t i = 0; i < rows && adds < ADDS; i++) {
		uint32_t row = m->next_row % (uint32_t)rows;

		m->next_row = row + 1;
		if (!is_news(m, region, row))
			continue;
		adds++;
		if (!race_members_add(m, m->seen[row]))
			__atomic_fetch_add(&region->lost_processes, 1u, __ATOMIC_RELAXED);
	}
}
