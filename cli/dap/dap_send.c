/* SPDX-License-Identifier: MIT */
/* dap_send.c - see dap_send.h. */
#include "cli/dap/dap_send.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool make_room(struct dap_send *s, size_t n)
{
	if (s->from && s->from + s->count + n > s->room) {
		memmove(s->bytes, s->bytes + s->from, s->count);
		s->from = 0;
	}
	if (s->count + n <= s->room)
		return true;
	size_t room = 2 * (s->count + n);
	char *more = room / 2 <= DAP_UNREAD_MAX ? realloc(s->bytes, room) : NULL;
	if (!more)
		return false;
	s->bytes = more;
	s->room = room;
	return true;
}

static void add(struct dap_send *s, const char *bytes, size_t n)
{
	if (!make_room(s, n)) {
		s->is_broken = true;
		return;
	}
	memcpy(s->bytes + s->from + s->count, bytes, n);
	s->count += n;
}

/* Takes the message. */
static void send_message(struct dap_send *s, json_t *message)
{
	char header[64];

	json_object_set_new(message, "seq", json_integer((json_int_t)++s->seq));
	char *text = json_dumps(message, JSON_COMPACT);
	json_decref(message);
	if (!text || s->is_broken) {
		s->is_broken = true;
		free(text);
		return;
	}
	size_t n = strlen(text);
	int used = snprintf(header, sizeof(header), "Content-Length: %zu\r\n\r\n", n);
	add(s, header, (size_t)used);
	add(s, text, n);
	free(text);
}

void dap_send_event(struct dap_send *s, const char *event, json_t *body)
{
	json_t *j = json_pack("{s:s, s:s}", "type", "event", "event", event);

	if (body)
		json_object_set_new(j, "body", body);
	send_message(s, j);
}

static json_t *response_begin(const json_t *request, bool is_success)
{
	const char *command = json_string_value(json_object_get(request, "command"));

	return json_pack("{s:s, s:I, s:s, s:b}", "type", "response", "request_seq",
			 (json_int_t)json_integer_value(json_object_get(request, "seq")), "command",
			 command ? command : "", "success", is_success);
}

void dap_send_response(struct dap_send *s, const json_t *request, json_t *body)
{
	json_t *j = response_begin(request, true);

	if (body)
		json_object_set_new(j, "body", body);
	send_message(s, j);
}

static void send_refusal(struct dap_send *s, const json_t *request, const char *why, bool is_shown)
{
	json_t *j = response_begin(request, false);

	json_object_set_new(j, "message", json_string(why));
	json_object_set_new(j, "body",
			    json_pack("{s:{s:i, s:s, s:b}}", "error", "id", 1, "format", why,
				      "showUser", is_shown));
	send_message(s, j);
}

void dap_send_refusal(struct dap_send *s, const json_t *request, const char *why)
{
	send_refusal(s, request, why, true);
}

void dap_send_refusal_quiet(struct dap_send *s, const json_t *request, const char *why)
{
	send_refusal(s, request, why, false);
}

bool dap_send_has_room(const struct dap_send *s)
{
	return s->count < DAP_UNREAD_LINES;
}

void dap_send_flush(struct dap_send *s)
{
	while (s->count && !s->is_broken) {
		ssize_t n = write(s->fd, s->bytes + s->from, s->count);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0) {
			s->is_broken = true;
			return;
		}
		s->from += (size_t)n;
		s->count -= (size_t)n;
	}
	s->from = 0;
}

void dap_send_finish(struct dap_send *s, int timeout_ms)
{
	uint64_t end = clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };

	dap_send_flush(s);
	while (s->count && !s->is_broken && clock_now_ns() < end) {
		poll(&p, 1, 50);
		dap_send_flush(s);
	}
}

void dap_send_free(struct dap_send *s)
{
	free(s->bytes);
	*s = (struct dap_send){ .fd = -1 };
}
