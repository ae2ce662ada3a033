/* SPDX-License-Identifier: MIT */
/* targets.c - see targets.h. */
#include "cli/observe/targets.h"

#include "base/clock.h"
#include "cli/launch/process_name.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/observe/targets_find.h"
#include "report/safe/clean.h"

#include <errno.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 50000000u

bool targets_are_several(const struct observe_settings *set)
{
	return set->pids.count > 1 || set->process_name || set->follow;
}

void targets_explain_uprobes(int err, char *why, size_t size)
{
	if (geteuid() && (err == -EPERM || err == -EACCES))
		snprintf(why, size, "they are for root (CAP_SYS_ADMIN and CAP_BPF)");
	else
		trapline_explain(err, why, size);
}

int targets_wrong_without_uprobes(const struct observe_settings *set, const char *why)
{
	return cli_wrong(set->name,
			 "cannot break in several processes (%s): uprobes are needed, and %s",
			 set->process_name   ? "--name" :
			 set->pids.count > 1 ? "-p with several" :
					       "--follow",
			 why);
}

static int check_pid(const struct observe_settings *set, size_t i)
{
	pid_t pid = set->pids.pid[i];
	char text[32];

	for (size_t k = 0; k < i; k++)
		if (set->pids.pid[k] == pid)
			return cli_wrong(set->name, "process %d is given twice", pid);
	if (kill(pid, 0) && errno == ESRCH)
		return cli_wrong(set->name, "there is no process %d", pid);
	if (pid == getpid())
		return cli_wrong(set->name, "process %d is this command itself", pid);
	if (program_status(pid, pid, "Tgid", text, sizeof(text)) && atoi(text) != pid)
		return cli_wrong(set->name, "%d is a thread of process %d: give -p %d", pid,
				 atoi(text), atoi(text));
	switch (program_state(pid)) {
	case PROGRAM_IS_KERNEL:
		return cli_wrong(set->name,
				 "process %d is a kernel thread: it has no program to observe",
				 pid);
	case PROGRAM_HAS_ENDED:
		return cli_wrong(set->name,
				 "process %d has ended: it is a zombie, which its parent has not "
				 "waited for",
				 pid);
	default:
		break;
	}
	if (set->is_break && !set->list && program_is_translated(pid))
		return cli_wrong(set->name,
				 "cannot break in process %d: " PROGRAM_TRANSLATED_REMEDY, pid);
	return 0;
}

int targets_choose(struct observe_settings *set, uint64_t start_ns)
{
	int status = 0;

	if (set->process_name)
		status = targets_find_named(set, start_ns);
	for (size_t i = 0; !status && !set->process_name && i < set->pids.count; i++)
		status = check_pid(set, i);
	if (!status && set->pids.count > 1)
		targets_note_other_files(set);
	if (set->pids.count)
		set->pid = set->pids.pid[0];
	return status;
}

void targets_opts(const struct observe_settings *set, struct trapline_event_opts *opts)
{
	opts->flags |= set->follow ? TRAPLINE_FOLLOW_FORKS : 0;
	/* An access is watched by debug registers, which children inherit. */
	if (!targets_are_several(set) || !set->is_break)
		return;
	opts->flags |= TRAPLINE_SEVERAL;
	opts->program = set->process_name;
}

static int add_one(struct targets *t, struct trapline_event *const *events, size_t count, pid_t pid)
{
	char text[300];

	if (pid != t->set->pid)
		target_names_add(&t->names, pid);
	for (size_t i = 0; i < count; i++) {
		int err = trapline_event_add(events[i], pid);

		if (err == -ESRCH)
			return 0; /* it has ended since */
		if (err < 0) {
			trapline_explain(err, text, sizeof(text));
			return cli_wrong(t->set->name, "cannot observe process %d: %s", pid, text);
		}
	}
	return 0;
}

/* Those that began before the events were armed; what begins later the kernel adds. */
static int add_more(struct targets *t, struct trapline_event *const *events, size_t count)
{
	const struct observe_settings *set = t->set;
	struct opt_pids more = { 0 };
	int status = set->process_name ? targets_list_named(set, &more) : 0;

	if (!status && set->follow)
		status = targets_list_descendants(set, &more);
	for (size_t i = 0; !status && i < more.count; i++)
		status = add_one(t, events, count, more.pid[i]);
	free(more.pid);
	return status;
}

