/* SPDX-License-Identifier: MIT */
/* race_tick.c - a sample in a thread: is it time to stall it, and before which access? */
#include "race/race_tick.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "code/insn/insn.h"
#include "code/insn/insn_context.h"
#include "race/race.h"
#include "race/race_aim.h"
#include "race/race_budget.h"
#include "race/race_end.h"
#include "race/race_outside.h"
#include "race/race_state.h"
#include "race/race_turn.h"
#include "race/race_walk.h"
#include "race/stall/race_hold.h"
#include "record/race_region.h"
#include "trap/room.h"

/* Of so many ticks one goes to an access seen elsewhere. */
#define SEEN_INSTEAD 8
/* The signal of one from outside. */
#define TICK_SIGNAL_NS 4000u
/* Most are done by then; another one inside it would be for nothing. */
#define TICK_LASTS_NS 1000000u

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

TRAP_PATH uint64_t race_random(void)
{
	uint64_t x = counter_add(&race.random, 0x9e3779b97f4a7c15u);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

TRAP_PATH void race_registers(const struct trapline_hit *hit, struct insn_regs *out)
{
	insn_regs_from_context(hit->context, out);
}

TRAP_PATH static void on_tick(const struct trapline_hit *hit)
{
	uint64_t now = hit->time_ns;
	uint64_t pc;

	race_aims_drop_missed(now);
	if (!trap_has_room(RACE_ROOM_TICK)) {
		race_count(RACE_STALLS_NO_ROOM);
		return;
	}
	race_turn_take(hit->ip, now);
	if (!race_budget_allows(now)) {
		race_count(RACE_SAMPLES_EARLY);
		return;
	}
	if (race_is_alone(now)) {
		race_count(RACE_SAMPLES_ALONE);
		return;
	}
	int err = race_walk(hit, &pc);
	if (err)
		race_count(err == -EACCES ? RACE_SAMPLES_EXCLUDED : RACE_SAMPLES_NOTHING);
	if (err || race_random() % SEEN_INSTEAD == 0 || race_is_tired_of(pc))
		err = race_choose_seen(&pc) ? err : 0;
	if (err && race_walk_anywhere(&pc))
		return;
	if (pc == hit->ip) {
		race_hold(hit, NULL, NULL);
		return;
	}
	race_count(race_aim_at(hit->tid, pc) ? RACE_AIMS_REFUSED : RACE_AIMS);
}

TRAP_PATH enum trapline_action race_on_timer(const struct trapline_hit *hit)
{
	uint64_t cpu_ns = race_thread_cpu_ns();

	race_gate_open_at(hit->time_ns + TICK_LASTS_NS);
	if (race_end_if_over())
		return TRAPLINE_GO_ON;
	race_count(RACE_SAMPLES);
	if (!hit->async && !race_is_stopped())
		on_tick(hit);
	/* With that of a stall, which is counted there too: it errs on the safe side. */
	race_budget_spend(race_thread_cpu_ns() - cpu_ns +
				  (race.flags & RACE_HAS_TICKS ? TICK_SIGNAL_NS :
								 race.budget.trap_ns),
			  1);
	race_gate_set(clock_now_ns());
	return TRAPLINE_GO_ON;
}
