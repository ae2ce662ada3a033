/* SPDX-License-Identifier: MIT */
/* point_journal.h - lines to systemd's journal, as entries with fields, by its own protocol. */
#ifndef CLI_POINT_POINT_JOURNAL_H
#define CLI_POINT_POINT_JOURNAL_H

#include "cli/point/point.h"

struct point_journal {
	const char *to;
	int fd; /* -1: not open */
};

/* `journal` or `journal:NAMESPACE` */
bool point_journal_is(const char *to);
/* NULL, or what is wrong with the namespace. */
const char *point_journal_wrong(const char *to);

/* to stays the caller's. */
void point_journal_open(struct point_journal *j, const char *to);
/* 0 or -errno: the journal did not take the entry. It is never waited for. */
int point_journal_send(struct point_journal *j, const struct point *p, const char *line, size_t n);
void point_journal_close(struct point_journal *j);

#endif