int targets_open(struct targets *t, const struct observe_settings *set, struct symbols *first)
{
	t->set = set;
	t->first = first;
	t->layout = targets_layout(set->pid);
	target_names_open(&t->names, first, set->pid, set->process_name);
	return symbols_open_empty(&t->nameless) ? cli_wrong(set->name, "out of memory") : 0;
}

int targets_cover(struct targets *t, struct trapline_event *const *events, size_t count)
{
	const struct observe_settings *set = t->set;
	int status = 0;

	for (size_t i = 0; i < count; i++)
		if (trapline_event_mechanism(events[i]) != TRAPLINE_BY_UPROBE &&
		    trapline_event_mechanism(events[i]) != TRAPLINE_BY_TRACEPOINT)
			return cli_wrong(
				set->name,
				"cannot observe several processes: uprobes are needed, and a "
				"location has none; run as root, or choose a function");
	for (size_t i = 1; !status && i < set->pids.count; i++)
		status = add_one(t, events, count, set->pids.pid[i]);
	return status ? status : add_more(t, events, count);
}

int targets_add(struct targets *t, const struct observe_settings *set, struct symbols *first,
		struct trapline_event *const *events, size_t count)
{
	if (!targets_are_several(set) || !set->is_break)
		return 0;
	int status = targets_open(t, set, first);
	return status ? status : targets_cover(t, events, count);
}

