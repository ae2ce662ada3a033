/* SPDX-License-Identifier: MIT */
/*
 * threads_option.c - see threads_option.h. A condition covers threads that do not exist yet, too,
 * and the kernel evaluates it where it can.
 */
#include "cli/observe/threads_option.h"

#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/observe/observe_settings.h"
#include "report/safe/task_name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 4096
#define NAMES_SHOWN 200 /* characters */
#define NAME_MAX 15u

/* One thread, or the threads of one name. */
struct wish {
	const char *text;
	int len;
	pid_t tid; /* 0: a name */
};

static bool wish_take(const char **rest, struct wish *out)
{
	if (!**rest)
		return false;
	out->text = *rest;
	out->len = (int)strcspn(*rest, ",");
	*rest += out->len + (out->text[out->len] == ',');
	const int digits = (int)strspn(out->text, "0123456789");
	out->tid = digits == out->len && digits && digits < 10 ? atoi(out->text) : 0;
	return true;
}

static bool wish_is_sound(const struct wish *wish)
{
	for (int i = 0; i < wish->len; i++)
		if (!isprint((unsigned char)wish->text[i]))
			return false;
	return wish->len && (unsigned int)wish->len <= NAME_MAX;
}

/* As the condition compares a name: one that ends in * is the beginning of names. */
static bool wish_fits(const struct wish *wish, pid_t tid, const char *name)
{
	if (wish->tid)
		return tid == wish->tid;
	if (wish->text[wish->len - 1] == '*')
		return !strncmp(name, wish->text, (size_t)wish->len - 1);
	return strlen(name) == (size_t)wish->len && !strncmp(name, wish->text, (size_t)wish->len);
}

static void add_name(char *names, const char *name)
{
	const size_t used = strlen(names);

	if (name[0] && !strstr(names, name) && used + strlen(name) + 3 < NAMES_SHOWN)
		snprintf(names + used, NAMES_SHOWN - used, "%s%s", used ? ", " : "", name);
}

/* names gets the names of the threads, for a message. */
static bool wish_is_met(const struct wish *wish, pid_t pid, char *names)
{
	static pid_t tids[THREADS_MAX];
	const size_t count = program_threads(pid, tids, THREADS_MAX);
	bool is_met = false;

	for (size_t i = 0; i < count; i++) {
		char name[NAME_MAX + 2];

		task_name(pid, tids[i], name, sizeof(name));
		is_met |= wish_fits(wish, tids[i], name);
		add_name(names, name);
	}
	return is_met;
}

static int check_form(const struct observe_settings *set)
{
	const char *rest = set->threads;
	struct wish wish;

	if (!rest[0])
		return cli_wrong(set->name, "--threads is empty: give names or IDs of threads");
	while (wish_take(&rest, &wish))
		if (!wish_is_sound(&wish))
			return cli_wrong(
				set->name,
				"invalid --threads '%.*s': expected thread IDs, and names of 1 to "
				"%u characters (example: main,pool-*,4711)",
				wish.len, wish.text, NAME_MAX);
	return 0;
}

static int wish_check(const struct observe_settings *set, const struct wish *wish)
{
	char names[NAMES_SHOWN] = "";
	bool is_met = false;

	if (wish->tid && set->command)
		return cli_wrong(set->name,
				 "cannot observe thread %d of a command that has not started: give "
				 "the name of the thread",
				 wish->tid);
	for (size_t i = 0; i < set->pids.count; i++)
		is_met |= wish_is_met(wish, set->pids.pid[i], names);
	if (is_met || !set->pids.count)
		return 0;
	if (wish->tid)
		return cli_wrong(set->name,
				 "cannot observe thread %d: process %d has no such "
				 "thread; see ls /proc/%d/task",
				 wish->tid, set->pid, set->pid);
	cli_note(
		set->name,
		"no thread of process %d has the name '%.*s' yet, and a later one is observed; the "
		"names now are %s",
		set->pid, wish->len, wish->text, names);
	return 0;
}

static void wish_write(const struct wish *wish, FILE *f, bool is_first)
{
	fputs(is_first ? "" : " || ", f);
	if (wish->tid) {
		fprintf(f, "tid == %d", wish->tid);
		return;
	}
	fputs("thread == \"", f);
	for (int i = 0; i < wish->len; i++)
		fprintf(f, "%s%c", strchr("\"\\", wish->text[i]) ? "\\" : "", wish->text[i]);
	fputs("\"", f);
}

int threads_option_choose(struct observe_settings *set)
{
	const char *rest = set->threads;
	struct wish wish;
	size_t bytes;

	free(set->only_threads);
	set->only_threads = NULL;
	if (!rest)
		return 0;
	int status = check_form(set);
	if (status)
		return status;
	FILE *f = open_memstream(&set->only_threads, &bytes);
	if (!f)
		return cli_wrong(set->name, "out of memory");
	for (bool is_first = true; !status && wish_take(&rest, &wish); is_first = false) {
		status = wish_check(set, &wish);
		if (!status)
			wish_write(&wish, f, is_first);
	}
	if (fclose(f) && !status)
		status = cli_wrong(set->name, "out of memory");
	return status;
}
