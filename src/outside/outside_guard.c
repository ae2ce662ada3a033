/* SPDX-License-Identifier: MIT */
/*
 * outside_guard.c - a process that owns the probes, and outlives the command for a moment.
 *
 * The kernel removes a probe by writing into the memory of the process. A process that is being
 * killed cannot do that (get_user_pages() ends with EINTR), and the trap stays in the text: "failed
 * to unregister, leaking uprobe". So a child has the links, and removes them when the command is
 * gone, which it sees by the end of a socket. It blocks all signals, in a session of its own.
 */
#include "base/sys.h"
#include "event/uprobe/uprobe_filter.h"
#include "outside/outside_priv.h"

#include <errno.h>
#include <linux/bpf.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINKS 64u

struct links {
	int fds[LINKS];
	uint32_t count;
};

static int link_create(const struct outside_link *l, struct links *links)
{
	struct uprobe_multi link = {
		.prog_fd = (uint32_t)l->program,
		.attach_type = UPROBE_MULTI_ATTACH,
		.path = (uintptr_t)l->path,
		.offsets = (uintptr_t)l->offsets,
		.cookies = (uintptr_t)l->cookies,
		.count = l->count,
		.pid = l->pid,
	};

	if (links->count == LINKS)
		return -E2BIG;
	int fd = sys_bpf(BPF_LINK_CREATE, (union bpf_attr *)&link, sizeof(link));
	if (fd < 0)
		return fd;
	links->fds[links->count++] = fd;
	return 0;
}

static void close_links(struct links *links)
{
	while (links->count)
		sys_close(links->fds[--links->count]);
}

/* In the child: until the command closes its end, or is gone. */
static void serve(int fd)
{
	static struct outside_link request;
	static struct links links;

	while (recv(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
		int result = 0;

		if (request.count)
			result = link_create(&request, &links);
		else
			close_links(&links);
		if (send(fd, &result, sizeof(result), MSG_NOSIGNAL) != (ssize_t)sizeof(result))
			break;
	}
	close_links(&links);
}

int outside_guard_open(struct outside_guard *g)
{
	sigset_t all;
	sigset_t before;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the child has all blocked from its start */
	g->pid = fork();
	if (!g->pid) {
		close(ends[0]);
		setsid();
		serve(ends[1]);
		_exit(0);
	}
	int err = g->pid < 0 ? -errno : 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	g->fd = ends[0];
	if (err)
		outside_guard_close(g);
	return err;
}

static int ask(struct outside_guard *g, const struct outside_link *request)
{
	int result;

	if (g->fd < 0)
		return -ECANCELED;
	if (send(g->fd, request, sizeof(*request), MSG_NOSIGNAL) != (ssize_t)sizeof(*request) ||
	    recv(g->fd, &result, sizeof(result), 0) != (ssize_t)sizeof(result))
		return -ECANCELED;
	return result;
}

int outside_guard_attach(struct outside_guard *g, const struct outside_link *link)
{
	return ask(g, link);
}

int outside_guard_detach(struct outside_guard *g)
{
	static const struct outside_link none;

	return ask(g, &none);
}

void outside_guard_close(struct outside_guard *g)
{
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
	if (g->pid > 0)
		waitpid(g->pid, NULL, 0);
	g->pid = 0;
}
