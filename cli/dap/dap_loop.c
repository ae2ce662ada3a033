/* SPDX-License-Identifier: MIT */
/*
 * dap_loop.c - see dap_loop.h.
 *
 * One thread waits for the client, for records and for what children print. It does not wait for
 * any of them alone. So a client that does not read, or writes half a message, delays nothing.
 */
#include "cli/dap/dap_loop.h"

#include "base/clock.h"
#include "cli/dap/dap_arm.h"
#include "cli/dap/dap_child.h"
#include "cli/dap/dap_hit.h"
#include "cli/dap/dap_request.h"
#include "cli/dap/dap_target.h"
#include "cli/message.h"
#include "cli/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_MS 50 /* at the process, which may end without a record */
#define GATHER_MS \
	10 /* a reader that is always waiting is woken by each hit, which costs the thread time */
#define STRANGER_NS 30000000000u
#define FINISH_MS 2000
#define READ_BYTES 65536

struct waits {
	struct pollfd fd[3 + 2 * DAP_CHILDREN + 1];
	struct dap_child *child[3 + 2 * DAP_CHILDREN + 1];
	int which[3 + 2 * DAP_CHILDREN + 1];
	nfds_t count;
};

static void waits_add(struct waits *w, int fd, short events, struct dap_child *c, int which)
{
	if (fd < 0)
		return;
	w->child[w->count] = c;
	w->which[w->count] = which;
	w->fd[w->count++] = (struct pollfd){ .fd = fd, .events = events };
}

/* So long records gather, after the last ones were read. */
static int gather_ms(const struct dap *d)
{
	uint64_t since = (clock_now_ns() - d->drained_ns) / 1000000u;

	return since < GATHER_MS ? (int)(GATHER_MS - since) : 0;
}

static void waits_fill(struct dap *d, struct waits *w, int listener)
{
	w->count = 0;
	waits_add(w, d->in_fd, POLLIN, NULL, 0);
	waits_add(w, d->out.count ? d->out.fd : -1, POLLOUT, NULL, 1);
	waits_add(w, d->target && !gather_ms(d) ? trapline_fd(d->target) : -1, POLLIN, NULL, 2);
	waits_add(w, listener, POLLIN, NULL, 3);
	for (size_t i = 0; i < DAP_CHILDREN; i++)
		for (int k = 0; k < 2; k++)
			if (d->child[i].pid && dap_child_is_read(d, &d->child[i]))
				waits_add(w, d->child[i].fd[k], POLLIN, &d->child[i], k);
}

static void take_messages(struct dap *d)
{
	json_t *message;
	int got = 0;

	while (!d->ended && (got = dap_frames_next(&d->in, &message)) == 1) {
		dap_request(d, message);
		json_decref(message);
		dap_send_flush(&d->out);
	}
	if (got < 0 && !d->ended)
		d->ended = d->in.why;
}

static void read_client(struct dap *d)
{
	static char bytes[READ_BYTES];
	ssize_t n = read(d->in_fd, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		d->ended = "the client has gone";
	else if (dap_frames_add(&d->in, bytes, (size_t)n))
		d->ended = "out of memory";
	else
		take_messages(d);
}

/* One client at a time: a second one is not kept waiting. */
static void send_away(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0)
		close(fd);
}

/* So long nothing needs to be done, if nothing comes. */
static int wait_ms(struct dap *d)
{
	int ms = dap_hit_tick(d);
	int arms = dap_arms_tick(d);

	ms = arms < ms ? arms : ms;
	if (d->target && gather_ms(d) && gather_ms(d) < ms)
		ms = gather_ms(d);
	return d->pid && ms > LOOK_MS ? LOOK_MS : ms;
}

static void step(struct dap *d, int listener)
{
	struct waits w;

	waits_fill(d, &w, listener);
	if (poll(w.fd, w.count, wait_ms(d)) < 0)
		return;
	/* Records first: a request may close what they belong to. */
	if (d->target)
		dap_hit_meanwhile(d);
	for (nfds_t i = 0; i < w.count && !d->ended; i++) {
		if (!w.fd[i].revents)
			continue;
		if (w.child[i] && w.child[i]->fd[w.which[i]] == w.fd[i].fd)
			dap_child_read(d, w.child[i], w.which[i]);
		else if (!w.child[i] && w.which[i] == 0)
			read_client(d);
		else if (!w.child[i] && w.which[i] == 3)
			send_away(listener);
	}
	dap_target_look(d);
	dap_child_reap(d);
	dap_send_flush(&d->out);
}

int dap_loop(int in, int out, const char *token, int listener)
{
	struct dap *d = calloc(1, sizeof(*d));
	uint64_t begun = clock_now_ns();

	if (!d)
		return 0;
	d->in_fd = in;
	d->out.fd = out;
	d->memory_fd = -1;
	d->token = token;
	d->is_trusted = !token;
	d->second_ns = begun;
	for (size_t i = 0; i < DAP_CHILDREN; i++)
		d->child[i].fd[0] = d->child[i].fd[1] = -1;
	fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
	fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
	dap_frames_begin(&d->in, token ? DAP_STRANGER_MAX : DAP_MESSAGE_MAX);
	while (!d->ended) {
		step(d, listener);
		if (asked_times)
			d->ended = "a signal ended trapline dap";
		else if (d->out.is_broken)
			d->ended = "the client has gone";
		else if (!d->is_trusted && clock_now_ns() - begun > STRANGER_NS)
			d->ended = "the client did not show the token in 30 seconds";
	}
	if (d->in.why)
		cli_note("dap", "the session has ended: %s", d->ended);
	/* A process that was started for the client ends with it. */
	if (d->pid || d->target)
		dap_target_leave(d, d->is_launched);
	dap_child_end(d);
	dap_send_finish(&d->out, FINISH_MS);
	int was_trusted = d->is_trusted;
	dap_send_free(&d->out);
	dap_frames_end(&d->in);
	free(d);
	return was_trusted;
}
