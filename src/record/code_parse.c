/* SPDX-License-Identifier: MIT */
/*
 * code_parse.c - reading a stream of changes to code. Nothing in it is trusted: a record that does
 * not fit ends it, as one that is not complete does.
 */
#include "record/code_parse.h"

#include <errno.h>
#include <stdlib.h>

#include <trapline/code.h>

/* A payload that is being taken apart: after a mistake all is 0. */
struct taker {
	const uint8_t *at;
	size_t left;
	int is_bad;
};

static const uint8_t *take(struct taker *t, size_t n)
{
	const uint8_t *at = t->at;

	if (t->is_bad || n > t->left) {
		t->is_bad = 1;
		return NULL;
	}
	t->at += n;
	t->left -= n;
	return at;
}

static uint64_t take_number(struct taker *t, size_t n)
{
	const uint8_t *at = take(t, n);
	uint64_t number = 0;

	for (size_t i = 0; at && i < n; i++)
		number |= (uint64_t)at[i] << 8 * i;
	return number;
}

#define TAKE64(t) take_number(t, 8)
#define TAKE32(t) ((uint32_t)take_number(t, 4))

/* One more element of an array, zeroed; NULL: no memory. */
static void *code_log_add(void *array, size_t *count, size_t *room, size_t bytes)
{
	void **base = array;

	if (*count == *room) {
		size_t more = *room ? 2 * *room : 64;
		void *larger = realloc(*base, more * bytes);

		if (!larger)
			return NULL;
		*base = larger;
		*room = more;
	}
	char *at = (char *)*base + (*count)++ * bytes;
	memset(at, 0, bytes);
	return at;
}

#define ADD(log, what, count, room) \
	code_log_add(&(log)->what, &(log)->count, &(log)->room, sizeof(*(log)->what))

static struct code_life *life_add(struct trapline_code_log *log, const struct code_head *head)
{
	struct code_life *life =
		log->life_count < CODE_LIVES_MAX ? ADD(log, lives, life_count, life_room) : NULL;

	if (!life)
		return NULL;
	life->pid = head->pid;
	life->parent = CODE_NO_LIFE;
	life->start_ns = head->time_ns;
	life->end_ns = head->time_ns;
	return life;
}

/* The last one of this process. */
static uint32_t life_find(const struct trapline_code_log *log, int32_t pid)
{
	for (size_t i = log->life_count; i-- > 0;)
		if (log->lives[i].pid == pid)
			return (uint32_t)i;
	return CODE_NO_LIFE;
}

static uint32_t source_of(const struct code_life *life, uint64_t source)
{
	uint32_t i = 0;

	while (i < life->source_count && life->sources[i] != source)
		i++;
	return i;
}

static int note_loss(struct trapline_code_log *log, uint32_t life, uint64_t from_ns, uint64_t to_ns)
{
	struct code_loss *loss = ADD(log, losses, loss_count, loss_room);

	if (!loss)
		return -ENOMEM;
	*loss = (struct code_loss){ life, from_ns, to_ns };
	return 0;
}

/* A record without a begin of its process: that one was lost. */
static int life_of(struct trapline_code_log *log, const struct code_head *head, uint32_t *out)
{
	uint32_t number = life_find(log, head->pid);

	if (number == CODE_NO_LIFE) {
		if (!life_add(log, head))
			return -ENOMEM;
		number = (uint32_t)log->life_count - 1;
	}
	struct code_life *life = &log->lives[number];
	uint32_t source = source_of(life, head->source);
	if (source == life->source_count) {
		if (source == CODE_SOURCES)
			return -EBADMSG;
		life->sources[life->source_count++] = head->source;
	}
	if (head->time_ns > life->end_ns)
		life->end_ns = head->time_ns;
	*out = number;
	return 0;
}

static struct code_item *item_add(struct trapline_code_log *log, const struct code_head *head,
				  uint32_t life, uint32_t kind)
{
	struct code_item *item = ADD(log, items, count, item_room);

	if (!item)
		return NULL;
	item->life = life;
	item->change = UINT32_MAX;
	item->entry = (struct trapline_code_entry){
		.size = sizeof(item->entry),
		.kind = kind,
		.pid = head->pid,
		.tid = head->tid,
		.time_ns = head->time_ns,
		.source = head->source,
	};
	return item;
}

