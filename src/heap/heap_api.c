/* SPDX-License-Identifier: MIT */
/*
 * heap_api.c - public entry points of the heap detector, for programs that search their own heap.
 *
 * The detector is the object that `trapline heap -p` loads into a process
 * (agent/guard/guard_late.c): a program that does not ask for it does not have it. It writes
 * records into a region; a thread of the library reads them and reports. The thread sleeps on a
 * futex, so it never runs while nothing is found.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <trapline/heap.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/own_thread_name.h"
#include "base/sys.h"
#include "core/explain.h"
#include "core/opts_copy.h"
#include "core/target.h"
#include "heap/heap_line.h"
#include "record/heap_region.h"
#include "search/search_reader.h"

#define OBJECT "libtrapline-guard-late.so"
#define BUDGET_PPM 20000u
#define BUDGET_PPM_MAX 1000000u
#define ALLOWANCE_NS 10000000u
#define ALIGN_MOST 16u
#define STATUS_BYTES 4096u
#define MASK_NAP_NS 1000000
#define MASK_LOOKS 100u

struct object {
	int (*begin)(struct heap_region *region);
	void (*end)(void);
};

struct trapline_heap {
	struct trapline_heap_opts opts;
	struct object object;
	struct heap_region *region; /* the object's, from begin() on: it may count there later */
	pid_t pid;		    /* a forked child has a copy of Trapline, and no search */
	struct search_reader reader;
};

static int check_opts(const struct trapline *t, const struct trapline_heap_opts *o)
{
	const char *wrong = NULL;

	if (t->pid != t->owner_pid || t->owner_pid != sys_getpid())
		wrong = "only the heap of the calling process is searched: t must be that process";
	else if (o->flags || o->reserved)
		wrong = "unknown flag";
	else if (o->budget_ppm > BUDGET_PPM_MAX)
		wrong = "budget_ppm is over 1000000, which is 100 %";
	else if (o->align > ALIGN_MOST || (o->align & (o->align - 1)))
		wrong = "align must be 1, 2, 4, 8 or 16";
	else if (!o->report && o->fd <= 0)
		wrong = "neither report nor fd is set: an error could not be reported";
	return wrong ? failed(-EINVAL, FAILED_ARGUMENT, wrong) : 0;
}

/* ---- the process ---- */

struct facts {
	bool blocks_segv;
	bool blocks_trap;
	bool has_filter;
};

