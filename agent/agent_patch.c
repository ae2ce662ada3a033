/* SPDX-License-Identifier: MIT */
/*
 * agent_patch.c - the patches of `trapline patch` in the target.
 *
 * The call comes in a thread of the program that the command has borrowed, and which is to continue
 * soon. So each request runs in a thread of its own. It ends by itself, whether or not the command
 * is still there: the change is made or undone as a whole.
 *
 * An object stays loaded when its patch is undone. Threads may be inside it, or the program may
 * have kept an address of it, and neither can be seen.
 */
#include "agent/agent_patch_init.h"
#include "agent/agent_tools.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <trapline/tools.h>

#include "agent/zydis.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "core/target.h"
#include "decoder_name.h"
#include "guest/late_calls.h"
#include "guest/moved.h"
#include "guest/name.h"
#include "guest/own_table.h"
#include "guest/own_thread.h"
#include "guest/share.h"
#include "guest/signals.h"
#include "record/patch_region.h"

#define GO_STEP_NS 1000000
#define GO_STEPS 10000 /* 10 s */
#define LOOK_NS 1000000
#define WAIT_STACK_BYTES (16u << 10)
#define STACK_BYTES (8u << 20) /* constructors and hooks of a patch run there */

/* A patch that is in force. */
struct kept {
	struct trapline_patch *patch; /* NULL: the entry is free */
	char name[PATCH_NAME_BYTES];
	uint32_t consistency;
	uint64_t since_ns;
	size_t count;
	struct patch_listed *functions;
};

static struct kept kept[PATCH_KEPT];
static struct trapline *self; /* this process, once it has been patched */
static pid_t worker;	      /* the process with a thread that has the table; 0: none */

struct request {
	struct patch_region *region;
	int object;					/* a descriptor; -1: none */
	const struct link_map *map;			/* of the object; NULL: not loaded */
	struct trapline_patch_part parts[PATCH_PLACES]; /* of the replacements */
};

__attribute__((format(printf, 3, 4))) static int tell(struct patch_region *r, int err,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->why, sizeof(r->why), format, args);
	va_end(args);
	return err;
}

static struct kept *find_free(void)
{
	for (size_t i = 0; i < PATCH_KEPT; i++)
		if (!kept[i].patch)
			return &kept[i];
	return NULL;
}

static bool has_function(const struct kept *k, const char *name)
{
	for (size_t i = 0; i < k->count; i++)
		if (!strcmp(k->functions[i].name, name))
			return true;
	return false;
}

/* By the name of its object, else of a function of it. The latest is the one that is meant. */
static struct kept *find_named(const char *name)
{
	struct kept *found = NULL;

	for (size_t i = 0; i < PATCH_KEPT; i++) {
		struct kept *k = &kept[i];
		if (k->patch && (!strcmp(k->name, name) || has_function(k, name)) &&
		    (!found || k->since_ns >= found->since_ns))
			found = k;
	}
	return found;
}

/*
 * Calls visit for each record of the object and what the command found for it, until one is not 0.
 * The command has checked the sizes in the same bytes.
 */
static int each_record(struct request *q,
		       int (*visit)(struct request *q, const struct trapline_patch_record *record,
				    size_t index, void *arg),
		       void *arg)
{
	const struct patch_region *r = q->region;
	uint64_t at = q->map->l_addr + r->section;
	uint64_t end = at + r->section_bytes;
	int result = 0;

	for (size_t i = 0; i < r->count && i < PATCH_PLACES && at < end && !result; i++) {
		const struct trapline_patch_record *record = (const void *)at;
		result = visit(q, record, i, arg);
		at += record->bytes;
	}
	return result;
}

/* The loader may have bound the name of a replacement to a function of another object. */
static bool is_of_object(const void *address, const struct link_map *map)
{
	struct link_map *owner = NULL;
	Dl_info info;

	return dladdr1(address, &info, (void **)&owner, RTLD_DL_LINKMAP) && owner == map;
}

/*
 * SIGTRAP is open in Trapline's thread only where it may meet an int3: of another tool, or in a
 * library that it calls itself. A signal that is sent to the process would arrive in this thread
 * where every thread of the program has it blocked. The threads that wait for it would not see it
 * until the end.
 */
static bool stays_open;

static void stay_open(void)
{
	stays_open = true;
	own_thread_opens();
}