/* ---- one kind of record each ---- */

struct reading {
	struct trapline_code_log *log;
	const struct code_head *head;
	struct taker t;
	uint32_t life;
};

static int read_format(struct reading *r)
{
	const uint8_t *magic = take(&r->t, 8);

	if (!magic || memcmp(magic, CODE_MAGIC, 8) != 0)
		return -EBADMSG;
	return TAKE32(&r->t) == CODE_VERSION && TAKE32(&r->t) == CODE_CLOCK_MONOTONIC ? 0 : -EPROTO;
}

/* By fork: what the parent's code was then is what the child begins with. */
static void set_parent(struct reading *r, struct code_life *life, int32_t parent, uint64_t fork_ns)
{
	uint32_t number = life_find(r->log, parent);

	if (!parent || number == CODE_NO_LIFE || &r->log->lives[number] == life)
		return;
	life->parent = number;
	life->fork_ns = fork_ns;
}

static int read_start(struct reading *r)
{
	uint64_t image = TAKE64(&r->t);
	int32_t parent = (int32_t)TAKE32(&r->t);
	uint32_t is_late = TAKE32(&r->t);
	uint64_t fork_ns = TAKE64(&r->t);
	uint32_t number = life_find(r->log, r->head->pid);
	struct code_life *life = number == CODE_NO_LIFE ? NULL : &r->log->lives[number];
	int is_second = life && life->image == image && life->source_count < CODE_SOURCES &&
			source_of(life, r->head->source) == life->source_count;
	int err = 0;

	if (r->t.is_bad || fork_ns > r->head->time_ns)
		return -EBADMSG;
	if (!is_second) {
		life = life_add(r->log, r->head);
		if (!life)
			return -ENOMEM;
		life->image = image;
		set_parent(r, life, parent, fork_ns);
	}
	err = life_of(r->log, r->head, &r->life);
	/* The other copy of the library may have changed code before. */
	if (!err && is_second && is_late)
		err = note_loss(r->log, r->life, 0, r->head->time_ns);
	struct code_item *item =
		err ? NULL : item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_START);
	if (!item)
		return err ? err : -ENOMEM;
	item->entry.other = (uint64_t)parent;
	item->entry.len = is_late != 0;
	return 0;
}

static int read_end(struct reading *r)
{
	return item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_END) ? 0 : -ENOMEM;
}

/* A text with its NUL. */
static const char *take_text(struct taker *t, uint32_t n)
{
	const uint8_t *at = take(t, n);

	if (!at || !n || memchr(at, 0, n) != at + n - 1)
		t->is_bad = 1;
	return t->is_bad ? NULL : (const char *)at;
}

static int read_map(struct reading *r)
{
	struct code_item *item = item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_MAP);

	if (!item)
		return -ENOMEM;
	item->entry.address = TAKE64(&r->t);
	item->entry.other = TAKE64(&r->t);
	item->entry.batch = TAKE64(&r->t);
	item->entry.len = TAKE32(&r->t);
	uint32_t path_bytes = TAKE32(&r->t);
	item->entry.after = take(&r->t, item->entry.len);
	item->entry.name = take_text(&r->t, path_bytes);
	return 0;
}

static struct code_change *change_add(struct reading *r, uint64_t begin_ns, uint64_t end_ns,
				      enum trapline_code_stage outcome)
{
	struct code_change *change = ADD(r->log, changes, change_count, change_room);

	if (!change)
		return NULL;
	change->life = r->life;
	change->form = CODE_FORM_DIRECT;
	change->begin_ns = begin_ns;
	change->end_ns = end_ns;
	change->outcome = outcome;
	return change;
}

/* The change of the source that has begun, or NULL. */
static struct code_change *current_change(struct reading *r, uint64_t batch)
{
	const struct code_life *life = &r->log->lives[r->life];
	uint32_t number = life->current[source_of(life, r->head->source)];

	return number && r->log->changes[number - 1].batch == batch ? &r->log->changes[number - 1] :
								      NULL;
}

static int begin_change(struct reading *r, uint64_t batch, uint32_t form, uint32_t total)
{
	struct code_life *life = &r->log->lives[r->life];
	struct code_change *change = change_add(r, r->head->time_ns, 0, TRAPLINE_CODE_BEGIN);

	if (!change)
		return -ENOMEM;
	change->batch = batch;
	change->form = (uint8_t)form;
	change->missing = total;
	life->current[source_of(life, r->head->source)] = (uint32_t)r->log->change_count;
	return 0;
}

