/* SPDX-License-Identifier: MIT */
/*
 * threads.c - see threads.h.
 *
 * libthread_db belongs to one version of glibc and knows how that keeps its threads. It calls the
 * functions ps_*() of the program that opens it (proc_service.h), and the command exports them.
 * Those that need a stopped thread return an error.
 */
#include "report/dwarf/threads.h"

#include "report/dwarf/symbols_priv.h"
#include "report/safe/isolate.h"
#include "report/safe/task_name.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <proc_service.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread_db.h>

#define OBJECTS_MAX 4096 /* in the list of loaded objects: a damaged one may be a circle */
#define EXPORTED __attribute__((visibility("default"), used))

/* libthread_db's name for a process, which it leaves to Trapline. */
struct ps_prochandle {
	struct symbols *s;
};

EXPORTED ps_err_e ps_pdread(struct ps_prochandle *p, psaddr_t address, void *buf, size_t n)
{
	return symbols_read(p->s, (uintptr_t)address, buf, n) ? PS_BADADDR : PS_OK;
}

EXPORTED ps_err_e ps_ptread(struct ps_prochandle *p, psaddr_t address, void *buf, size_t n)
{
	return ps_pdread(p, address, buf, n);
}

EXPORTED ps_err_e ps_pdwrite(struct ps_prochandle *p, psaddr_t address, const void *buf, size_t n)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_ptwrite(struct ps_prochandle *p, psaddr_t address, const void *buf, size_t n)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_lgetregs(struct ps_prochandle *p, lwpid_t lwp, prgregset_t regs)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_lsetregs(struct ps_prochandle *p, lwpid_t lwp, const prgregset_t regs)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_lgetfpregs(struct ps_prochandle *p, lwpid_t lwp, prfpregset_t *regs)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_lsetfpregs(struct ps_prochandle *p, lwpid_t lwp, const prfpregset_t *regs)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_get_thread_area(struct ps_prochandle *p, lwpid_t lwp, int index, psaddr_t *out)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_pstop(struct ps_prochandle *p)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_pcontinue(struct ps_prochandle *p)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_lstop(struct ps_prochandle *p, lwpid_t lwp)
{
	return PS_ERR;
}

EXPORTED ps_err_e ps_lcontinue(struct ps_prochandle *p, lwpid_t lwp)
{
	return PS_ERR;
}

EXPORTED pid_t ps_getpid(struct ps_prochandle *p)
{
	return p->s->pid;
}

EXPORTED ps_err_e ps_pglobal_lookup(struct ps_prochandle *p, const char *object, const char *name,
				    psaddr_t *out)
{
	struct variable v;

	if (symbols_find(p->s, name, &v))
		return PS_NOSYM;
	*out = (psaddr_t)(uintptr_t)v.address;
	return PS_OK;
}

struct choice {
	pid_t pid;
	const char *wanted; /* NULL: any */
	pid_t found;
	size_t count;
	size_t all;
	char fits[200];	  /* the first of those that fit, for the user */
	char others[200]; /* of those there are */
};

static void list_add(char *list, size_t n, const char *name, pid_t tid)
{
	size_t used = strlen(list);

	if (used + 40 < n)
		snprintf(list + used, n - used, "%s%s/%d", used ? ", " : "", name, tid);
	else if (used + 5 < n && list[used - 1] != '.')
		strcat(list, " ...");
}

static void choose_visit(struct choice *c, pid_t tid)
{
	char name[32];

	task_name(c->pid, tid, name, sizeof(name));
	c->all++;
	list_add(c->others, sizeof(c->others), name, tid);
	if (c->wanted && (long)tid != strtol(c->wanted, NULL, 10) && strcmp(c->wanted, name) != 0)
		return;
	list_add(c->fits, sizeof(c->fits), name, tid);
	c->found = tid;
	c->count++;
}

static int choose_failed(const struct choice *c, char *why, size_t n)
{
	if (!c->wanted)
		snprintf(why, n, "choose a thread with --thread TID or NAME (%s)", c->others);
	else if (c->count)
		snprintf(why, n, "several threads are named %s; give the TID of one (%s)",
			 c->wanted, c->fits);
	else
		snprintf(why, n, "no thread is named '%s' (there are %s)", c->wanted, c->others);
	return c->count ? -ENOTUNIQ : -ESRCH;
}

int threads_choose(struct symbols *s, const char *wanted, pid_t *out, char *why, size_t n)
{
	struct choice c = { .pid = s->pid, .wanted = wanted };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", s->pid);
	DIR *dir = opendir(path);
	if (!dir) {
		snprintf(why, n, "the process has ended");
		return -ESRCH;
	}
	for (struct dirent *d; (d = readdir(dir)) != NULL;)
		if (d->d_name[0] != '.')
			choose_visit(&c, (pid_t)strtol(d->d_name, NULL, 10));
	closedir(dir);
	if (c.count != 1)
		return choose_failed(&c, why, n);
	*out = c.found;
	return 0;
}

/* The loader's entry for an object, by where it was loaded; 0: not in its list. */
static uint64_t link_map_of(struct symbols *s, uint64_t object)
{
	struct r_debug debug;
	struct link_map map;
	struct variable v;

	if (symbols_find(s, "_r_debug", &v) || symbols_read(s, v.address, &debug, sizeof(debug)))
		return 0;
	uint64_t at = (uintptr_t)debug.r_map;
	for (int i = 0; at && i < OBJECTS_MAX; i++) {
		if (symbols_read(s, at, &map, sizeof(map)))
			return 0;
		if (map.l_addr == object)
			return at;
		at = (uintptr_t)map.l_next;
	}
	return 0;
}

