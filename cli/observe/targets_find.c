/* SPDX-License-Identifier: MIT */
/* targets_find.c - see targets_find.h. */
#include "cli/observe/targets_find.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/maps.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/observe/targets.h"
#include "report/safe/clean.h"
#include <trapline/trapline.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES 15 /* that the kernel keeps */
#define NAMED_STEP_NS 20000000
#define ROUNDS_MAX 20

/* All processes with their parents, as of one reading of /proc. */
struct family {
	pid_t *pid;
	pid_t *parent;
	size_t count;
};

static void family_add(struct family *f, pid_t pid, pid_t parent)
{
	if (f->count % 1024 == 0) {
		size_t room = (f->count + 1024) * sizeof(pid_t);
		pid_t *pids = realloc(f->pid, room);
		f->pid = pids ? pids : f->pid;
		pid_t *parents = pids ? realloc(f->parent, room) : NULL;
		f->parent = parents ? parents : f->parent;
		if (!parents)
			return;
	}
	f->pid[f->count] = pid;
	f->parent[f->count++] = parent;
}

static void family_read(struct family *f, bool with_parents)
{
	char text[32];
	DIR *d = opendir("/proc");

	f->count = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		pid_t pid = atoi(e->d_name);

		if (pid <= 0)
			continue;
		if (!with_parents)
			family_add(f, pid, 0);
		else if (program_status(pid, pid, "PPid", text, sizeof(text)))
			family_add(f, pid, atoi(text));
	}
	if (d)
		closedir(d);
}

static void family_free(struct family *f)
{
	free(f->pid);
	free(f->parent);
}

static bool has_pid(const struct opt_pids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++)
		if (pids->pid[i] == pid)
			return true;
	return false;
}

bool targets_identify(pid_t pid, struct target_identity *out)
{
	char path[64];

	*out = (struct target_identity){ .comm = "" };
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	FILE *f = fopen(path, "re");
	if (f && fgets(out->comm, sizeof(out->comm), f))
		out->comm[strcspn(out->comm, "\n")] = 0;
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	ssize_t n = readlink(path, out->exe, sizeof(out->exe) - 1);
	out->exe[n > 0 ? n : 0] = 0;
	/* A kernel thread, or another user's process, has a name only. */
	return n > 0;
}

bool targets_has_name(const struct target_identity *who, const char *name)
{
	return !strncmp(who->comm, name, NAME_BYTES) || !strcmp(basename(who->exe), name);
}

int targets_each(int (*act)(void *arg, pid_t pid, const struct target_identity *who), void *arg)
{
	static char self[PATH_MAX];
	struct target_identity who;
	DIR *d = opendir("/proc");
	int err = d ? 0 : -errno;

	if (!self[0] && readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		self[0] = 0;
	for (struct dirent *e; d && !err && (e = readdir(d));) {
		pid_t pid = atoi(e->d_name);

		if (pid > 0 && targets_identify(pid, &who) && strcmp(who.exe, self) != 0)
			err = act(arg, pid, &who);
	}
	if (d)
		closedir(d);
	return err;
}

static bool is_named(pid_t pid, const char *name)
{
	struct target_identity who;

	return targets_identify(pid, &who) && targets_has_name(&who, name);
}

int targets_list_named(const struct observe_settings *set, struct opt_pids *out)
{
	struct family all = { 0 };
	int status = 0;

	family_read(&all, false);
	for (size_t i = 0; !status && i < all.count; i++)
		if (all.pid[i] != getpid() && is_named(all.pid[i], set->process_name) &&
		    opts_pids_add(out, all.pid[i]))
			status = cli_wrong(set->name, "out of memory");
	family_free(&all);
	return status;
}

/* Until a reading finds none that is new: a process may fork while the others are read. */
int targets_list_descendants(const struct observe_settings *set, struct opt_pids *out)
{
	struct family all = { 0 };
	bool is_found = true;
	int status = opts_pids_add(out, set->pid) ? cli_wrong(set->name, "out of memory") : 0;

	for (size_t i = 0; !status && i < set->pids.count; i++)
		if (!has_pid(out, set->pids.pid[i]) && opts_pids_add(out, set->pids.pid[i]))
			status = cli_wrong(set->name, "out of memory");
	for (int round = 0; !status && is_found && round < ROUNDS_MAX; round++) {
		is_found = false;
		family_read(&all, true);
		for (size_t i = 0; i < all.count; i++)
			if (has_pid(out, all.parent[i]) && !has_pid(out, all.pid[i]) &&
			    !opts_pids_add(out, all.pid[i]))
				is_found = true;
	}
	family_free(&all);
	return status;
}

static bool runs_file_of(pid_t pid, const struct stat *first)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return !stat(path, &st) && st.st_dev == first->st_dev && st.st_ino == first->st_ino;
}