static int read_site(struct reading *r, struct code_change *change)
{
	uint64_t address = TAKE64(&r->t);
	size_t len = (size_t)take_number(&r->t, 1);
	const uint8_t *before = take(&r->t, len);
	const uint8_t *after = take(&r->t, len);

	if (r->t.is_bad || !len || len > CODE_SHORT_MAX || address > UINT64_MAX - len)
		return -EBADMSG;
	struct code_item *item = item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_SITE);
	if (!item)
		return -ENOMEM;
	item->change = (uint32_t)(change - r->log->changes);
	item->entry.batch = change->batch;
	item->entry.address = address;
	item->entry.len = len;
	item->entry.before = before;
	item->entry.after = after;
	return 0;
}

static int read_sites(struct reading *r)
{
	uint64_t batch = TAKE64(&r->t);
	uint32_t form = TAKE32(&r->t);
	uint32_t first = TAKE32(&r->t);
	uint32_t total = TAKE32(&r->t);
	uint32_t count = TAKE32(&r->t);
	int err = 0;

	if (r->t.is_bad || form >= CODE_FORMS || !count || total < count || first > total - count)
		return -EBADMSG;
	if (!first)
		err = begin_change(r, batch, form, total);
	struct code_change *change = err ? NULL : current_change(r, batch);
	if (!change) /* its first part was lost, and with it the whole */
		return err ? err : note_loss(r->log, r->life, 0, r->head->time_ns);
	if (change->missing < count || change->trap_ns || change->end_ns)
		return -EBADMSG;
	change->missing -= count;
	for (uint32_t i = 0; i < count && !err; i++)
		err = read_site(r, change);
	return err;
}

/* 0: such a stage does not follow. */
static int set_stage(struct code_change *change, uint32_t stage, uint64_t time_ns)
{
	uint64_t last = change->open_ns ? change->open_ns :
			change->trap_ns ? change->trap_ns :
					  change->begin_ns;

	if (change->end_ns || time_ns < last)
		return 0;
	if (stage == TRAPLINE_CODE_TRAP || stage == TRAPLINE_CODE_OPEN) {
		uint64_t *at = stage == TRAPLINE_CODE_TRAP ? &change->trap_ns : &change->open_ns;

		if (change->form == CODE_FORM_DIRECT || change->open_ns || *at ||
		    (stage == TRAPLINE_CODE_OPEN && !change->trap_ns))
			return 0;
		*at = time_ns;
		return 1;
	}
	if (stage < TRAPLINE_CODE_DONE || stage > TRAPLINE_CODE_STRANDED)
		return 0;
	if (change->form != CODE_FORM_DIRECT &&
	    (stage == TRAPLINE_CODE_DONE ? !change->open_ns :
					   stage == TRAPLINE_CODE_UNDONE && change->open_ns))
		return 0;
	change->outcome = (uint8_t)stage;
	change->end_ns = time_ns;
	return 1;
}

/* A stage that follows nothing: a record between was lost, and what it stated is not known. */
static int read_stage(struct reading *r)
{
	uint64_t batch = TAKE64(&r->t);
	uint32_t stage = TAKE32(&r->t);
	struct code_item *item = item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_STAGE);

	if (!item)
		return -ENOMEM;
	item->entry.batch = batch;
	item->entry.stage = stage;
	struct code_change *change = current_change(r, batch);
	if (!change || change->missing)
		return note_loss(r->log, r->life, 0, r->head->time_ns);
	if (set_stage(change, stage, r->head->time_ns))
		return 0;
	return note_loss(r->log, r->life, change->begin_ns, r->head->time_ns);
}

