/* SPDX-License-Identifier: MIT */
/* output.c - see output.h. */
#include "cli/output.h"

#include "base/clock.h"
#include "cli/launch/process_name.h"
#include "cli/message.h"
#include "cli/terminal.h"
#include "report/safe/private_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STATUS_INTERVAL_NS 250000000u
#define PROGRESS_INTERVAL_NS 500000000u
#define STANDARD_OUTPUT "standard output"

static uint64_t clock_offset(void)
{
	return clock_ns(CLOCK_REALTIME) - clock_now_ns();
}

int output_open(struct output *o, const char *command, const char *file, int json)
{
	*o = (struct output){ .command = command,
			      .json_path = file,
			      .clock_offset_ns = clock_offset(),
			      .started_ns = clock_now_ns() };
	if (file) {
		o->json = private_file(file);
		if (!o->json)
			return cli_wrong(command, "cannot write %s: %s", file, strerror(errno));
	} else if (json) {
		o->json = stdout;
	}
	if (!json)
		o->text.f = stdout;
	o->text.has_color = terminal_has_color(STDOUT_FILENO);
	o->status = terminal_has_status(STDERR_FILENO);
	return 0;
}

int output_record(struct output *o, const char *path, const struct run_info *info,
		  const struct run_calls *calls)
{
	struct run_info with_name = *info;
	char name[32];

	process_name(info->pid, name, sizeof(name));
	with_name.process = name;
	o->record_path = path;
	int err = run_writer_open(path, &with_name, &o->record);
	if (!err && calls)
		err = run_writer_calls(o->record, calls);
	return err ? cli_wrong(o->command, "cannot write %s: %s", path, strerror(-err)) : 0;
}

/* The first failure is the one that is reported. */
static void fail(struct output *o, const char *path, int err)
{
	if (o->failed_path)
		return;
	o->failed_path = path;
	o->failed_err = err;
}

void output_record_hit(struct output *o, const struct run_hit *hit)
{
	int err = o->record && !o->failed_path ? run_writer_hit(o->record, hit) : 0;

	if (err)
		fail(o, o->record_path, -err);
}

void output_record_end(struct output *o, const struct run_end *end,
		       const struct run_calls_end *calls_end)
{
	int err = 0;

	if (!o->record || o->failed_path)
		return;
	if (calls_end)
		err = run_writer_calls_end(o->record, calls_end);
	if (!err)
		err = run_writer_end(o->record, end);
	if (err)
		fail(o, o->record_path, -err);
}

void output_close(struct output *o)
{
	output_clear_status(o);
	if (o->json && o->json != stdout)
		fclose(o->json);
	run_writer_close(o->record);
	o->json = NULL;
	o->record = NULL;
}

void output_clear_status(struct output *o)
{
	if (o->status_shown)
		terminal_clear_status();
	o->status_shown = false;
}

static void show_status(struct output *o, uint64_t hits, const char *state)
{
	uint64_t now = clock_now_ns();
	uint64_t since = o->status_at_ns ? o->status_at_ns : o->started_ns;

	if (now - since >= STATUS_INTERVAL_NS) {
		o->status_rate = (hits - o->status_hits) * 1000000000u / (now - since);
		o->status_at_ns = now;
		o->status_hits = hits;
	} else if (o->status_shown) {
		return;
	}
	fprintf(stderr, "\r\033[K%" PRIu64 " hit%s in %" PRIu64 " s", hits, hits == 1 ? "" : "s",
		(now - o->started_ns) / 1000000000u);
	/* Before the first interval has passed there is no rate. */
	if (o->status_at_ns)
		fprintf(stderr, ", %" PRIu64 " a second", o->status_rate);
	fprintf(stderr, "%s; Ctrl-C ends", state);
	o->status_shown = true;
	terminal_set_status(true);
}

bool output_progress_is_due(struct output *o)
{
	uint64_t now = clock_now_ns();

	if (!o->status || now - o->status_at_ns < PROGRESS_INTERVAL_NS)
		return false;
	o->status_at_ns = now;
	return true;
}

void output_progress(struct output *o, const char *format, ...)
{
	va_list args;

	if (!o->status)
		return;
	fputs("\r\033[K", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	o->status_shown = true;
	terminal_set_status(true);
}

static void flush(struct output *o, FILE *f, const char *path)
{
	errno = 0;
	if (f && fflush(f))
		fail(o, path, errno);
}

static bool flush_all(struct output *o, uint64_t hits)
{
	int err = o->record && !o->failed_path ? run_writer_flush(o->record) : 0;

	if (err)
		fail(o, o->record_path, -err);
	flush(o, o->text.f, STANDARD_OUTPUT);
	flush(o, o->json, o->json_path ? o->json_path : STANDARD_OUTPUT);
	if (!o->failed_path)
		o->flushed_hits = hits;
	return !o->failed_path;
}

bool output_flush(struct output *o, uint64_t hits, const char *state)
{
	if (!flush_all(o, hits))
		return false;
	if (o->status)
		show_status(o, hits, state);
	return true;
}

static uint64_t hits_of_recording(const char *path)
{
	struct run_session *s;
	char why[200];

	if (run_session_read(path, &s, why, sizeof(why)))
		return 0;
	uint64_t hits = s->hit_count;
	run_session_free(s);
	return hits;
}

/* Whole lines only. */
static uint64_t hits_of_json(const char *path)
{
	static const char begin[] = "{\"type\":\"hit\"";
	FILE *f = fopen(path, "re");
	uint64_t hits = 0;
	char *line = NULL;
	size_t room = 0;

	for (ssize_t n; f && (n = getline(&line, &room, f)) > 0;)
		hits += line[n - 1] == '\n' && !strncmp(line, begin, sizeof(begin) - 1);
	free(line);
	if (f)
		fclose(f);
	return hits;
}

/* What is in a file is counted there; what went elsewhere is known up to the last flush. */
static uint64_t kept_hits(const struct output *o)
{
	struct stat st;

	if (o->failed_path != o->record_path && o->failed_path != o->json_path)
		return o->flushed_hits;
	if (stat(o->failed_path, &st) || !S_ISREG(st.st_mode))
		return 0;
	return o->failed_path == o->record_path ? hits_of_recording(o->failed_path) :
						  hits_of_json(o->failed_path);
}

int output_finish(struct output *o, uint64_t hits)
{
	output_clear_status(o);
	flush_all(o, hits);
	output_close(o);
	if (!o->failed_path)
		return CLI_OK;
	uint64_t kept = kept_hits(o);
	cli_wrong(o->command, "cannot write %s: %s; %" PRIu64 " hit%s kept", o->failed_path,
		  strerror(o->failed_err), kept, kept == 1 ? " was" : "s were");
	return CLI_NO;
}
