/* SPDX-License-Identifier: MIT */
/* as_text.c - hits as lines for people. The summary is in summary_text.c. */
#include "report/run/run_text.h"

#include "report/dwarf/same_code.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const access_names[] = { "", "r", "w", "rw" };

void run_place_text(const struct place *p, uint64_t address, char *buf, size_t n)
{
	if (p->function && p->offset)
		snprintf(buf, n, "%s+0x%" PRIx64, p->function, p->offset);
	else if (p->function)
		snprintf(buf, n, "%s", p->function);
	else if (p->module)
		snprintf(buf, n, "%s+0x%" PRIx64, p->module, p->module_offset);
	else
		snprintf(buf, n, "0x%" PRIx64, address);
}

void run_same_code_text(const struct place *p, char *buf, size_t n)
{
	static const char and[] = SAME_CODE_AND;
	const char *names = p->same_code ? p->same_code : "";
	size_t first = strlen(names);
	size_t more = 0;

	for (const char *at = names; (at = strstr(at, and)); at += strlen(and)) {
		first = more ? first : (size_t)(at - names);
		more++;
	}
	buf[0] = '\0';
	if (more)
		snprintf(buf, n, " (same code as %.*s and %zu more)", (int)first, names, more);
	else if (*names)
		snprintf(buf, n, " (same code as %s)", names);
}

/* The same with other functions that have its code, file and line. */
void run_place_text_with_line(const struct place *p, uint64_t ip, char *buf, size_t n)
{
	run_place_text(p, ip, buf, n);
	size_t used = strlen(buf);
	if (used < n)
		run_same_code_text(p, buf + used, n - used);
	used = strlen(buf);
	if (p->file && used < n)
		snprintf(buf + used, n - used, " (%s:%d)", basename(p->file), p->line);
}

int run_text_widen(int *width, const char *text, int most)
{
	int n = (int)strlen(text);

	if (n > *width)
		*width = n < most ? n : most;
	return *width;
}

void run_text_time(struct run_text *o, uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;

	localtime_r(&seconds, &tm);
	fprintf(o->f, "%s%02d:%02d:%02d.%06u%s", o->has_color ? "\033[2m" : "", tm.tm_hour,
		tm.tm_min, tm.tm_sec, (unsigned int)(wall_ns % 1000000000u / 1000u),
		o->has_color ? "\033[0m" : "");
}

/* What a '?' instead of a value means: the first time that one is printed. */
static void explain_unknown(struct run_text *o, const struct run_hit *hit)
{
	if (o->has_explained || hit->old_known || !strstr(hit->change, "? -> "))
		return;
	o->has_explained = true;
	fputs("  (?: value not known)", o->f);
}

static void text_print_frame(FILE *f, size_t number, const struct run_frame *frame)
{
	const struct place *p = &frame->place;
	char site[400];

	run_place_text_with_line(p, frame->ip, site, sizeof(site));
	fprintf(f, "    #%-2zu %s%s%s%s\n", number, site, frame->is_inlined ? " inlined" : "",
		p->module && p->function ? " in " : "", p->module && p->function ? p->module : "");
}

void run_text_frames(FILE *f, const struct run_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		text_print_frame(f, i, &frames[i]);
}

void run_hit_by_text(const struct run_hit *hit, char *buf, size_t n)
{
	buf[0] = 0;
	if (hit->via)
		snprintf(buf, n, "by %s", hit->via);
	if (hit->is_by_kernel)
		snprintf(buf, n, "by the kernel%s%s", hit->syscall ? " in " : "",
			 hit->syscall ? hit->syscall : "");
}

void run_text_hit(struct run_text *o, const struct run_info *info, const struct run_hit *hit)
{
	char thread[48];
	char site[400];

	snprintf(thread, sizeof(thread), "%s/%d", hit->thread[0] ? hit->thread : "?", hit->tid);
	run_place_text_with_line(&hit->place, hit->ip, site, sizeof(site));
	char change[500];
	snprintf(change, sizeof(change), "%s%s%s", hit->of ? hit->of : "", hit->of ? ": " : "",
		 hit->change);
	run_text_time(o, hit->time_ns + info->clock_offset_ns);
	fprintf(o->f, "  %-*s  %-*s  %s%-*s%s  %s", run_text_widen(&o->thread_width, thread, 24),
		thread, run_text_widen(&o->place_width, site, 56), site,
		o->has_color ? "\033[1m" : "", run_text_widen(&o->value_width, change, 40), change,
		o->has_color ? "\033[0m" : "", access_names[hit->access & 3]);
	if (hit->len != info->len && !hit->is_typed && !info->is_several)
		fprintf(o->f, "  at 0x%" PRIx64 ":%u", hit->address, hit->len);
	char by[100];
	run_hit_by_text(hit, by, sizeof(by));
	if (by[0])
		fprintf(o->f, "  %s", by);
	if (hit->value_when == 2)
		fputs("  (read later)", o->f);
	if (hit->is_async)
		fputs("  (SIGTRAP was blocked: this is where the thread unblocked it)", o->f);
	explain_unknown(o, hit);
	fputc('\n', o->f);
	run_text_frames(o->f, hit->frames, run_frames_shown(hit->frame_count, o->frames_max));
}
