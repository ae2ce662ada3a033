/* SPDX-License-Identifier: MIT */
/* dap_evaluate.h - what is entered in the console, or hovered over. */
#ifndef CLI_DAP_DAP_EVALUATE_H
#define CLI_DAP_DAP_EVALUATE_H

#include "cli/dap/dap.h"

/* Answers the request. */
void dap_evaluate(struct dap *d, const json_t *request);

#endif
