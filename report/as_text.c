// SPDX-License-Identifier: MIT
/* as_text.c - hits as lines for people, and the summary of a run. */
#include "run_watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const access_names[] = { "", "r", "w", "rw" };

/* Names that a run keeps, and what they mean. */
static const struct explained {
	const char *name;
	const char *text;
} mechanisms[] = {
	{ "signal", "a signal in the thread" },
	{ "bpf", "BPF records, values read at the hit" },
	{ "ring", "the kernel's ring of records, values read later" },
}, deciders[] = {
	{ "kernel", "in the kernel: a rejected hit had no other effect" },
	{ "handler", "in the handler: a rejected hit cost a signal" },
	{ "reader", "by the reader, on values read later: a rejected hit cost a record" },
};

static const char *explain(const struct explained *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return list[i].text;
	return name;
}

const char *run_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void run_clean_text(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		bool is_c1 = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
		if (*c < 0x20 || *c == 0x7f || is_c1)
			*c = '?';
		if (is_c1)
			c[1] = '?';
	}
}

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

/* The same with file and line. */
void run_place_text_with_line(const struct place *p, uint64_t ip, char *buf, size_t n)
{
	run_place_text(p, ip, buf, n);
	size_t used = strlen(buf);
	if (p->file && used < n)
		snprintf(buf + used, n - used, " (%s:%d)", run_base_name(p->file), p->line);
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

static void print_frame(FILE *f, size_t number, const struct run_frame *frame)
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
		print_frame(f, i, &frames[i]);
}

void run_hit_by_text(const struct run_hit *hit, char *buf, size_t n)
{
	buf[0] = 0;
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
	fprintf(o->f, "  %-*s  %-*s  %s%-*s%s  %s", run_text_widen(&o->thread_width, thread, 24), thread,
		run_text_widen(&o->place_width, site, 56), site, o->has_color ? "\033[1m" : "",
		run_text_widen(&o->value_width, change, 40), change,
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
		fputs("  (SIGTRAP was blocked: the place is where it was unblocked)", o->f);
	fputc('\n', o->f);
	run_text_frames(o->f, hit->frames, hit->frame_count);
}

static uint64_t counts_sum(const struct run_end *end, bool is_lost)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < end->count_count; i++)
		if (end->counts[i].is_lost == is_lost)
			sum += end->counts[i].value;
	return sum;
}

/* " (limit 3, duplicate 1)", or nothing. */
static void print_named(FILE *f, const struct run_end *end, bool is_lost)
{
	const char *before = " (";

	for (size_t i = 0; i < end->count_count; i++) {
		const struct run_count *c = &end->counts[i];
		if (c->is_lost != is_lost || !c->value)
			continue;
		fprintf(f, "%s%s %" PRIu64, before, c->name, c->value);
		before = ", ";
	}
	if (*before == ',')
		fputc(')', f);
}

void run_text_balance(FILE *f, const struct run_end *end)
{
	fprintf(f, "taken %" PRIu64 " = rejected %" PRIu64, end->taken, counts_sum(end, false));
	print_named(f, end, false);
	fprintf(f, " + delivered %" PRIu64 " + lost %" PRIu64, end->delivered,
		counts_sum(end, true));
	print_named(f, end, true);
	if (end->unread)
		fprintf(f, " + unread %" PRIu64, end->unread);
	fputc('\n', f);
}

void run_text_sites(FILE *f, const struct tally_sum *sums, size_t n, uint64_t total,
		    const char *title)
{
	fprintf(f, "\n%10s %6s %8s  %s\n", "hits", "share", "threads", title);
	for (size_t i = 0; i < n && i < RUN_TEXT_ROWS_MAX; i++) {
		const struct tally_sum *sum = &sums[i];
		const struct place *p = &sum->place;
		char site[400];
		run_place_text_with_line(p, sum->ip, site, sizeof(site));
		fprintf(f, "%10" PRIu64 " %5.1f%% %8zu  %s%s%s\n", sum->hits,
			100.0 * (double)sum->hits / (double)total, sum->others, site,
			p->function && p->module ? " in " : "",
			p->function && p->module ? p->module : "");
	}
	if (n > RUN_TEXT_ROWS_MAX)
		fprintf(f, "%10s and %zu more places\n", "", n - RUN_TEXT_ROWS_MAX);
}