static void read_status(int task, const char *tid, struct facts *out)
{
	char path[64];
	char text[STATUS_BYTES];

	snprintf(path, sizeof(path), "%.16s/status", tid);
	int fd = openat(task, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return; /* it has ended */
	ssize_t n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *name = strchr(text, '\t');
	if (name && own_thread_has_name(name + 1) && strtol(tid, NULL, 10) != sys_getpid())
		return;
	const char *mask = strstr(text, "\nSigBlk:");
	const char *filter = strstr(text, "\nSeccomp:");
	uint64_t blocked = mask ? strtoull(mask + 8, NULL, 16) : 0;

	out->blocks_segv |= blocked >> (SIGSEGV - 1) & 1;
	out->blocks_trap |= blocked >> (SIGTRAP - 1) & 1;
	out->has_filter |= filter && strtoul(filter + 9, NULL, 10) != 0;
}

static int look_at_threads(struct facts *out)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;

	*out = (struct facts){ false, false, false };
	if (!tasks)
		return failed(-errno, FAILED_EVENT, "/proc is not readable");
	while ((entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			read_status(dirfd(tasks), entry->d_name, out);
	closedir(tasks);
	return 0;
}

/*
 * A thread that begins or ends has all signals blocked for a moment, which is long on a busy
 * machine.
 */
static int read_facts(struct facts *out)
{
	const struct timespec nap = { 0, MASK_NAP_NS };
	int err = look_at_threads(out);

	for (uint32_t n = 0; !err && out->blocks_segv && n < MASK_LOOKS; n++) {
		sys_nap(&nap);
		err = look_at_threads(out);
	}
	if (err)
		return err;
	if (out->has_filter)
		return failed(-EOPNOTSUPP, FAILED_EVENT,
			      "a seccomp filter may kill the process for a call of the detector");
	if (out->blocks_segv)
		return failed(-EBUSY, FAILED_EVENT,
			      "a thread blocks SIGSEGV, and would die of an error; unblock it");
	return 0;
}

/* ---- the object ---- */

static void *open_beside(const char *file, const char *folder)
{
	const char *slash = strrchr(file, '/');
	char path[PATH_MAX];

	if (!slash)
		return NULL;
	int n = snprintf(path, sizeof(path), "%.*s%s/" OBJECT, (int)(slash - file), file, folder);
	return n < (int)sizeof(path) && !access(path, R_OK) ?
		       dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) :
		       NULL;
}

/* As the command finds the agent: where the environment states, or where the library is. */
static int open_object(struct object *out)
{
	const char *given = secure_getenv("TRAPLINE_AGENT");
	void *object = given ? open_beside(given, "") : NULL;
	Dl_info own;

	if (!object && dladdr((void *)(uintptr_t)open_object, &own) && own.dli_fname) {
		object = open_beside(own.dli_fname, "/trapline");
		object = object ? object : open_beside(own.dli_fname, "");
	}
	if (!object)
		object = open_beside(TRAPLINE_AGENT_DIR "/", "");
	if (!object)
		return failed(-ENOENT, FAILED_EVENT,
			      OBJECT " was not found: install the package trapline, or set "
				     "TRAPLINE_AGENT");
	out->begin = (int (*)(struct heap_region *))dlsym(object, "trapline_heap_begin");
	out->end = (void (*)(void))dlsym(object, "trapline_heap_end");
	if (!out->begin || !out->end)
		return failed(-ENOENT, FAILED_EVENT, OBJECT " is of another version");
	return 0;
}

/* ---- reports ---- */

struct moment {
	struct trapline_heap_moment public;
	struct trapline_heap_frame frames[HEAP_FRAMES];
};

static const struct trapline_heap_moment *
fill_moment(const struct heap_region *region, const struct heap_moment *from, struct moment *out)
{
	if (!from->time_ns)
		return NULL;
	out->public = (struct trapline_heap_moment){ .time_ns = from->time_ns,
						     .tid = from->tid,
						     .frames = out->frames };
	for (uint32_t i = 0; i < from->frame_count && i < HEAP_FRAMES; i++) {
		struct trapline_heap_frame *f = &out->frames[out->public.frame_count++];

		f->module = heap_file_of(region, from->frames[i], &f->offset);
	}
	return &out->public;
}

static void take(struct trapline_heap *h, const struct heap_record *record)
{
	static const uint32_t accesses[] = {
		[HEAP_READ] = TRAPLINE_READ, [HEAP_WRITE] = TRAPLINE_WRITE
	};
	struct moment first;
	struct moment allocated;
	struct moment freed;
	struct trapline_heap_report report = {
		.size = sizeof(report),
		.kind = TRAPLINE_HEAP_USE_AFTER_FREE + record->kind,
		.grade = TRAPLINE_HEAP_A + record->grade,
		.access = record->access <= HEAP_WRITE ? accesses[record->access] : 0,
		.len = record->size,
		.address = record->address,
		.block = record->block,
		.block_size = record->block_size,
		.first = fill_moment(h->region, &record->first, &first),
		.allocated = fill_moment(h->region, &record->alloc, &allocated),
		.freed = fill_moment(h->region, &record->freed, &freed),
		.json = h->reader.line,
	};

	report.json_length =
		heap_report_line(h->region, record, h->reader.line, sizeof(h->reader.line) - 1);
	if (h->opts.report)
		h->opts.report(h->opts.arg, &report);
	search_reader_report(&h->reader, report.json_length);
}

static int take_next(void *arg)
{
	struct trapline_heap *h = arg;
	struct heap_record record;

	if (!heap_read(h->region, &record, &h->reader.torn))
		return 0;
	take(h, &record);
	return 1;
}

/* ---- start and stop ---- */

static struct heap_region *new_region(const struct trapline_heap_opts *o, const struct facts *facts)
{
	struct heap_region *region = memory_map(sizeof(*region));

	if (memory_failed(region))
		return NULL;
	region->share.magic = HEAP_MAGIC;
	region->share.bytes = sizeof(*region);
	region->settings = (struct heap_settings){
		.budget_ppm = o->budget_ppm ? o->budget_ppm : BUDGET_PPM,
		.allowance_ns = ALLOWANCE_NS,
		.first = o->first,
		.seed = clock_now_ns(),
		.align = o->align ? o->align : ALIGN_MOST,
		.are_traps_blocked = facts->blocks_trap,
		.has_family = 1,
		.has_reader = 1,
	};
	return region;
}

/* What it states must stay: other threads may ask for it later. */
static int explain_refusal(const struct heap_region *region, int err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char why[sizeof(region->run.why)];

	pthread_mutex_lock(&lock);
	memcpy(why, region->run.why, sizeof(why));
	why[sizeof(why) - 1] = '\0';
	pthread_mutex_unlock(&lock);
	if (err == -EBUSY && !*why)
		return failed(
			err, FAILED_EVENT,
			"the heap of this process is searched already: end that search first");
	return failed(err, FAILED_EVENT, *why ? why : NULL);
}

static int start(struct trapline_heap *h)
{
	struct facts facts;
	int err = read_facts(&facts);

	if (!err)
		err = open_object(&h->object);
	if (err)
		return err;
	h->region = new_region(&h->opts, &facts);
	if (!h->region)
		return failed(-ENOMEM, FAILED_EVENT, NULL);
	h->reader.told = &h->region->told;
	h->reader.write_at = &h->region->write_at;
	h->reader.read_at = &h->region->read_at;
	h->reader.take = take_next;
	h->reader.arg = h;
	h->reader.fd = h->opts.fd;
	err = search_reader_start(&h->reader);
	if (err) {
		memory_unmap(h->region, sizeof(*h->region));
		return failed(err, FAILED_EVENT, NULL);
	}
	err = h->object.begin(h->region);
	if (!err)
		return 0;
	search_reader_end(&h->reader);
	err = explain_refusal(h->region, err);
	/* What begin() refused at once is not known to the object. */
	if (atomic_get(&h->region->run.state) == RUN_NEW)
		memory_unmap(h->region, sizeof(*h->region));
	return err;
}

TRAPLINE_API int trapline_heap_start(struct trapline *t, const struct trapline_heap_opts *opts,
				     struct trapline_heap **out)
{
	struct trapline_heap_opts o;
	int err = opts_copy(&o, sizeof(o), opts);

	if (err)
		return err;
	if (!t || !out)
		return failed(-EINVAL, FAILED_ARGUMENT, "target or out is NULL");
	err = check_opts(t, &o);
	if (err)
		return err;
	struct trapline_heap *h = calloc(1, sizeof(*h));
	if (!h)
		return failed(-ENOMEM, FAILED_EVENT, NULL);
	h->opts = o;
	h->pid = sys_getpid();
	err = start(h);
	if (err) {
		free(h);
		return err;
	}
	*out = h;
	return 0;
}

TRAPLINE_API int trapline_heap_stats(struct trapline_heap *h, struct trapline_heap_stats *out)
{
	const uint64_t *c = h->region->counters;
	size_t size = out->size;
	struct trapline_heap_stats s = {
		.size = size,
		.sampled = counter_get(&c[HEAP_SAMPLED]),
		.cost_ns = counter_get(&c[HEAP_COST_NS]),
		.found = counter_get(&c[HEAP_FOUND]),
		.reported = counter_get(&h->reader.reported),
		.lost = counter_get(&c[HEAP_LOST_RECORDS]) + counter_get(&h->reader.torn) +
			counter_get(&h->reader.unwritten),
		.has_registers = !counter_get(&c[HEAP_UNWATCHED]),
	};

	if (size < sizeof(size_t) || size > sizeof(s))
		return -EINVAL;
	memcpy(out, &s, size);
	return 0;
}

TRAPLINE_API void trapline_heap_stop(struct trapline_heap *h)
{
	if (!h)
		return;
	if (h->pid == sys_getpid()) {
		h->object.end();
		search_reader_end(&h->reader);
	}
	free(h);
}
