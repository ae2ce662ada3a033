/* SPDX-License-Identifier: MIT */
/* race_undisturbed.c - see race_undisturbed.h. */
#include "cli/race/race_undisturbed.h"

#include "base/clock.h"
#include "cli/launch/inherited.h"
#include "cli/race/race_hang.h"
#include "cli/watchdog.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND "race"
#define LOOK_MS 20
/* A run is a hang if it takes so many times as long as others, and at least so long. */
#define HANG_RUNS 10u
#define HANG_NS 5000000000u

/* True: the user wants to end. */
static bool wait_undisturbed(pid_t pid, const struct race_region *region, uint64_t limit_ns,
			     struct race_undisturbed_end *end)
{
	uint64_t now = clock_now_ns();
	uint64_t until = now + limit_ns;
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct race_hang hang = { .runs = 0 }; /* whose threads wait for each other */
	bool is_asked = false;

	race_hang_begin(&hang, now);
	while (waitpid(pid, &end->status, WNOHANG) != pid) {
		struct pollfd died = { .fd = pidfd, .events = POLLIN };

		is_asked |= watchdog_forward(pid) != 0;
		now = clock_now_ns();
		end->is_hang |= race_hang_look(&hang, region, pid, now) != RACE_HANG_NOT;
		end->is_cut |= now > until;
		if (end->is_hang || end->is_cut)
			race_hang_kill_tree(pid);
		poll(&died, 1, LOOK_MS);
	}
	if (pidfd >= 0)
		close(pidfd);
	return is_asked;
}

static bool prepare_nothing(void *arg)
{
	return true;
}

bool race_undisturbed_run(struct race_undisturbed *u, const struct race_region *region,
			  char *const *command, uint64_t limit_ns, struct race_undisturbed_end *end)
{
	uint64_t began = clock_now_ns();
	pid_t pid;

	*end = (struct race_undisturbed_end){ .status = 0 };
	if (u->is_over || u->is_asked)
		return false;
	u->is_over = inherited_start(COMMAND, command, prepare_nothing, NULL, &pid) != 0;
	u->is_asked = !u->is_over && wait_undisturbed(pid, region, limit_ns, end);
	if (u->is_over || u->is_asked)
		return false;
	uint64_t took = clock_now_ns() - began;
	u->total_ns += took;
	if (end->is_cut) {
		u->cut++;
		end->is_hang |= u->longest_ns && took > HANG_RUNS * u->longest_ns && took > HANG_NS;
		return true;
	}
	u->ended++;
	if (!end->is_hang && took > u->longest_ns)
		u->longest_ns = took;
	return true;
}
