/* SPDX-License-Identifier: MIT */
/*
 * dap_frames.h - messages of the Debug Adapter Protocol out of a stream of bytes.
 *
 * A message is JSON behind a header: `Content-Length: N`, an empty line, N bytes. What breaks this
 * form ends the session: where the next message begins is then not known.
 */
#ifndef CLI_DAP_DAP_FRAMES_H
#define CLI_DAP_DAP_FRAMES_H

#include <jansson.h>
#include <stddef.h>

#define DAP_HEADER_MAX 1024
#define DAP_MESSAGE_MAX (8u << 20) /* ten thousand breakpoints, each with a condition and a text */
#define DAP_STRANGER_MAX (64u << 10) /* of a client that has not shown the token yet */

struct dap_frames {
	char *bytes;
	size_t count;
	size_t room;
	size_t max;	 /* of a message */
	const char *why; /* what was wrong; NULL: nothing */
};

void dap_frames_begin(struct dap_frames *f, size_t max);
/* 0 or -ENOMEM. */
int dap_frames_add(struct dap_frames *f, const void *bytes, size_t n);
/*
 * 1 with *out, an object that the caller releases; 0: more bytes are needed; -EPROTO with f->why.
 */
int dap_frames_next(struct dap_frames *f, json_t **out);
void dap_frames_end(struct dap_frames *f);

#endif
