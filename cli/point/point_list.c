/* SPDX-License-Identifier: MIT */
/* point_list.c - see point_list.h. */
#include "cli/point/point_list.h"

#include "cli/message.h"
#include "cli/service/wall_time.h"
#include "report/json_text.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN_BYTES 64

static void time_left(const struct point *p, char *text, size_t n)
{
	double left = p->expires - wall_time();

	if (p->expires <= 0)
		snprintf(text, n, "-");
	else if (left <= 0)
		snprintf(text, n, "expired");
	else if (left < 120)
		snprintf(text, n, "%.0fs", left);
	else if (left < 2 * 3600)
		snprintf(text, n, "%.0fm", left / 60);
	else if (left < 48 * 3600)
		snprintf(text, n, "%.0fh", left / 3600);
	else
		snprintf(text, n, "%.0fd", left / 86400);
}

/* Without a collector nothing is armed, no matter what the last one wrote. */
static void state_of(const struct point_status *s, bool is_served, char *text, size_t n)
{
	if (!is_served && s->state != POINT_REFUSED)
		snprintf(text, n, "not collected");
	else if (s->state == POINT_ARMED)
		snprintf(text, n, "armed in %" PRIu64, s->processes);
	else
		snprintf(text, n, "%s", point_state_name(s->state));
}

static void print_row(const struct point *p, const struct point_status *s, bool is_served)
{
	char name[COLUMN_BYTES];
	char state[COLUMN_BYTES];
	char left[COLUMN_BYTES];
	char location[256];

	time_left(p, left, sizeof(left));
	state_of(s, is_served, state, sizeof(state));
	snprintf(name, sizeof(name), "%s", p->name ? p->name : "?");
	snprintf(location, sizeof(location), "%s", p->location ? p->location : "?");
	clean_text(name);
	clean_text(location);
	printf("%5" PRIu64 "  %-15s  %-13s %8" PRIu64 " %8" PRIu64 " %10" PRIu64 " %6" PRIu64
	       " %6" PRIu64 " %7s  %s\n",
	       p->id, name, state, s->hits, s->sent, s->suppressed, s->failed, s->lost, left,
	       location);
	if (s->reason[0] && (is_served || s->state == POINT_REFUSED))
		printf("       %s\n", s->reason);
}

static void print_json(const struct point *p, const struct point_status *s, bool is_served)
{
	json_t *j = p->json ? json_copy(p->json) : json_pack("{s:I}", "id", (json_int_t)p->id);
	json_t *status = point_status_to_json(s);

	if (j && status)
		json_object_update(j, status);
	json_decref(status);
	if (j && !is_served && s->state != POINT_REFUSED)
		json_object_set_new(j, "state", json_string("not collected"));
	if (j && p->expires > 0)
		json_object_set_new(j, "left_s", json_real(p->expires - wall_time()));
	if (j)
		run_jsonl_line(stdout, j);
}

static void print_one(const struct folder *store, uint64_t id, bool is_served, bool as_json)
{
	struct point p = { 0 };
	struct point_status s;
	char why[POINT_REASON_BYTES];

	int err = point_store_read(store, id, &p, why, sizeof(why));
	/* It was removed since the folder was read. */
	if (err == -ENOENT)
		return;
	p.id = id;
	point_store_read_status(store, id, &s);
	if (err) {
		s.state = POINT_REFUSED;
		memcpy(s.reason, why, sizeof(why));
	}
	if (as_json)
		print_json(&p, &s, is_served);
	else
		print_row(&p, &s, is_served);
	point_free(&p);
}

int point_list(const struct folder *store, bool as_json)
{
	bool is_served = folder_is_served(store);
	uint64_t *ids = NULL;
	size_t count = 0;
	int err = point_store_list(store, &ids, &count);

	if (!err && count && !as_json)
		printf("%5s  %-15s  %-13s %8s %8s %10s %6s %6s %7s  %s\n", "id", "name", "state",
		       "hits", "sent", "suppressed", "failed", "lost", "left", "location");
	for (size_t i = 0; i < count && !err; i++)
		print_one(store, ids[i], is_served, as_json);
	free(ids);
	return err ? cli_wrong(POINT_COMMAND, "cannot read %s: %s", store->path, strerror(-err)) :
		     0;
}
