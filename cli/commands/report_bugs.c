/* SPDX-License-Identifier: MIT */
/* report_bugs.c - see report_bugs.h. */
#include "cli/commands/report_bugs.h"

#include "cli/cmd.h"
#include "cli/message.h"
#include "cli/service/child.h"
#include "cli/service/wall_time.h"
#include "report/finding/bugs.h"
#include "report/safe/line.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define COMMAND "report"
#define POSTGRES "postgres:"
#define LINE_BYTES_MAX (1u << 20)
#define WAIT_MS 100

/* A pipe to it would wait for ever. */
static int read_file(struct bugs *b, const char *path)
{
	struct stat st;
	char *text = NULL;
	size_t size = 0;
	ssize_t n;

	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return cli_wrong(COMMAND, "cannot read %s: it is not a file", path);
	FILE *f = fopen(path, "re");
	if (!f)
		return cli_wrong(COMMAND, "cannot read %s: %s", path, strerror(errno));
	while ((n = line_read(&text, &size, f, LINE_BYTES_MAX)) > 0)
		if (text[strspn(text, " \t\r\n")])
			bugs_add(b, text, (size_t)n);
	free(text);
	fclose(f);
	return CLI_OK;
}

static bool has_lines(const char *name)
{
	return strstr(name, ".jsonl") && name[0] != '.';
}

static int read_folder(struct bugs *b, const char *folder)
{
	char path[PATH_MAX];
	size_t files = 0;
	int status = CLI_OK;
	DIR *d = opendir(folder);

	if (!d)
		return cli_wrong(COMMAND, "cannot read %s: %s", folder, strerror(errno));
	for (struct dirent *e; !status && (e = readdir(d));) {
		if (!has_lines(e->d_name) ||
		    snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) >= (int)sizeof(path))
			continue;
		files++;
		status = read_file(b, path);
	}
	closedir(d);
	if (!status && !files)
		status = cli_wrong(COMMAND, "%s has no file of JSON lines (*.jsonl)", folder);
	return status;
}

struct query {
	struct bugs *bugs;
	char said[300];
};

static void on_row(void *arg, const char *line, size_t n)
{
	const struct query *q = arg;

	bugs_add(q->bugs, line, n);
}

static void on_error(void *arg, const char *line, size_t n)
{
	struct query *q = arg;

	if (!q->said[0])
		snprintf(q->said, sizeof(q->said), "%s", line);
}

static int read_postgres(struct bugs *b, const char *connection)
{
	static const char *const words[] = { "psql",	   "--no-psqlrc",
					     "--quiet",	   "--no-password",
					     "--no-align", "--tuples-only",
					     "--command",  "SELECT line FROM trapline_findings",
					     "--dbname" };
	struct child_words w = { .count = 0 };
	struct query q = { .bugs = b };
	struct child c;
	int status = 0;
	bool has_ended = false;

	child_words_add_all(&w, words, sizeof(words) / sizeof(words[0]));
	child_words_add(&w, connection, NULL);
	int err = child_start(&c, "psql", &w, -1);
	child_words_free(&w);
	if (err)
		return cli_wrong(COMMAND, "cannot start psql: %s", strerror(-err));
	while (c.out.fd >= 0 || !has_ended) {
		struct pollfd fds[] = { { .fd = c.out.fd, .events = POLLIN },
					{ .fd = c.err.fd, .events = POLLIN } };
		poll(fds, 2, WAIT_MS);
		child_lines_read(&c.err, on_error, &q);
		b->bad += child_lines_read(&c.out, on_row, &q);
		has_ended = has_ended || child_has_ended(&c, &status);
	}
	child_release(&c);
	status = cli_status_of(status);
	if (status == CHILD_NOT_FOUND)
		return cli_wrong(COMMAND, "psql is missing: install postgresql-client");
	return status ? cli_wrong(COMMAND, "cannot read the database: %s", q.said) : CLI_OK;
}

static int read_from(struct bugs *b, const char *from)
{
	struct stat st;

	if (!strncmp(from, POSTGRES, strlen(POSTGRES)))
		return read_postgres(b, from + strlen(POSTGRES));
	if (stat(from, &st))
		return cli_wrong(COMMAND, "cannot read %s: %s", from, strerror(errno));
	return S_ISDIR(st.st_mode) ? read_folder(b, from) : read_file(b, from);
}

/* In the form of the times of findings. */
static void moment(uint64_t before_ns, char *text, size_t n)
{
	time_t at = (time_t)(wall_time() - (double)before_ns / 1e9);
	struct tm utc;

	gmtime_r(&at, &utc);
	strftime(text, n, "%Y-%m-%dT%H:%M:%S", &utc);
}

int report_bugs(const char *from, const char *as, uint64_t since_ns, FILE *f)
{
	struct bugs b;
	char since[32];
	int status = bugs_new(&b) ? cli_wrong(COMMAND, "out of memory") : read_from(&b, from);

	moment(since_ns, since, sizeof(since));
	if (!status) {
		json_t *rows = bugs_rows(&b, since);
		const char *name = strncmp(from, POSTGRES, strlen(POSTGRES)) ? from : "PostgreSQL";
		if (as && !strcmp(as, "html"))
			bugs_print_page(&b, rows, name, since, f);
		else if (as && !strcmp(as, "json"))
			bugs_print_json(rows, f);
		else
			bugs_print_text(&b, rows, f);
		json_decref(rows);
	}
	bugs_free(&b);
	return status;
}
