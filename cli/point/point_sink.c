/* SPDX-License-Identifier: MIT */
/* point_sink.c - see point_sink.h. */
#include "cli/point/point_sink.h"

#include "cli/point/point_journal.h"
#include "cli/service/rotated_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct point_sink {
	struct point_sink *next;
	char *to;
	bool is_journal;
	struct journal journal;
	struct rotated_file file;
};

const char *point_sink_wrong(const char *to)
{
	if (journal_is(to))
		return journal_wrong(to);
	return to[0] == '/' ? NULL : "expected journal, journal:NAMESPACE or the path of a file";
}

static struct point_sink *sink_of(struct point_sinks *sinks, const char *to)
{
	struct point_sink *s = sinks->first;

	while (s && strcmp(s->to, to) != 0)
		s = s->next;
	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	char *copy = s ? strdup(to) : NULL;
	if (!copy) {
		free(s);
		return NULL;
	}
	*s = (struct point_sink){ .next = sinks->first, .to = copy, .is_journal = journal_is(to) };
	if (s->is_journal)
		journal_open(&s->journal, copy);
	else
		rotated_file_open(&s->file, copy, sinks->rotate_bytes, sinks->keep);
	sinks->first = s;
	return s;
}

int point_sink_send(struct point_sinks *sinks, const struct point *p, const char *line, size_t n)
{
	struct point_sink *s = sink_of(sinks, p->to ? p->to : sinks->file);

	if (!s)
		return -ENOMEM;
	return s->is_journal ? point_journal_send(&s->journal, p, line, n) :
			       rotated_file_send(&s->file, line, n);
}

void point_sinks_look(struct point_sinks *sinks)
{
	for (struct point_sink *s = sinks->first; s; s = s->next)
		if (!s->is_journal)
			rotated_file_look(&s->file);
}

void point_sinks_close(struct point_sinks *sinks)
{
	while (sinks->first) {
		struct point_sink *s = sinks->first;

		sinks->first = s->next;
		if (s->is_journal)
			journal_close(&s->journal);
		else
			rotated_file_close(&s->file);
		free(s->to);
		free(s);
	}
}