void run_text_threads(FILE *f, const struct tally_sum *sums, size_t n, uint64_t total)
{
	fprintf(f, "\n%10s %6s %8s  %s\n", "hits", "share", "places", "thread");
	for (size_t i = 0; i < n && i < RUN_TEXT_ROWS_MAX; i++) {
		const struct tally_sum *sum = &sums[i];
		fprintf(f, "%10" PRIu64 " %5.1f%% %8zu  ", sum->hits,
			100.0 * (double)sum->hits / (double)total, sum->others);
		if (sum->tid)
			fprintf(f, "%s/%d\n", sum->thread[0] ? sum->thread : "?", sum->tid);
		else
			fputs("(further threads)\n", f);
	}
	if (n > RUN_TEXT_ROWS_MAX)
		fprintf(f, "%10s and %zu more threads\n", "", n - RUN_TEXT_ROWS_MAX);
}

static uint64_t print_tally(FILE *f, const struct run_info *info, const struct run_end *end,
			    const struct tally *tally)
{
	size_t site_count;
	size_t thread_count;
	struct tally_sum *sites = tally_sums(tally, false, &site_count);
	struct tally_sum *threads = tally_sums(tally, true, &thread_count);
	uint64_t total = 0;

	for (size_t i = 0; i < site_count; i++)
		total += sites[i].hits;
	fprintf(f, "%s%s: %" PRIu64 " hit%s in %.1f s; %s\n", total ? "\n" : "", info->what, total,
		total == 1 ? "" : "s", (double)end->duration_ns / 1e9, end->reason);
	if (end->command)
		fprintf(f, "command: %s\n", end->command);
	if (total) {
		run_text_sites(f, sites, site_count, total, "where");
		run_text_threads(f, threads, thread_count, total);
	}
	free(sites);
	free(threads);
	return total;
}

void run_text_decision(FILE *f, const struct run_info *info, const struct run_end *end)
{
	if (!end->decided_in)
		return;
	fprintf(f, "decided %s", explain(deciders, 3, end->decided_in));
	if (end->condition_faults)
		fprintf(f, "; %" PRIu64 " could not be decided (unreadable memory, or a division by 0) "
			"and were rejected", end->condition_faults);
	fputc('\n', f);
	if (info->is_bit_field)
		fputs("a bit-field: writes that changed other bits of the same bytes only are among "
		      "those rejected by condition\n", f);
}

void run_text_pauses(FILE *f, const struct run_end *end, const char *more)
{
	if (!end->pauses)
		return;
	fprintf(f, "paused %" PRIu64 " time%s, %.1f s of %.1f s (%.0f%%), to stay under %" PRIu64
		" hits a second: hits in the pauses were not seen%s (--max-rate 0: no pauses)\n",
		end->pauses, end->pauses == 1 ? "" : "s", (double)end->paused_ns / 1e9,
		(double)end->duration_ns / 1e9,
		100.0 * (double)end->paused_ns / (double)end->duration_ns, end->max_rate, more);
}

void run_text_not_seen(FILE *f, const struct run_end *end)
{
	for (size_t i = 0; end->sees_kernel && i < end->count_count; i++)
		if (!strcmp(end->counts[i].name, "partial") && end->counts[i].value)
			fputs("partial: pieces of what the kernel copied; a whole copy is one hit\n", f);
	fprintf(f, "not seen: accesses made %sby DMA, by other processes or through another mapping "
		"of the same memory\n", end->sees_kernel ? "" : "by system calls (--kernel), ");
	if (end->unseen_changes)
		fprintf(f, "the value changed at least %" PRIu64 " time%s unseen, by one of these\n",
			end->unseen_changes, end->unseen_changes == 1 ? "" : "s");
}

void run_text_end(struct run_text *o, const struct run_info *info, const struct run_end *end,
		  const struct tally *tally)
{
	FILE *f = o->f;

	print_tally(f, info, end, tally);
	fputc('\n', f);
	run_text_balance(f, end);
	run_text_decision(f, info, end);
	fprintf(f, "mechanism: %s", explain(mechanisms, 3, end->mechanism));
	if (end->price_ns >= 0)
		fprintf(f, "; a hit costs the target about %.1f us on this machine",
			end->price_ns / 1000);
	fputc('\n', f);
	run_text_pauses(f, end, "");
	run_text_not_seen(f, end);
	run_text_watch_end(f, end);
}
