/* SPDX-License-Identifier: MIT */
/* dap_target.h - the process of a session: found or started, looked after, and left as it was. */
#ifndef CLI_DAP_DAP_TARGET_H
#define CLI_DAP_DAP_TARGET_H

#include "cli/dap/dap.h"

/* Both answer the request, and inform the client that breakpoints can be set. */
void dap_target_attach(struct dap *d, const json_t *request);
void dap_target_launch(struct dap *d, const json_t *request);
/* The client has set its breakpoints: a process that was launched begins. */
void dap_target_configured(struct dap *d);
/* Has it ended, or become another program? Then the client gets the message, with the balance. */
void dap_target_look(struct dap *d);
/* Everything out of the process. ends: a process that was launched is ended. */
void dap_target_leave(struct dap *d, bool ends);
json_t *dap_target_threads(struct dap *d);

#endif
