/* SPDX-License-Identifier: MIT */
/*
 * patrol_metrics.c - counters for the textfile collector of Prometheus's node exporter.
 *
 * It reads the file at any moment, so the file is renamed to its name when it is whole.
 */
#include "cli/patrol/patrol_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP trapline_%s %s\n# TYPE trapline_%s %s\n", name, help, name, type);
}

/* As its format wants texts: quotes, backslashes and line feeds have a backslash. */
static void label(FILE *f, const char *name, const char *value)
{
	fprintf(f, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '\n') {
			fputs("\\n", f);
			continue;
		}
		if (*value == '"' || *value == '\\')
			fputc('\\', f);
		fputc(*value, f);
	}
	fputc('"', f);
}

static void write_findings(const struct patrol_state *s, FILE *f)
{
	head(f, "findings_total", "counter", "Findings of all visits, repetitions included.");
	for (size_t i = 0; i < PATROL_KINDS && s->found[i].count; i++) {
		fputs("trapline_findings_total{", f);
		label(f, "type", s->found[i].type);
		fputc(',', f);
		label(f, "kind", s->found[i].kind);
		fprintf(f, "} %" PRIu64 "\n", s->found[i].count);
	}
	head(f, "findings_lost_total", "counter", "Findings above the limit of a visit.");
	fprintf(f, "trapline_findings_lost_total %" PRIu64 "\n", s->findings_lost);
}

static void write_visits(const struct patrol_state *s, FILE *f)
{
	head(f, "visits_total", "counter", "Visits of processes, by tool and reason of their end.");
	for (size_t tool = 0; tool < PATROL_TOOLS; tool++)
		for (size_t end = 0; end < PATROL_ENDS; end++)
			if (s->visits[tool][end])
				fprintf(f,
					"trapline_visits_total{tool=\"%s\",end=\"%s\"} %" PRIu64
					"\n",
					patrol_tool_name((enum patrol_tool)tool),
					patrol_end_name((enum patrol_end)end),
					s->visits[tool][end]);
	head(f, "processes", "gauge", "Processes that the rules name now.");
	fprintf(f, "trapline_processes %zu\n", s->processes.count);
	head(f, "visiting", "gauge", "Processes that are visited now.");
	fprintf(f, "trapline_visiting %d\n", s->visit.runs);
	head(f, "cpu_seconds_total", "counter",
	     "CPU time of the patrol, its tools, and their cost in the processes.");
	fprintf(f, "trapline_cpu_seconds_total %.3f\n", (s->cpu_ns + s->account.total) / 1e9);
}

static void write_roads(const struct patrol_state *s, FILE *f)
{
	static const struct {
		const char *name;
		const char *type;
		const char *help;
		size_t offset;
	} rows[] = {
		{ "road_sent_total", "counter", "Findings that the receiver took.",
		  offsetof(struct road, sent) },
		{ "road_waiting", "gauge", "Findings that wait for the receiver.",
		  offsetof(struct road, count) },
		{ "road_dropped_total", "counter",
		  "Findings that were dropped: the spool was full.",
		  offsetof(struct road, dropped) },
		{ "road_refused_total", "counter", "Findings that the receiver refused.",
		  offsetof(struct road, refused) },
	};
	_Static_assert(sizeof(size_t) == sizeof(uint64_t), "the counters have one size");

	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		head(f, rows[k].name, rows[k].type, rows[k].help);
		for (size_t i = 0; i < s->rules->road_count; i++) {
			uint64_t value;

			if (s->rules->road[i].kind == ROAD_PROMETHEUS)
				continue;
			memcpy(&value, (const char *)&s->road[i] + rows[k].offset, sizeof(value));
			fprintf(f, "trapline_%s{", rows[k].name);
			label(f, "road", s->rules->road[i].title);
			fprintf(f, "} %" PRIu64 "\n", value);
		}
	}
}

int patrol_metrics_write(const struct patrol_state *s, const char *path)
{
	char new[PATH_MAX];
	int err = 0;

	/* The exporter reads names that end in .prom only. */
	if (snprintf(new, sizeof(new), "%s.new", path) >= (int)sizeof(new))
		return -ENAMETOOLONG;
	unlink(new);
	int fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	/* The exporter is another user, and the file has counters only. */
	if (fchmod(fd, 0644))
		err = -errno;
	write_findings(s, f);
	write_visits(s, f);
	write_roads(s, f);
	if (fclose(f) && !err)
		err = -errno;
	if (!err && rename(new, path))
		err = -errno;
	if (err)
		unlink(new);
	return err;
}
