/* SPDX-License-Identifier: MIT */
/* point_serve.c - see point_serve.h. */
#include "cli/point/point_serve.h"

#include "base/clock.h"
#include "base/grow.h"
#include "cli/message.h"
#include "cli/point/point_processes.h"
#include "cli/point/point_served.h"
#include "cli/service/wall_time.h"
#include "cli/watchdog.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 100
#define LOOK_NS UINT64_C(250000000)
#define WRITE_NS UINT64_C(1000000000)
#define STARTING_MOST 2 /* to read a program takes a CPU */
#define END_NS UINT64_C(10000000000)

struct serve {
	struct folder *store;
	struct point_sinks *sinks;
	struct served **point;
	size_t count;
	size_t capacity;
	struct point_processes processes;
	const char **names; /* of the points, each once */
	pid_t *pids;	    /* room for those of one name */
	struct pollfd *fds;
	uint64_t looked_ns;
	uint64_t wrote_ns;
	bool is_write_noted;
};

static struct served *point_of(struct serve *v, uint64_t id)
{
	for (size_t i = 0; i < v->count; i++)
		if (v->point[i]->point.id == id)
			return v->point[i];
	return NULL;
}

/* One that cannot be read is kept too: its reason is in its status. */
static void take(struct serve *v, uint64_t id)
{
	char why[POINT_REASON_BYTES] = "";
	struct served *s = calloc(1, sizeof(*s));

	if (!s || grow_room(v->point, v->count, v->capacity)) {
		free(s);
		return;
	}
	*s = (struct served){
		.sinks = v->sinks, .is_there = true, .is_dirty = true, .observer = CHILD_NONE
	};
	point_store_read_status(v->store, id, &s->status);
	s->status.state = POINT_WAITS;
	s->status.reason[0] = 0;
	if (point_store_read(v->store, id, &s->point, why, sizeof(why))) {
		s->is_invalid = true;
		s->status.state = POINT_REFUSED;
		memcpy(s->status.reason, why, sizeof(why));
		cli_note(POINT_COMMAND, "point %" PRIu64 ": %s", id, why);
	}
	s->point.id = id;
	v->point[v->count++] = s;
}

static void look_at_folder(struct serve *v)
{
	uint64_t *ids = NULL;
	size_t count = 0;

	if (point_store_list(v->store, &ids, &count)) {
		free(ids);
		return;
	}
	for (size_t i = 0; i < v->count; i++)
		v->point[i]->is_there = false;
	for (size_t i = 0; i < count; i++) {
		struct served *s = point_of(v, ids[i]);
		if (s)
			s->is_there = true;
		else
			take(v, ids[i]);
	}
	free(ids);
}

static void look_for_ends(struct serve *v)
{
	double now = wall_time();

	for (size_t i = 0; i < v->count; i++) {
		struct served *s = v->point[i];
		bool is_expired = s->point.expires > 0 && s->point.expires <= now;

		if (s->is_over || (s->is_there && !is_expired))
			continue;
		s->is_over = true;
		cli_note(POINT_COMMAND, "point %" PRIu64 " %s", s->point.id,
			 s->is_there ? "has expired, and is removed" : "was removed");
		s->is_expired = s->is_there;
	}
}

/* Those that are over, and whose children have ended. */
static void drop(struct serve *v)
{
	size_t kept = 0;

	for (size_t i = 0; i < v->count; i++) {
		struct served *s = v->point[i];

		if (!s->is_over || !served_is_idle(s)) {
			v->point[kept++] = s;
			continue;
		}
		/* The last line of the point. */
		if (s->is_expired)
			served_report(s, "expired");
		point_store_remove(v->store, s->point.id);
		served_release(s);
		free(s);
	}
	if (kept < v->count)
		point_store_clean(v->store);
	v->count = kept;
}

static size_t index_of(const char *const *names, size_t count, const char *name)
{
	size_t i = 0;

	while (i < count && strcmp(names[i], name) != 0)
		i++;
	return i;
}

static size_t read_names(struct serve *v)
{
	size_t count = 0;

	for (size_t i = 0; i < v->count; i++) {
		const struct served *s = v->point[i];
		if (!s->is_invalid && index_of(v->names, count, s->point.name) == count)
			v->names[count++] = s->point.name;
	}
	return count;
}

static size_t starting(const struct serve *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->count; i++)
		n += v->point[i]->is_starting;
	return n;
}