/* What is sent to the process is for its own threads again. */
static void close_to_code(void)
{
	own_thread_shuts();
	if (stays_open)
		own_thread_opens();
}

/* Functions of libc, of the dynamic linker, or of the decoder. */
static bool is_called_by_us(const void *address)
{
	static const char *const libraries[] = { "libc.so", "ld-linux", "libZydis", "libpthread" };
	Dl_info info;

	if (!dladdr(address, &info) || !info.dli_fname)
		return true;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (strstr(info.dli_fname, libraries[i]))
			return true;
	return false;
}

static int load_object(struct request *q, int fd)
{
	const char *why;

	q->map = name_load(fd, &why);
	return q->map ? 0 :
			tell(q->region, -ELIBACC, "the loader refused %s%s", q->region->name, why);
}

static int load(struct request *q)
{
	int err = 0;

	own_thread_opens_to_code(); /* constructors */
	if (q->map)
		patch_initialize(q->region, q->map->l_addr);
	else
		err = load_object(q, q->object);
	close_to_code();
	return err;
}

_Static_assert(sizeof(struct patch_part) == sizeof(struct trapline_patch_part) &&
		       offsetof(struct patch_part, bytes) ==
			       offsetof(struct trapline_patch_part, bytes),
	       "the parts in the region are those of the library");

static const struct kept *find_patched(uint64_t address)
{
	for (size_t i = 0; i < PATCH_KEPT; i++)
		for (size_t k = 0; kept[i].patch && k < kept[i].count; k++)
			if (kept[i].functions[k].address == address)
				return &kept[i];
	return NULL;
}

static int check_record(struct request *q, const struct trapline_patch_record *record, size_t index,
			void *arg)
{
	const struct patch_place *place = &q->region->places[index];
	const struct kept *other = find_patched(place->address);
	bool is_code = record->kind == TRAPLINE_PATCH_RECORD_FUNCTION ||
		       record->kind == TRAPLINE_PATCH_RECORD_BEFORE ||
		       record->kind == TRAPLINE_PATCH_RECORD_AFTER;

	if (record->kind == TRAPLINE_PATCH_RECORD_FUNCTION && other)
		return tell(
			q->region, -EBUSY,
			"'%s' is replaced already, by %s; undo that first, by --undo %s, or put both "
			"changes into one object",
			place->name, other->name, other->name);
	if (is_code && !is_of_object(record->address, q->map))
		return tell(
			q->region, -EINVAL,
			"the loader bound a function of %s, for '%s', to another object's; make "
			"it static",
			q->region->name, place->name);
	return 0;
}

/* The new code may use it as soon as it runs, and its hooks may. */
static int bind_record(struct request *q, const struct trapline_patch_record *record, size_t index,
		       void *arg)
{
	if (record->kind == TRAPLINE_PATCH_RECORD_OLD)
		*(uint64_t *)record->address = q->region->places[index].address;
	return 0;
}

/* What the library and the list need to know of each replacement. */
struct plan {
	struct trapline_patch_function *functions;
	struct patch_listed *listed;
	size_t count;
};

static int plan_record(struct request *q, const struct trapline_patch_record *record, size_t index,
		       void *arg)
{
	const struct patch_place *place = &q->region->places[index];
	struct trapline_patch_part *new_part = &q->parts[index];
	struct plan *plan = arg;

	if (record->kind != TRAPLINE_PATCH_RECORD_FUNCTION)
		return 0;
	struct patch_listed *l = &plan->listed[plan->count];
	memcpy(l->name, place->name, sizeof(l->name));
	l->name[sizeof(l->name) - 1] = 0;
	l->address = place->address;
	l->replacement = (uint64_t)(uintptr_t)record->address;
	*new_part = (struct trapline_patch_part){ q->map->l_addr + place->new_part.address,
						  place->new_part.bytes };
	struct trapline_patch_function *f = &plan->functions[plan->count++];
	*f = (struct trapline_patch_function){
		.name = l->name,
		.old_address = place->address,
		.old_bytes = place->bytes,
		.new_address = l->replacement,
		.new_bytes = place->new_bytes,
		.old_parts = (const struct trapline_patch_part *)place->parts,
		.new_parts = new_part,
		.new_part_count = new_part->bytes != 0,
	};
	while (f->old_part_count < PATCH_PARTS && place->parts[f->old_part_count].bytes)
		f->old_part_count++;
	return 0;
}

