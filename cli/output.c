// SPDX-License-Identifier: MIT
/* output.c - see output.h. */
#include "cli/output.h"

#include "cli/clock.h"
#include "cli/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATUS_INTERVAL_NS 250000000u

static uint64_t clock_offset(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec - now_ns();
}

static bool has_color(int fd)
{
	const char *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

int output_open(struct output *o, const char *command, const char *file, int json)
{
	const char *term = getenv("TERM");

	*o = (struct output){ .clock_offset_ns = clock_offset(), .started_ns = now_ns() };
	if (file) {
		o->json = fopen(file, "we");
		if (!o->json)
			return cli_wrong(command, "cannot write %s: %s", file,
					 strerror(errno));
	} else if (json) {
		o->json = stdout;
	}
	if (!json)
		o->text.f = stdout;
	o->text.has_color = has_color(STDOUT_FILENO);
	o->status = isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
	return 0;
}

void output_close(struct output *o)
{
	output_clear_status(o);
	if (o->json && o->json != stdout)
		fclose(o->json);
	fflush(stdout);
}

void output_clear_status(struct output *o)
{
	if (o->status_shown)
		fputs("\r\033[K", stderr);
	o->status_shown = false;
}

static void show_status(struct output *o, uint64_t hits, bool paused)
{
	uint64_t now = now_ns();
	uint64_t since = o->status_at_ns ? o->status_at_ns : o->started_ns;

	if (now - since >= STATUS_INTERVAL_NS) {
		o->status_rate = (hits - o->status_hits) * 1000000000u / (now - since);
		o->status_at_ns = now;
		o->status_hits = hits;
	} else if (o->status_shown) {
		return;
	}
	fprintf(stderr,
		"\r\033[K%" PRIu64 " hits/s, %" PRIu64 " in %" PRIu64 " s%s; Ctrl-C ends",
		o->status_rate, hits, (now - o->started_ns) / 1000000000u,
		paused ? ", paused" : "");
	o->status_shown = true;
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
}

bool output_flush(struct output *o, uint64_t hits, bool paused)
{
	bool failed = false;

	if (o->text.f)
		failed = fflush(o->text.f) != 0;
	if (o->json)
		failed = fflush(o->json) != 0 || failed;
	if (o->flush_more)
		failed = !o->flush_more(o->arg) || failed;
	if (o->status && !failed)
		show_status(o, hits, paused);
	return !failed;
}