static int process_compare(const void *a, const void *b)
{
	const struct target_process *x = a;
	const struct target_process *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct target_process *find_process(const struct targets *t, pid_t pid)
{
	struct target_process key = { .pid = pid };
	struct target_process **found = tfind(&key, &t->processes, process_compare);

	return found ? *found : NULL;
}

/* The process may have executed another program since the hit. */
static bool has_code_at(const struct targets *t, struct symbols *s, const struct trapline_hit *hit)
{
	struct place site;
	struct place now;

	symbols_place(t->first, hit->address, &site);
	symbols_place(s, hit->ip, &now);
	return site.module && now.module && !strcmp(site.module, now.module) &&
	       site.module_offset == now.module_offset;
}

/*
 * A child has the layout of its parent until it executes a program. Of a process that has ended
 * already only the address of the hit is known, which shows where its file is.
 */
static void choose_symbols(struct targets *t, struct target_process *p,
			   const struct trapline_hit *hit)
{
	uint64_t layout = targets_layout(p->pid);
	bool may_be_alike = hit->ip == hit->address;

	p->symbols = t->first;
	if (may_be_alike && layout == t->layout)
		return;
	if (layout && t->own_count < TARGETS_SYMBOLS_MAX && !symbols_open(p->pid, &p->symbols)) {
		t->own[t->own_count++] = p->symbols;
		if (has_code_at(t, p->symbols, hit))
			return;
	}
	/* It was ending while its map was read, or has had libraries of its own. */
	p->symbols = may_be_alike ? t->first : t->nameless;
	t->without_names += !may_be_alike;
	/* The file that contains the hit is at the distance. */
	if (!may_be_alike && t->own_count < TARGETS_SYMBOLS_MAX &&
	    !symbols_open_like(t->first, hit->ip, hit->ip - hit->address, &p->symbols))
		t->own[t->own_count++] = p->symbols;
}

/* True: the process is as it was at an earlier hit there. */
static bool is_as_before(struct target_process *p, const struct trapline_hit *hit)
{
	size_t n = p->seen_count < TARGETS_SEEN_MAX ? p->seen_count : TARGETS_SEEN_MAX;
	uint64_t distance = hit->ip - hit->address;
	size_t i = 0;

	/* At a return it is where the function returns to, and the call has been seen. */
	if (hit->returned)
		return true;
	while (i < n && p->seen[i].address != hit->address)
		i++;
	if (i < n && p->seen[i].distance == distance)
		return true;
	if (i == n)
		i = p->seen_count++ % TARGETS_SEEN_MAX;
	p->seen[i].address = hit->address;
	p->seen[i].distance = distance;
	return false;
}

static struct target_process *note_process(struct targets *t, const struct trapline_hit *hit)
{
	struct target_process *p = find_process(t, hit->pid);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = hit->pid;
	if (hit->tid != hit->pid)
		process_name(p->pid, p->name, sizeof(p->name));
	else
		memcpy(p->name, hit->thread, sizeof(p->name));
	clean_text(p->name);
	if (tsearch(p, &t->processes, process_compare))
		return p;
	free(p);
	return NULL;
}

static struct symbols *symbols_of(struct targets *t, const struct trapline_hit *hit)
{
	struct target_process *p = note_process(t, hit);
	struct symbols *recorded = p ? target_names_of(&t->names, hit, &p->at) : NULL;

	if (recorded || !p)
		return recorded ? recorded : t->nameless;
	if (!is_as_before(p, hit) || !p->symbols)
		choose_symbols(t, p, hit);
	return p->symbols;
}

struct symbols *targets_symbols(struct targets *t, const struct trapline_hit *hit)
{
	struct symbols *s = symbols_of(t, hit);

	symbols_read_from(s, hit->pid);
	return s;
}

const char *targets_name(const struct targets *t, pid_t pid)
{
	struct target_process *p = t->set ? find_process(t, pid) : NULL;

	return t->set ? (p && p->name[0] ? p->name : "?") : NULL;
}

static uint64_t children_now(struct trapline_event *const *events, size_t count)
{
	uint64_t followed = 0;

	for (size_t i = 0; i < count; i++) {
		struct trapline_stats st = { .size = sizeof(st) };

		trapline_event_stats(events[i], &st);
		followed += st.followed;
	}
	return followed;
}

static bool runs(pid_t pid)
{
	char state = program_thread_state(pid, pid);

	return state && state != 'Z' && state != 'X';
}

bool targets_have_ended(struct targets *t, struct trapline_event *const *events, size_t count)
{
	uint64_t now = clock_now_ns();

	target_names_look(&t->names);
	/* Processes of that name may begin later. */
	if (t->set->process_name || now - t->looked_ns < LOOK_NS)
		return t->is_over;
	t->looked_ns = now;
	t->is_over = !children_now(events, count) && !runs(t->set->pid);
	for (size_t i = 0; t->is_over && i < t->set->pids.count; i++)
		t->is_over = !runs(t->set->pids.pid[i]);
	return t->is_over;
}

void targets_describe(const struct observe_settings *set, char *buf, size_t n)
{
	size_t used = 0;
	size_t count = set->pids.count > 1 ? set->pids.count : 1;

	used = (size_t)snprintf(buf, n, "%zu process%s (%d", count, count == 1 ? "" : "es",
				set->pid);
	for (size_t i = 1; i < count && i < 8 && used < n; i++)
		used += (size_t)snprintf(buf + used, n - used, ", %d", set->pids.pid[i]);
	if (used < n)
		snprintf(buf + used, n - used, "%s)%s%s%s", count > 8 ? ", ..." : "",
			 set->follow ? " and its children" : "",
			 set->process_name ? ", and all that begin as " : "",
			 set->process_name ? set->process_name : "");
}

void targets_end(struct targets *t, struct trapline_event *const *events, size_t count)
{
	uint64_t lost = 0;

	if (!t->set)
		return;
	for (size_t i = 0; i < count; i++) {
		struct trapline_stats st = { .size = sizeof(st) };

		trapline_event_stats(events[i], &st);
		lost = st.not_followed > lost ? st.not_followed : lost;
	}
	if (lost)
		cli_note(
			t->set->name,
			"%llu threads of children were not observed: the kernel's table of them was "
			"full",
			(unsigned long long)lost);
	if (t->without_names)
		cli_note(t->set->name,
			 "%llu process%s had ended before the memory map was read: only addresses "
			 "in the object of the hit have names there",
			 (unsigned long long)t->without_names, t->without_names == 1 ? "" : "es");
	if (t->names.mapped.without_file)
		cli_note(t->set->name,
			 "%llu process%s had a file mapped that could not be read, such as %.200s: "
			 "addresses in it have no names",
			 (unsigned long long)t->names.mapped.without_file,
			 t->names.mapped.without_file == 1 ? "" : "es", t->names.mapped.missing);
}

static void process_free(void *process)
{
	struct target_process *p = process;

	target_name_close(&p->at);
	free(p);
}

void targets_release(struct targets *t)
{
	tdestroy(t->processes, process_free);
	while (t->own_count)
		symbols_close(t->own[--t->own_count]);
	symbols_close(t->nameless);
	target_names_close(&t->names);
	t->processes = NULL;
}