static int run_before(struct request *q, const struct trapline_patch_record *record, size_t index,
		      void *arg)
{
	int (*hook)(void) = (__typeof__(hook))(uintptr_t)record->address;

	return record->kind == TRAPLINE_PATCH_RECORD_BEFORE ? hook() : 0;
}

static int run_after(struct request *q, const struct trapline_patch_record *record, size_t index,
		     void *arg)
{
	void (*hook)(void) = (__typeof__(hook))(uintptr_t)record->address;

	if (record->kind == TRAPLINE_PATCH_RECORD_AFTER)
		hook();
	return 0;
}

static int before(void *arg)
{
	struct request *q = arg;

	own_thread_opens_to_code();
	int refused = each_record(q, run_before, NULL);
	close_to_code();
	if (refused)
		tell(q->region, -ECANCELED,
		     "a function of TRAPLINE_PATCH_BEFORE() in %s returned %d", q->region->name,
		     refused);
	return refused ? -ECANCELED : 0;
}

static void after(void *arg)
{
	own_thread_opens_to_code();
	each_record(arg, run_after, NULL);
	close_to_code();
}

static int change(struct request *q, const struct plan *plan, struct kept *k)
{
	struct patch_region *r = q->region;
	const struct trapline_patch_opts opts = {
		.size = sizeof(opts),
		.consistency = r->consistency,
		.timeout_ns = r->timeout_ns,
		.before = before,
		.after = after,
		.arg = q,
	};
	struct trapline_patch *patch = NULL;
	uint64_t started = clock_now_ns();
	int err = self ? 0 : trapline_open(0, NULL, &self);

	/* The program has its descriptors to itself. */
	if (!err)
		target_drop_descriptors(self);
	atomic_set(&r->state, PATCH_IS_CHANGING);
	for (size_t i = 0; i < plan->count && !stays_open; i++)
		if (is_called_by_us((const void *)(uintptr_t)plan->functions[i].old_address))
			stay_open();
	if (!err)
		err = trapline_patch(self, plan->functions, plan->count, &opts, &patch);
	r->took_ns = clock_now_ns() - started;
	if (err < 0) {
		if (!r->why[0])
			trapline_explain(err, r->why, sizeof(r->why));
		return err;
	}
	r->pending = (uint64_t)err;
	memcpy(k->name, r->name, sizeof(k->name));
	k->name[sizeof(k->name) - 1] = 0;
	k->consistency = r->consistency;
	k->since_ns = r->since_ns;
	k->functions = plan->listed;
	k->count = plan->count;
	k->patch = patch;
	return 0;
}

/* Everything that can fail beside the change itself comes before it. */
static int apply_loaded(struct request *q, struct kept *k)
{
	size_t n = q->region->count;
	struct plan plan = { .functions = calloc(n, sizeof(*plan.functions)),
			     .listed = calloc(n, sizeof(*plan.listed)) };
	int err = 0;

	if (!plan.functions || !plan.listed)
		err = tell(q->region, -ENOMEM, "out of memory");
	if (!err)
		err = each_record(q, check_record, NULL);
	if (!err)
		err = each_record(q, bind_record, NULL);
	if (!err)
		err = each_record(q, plan_record, &plan);
	if (!err)
		err = change(q, &plan, k);
	if (err)
		free(plan.listed);
	free(plan.functions);
	return err;
}

static int apply(struct request *q)
{
	struct patch_region *r = q->region;
	struct kept *k = find_free();

	if (!k)
		return tell(r, -ENOSPC, "it has %d patches already; undo one of them", PATCH_KEPT);
	if ((q->object < 0 && !q->map) || r->count > PATCH_PLACES)
		return tell(r, -EPROTO, "the request is not complete");
	if (zydis_open())
		return tell(r, -ELIBACC,
			    "cannot decode its instructions: " DECODER_NAME " is not in its file "
			    "system; install libzydis4.0 there");
	atomic_set(&r->state, PATCH_IS_LOADING);
	int err = load(q);
	if (err)
		return err;
	err = apply_loaded(q, k);
	/*
	 * A replacement may run already in a thread, or have run: only an unused object is
	 * unloaded.
	 */
	if (err && atomic_get(&r->state) == PATCH_IS_LOADING) {
		own_thread_opens_to_code(); /* destructors */
		dlclose((void *)(uintptr_t)q->map);
		close_to_code();
	}
	return err;
}

