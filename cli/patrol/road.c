/* SPDX-License-Identifier: MIT */
/* road.c - see road.h. */
#include "cli/patrol/road.h"

#include "base/clock.h"
#include "base/grow.h"
#include "base/hash.h"
#include "cli/message.h"
#include "cli/patrol/road_send.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH_MOST 500
#define BATCH_BYTES (1u << 20)
#define FIRST_WAIT_NS UINT64_C(1000000000)
#define MOST_WAIT_NS UINT64_C(60000000000)
#define SENDER_NS UINT64_C(60000000000)
#define WRITE_NS UINT64_C(1000000000)
#define SPOOL_NAME 48

static bool has_sender(const struct road *r)
{
	return r->rule->kind == ROAD_OTLP || r->rule->kind == ROAD_POSTGRES;
}

/* --- the spool on disk --- */

static void spool_name(const struct road *r, char *name)
{
	snprintf(name, SPOOL_NAME, "%.32s.spool", r->rule->title);
}

static int write_line(int fd, const struct road_entry *e)
{
	/* The line feed takes the byte of the end of the text. */
	e->line[e->bytes] = '\n';
	ssize_t done = write(fd, e->line, e->bytes + 1);
	e->line[e->bytes] = 0;
	return done == (ssize_t)e->bytes + 1 ? 0 : -1;
}

/* All of it again, in a new file: what was sent or dropped is not in it. */
static void write_spool(struct road *r)
{
	char name[SPOOL_NAME];
	char new[SPOOL_NAME + 8];
	int err = 0;

	spool_name(r, name);
	snprintf(new, sizeof(new), ".new.%s", name);
	unlinkat(r->folder->fd, new, 0);
	int fd = folder_file(r->folder, new, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
	for (size_t i = 0; fd >= 0 && i < r->count && !err; i++)
		err = write_line(fd, &r->entry[i]);
	if (fd < 0 || err || renameat(r->folder->fd, new, r->folder->fd, name)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (r->spool >= 0)
		close(r->spool);
	r->spool = fd;
	r->is_stale = false;
}

static void keep(struct road *r, const struct road_entry *e)
{
	char name[SPOOL_NAME];

	spool_name(r, name);
	if (r->spool < 0)
		r->spool = folder_file(r->folder, name, O_WRONLY | O_CREAT | O_APPEND);
	/* A part of a line, where the disk is full, is not in the next file. */
	if (!r->is_stale && (r->spool < 0 || write_line(r->spool, e)))
		r->is_stale = true;
}

/* --- the spool in memory --- */

static uint64_t key_of(const json_t *finding)
{
	const char *fingerprint = json_string_value(json_object_get(finding, "fingerprint"));
	const char *site = json_string_value(json_object_get(finding, "site"));

	return hash_text(HASH_START, fingerprint ? fingerprint : site ? site : "");
}

static void remove_entry(struct road *r, size_t at)
{
	r->bytes -= r->entry[at].bytes;
	road_counts_remove(&r->counts, r->entry[at].key);
	free(r->entry[at].line);
	memmove(&r->entry[at], &r->entry[at + 1], (--r->count - at) * sizeof(*r->entry));
	r->is_stale = true;
}

static void remove_first(struct road *r, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		road_counts_remove(&r->counts, r->entry[i].key);
		r->bytes -= r->entry[i].bytes;
		free(r->entry[i].line);
	}
	r->count -= count;
	r->has_news = true;
	memmove(r->entry, r->entry + count, r->count * sizeof(*r->entry));
	r->is_stale = r->is_stale || count;
}

/* A bug that is seen often must not push out one that was seen once. */
static void drop_one(struct road *r)
{
	uint64_t key = road_counts_most(&r->counts);
	size_t at = r->batch;

	while (r->entry[at].key != key)
		at++;
	remove_entry(r, at);
	r->dropped++;
}

static int take(struct road *r, char *line, uint64_t key, bool is_new)
{
	struct road_entry e = { .line = line, .bytes = strlen(line), .key = key };

	if (grow_room(r->entry, r->count, r->capacity) || road_counts_add(&r->counts, key))
		return -ENOMEM;
	r->entry[r->count++] = e;
	r->bytes += e.bytes;
	if (is_new)
		keep(r, &e);
	while (r->bytes > r->rule->room && r->counts.most)
		drop_one(r);
	return 0;
}

void road_add(struct road *r, const json_t *finding)
{
	char *line = json_dumps(finding, JSON_COMPACT | JSON_ENSURE_ASCII);

	r->has_news = true;
	if (line && !take(r, line, key_of(finding), true))
		return;
	free(line);
	r->dropped++;
}

static void read_spool(struct road *r)
{
	char name[SPOOL_NAME];
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	spool_name(r, name);
	int fd = folder_file(r->folder, name, O_RDONLY);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f && fd >= 0)
		close(fd);
	while (f && (n = getline(&line, &room, f)) > 0) {
		json_t *j = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
		char *text = json_is_object(j) ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) :
						 NULL;
		/* The last line, where the disk was full, may be a part of one. */
		if (!text || take(r, text, key_of(j), false)) {
			free(text);
			r->dropped++;
		}
		json_decref(j);
	}
	free(line);
	if (f)
		fclose(f);
}

