/* SPDX-License-Identifier: MIT */
/*
 * baseline.h - the findings that were known before, in a file: one a line, by fingerprint.
 *
 * Meant to be kept beside the source: sorted, so that a change to it is a few lines, and with a
 * few words after each fingerprint for readers.
 */
#ifndef REPORT_FINDING_BASELINE_H
#define REPORT_FINDING_BASELINE_H

#include <stdbool.h>
#include <stddef.h>

struct baseline;

struct baseline_entry {
	char fingerprint[20];
	char *text; /* what is after it */
	bool is_seen;
};

/* An empty one, to be released by baseline_free(), which takes NULL. 0 or -ENOMEM. */
int baseline_new(struct baseline **out);
void baseline_free(struct baseline *b);

/*
 * Add what is in a file. -EINVAL: error[] is one line, "FILE:LINE: what is wrong"; other -errno of
 * the file.
 */
int baseline_read(struct baseline *b, const char *path, char *error, size_t n);

/* Is it in there? Remembers that it was asked for. b may be NULL. */
bool baseline_see(struct baseline *b, const char *fingerprint);

size_t baseline_count(const struct baseline *b);
const struct baseline_entry *baseline_at(const struct baseline *b, size_t i);
/* How many were not seen in this run. */
size_t baseline_gone(const struct baseline *b);

/* Adds an error with a few words for readers, unless it is there; *added counts. 0 or -ENOMEM. */
int baseline_add(struct baseline *b, const char *fingerprint, const char *words, size_t *added);
/* Into a file, all or nothing. what: `races`, as its first line has it. 0 or -errno. */
int baseline_save(const struct baseline *b, const char *what, const char *command,
		  const char *path);

#endif
