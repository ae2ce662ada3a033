/* SPDX-License-Identifier: MIT */
/* patrol_serve.h - the patrol itself: it visits until a signal asks for its end. */
#ifndef CLI_PATROL_PATROL_SERVE_H
#define CLI_PATROL_PATROL_SERVE_H

#include "cli/patrol/patrol_state.h"

/* The folder is opened. 0 or an exit status, line printed. */
int patrol_serve(const struct patrol_rules *rules, struct folder *folder);

#endif