static int undo(struct request *q)
{
	struct patch_region *r = q->region;
	char name[PATCH_NAME_BYTES];
	struct kept *k;

	memcpy(name, r->name, sizeof(name));
	name[sizeof(name) - 1] = 0;
	k = find_named(name);
	if (!k)
		return tell(r, -ENOENT, "it has no patch of this name; --list prints them");
	uint64_t started = clock_now_ns();
	atomic_set(&r->state, PATCH_IS_CHANGING);
	int err = trapline_patch_undo(k->patch, r->timeout_ns);
	r->took_ns = clock_now_ns() - started;
	if (err < 0) {
		trapline_explain(err, r->why, sizeof(r->why));
		return err;
	}
	if (err)
		return tell(r, -ETIMEDOUT,
			    "%d threads have not gone back to the old code; they are on their way: "
			    "try --undo again",
			    err);
	free(k->functions);
	*k = (struct kept){ 0 };
	return 0;
}

static void list_one(struct patch_region *r, const struct kept *k)
{
	struct trapline_patch_stats stats = { .size = sizeof(stats) };
	size_t index = r->kept_count++;
	struct patch_kept *out = &r->kept[index];

	if (trapline_patch_stats(k->patch, &stats))
		memset(&stats, 0, sizeof(stats));
	memcpy(out->name, k->name, sizeof(out->name));
	out->consistency = k->consistency;
	out->phase = stats.phase;
	out->since_ns = k->since_ns;
	out->traps = stats.traps;
	out->pending = stats.threads_pending;
	out->pending_tid = (uint64_t)stats.pending_tid;
	out->pending_function = stats.pending_function;
	out->waits = stats.waits;
	out->longest_wait_ns = stats.longest_wait_ns;
	for (size_t i = 0; i < k->count && r->listed_count < PATCH_LISTED; i++) {
		struct patch_listed *l = &r->listed[r->listed_count++];
		*l = k->functions[i];
		l->patch = index;
	}
}

/* With each answer: what is in force now. */
static void list(struct patch_region *r)
{
	r->kept_count = 0;
	r->listed_count = 0;
	for (size_t i = 0; i < PATCH_KEPT; i++) {
		if (!kept[i].patch)
			continue;
		/* Threads may have changed since then; this asks for a moment only. */
		if (kept[i].consistency == TRAPLINE_PATCH_PER_THREAD)
			trapline_patch_wait(kept[i].patch, LOOK_NS);
		list_one(r, &kept[i]);
	}
}

/*
 * ---- SIGTRAP: of clocks while a change waits for threads, and of an int3 as long as there is one
 * ----
 */

static bool sees_calls;

static bool has_kept(bool (*is)(const struct kept *))
{
	for (size_t i = 0; i < PATCH_KEPT; i++)
		if (kept[i].patch && is(&kept[i]))
			return true;
	return false;
}

static bool has_traps(const struct kept *k)
{
	struct trapline_patch_stats stats = { .size = sizeof(stats) };

	return !trapline_patch_stats(k->patch, &stats) && stats.traps;
}

/* It would be undone by changes of code that Trapline's thread runs. */
static bool is_of_libraries(const struct kept *k)
{
	for (size_t i = 0; i < k->count; i++)
		if (is_called_by_us((const void *)(uintptr_t)k->functions[i].address))
			return true;
	return false;
}

static bool is_per_thread(const struct kept *k)
{
	return k->consistency == TRAPLINE_PATCH_PER_THREAD;
}

/* list() may wait for threads, too. Without the decoder apply() gives the reason. */
static void take_calls(const struct patch_region *r)
{
	const bool may_trap = r->action == PATCH_APPLY || r->action == PATCH_UNDO ||
			      has_kept(is_per_thread);

	if (sees_calls || !may_trap || zydis_open())
		return;
	sees_calls = !late_calls.begin(agent_end_for_program, false);
	if (sees_calls)
		late_calls.look_again();
}

static void leave_calls(void)
{
	if (!sees_calls || has_kept(has_traps))
		return;
	/* A signal that was on its way has been taken. */
	moved_wait();
	late_calls.end(true);
	sees_calls = false;
}