static int read_slot(struct reading *r)
{
	uint64_t begin_ns = TAKE64(&r->t);
	struct code_item *item = item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_SLOT);

	if (!item)
		return -ENOMEM;
	item->entry.address = TAKE64(&r->t);
	item->entry.other = TAKE64(&r->t);
	item->entry.len = TAKE32(&r->t);
	uint32_t pairs = TAKE32(&r->t);
	for (uint32_t i = 0; i < pairs && !r->t.is_bad; i++)
		take(&r->t, 12);
	item->entry.after = take(&r->t, item->entry.len);
	if (r->t.is_bad || begin_ns > r->head->time_ns || !item->entry.len ||
	    item->entry.address > UINT64_MAX - item->entry.len)
		return -EBADMSG;
	item->change = (uint32_t)r->log->change_count;
	return change_add(r, begin_ns, r->head->time_ns, TRAPLINE_CODE_DONE) ? 0 : -ENOMEM;
}

static int read_fill(struct reading *r)
{
	uint64_t begin_ns = TAKE64(&r->t);
	struct code_item *item = item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_FILL);

	if (!item)
		return -ENOMEM;
	item->entry.address = TAKE64(&r->t);
	item->entry.other = TAKE64(&r->t);
	const uint8_t *value = take(&r->t, 4);
	if (r->t.is_bad || begin_ns > r->head->time_ns || !item->entry.other || value[1] > 1 ||
	    item->entry.address > UINT64_MAX - item->entry.other)
		return -EBADMSG;
	item->entry.after = value[1] ? NULL : value;
	item->change = (uint32_t)r->log->change_count;
	return change_add(r, begin_ns, r->head->time_ns, TRAPLINE_CODE_DONE) ? 0 : -ENOMEM;
}

static int read_hit(struct reading *r)
{
	struct code_item *item = item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_HIT);

	if (!item)
		return -ENOMEM;
	item->entry.address = TAKE64(&r->t);
	item->entry.other = TAKE64(&r->t);
	item->entry.stage = TAKE32(&r->t);
	return 0;
}

static int read_lost(struct reading *r)
{
	struct code_item *item = item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_LOST);

	if (!item)
		return -ENOMEM;
	item->entry.other = TAKE64(&r->t);
	uint32_t changes = TAKE32(&r->t);
	item->entry.len = (size_t)changes + TAKE32(&r->t);
	return changes ? note_loss(r->log, r->life, item->entry.other, r->head->time_ns) : 0;
}

static int read_kernel_poke(struct reading *r)
{
	struct code_item *item =
		item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_KERNEL_POKE);

	if (!item)
		return -ENOMEM;
	item->entry.address = TAKE64(&r->t);
	uint32_t old_bytes = TAKE32(&r->t);
	uint32_t new_bytes = TAKE32(&r->t);
	item->entry.before = take(&r->t, old_bytes);
	item->entry.after = take(&r->t, new_bytes);
	item->entry.len = old_bytes > new_bytes ? old_bytes : new_bytes;
	if (!old_bytes)
		item->entry.before = NULL;
	if (!new_bytes)
		item->entry.after = NULL;
	if (r->t.is_bad || !item->entry.len || (old_bytes && new_bytes && old_bytes != new_bytes) ||
	    item->entry.address > UINT64_MAX - item->entry.len)
		return -EBADMSG;
	item->change = (uint32_t)r->log->change_count;
	return change_add(r, r->head->time_ns, r->head->time_ns, TRAPLINE_CODE_DONE) ? 0 : -ENOMEM;
}

static int read_ksymbol(struct reading *r)
{
	struct code_item *item = item_add(r->log, r->head, r->life, TRAPLINE_CODE_ENTRY_KSYMBOL);

	if (!item)
		return -ENOMEM;
	item->entry.address = TAKE64(&r->t);
	item->entry.other = TAKE32(&r->t);
	item->entry.batch = TAKE32(&r->t);
	item->entry.stage = TAKE32(&r->t) & 1;
	item->entry.name = take_text(&r->t, TAKE32(&r->t));
	item->entry.len = (size_t)item->entry.other;
	if (r->t.is_bad || item->entry.address > UINT64_MAX - item->entry.other)
		return -EBADMSG;
	if (!item->entry.len)
		return 0;
	/* The kernel does not report what it writes there. */
	item->change = (uint32_t)r->log->change_count;
	return change_add(r, r->head->time_ns, r->head->time_ns, TRAPLINE_CODE_DONE) ? 0 : -ENOMEM;
}

