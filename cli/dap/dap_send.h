/* SPDX-License-Identifier: MIT */
/*
 * dap_send.h - messages to the client, which may read slowly or not at all.
 *
 * Nothing waits for the client: what it does not read yet is kept, up to a limit. Behind the limit
 * lines of output are dropped and counted, and a client that leaves answers unread has gone.
 */
#ifndef CLI_DAP_DAP_SEND_H
#define CLI_DAP_DAP_SEND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DAP_UNREAD_MAX (32u << 20)  /* of all; more means that the client has gone */
#define DAP_UNREAD_LINES (1u << 20) /* above it no line of output is added */

struct dap_send {
	int fd; /* does not block */
	uint64_t seq;
	char *bytes;
	size_t from;
	size_t count;
	size_t room;
	uint64_t dropped; /* lines of output, since this was last stated */
	bool is_broken;
};

/* Each takes the body, which may be NULL. */
void dap_send_event(struct dap_send *s, const char *event, json_t *body);
void dap_send_response(struct dap_send *s, const json_t *request, json_t *body);
void dap_send_refusal(struct dap_send *s, const json_t *request, const char *why);
/* For the client, which need not show it to its user. */
void dap_send_refusal_quiet(struct dap_send *s, const json_t *request, const char *why);

/* Is there room for lines of output? */
bool dap_send_has_room(const struct dap_send *s);
/* Writes what can be written now. */
void dap_send_flush(struct dap_send *s);
/* Waits for the client to read the rest, so long at most. */
void dap_send_finish(struct dap_send *s, int timeout_ms);
void dap_send_free(struct dap_send *s);

#endif