static void serve(struct request *q)
{
	struct patch_region *r = q->region;

	take_calls(r);
	int err = r->action == PATCH_APPLY ? apply(q) : r->action == PATCH_UNDO ? undo(q) : 0;
	list(r);
	leave_calls();
	r->error = err;
	atomic_set(&r->state, err ? PATCH_HAS_FAILED : PATCH_IS_DONE);
}

/* And another may come. */
static void drop(struct request *q)
{
	if (q->object >= 0)
		sys_close(q->object);
	if (q->region)
		memory_unmap(q->region, sizeof(*q->region));
	free(q);
	atomic_set(&worker, 0);
	own_table_end();
}

static void *work(void *arg)
{
	struct request *q = arg;

	own_thread_begins();
	stays_open = false;
	if (signals_have_trap() || has_kept(has_traps) || has_kept(is_of_libraries))
		stay_open();
	serve(q);
	drop(q);
	own_thread_shuts();
	return NULL;
}

/* A forked child has a copy of the word, but no such thread. */
static bool take_table(void)
{
	pid_t process = sys_getpid();
	pid_t before = 0;

	return atomic_cas(&worker, &before, process) ||
	       (before != process && atomic_cas(&worker, &before, process));
}

static int start_thread(size_t stack_bytes, void *(*run)(void *), struct request *q)
{
	own_thread_create create = (own_thread_create)dlsym(RTLD_NEXT, "pthread_create");

	own_thread_prepare();
	return create ? own_thread_start(create, stack_bytes, run, q) : -EAGAIN;
}

/*
 * The object is loaded here, where the loader has a table of its own, if nothing of it runs then.
 * Otherwise its file is taken along.
 */
static int open_request(const char *files, struct request *q)
{
	const char *comma = strchr(files, ',');

	q->object = -1;
	q->region = share_map_own(files, PATCH_MAGIC, sizeof(*q->region));
	if (!q->region)
		return -EPROTO;
	if (!comma)
		return 0;
	if (q->region->is_apart && find_free()) {
		atomic_set(&q->region->state, PATCH_IS_LOADING);
		q->region->error = load_object(q, atoi(comma + 1));
		return 0;
	}
	q->object = own_table_take(atoi(comma + 1));
	return q->object < 0 ? q->object : 0;
}

/* ---- the two calls of a request ---- */

static struct request *waiting; /* for the second */

static struct request *take_waiting(struct request *q)
{
	return q && atomic_cas(&waiting, &q, (struct request *)NULL) ? q : NULL;
}

/* The command may be killed between them. */
static void *wait_for_go(void *arg)
{
	const struct timespec step = { 0, GO_STEP_NS };
	struct request *q = arg;

	own_thread_begins();
	for (int i = 0; i < GO_STEPS && atomic_get(&waiting) == q; i++)
		sys_nap(&step);
	q = take_waiting(q);
	if (q)
		drop(q);
	return NULL;
}

/*
 * "fd:N,M": the region, and the object if one is applied. These are of the calling thread alone. 0;
 * -EBUSY: another request is at work; or another -errno.
 */
static int patch_call(const char *files)
{
	if (!take_table())
		return -EBUSY;
	int err = own_table_begin();
	struct request *q = err ? NULL : calloc(1, sizeof(*q));
	if (!q) {
		if (!err)
			own_table_end();
		atomic_set(&worker, 0);
		return err ? err : -ENOMEM;
	}
	err = open_request(files, q);
	if (!err && q->region->error) {
		atomic_set(&q->region->state, PATCH_HAS_FAILED);
		drop(q);
		return 0;
	}
	atomic_set(&waiting, q);
	if (!err)
		err = start_thread(WAIT_STACK_BYTES, wait_for_go, q);
	if (err && take_waiting(q))
		drop(q);
	return err;
}

/*
 * In a thread of the program: what the new code opens as it is loaded is in the table of the
 * program.
 */
static int patch_go(const char *text)
{
	struct request *q = take_waiting(atomic_get(&waiting));

	(void)text;
	if (!q)
		return 0; /* the answer is in the region */
	const int err = start_thread(STACK_BYTES, work, q);
	if (err)
		drop(q);
	return err;
}

struct run agent_patch_go = { .option = "patch-go=", .call = patch_go };
struct run agent_patch = { .option = "patch=", .call = patch_call };
