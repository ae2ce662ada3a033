/* SPDX-License-Identifier: MIT */
/* journal.h - entries with fields for systemd's journal, by its own protocol. */
#ifndef CLI_SERVICE_JOURNAL_H
#define CLI_SERVICE_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct journal {
	const char *to;
	int fd; /* -1: not open */
};

/* `journal` or `journal:NAMESPACE` */
bool journal_is(const char *to);
/* NULL, or what is wrong with the namespace. */
const char *journal_wrong(const char *to);

/* to stays the caller's. */
void journal_open(struct journal *j, const char *to);
void journal_close(struct journal *j);

/* Into an entry; value NULL, or of another type: no field. */
void journal_field(FILE *f, const char *name, const char *value);
void journal_number(FILE *f, const char *name, const json_t *value);
/* Any JSON, as text. */
void journal_json(FILE *f, const char *name, const json_t *value);

/*
 * An entry of the fields that write() makes, without the long ones if is_short. 0 or -errno: the
 * journal did not take the entry. It is never waited for.
 */
int journal_send(struct journal *j, void (*write)(FILE *f, const void *arg, bool is_short),
		 const void *arg);

#endif
