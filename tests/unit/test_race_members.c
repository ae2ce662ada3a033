/* SPDX-License-Identifier: MIT */
/*
 * test_race_members.c - the processes that a run is to end are those that the kernel says are of the
 * run, whatever the table says that they write.
 */
#include "../kernel/common.h"

#include "base/ebpf.h"
#include "cli/message.h"
#include "cli/cmd.h"
#include "cli/race/race_launch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../stress.h"

#define TRIES 1000

static struct race_run run;

/* Of the command. */
int cli_wrong(const char *command, const char *format, ...)
{
	return 2;
}

void cli_note(const char *command, const char *format, ...)
{
}

static int open_run(void **state)
{
	int err = agent_region_open("race", "trapline-race", RACE_MAGIC, sizeof(struct race_region),
				    &run.memory);

	assert_return_code(err, -err);
	run.region = (struct race_region *)run.memory.head;
	run.region->run = 1;
	assert_int_equal(race_members_open(&run.members, run.memory.data_fd, -1), 0);
	return 0;
}

static int close_run(void **state)
{
	agent_region_close(&run.memory);
	return 0;
}

static void name_in_row(uint32_t row, pid_t pid)
{
	struct race_process *p = &run.region->processes[row];

	p->run = 1;
	__atomic_store_n(&p->pid, pid, __ATOMIC_SEQ_CST);
	__atomic_store_n(&p->state, RACE_PROCESS_LIVE, __ATOMIC_SEQ_CST);
}

static pid_t begin_member(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

/* It has a file of the same name, but not the one of the run. */
static pid_t begin_stranger(void)
{
	int ready[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		munmap(run.memory.head, run.memory.bytes);
		int fd = memfd_create("trapline-race", 0);
		if (ftruncate(fd, 4096) ||
		    mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
			_exit(2);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

static bool is_alive(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == 0;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void a_process_that_maps_the_memory_is_ended(void **state)
{
	pid_t member = begin_member();

	name_in_row(1, member);
	race_others_signal(&run, SIGKILL);
	assert_int_equal(waitpid(member, NULL, 0), member);
}

static void a_process_that_is_only_named_is_not_ended(void **state)
{
	pid_t stranger = begin_stranger();

	name_in_row(1, stranger);
	race_others_signal(&run, SIGKILL);
	usleep(20000);
	assert_true(is_alive(stranger));
	end_process(stranger);
}

static void a_process_of_an_earlier_run_is_not_ended(void **state)
{
	pid_t member = begin_member();

	name_in_row(1, member);
	run.began = race_member_start(member) + 1;
	race_others_signal(&run, SIGKILL);
	usleep(20000);
	assert_true(is_alive(member));
	run.began = race_member_start(member);
	race_others_signal(&run, SIGKILL);
	assert_int_equal(waitpid(member, NULL, 0), member);
	run.began = 0;
}

/* The programs in the kernel do not know it: it is counted, once, and others are not. */
static void a_process_without_room_is_counted(void **state)
{
	pid_t member = begin_member();
	pid_t stranger = begin_stranger();
	const int map_fd = run.members.map_fd;
	const uint32_t count = run.members.count;

	run.region->process_count = 3;
	run.region->lost_processes = 0;
	name_in_row(1, stranger);
	name_in_row(2, member);
	run.members.map_fd = 0; /* not used: there is no room */
	run.members.count = RACE_MEMBERS;
	race_members_look(&run.members, run.region);
	race_members_look(&run.members, run.region);
	run.members.map_fd = map_fd;
	run.members.count = count;
	end_process(member);
	end_process(stranger);
	assert_int_equal(run.region->lost_processes, 1);
}

static void numbers_that_mean_many_processes_mean_none(void **state)
{
	const pid_t numbers[] = { 0, -1, -2, 1, INT32_MIN, INT32_MAX, getpid(), -getpgrp() };

	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		assert_false(numbers[i] != getpid() && race_members_have(&run.members, numbers[i]));
		name_in_row(1 + i, numbers[i]);
	}
	race_others_signal(&run, SIGUSR1); /* which would end this process */
	assert_false(race_is_process(-1));
	assert_false(race_is_process(0));
}

static pid_t pair[2];
static int is_over;

static void *exchange(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
		name_in_row(1, pair[0]);
		name_in_row(1, pair[1]);
	}
	return arg;
}

/* Between the look at a process and the signal. */
static void a_number_that_changes_meanwhile_does_not_help(void **state)
{
	pthread_t thread;
	pid_t member = fork();

	if (!member) {
		signal(SIGUSR1, SIG_IGN);
		for (;;)
			pause();
	}
	usleep(20000);
	pid_t stranger = begin_stranger();
	pair[0] = member;
	pair[1] = stranger;
	pthread_create(&thread, NULL, exchange, NULL);
	for (int i = 0; i < (int)scaled(TRIES) && is_alive(stranger); i++)
		race_others_signal(&run, SIGUSR1);
	__atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	bool is_well = is_alive(stranger);
	end_process(member);
	if (is_well)
		end_process(stranger);
	assert_true(is_well);
}

static void look_often(void)
{
	for (int i = 0; i < 600; i++)
		race_members_look(&run.members, run.region);
}

/* For the program in the kernel, too. */
static void a_table_of_lies_adds_no_member(void **state)
{
	run.members.map_fd = ebpf_map_create(BPF_MAP_TYPE_HASH, 8, 1, RACE_MEMBERS, 0);
	if (run.members.map_fd < 0)
		skip_because("CAP_BPF (to create a map)");
	pid_t member = begin_member();
	pid_t stranger = begin_stranger();

	/* Each number but our own: we map the memory, too. */
	for (uint32_t i = 0; i < RACE_PROCESSES; i++)
		name_in_row(i, i % 2 || (pid_t)i == getpid() ? stranger : (pid_t)i);
	name_in_row(77, member);
	run.region->process_count = UINT64_MAX;
	look_often();
	assert_int_equal(run.members.count, 1);
	assert_int_equal(run.members.members[0].pid, member);
	end_process(member);
	end_process(stranger);
	look_often();
	assert_int_equal(run.members.count, 0);
	close(run.members.map_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define OF_RUN(name) cmocka_unit_test_setup_teardown(name, open_run, close_run)
		OF_RUN(a_process_that_maps_the_memory_is_ended),
		OF_RUN(a_process_that_is_only_named_is_not_ended),
		OF_RUN(a_process_of_an_earlier_run_is_not_ended),
		OF_RUN(a_process_without_room_is_counted),
		OF_RUN(numbers_that_mean_many_processes_mean_none),
		OF_RUN(a_number_that_changes_meanwhile_does_not_help),
		OF_RUN(a_table_of_lies_adds_no_member),
#undef OF_RUN
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
