/* SPDX-License-Identifier: MIT */
/* race_state.c - see race_state.h. */
#include "race/race_state.h"

#include <fcntl.h>
#include <linux/futex.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/insn/insn_context.h"

struct race_state race;

TRAP_PATH ssize_t race_read_of_thread(pid_t tid, const char *file, char *out, size_t n)
{
	char path[48] = "/proc/self/task/";
	char digits[12];
	size_t at = sizeof("/proc/self/task/") - 1;
	int count = 0;

	for (uint32_t left = (uint32_t)tid; left; left /= 10)
		digits[count++] = (char)('0' + left % 10);
	while (count)
		path[at++] = digits[--count];
	do
		path[at++] = *file;
	while (*file++);
	int fd = own_fd_open(path, O_RDONLY);
	if (fd < 0)
		return fd;
	ssize_t got = sys_read(fd, out, n);
	sys_close(fd);
	return got;
}

TRAP_PATH void race_tell_reader(void)
{
	uint32_t *told = &race.region->told;

	if (!(race.flags & RACE_HAS_READER))
		return;
	atomic_add(told, 1u);
	sys6(SYS_futex, told, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void race_random_start(void)
{
	race.random = hash_mixed(clock_now_ns() + (uint64_t)race.pid * HASH_MIX);
}

TRAP_PATH uint64_t race_random(void)
{
	return hash_mixed(counter_add(&race.random, HASH_MIX));
}

TRAP_PATH void race_registers(const struct trapline_hit *hit, struct insn_regs *out)
{
	insn_regs_from_context(hit->context, out);
}