void targets_note_other_files(const struct observe_settings *set)
{
	struct stat first;
	char path[64];
	char name[PATH_MAX] = "";
	size_t others = 0;
	pid_t other = 0;

	snprintf(path, sizeof(path), "/proc/%d/exe", set->pids.pid[0]);
	if (stat(path, &first))
		return;
	for (size_t i = 1; i < set->pids.count; i++)
		if (!runs_file_of(set->pids.pid[i], &first) && !others++)
			other = set->pids.pid[i];
	if (!others)
		return;
	snprintf(path, sizeof(path), "/proc/%d/exe", other);
	if (readlink(path, name, sizeof(name) - 1) < 0)
		name[0] = 0;
	clean_text(name);
	cli_note(set->name,
		 "%zu of the %zu processes run%s another program than process %d, such as %s of "
		 "process %d: only code in files that they share gives hits there",
		 others, set->pids.count, others == 1 ? "s" : "", set->pids.pid[0], name, other);
}

/* A wait must not end with a refusal: a uprobe of this command itself shows whether they work. */
static int check_uprobes(const struct observe_settings *set)
{
	TRAPLINE_OPTS(event, opts);
	uint64_t address = (uintptr_t)targets_find_named;
	struct trapline_event *event = NULL;
	struct trapline *self = NULL;
	char why[600];

	opts.flags = TRAPLINE_SEVERAL;
	int err = trapline_open(0, NULL, &self);
	if (!err)
		err = trapline_break_sites(self, &address, 1, &opts, &event);
	if (err < 0)
		targets_explain_uprobes(err, why, sizeof(why));
	trapline_close(self);
	return err < 0 ? targets_wrong_without_uprobes(set, why) : 0;
}

/* Its libraries are mapped: the map is as it was at the look before. */
static bool has_begun(pid_t pid, uint64_t *layout)
{
	uint64_t now = targets_layout(pid);
	bool is_same = now && now == *layout;

	*layout = now;
	return is_same;
}

/* The first one is seen while it starts; later ones are covered from their first instruction. */
static int wait_for_named(struct observe_settings *set, uint64_t start)
{
	const struct timespec step = { 0, NAMED_STEP_NS };
	uint64_t layout = 0;

	if (!set->waits_again)
		cli_note(set->name, "waiting for a process named '%s'", set->process_name);
	set->pids.count = 0;
	while (!set->pids.count || !has_begun(set->pids.pid[0], &layout)) {
		if (set->for_ns && clock_now_ns() - start > set->for_ns)
			return cli_wrong(set->name,
					 "no process named '%s' ran long enough to be seen within "
					 "--for",
					 set->process_name),
			       CLI_NO;
		nanosleep(&step, NULL);
		set->pids.count = 0;
		int status = targets_list_named(set, &set->pids);
		if (status)
			return status;
	}
	return 0;
}

int targets_find_named(struct observe_settings *set, uint64_t start_ns)
{
	set->pids.count = 0;
	int status = targets_list_named(set, &set->pids);

	/* One that has ended in the meantime may be there as a zombie still. */
	if (status || (set->pids.count && !set->waits_again))
		return status;
	if (set->list || set->explain)
		return cli_wrong(set->name,
				 "no process is named '%s': start one first, since the location is "
				 "looked up in it; ps -e lists the names",
				 set->process_name);
	status = check_uprobes(set);
	return status ? status : wait_for_named(set, start_ns);
}

uint64_t targets_layout(pid_t pid)
{
	uint64_t hash = HASH_START;
	char name[MAPS_NAME];
	struct maps maps;
	size_t rows = 0;

	maps_open(&maps, pid, name, sizeof(name));
	for (const struct maps_row *row; (row = maps_next(&maps));) {
		if (strcmp(row->mode, "r-xp") || !strchr(name, '/'))
			continue;
		rows++;
		hash = hash_add(hash_add(hash, row->start), row->end);
		hash = hash_add(hash_add(hash, row->offset), row->inode);
		hash = hash_text(hash, name);
	}
	maps_close(&maps);
	return rows ? hash : 0;
}
