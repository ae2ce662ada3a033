/* SPDX-License-Identifier: MIT */
/* point_serve.h - the collector: observes for each point, and sends its lines on. */
#ifndef CLI_POINT_POINT_SERVE_H
#define CLI_POINT_POINT_SERVE_H

#include "cli/point/point_sink.h"
#include "cli/point/point_store.h"

/* Until a signal asks for the end. An exit status, with its line. */
int point_serve(struct folder *store, struct point_sinks *sinks);

#endif