static int make_room(struct serve *v)
{
	void *names = realloc(v->names, (v->count + 1) * sizeof(*v->names));
	v->names = names ? names : v->names;
	void *fds = realloc(v->fds, (2 * v->count + 1) * sizeof(*v->fds));
	v->fds = fds ? fds : v->fds;
	return names && fds ? 0 : -1;
}

static void look_at_processes(struct serve *v)
{
	size_t names = read_names(v);

	if (!names || point_processes_read(&v->processes, v->names, names))
		return;
	pid_t *pids = realloc(v->pids, (v->processes.count + 1) * sizeof(*pids));
	if (!pids)
		return;
	v->pids = pids;
	for (size_t i = 0; i < v->count; i++) {
		struct served *s = v->point[i];
		size_t n = 0;
		if (s->is_invalid)
			continue;
		size_t name = index_of(v->names, names, s->point.name);
		for (size_t k = 0; k < v->processes.count; k++)
			if (v->processes.row[k].name == name)
				pids[n++] = v->processes.row[k].pid;
		served_look(s, pids, n, starting(v) < STARTING_MOST);
	}
}

static void write_statuses(struct serve *v, bool is_last)
{
	uint64_t now = clock_now_ns();
	int err = 0;

	if (!is_last && now - v->wrote_ns < WRITE_NS)
		return;
	v->wrote_ns = now;
	for (size_t i = 0; i < v->count; i++) {
		struct served *s = v->point[i];
		if (!s->is_dirty || s->is_over)
			continue;
		int failed = point_store_write_status(v->store, s->point.id, &s->status);
		s->is_dirty = failed;
		err = failed ? failed : err;
	}
	if (err && !v->is_write_noted)
		cli_note(POINT_COMMAND,
			 "cannot write in %s: %s; trapline point list is not kept up "
			 "to date",
			 v->store->path, strerror(-err));
	v->is_write_noted = err;
}

static void look(struct serve *v)
{
	uint64_t now = clock_now_ns();

	if (v->looked_ns && now - v->looked_ns < LOOK_NS)
		return;
	v->looked_ns = now;
	look_at_folder(v);
	look_for_ends(v);
	drop(v);
	if (!make_room(v))
		look_at_processes(v);
	point_sinks_look(v->sinks);
	write_statuses(v, false);
}

static void wait_for_lines(struct serve *v)
{
	nfds_t n = 0;

	for (size_t i = 0; v->fds && i < v->count; i++) {
		const struct child *o = &v->point[i]->observer;
		if (o->out.fd >= 0)
			v->fds[n++] = (struct pollfd){ .fd = o->out.fd, .events = POLLIN };
		if (o->err.fd >= 0)
			v->fds[n++] = (struct pollfd){ .fd = o->err.fd, .events = POLLIN };
	}
	poll(v->fds, n, WAIT_MS);
	for (size_t i = 0; i < v->count; i++)
		served_read(v->point[i]);
}

/* The points stay in the folder: the next collector continues with them. */
static void end_all(struct serve *v)
{
	uint64_t from = clock_now_ns();
	bool runs = true;

	for (size_t i = 0; i < v->count; i++)
		child_end(&v->point[i]->observer);
	while (runs && clock_now_ns() - from < END_NS) {
		wait_for_lines(v);
		runs = false;
		for (size_t i = 0; i < v->count; i++) {
			runs = runs || !served_is_idle(v->point[i]);
			v->point[i]->is_stale = true;
			child_end(&v->point[i]->observer);
		}
	}
	for (size_t i = 0; i < v->count; i++) {
		if (v->point[i]->status.state != POINT_REFUSED)
			v->point[i]->status.state = POINT_WAITS;
		v->point[i]->status.processes = 0;
		v->point[i]->is_dirty = true;
	}
	write_statuses(v, true);
}

int point_serve(struct folder *store, struct point_sinks *sinks)
{
	struct serve v = { .store = store, .sinks = sinks };
	int status = point_store_serve(store);

	if (status)
		return status;
	watchdog_start(POINT_COMMAND, false);
	point_store_clean(store);
	look_at_folder(&v);
	cli_note(POINT_COMMAND, "collecting for %zu point%s of %s; lines go to %s", v.count,
		 v.count == 1 ? "" : "s", store->path, sinks->file);
	while (!asked_times) {
		look(&v);
		wait_for_lines(&v);
	}
	end_all(&v);
	for (size_t i = 0; i < v.count; i++) {
		served_release(v.point[i]);
		free(v.point[i]);
	}
	point_processes_free(&v.processes);
	free(v.point);
	free(v.names);
	free(v.pids);
	free(v.fds);
	return CLI_OK;
}