static int (*const readers[])(struct reading *r) = {
	[CODE_FORMAT] = read_format,
	[CODE_START] = read_start,
	[CODE_END] = read_end,
	[CODE_MAP] = read_map,
	[CODE_SITES] = read_sites,
	[CODE_STAGE] = read_stage,
	[CODE_SLOT] = read_slot,
	[CODE_FILL] = read_fill,
	[CODE_HIT] = read_hit,
	[CODE_LOST] = read_lost,
	[CODE_KERNEL_POKE] = read_kernel_poke,
	[CODE_KSYMBOL] = read_ksymbol,
};

/* ---- the whole ---- */

static int head_is_good(const struct trapline_code_log *log, size_t at, struct code_head *head)
{
	size_t left = log->bytes - at;

	if (left < sizeof(*head))
		return 0;
	memcpy(head, log->data + at, sizeof(*head));
	return head->bytes >= sizeof(*head) && head->bytes <= left &&
	       head->bytes <= CODE_RECORD_MAX && head->bytes % 8 == 0 &&
	       head->sum == code_sum(log->data + at, head->bytes);
}

static int read_record(struct trapline_code_log *log, const struct code_head *head)
{
	struct reading r = {
		.log = log,
		.head = head,
		.t = { log->data + log->good_bytes + sizeof(*head), head->bytes - sizeof(*head),
		       0 },
		.life = CODE_NO_LIFE,
	};
	size_t items = log->count;
	int err = 0;

	if (head->kind < CODE_FORMAT || head->kind > CODE_KSYMBOL || head->pid < 0)
		return -EBADMSG;
	if (head->kind > CODE_START)
		err = life_of(log, head, &r.life);
	if (!err)
		err = readers[head->kind](&r);
	if (!err && r.t.is_bad)
		err = -EBADMSG;
	if (err)
		log->count = items;
	return err;
}

static int read_all(struct trapline_code_log *log)
{
	struct code_head head;
	int err = 0;

	if (!head_is_good(log, 0, &head) || head.kind != CODE_FORMAT)
		return -EBADMSG;
	while (!err && log->good_bytes < log->bytes && head_is_good(log, log->good_bytes, &head)) {
		err = read_record(log, &head);
		if (!err)
			log->good_bytes += head.bytes;
	}
	/* What came before the damage is good. */
	return err == -EBADMSG && log->good_bytes ? 0 : err;
}

static int code_log_compare(const void *a, const void *b, void *arg)
{
	const struct trapline_code_log *log = arg;
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;
	const struct code_item *p = &log->items[x];
	const struct code_item *q = &log->items[y];
	int is_long_p = p->entry.len > CODE_SHORT_MAX || !p->entry.len;
	int is_long_q = q->entry.len > CODE_SHORT_MAX || !q->entry.len;

	if (is_long_p != is_long_q)
		return is_long_p - is_long_q;
	if (p->life != q->life)
		return p->life < q->life ? -1 : 1;
	if (p->entry.address != q->entry.address)
		return p->entry.address < q->entry.address ? -1 : 1;
	return (x > y) - (x < y);
}

static int sort_items(struct trapline_code_log *log)
{
	size_t n = 0;

	if (log->count > UINT32_MAX)
		return -ENOMEM;
	log->by_address = malloc((log->count + 1) * sizeof(*log->by_address));
	if (!log->by_address)
		return -ENOMEM;
	for (size_t i = 0; i < log->count; i++) {
		const struct code_item *item = &log->items[i];

		if (item->change == UINT32_MAX)
			continue;
		log->by_address[n++] = (uint32_t)i;
		log->short_count += item->entry.len && item->entry.len <= CODE_SHORT_MAX;
	}
	log->by_address_count = n;
	qsort_r(log->by_address, n, sizeof(*log->by_address), code_log_compare, log);
	return 0;
}

int code_log_read(uint8_t *data, size_t bytes, struct trapline_code_log **out)
{
	struct trapline_code_log *log = calloc(1, sizeof(*log));

	if (!log) {
		free(data);
		return -ENOMEM;
	}
	log->data = data;
	log->bytes = bytes;
	int err = read_all(log);
	if (!err)
		err = sort_items(log);
	if (err)
		code_log_free(log);
	else
		*out = log;
	return err;
}

void code_log_free(struct trapline_code_log *log)
{
	if (!log)
		return;
	free(log->data);
	free(log->items);
	free(log->changes);
	free(log->lives);
	free(log->losses);
	free(log->by_address);
	free(log);
}