int road_open(struct road *r, const struct patrol_road *rule, const struct folder *folder)
{
	*r = (struct road){ .rule = rule,
			    .folder = folder,
			    .sender = CHILD_NONE,
			    .spool = -1,
			    .batch_most = BATCH_MOST,
			    .wait_ns = FIRST_WAIT_NS };
	journal_open(&r->journal, rule->to ? rule->to : "journal");
	rotated_file_open(&r->file, rule->to, UINT64_C(64) << 20, 4);
	if (rule->kind != ROAD_PROMETHEUS)
		read_spool(r);
	r->is_stale = r->count;
	return 0;
}

/* --- sending --- */

/* Reported once, until the receiver takes a finding again. */
static void failed(struct road *r, const char *why)
{
	bool was_well = !r->reason[0];

	snprintf(r->reason, sizeof(r->reason), "%s", why);
	r->has_news = true;
	if (was_well)
		cli_note(PATROL_COMMAND,
			 "road %s: %s; %zu finding%s wait%s on disk, and it is tried again",
			 r->rule->title, r->reason, r->count, r->count == 1 ? "" : "s",
			 r->count == 1 ? "s" : "");
	r->next_ns = clock_now_ns() + r->wait_ns;
	r->wait_ns = 2 * r->wait_ns < MOST_WAIT_NS ? 2 * r->wait_ns : MOST_WAIT_NS;
}

static void taken(struct road *r, size_t count)
{
	remove_first(r, count);
	r->sent += count;
	r->wait_ns = FIRST_WAIT_NS;
	r->batch_most = BATCH_MOST;
	if (r->reason[0])
		cli_note(PATROL_COMMAND, "road %s takes findings again", r->rule->title);
	r->reason[0] = 0;
}

static void send_each(struct road *r)
{
	size_t done = 0;
	int err = 0;

	while (done < r->count && done < BATCH_MOST && !err) {
		err = road_send_one(r, &r->entry[done]);
		done += !err;
	}
	if (done)
		taken(r, done);
	/* A queue that is full now has room in the next step. */
	if (err && err != -EAGAIN)
		failed(r, strerror(-err));
}

static void send_batch(struct road *r)
{
	size_t bytes = 0;
	size_t count = 0;

	while (count < r->count && count < r->batch_most && bytes < BATCH_BYTES)
		bytes += r->entry[count++].bytes;
	int err = road_send_begin(r, count);
	if (err) {
		failed(r, strerror(-err));
		return;
	}
	r->batch = count;
	for (size_t i = 0; i < count; i++)
		road_counts_remove(&r->counts, r->entry[i].key);
	r->batch_ns = clock_now_ns();
}

/* One that is refused alone is dropped: it would be refused for ever, and delay the others. */
static void refused(struct road *r, size_t count)
{
	if (count > 1) {
		r->batch_most = count / 2;
		return;
	}
	cli_note(PATROL_COMMAND, "road %s: a finding was refused, and is dropped: %s",
		 r->rule->title, r->said);
	remove_first(r, 1);
	r->refused++;
}

/* Its entries can be dropped again; one that there is no memory to count is sent only. */
static void end_batch(struct road *r)
{
	for (size_t i = 0; i < r->batch; i++)
		road_counts_add(&r->counts, r->entry[i].key);
	r->batch = 0;
}

static void look_at_sender(struct road *r)
{
	size_t count = r->batch;
	int status;

	road_send_read(r);
	if (clock_now_ns() - r->batch_ns > SENDER_NS)
		child_end(&r->sender);
	if (!child_has_ended(&r->sender, &status))
		return;
	road_send_read(r);
	child_release(&r->sender);
	end_batch(r);
	enum road_answer answer = road_send_answer(r, status);
	if (answer == ROAD_FAILED)
		failed(r, r->said);
	else if (answer == ROAD_REFUSED)
		refused(r, count);
	else
		taken(r, count);
	if (answer == ROAD_TAKEN)
		r->refused += r->rejected;
}

void road_step(struct road *r)
{
	uint64_t now = clock_now_ns();

	if (r->sender.pid)
		look_at_sender(r);
	else if (r->count && now >= r->next_ns && r->rule->kind != ROAD_PROMETHEUS)
		has_sender(r) ? send_batch(r) : send_each(r);
	if (r->is_stale && now - r->wrote_ns >= WRITE_NS) {
		r->wrote_ns = now;
		write_spool(r);
	}
	if (r->rule->kind == ROAD_FILE)
		rotated_file_look(&r->file);
}

void road_close(struct road *r)
{
	int status;

	if (r->sender.pid) {
		kill(r->sender.pid, SIGKILL);
		waitpid(r->sender.pid, &status, 0);
	}
	child_release(&r->sender);
	end_batch(r);
	if (r->is_stale)
		write_spool(r);
	remove_first(r, r->count);
	free(r->entry);
	road_counts_free(&r->counts);
	if (r->spool >= 0)
		close(r->spool);
	journal_close(&r->journal);
	rotated_file_close(&r->file);
}
