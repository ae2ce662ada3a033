/* SPDX-License-Identifier: MIT */
/* point_list.h - the points with their states and counters, as a table or as JSON lines. */
#ifndef CLI_POINT_POINT_LIST_H
#define CLI_POINT_POINT_LIST_H

#include "cli/point/point_store.h"

/* 0 or an exit status, line printed. */
int point_list(const struct folder *store, bool as_json);

#endif
