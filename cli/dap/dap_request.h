/* SPDX-License-Identifier: MIT */
/* dap_request.h - each request of the client has one answer. */
#ifndef CLI_DAP_DAP_REQUEST_H
#define CLI_DAP_DAP_REQUEST_H

#include "cli/dap/dap.h"

/* d->ended is set when it was the last one. */
void dap_request(struct dap *d, const json_t *message);

#endif
