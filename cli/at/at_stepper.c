/* SPDX-License-Identifier: MIT */
/* at_stepper.c - see at_stepper.h. */
#include "cli/at/at_stepper.h"

#include "cli/launch/start.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
	pid_t pid;
	pid_t tid;
	struct at_steps steps;
};

struct reply {
	int err;
	struct at_steps steps;
	uint64_t regs[AT_REGISTERS_MAX];
};

/* All of it, or not: 0 or -errno. */
static int receive(int fd, void *to, size_t n)
{
	ssize_t got;

	do {
		got = recv(fd, to, n, MSG_WAITALL);
	} while (got < 0 && errno == EINTR);
	return got == (ssize_t)n ? 0 : got < 0 ? -errno : -ECHILD;
}

/* It has no part in the signals of a terminal, and another name than the command. */
static void serve(int fd)
{
	struct at_state state = { 0 };
	struct reply reply = { 0 };
	struct request request;

	setsid();
	prctl(PR_SET_NAME, "at-steps");
	if (receive(fd, &request, sizeof(request)))
		_exit(0);
	state.steps = request.steps;
	reply.err = at_state_read(request.pid, request.tid, &state);
	reply.steps = state.steps;
	memcpy(reply.regs, state.regs, sizeof(reply.regs));
	/* The command may be gone. */
	send(fd, &reply, sizeof(reply), MSG_NOSIGNAL);
	_exit(0);
}

int at_stepper_start(struct at_stepper *s)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return -errno;
	pid_t command = getpid();
	pid_t pid = fork();
	if (!pid) {
		close(fds[0]);
		at_steps_for(command);
		serve(fds[1]);
	}
	close(fds[1]);
	if (pid < 0) {
		int err = -errno;
		close(fds[0]);
		return err;
	}
	*s = (struct at_stepper){ .pid = pid, .fd = fds[0] };
	start_permit(pid);
	return 0;
}

int at_stepper_read(struct at_stepper *s, pid_t pid, pid_t tid, struct at_state *out)
{
	const struct request request = { .pid = pid, .tid = tid, .steps = out->steps };
	struct reply reply;
	int err = 0;

	if (send(s->fd, &request, sizeof(request), MSG_NOSIGNAL) != (ssize_t)sizeof(request))
		err = -errno;
	if (!err)
		err = receive(s->fd, &reply, sizeof(reply));
	if (err)
		return err;
	out->steps = reply.steps;
	/* Its parent still has to wait for it. */
	out->steps.is_reaped = false;
	memcpy(out->regs, reply.regs, sizeof(reply.regs));
	return reply.err;
}

void at_stepper_end(struct at_stepper *s)
{
	if (!s->pid)
		return;
	close(s->fd);
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
	s->pid = 0;
}
