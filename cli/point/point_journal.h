/* SPDX-License-Identifier: MIT */
/* point_journal.h - the lines of points as entries of systemd's journal. */
#ifndef CLI_POINT_POINT_JOURNAL_H
#define CLI_POINT_POINT_JOURNAL_H

#include "cli/point/point.h"
#include "cli/service/journal.h"

/* 0 or -errno, as journal_send(). */
int point_journal_send(struct journal *j, const struct point *p, const char *line, size_t n);

#endif