/* The functions of libthread_db, opened when first needed. */
static struct thread_db {
	void *library;
	td_err_e (*init)(void);
	td_err_e (*open)(struct ps_prochandle *p, td_thragent_t **out);
	td_err_e (*close)(td_thragent_t *agent);
	td_err_e (*each)(const td_thragent_t *agent, td_thr_iter_f *visit, void *arg,
			 td_thr_state_e state, int priority, sigset_t *mask, unsigned int flags);
	td_err_e (*info)(const td_thrhandle_t *thread, td_thrinfo_t *out);
	td_err_e (*address)(const td_thrhandle_t *thread, psaddr_t map, size_t offset,
			    psaddr_t *out);
	td_err_e (*block)(const td_thrhandle_t *thread, unsigned long module, psaddr_t *out);
} db;

static bool thread_db_load(void)
{
	if (db.library)
		return true;
	void *library = dlopen("libthread_db.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return false;
	db.init = (typeof(db.init))dlsym(library, "td_init");
	db.open = (typeof(db.open))dlsym(library, "td_ta_new");
	db.close = (typeof(db.close))dlsym(library, "td_ta_delete");
	db.each = (typeof(db.each))dlsym(library, "td_ta_thr_iter");
	db.info = (typeof(db.info))dlsym(library, "td_thr_get_info");
	db.address = (typeof(db.address))dlsym(library, "td_thr_tls_get_addr");
	db.block = (typeof(db.block))dlsym(library, "td_thr_tlsbase");
	if (!db.init || !db.open || !db.close || !db.each || !db.info || !db.address || !db.block ||
	    db.init() != TD_OK)
		return false;
	db.library = library;
	return true;
}

struct local_search {
	pid_t tid;
	uint64_t map; /* 0: a static program, whose only block is the first */
	uint64_t offset;
	uint64_t address;
	td_err_e err;
	bool is_found;
};

static int local_visit(const td_thrhandle_t *thread, void *arg)
{
	struct local_search *f = arg;
	td_thrinfo_t info;
	psaddr_t at = NULL;

	if (db.info(thread, &info) != TD_OK || info.ti_lid != f->tid)
		return 0;
	f->is_found = true;
	if (f->map)
		f->err = db.address(thread, (psaddr_t)(uintptr_t)f->map, f->offset, &at);
	else
		f->err = db.block(thread, 1, &at);
	f->address = (uintptr_t)at + (f->map ? 0 : f->offset);
	return 1;
}

static int local_failed(const struct local_search *f, td_err_e err, char *why, size_t n)
{
	if (err == TD_VERSION)
		snprintf(why, n,
			 "the program's C library differs from the one of this machine, "
			 "which libthread_db needs");
	else if (err == TD_NOLIBTHREAD || err == TD_NOTALLOC)
		snprintf(why, n,
			 "its address is in glibc's tables, and the program has another C "
			 "library, or is static and without threads, or has not started yet");
	else if (err == TD_TLSDEFER || err == TD_NOTLS)
		snprintf(why, n, "thread %d has not used it yet and has no memory for it", f->tid);
	else if (err == TD_OK && !f->is_found)
		snprintf(why, n, "the C library does not know thread %d", f->tid);
	else
		snprintf(why, n, "libthread_db failed with code %d", (int)err);
	return -ENODATA;
}

/* What libthread_db is asked for, and its answer. */
struct question {
	struct symbols *s;
	struct local_search search;
};

struct answer {
	struct local_search search;
	td_err_e err;
};

static void ask_library(void *arg, void *out)
{
	const struct question *question = arg;
	struct ps_prochandle handle = { question->s };
	struct answer answer = { .search = question->search };
	struct local_search *f = &answer.search;
	td_thragent_t *agent;

	answer.err = db.open(&handle, &agent);
	if (answer.err == TD_OK) {
		answer.err = db.each(agent, local_visit, f, TD_THR_ANY_STATE,
				     TD_THR_LOWEST_PRIORITY, TD_SIGNO_MASK, TD_THR_ANY_USER_FLAGS);
		db.close(agent);
	}
	if (f->is_found)
		answer.err = f->err; /* a walk that was ended early counts as failed */
	memcpy(out, &answer, sizeof(answer));
}

/*
 * libthread_db takes lengths, offsets and lists from symbols and memory of the program, and checks
 * nothing: so it runs elsewhere.
 */
int threads_local(struct symbols *s, pid_t tid, uint64_t object, uint64_t offset, uint64_t *out,
		  char *why, size_t n)
{
	struct question question = {
		s, { .tid = tid, .map = link_map_of(s, object), .offset = offset }
	};
	struct answer answer;
	struct variable first;

	if (!thread_db_load()) {
		snprintf(why, n, "cannot open libthread_db.so.1, which is part of glibc");
		return -ENOENT;
	}
	/*
	 * One of the names that it asks for: files of symbols are opened with the rights of the
	 * user.
	 */
	symbols_find(s, "_thread_db_sizeof_pthread", &first);
	int err = isolate(ask_library, &question, &answer, sizeof(answer));
	if (err) {
		snprintf(why, n,
			 err == -ECHILD	   ? "libthread_db crashed on the program's tables of "
					     "threads" :
			 err == -ETIMEDOUT ? "libthread_db found no end of the program's tables "
					     "of threads" :
			 err == -EINTR	   ? "a signal asked for the end" :
					     "cannot start the reader of its tables of threads");
		return -ENODATA;
	}
	if (answer.err != TD_OK || !answer.search.is_found)
		return local_failed(&answer.search, answer.err, why, n);
	*out = answer.search.address;
	return 0;
}
