/* SPDX-License-Identifier: MIT */
/* kernel_location.c - see kernel_location.h. */
#include "cli/break/kernel_location.h"

#include "base/syscall_args.h"
#include "cli/act/signal_number.h"
#include "cli/opts.h"
#include "report/code/syscall_names.h"
#include "report/dwarf/near.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define SYSCALL "syscall:"
#define SIGNAL "signal:"
#define DESCRIPTOR "fd:"
#define KERNEL "kernel:"

/* Programs are executed by a system call, at which the stack shows the code that asked for it. */
static const struct kernel_word {
	const char *name;
	enum trapline_kernel_event what;
} words[] = {
	{ "exec", TRAPLINE_AT_SYSCALL },
	{ "fork", TRAPLINE_AT_FORK },
	{ "exit", TRAPLINE_AT_EXIT },
	{ "oom", TRAPLINE_AT_OOM },
};

static const struct kernel_word *word_find(const char *where)
{
	const char *name = where + (strncmp(where, KERNEL, strlen(KERNEL)) ? 0 : strlen(KERNEL));

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i].name, name))
			return &words[i];
	return NULL;
}

static bool begins(const char *where, const char *with)
{
	return !strncmp(where, with, strlen(with));
}

bool kernel_location_is(const char *where)
{
	return begins(where, SYSCALL) || begins(where, SIGNAL) || begins(where, DESCRIPTOR) ||
	       begins(where, KERNEL) || word_find(where);
}

static int out_of_memory(char *why, size_t n)
{
	snprintf(why, n, "out of memory");
	return -ENOMEM;
}

/* Numbers of one kind share an event; each descriptor has its own. */
static struct kernel_wish *wish_of(struct kernel_locations *l, enum trapline_kernel_event what)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->wish[i]->what == what && what != TRAPLINE_AT_DESCRIPTOR)
			return l->wish[i];
	if (l->count == KERNEL_EVENTS_MAX)
		return NULL;
	struct kernel_wish *wish = calloc(1, sizeof(*wish));
	if (!wish)
		return NULL;
	wish->what = what;
	l->wish[l->count++] = wish;
	return wish;
}

/* A site for a number, whose name is copied. */
static int add_site(struct kernel_locations *l, struct kernel_wish *wish, uint32_t number,
		    const char *name)
{
	if (wish->site[number])
		return 0;
	if (l->site_count == l->site_room) {
		size_t room = l->site_room ? 2 * l->site_room : 16;
		struct run_site *grown = realloc(l->site, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		l->site = grown;
		l->site_room = room;
	}
	char *copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	l->site[l->site_count++] =
		(struct run_site){ .address = number, .name = copy, .kind = RUN_SITE_KERNEL };
	wish->site[number] = (uint16_t)l->site_count;
	return 0;
}

static int add_number(struct kernel_locations *l, struct kernel_wish *wish, uint32_t number,
		      const char *name)
{
	if (wish->is_wanted[number])
		return 0;
	wish->is_wanted[number] = true;
	wish->numbers[wish->count++] = number;
	return add_site(l, wish, number, name);
}

static int unknown_syscall(const char *name, char *why, size_t n)
{
	const char *names[3];
	struct near_list near = { .wanted = name, .names = names, .max = 3 };
	char question[200];

	for (uint32_t i = 0; i < KERNEL_NUMBERS_MAX; i++)
		if (syscall_name(i))
			near_add(&near, syscall_name(i));
	near_question(&near, question, sizeof(question));
	snprintf(why, n, "there is no system call '%.100s' on this architecture%s", name, question);
	return -EINVAL;
}

static int add_syscalls(struct kernel_locations *l, const char *pattern, char *why, size_t n)
{
	struct kernel_wish *wish = wish_of(l, TRAPLINE_AT_SYSCALL);
	bool has_one = false;
	int err = wish ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < KERNEL_NUMBERS_MAX; i++) {
		const char *name = syscall_name(i);

		if (!name || fnmatch(pattern, name, 0))
			continue;
		has_one = true;
		err = add_number(l, wish, i, name);
	}
	if (err)
		return out_of_memory(why, n);
	return has_one ? 0 : unknown_syscall(pattern, why, n);
}

static int add_descriptor(struct kernel_locations *l, const char *text, char *why, size_t n)
{
	unsigned long long number;

	if (opts_number(text, 10, &number) || number > INT32_MAX) {
		snprintf(why, n, "invalid fd '%.100s': expected a descriptor (example: fd:7)",
			 text);
		return -EINVAL;
	}
	struct kernel_wish *wish = wish_of(l, TRAPLINE_AT_DESCRIPTOR);
	if (!wish) {
		snprintf(why, n, "too many locations: at most %d descriptors", KERNEL_EVENTS_MAX);
		return -EINVAL;
	}
	wish->numbers[wish->count++] = (uint32_t)number;
	for (uint32_t i = 0; i < KERNEL_NUMBERS_MAX; i++)
		if (syscall_descriptors(i) && syscall_name(i) &&
		    add_site(l, wish, i, syscall_name(i)))
			return out_of_memory(why, n);
	return 0;
}

static int add_signal(struct kernel_locations *l, struct kernel_wish *wish, int number)
{
	char name[32];

	if (sigabbrev_np(number))
		snprintf(name, sizeof(name), "SIG%s", sigabbrev_np(number));
	else
		snprintf(name, sizeof(name), "SIGRTMIN+%d", number - SIGRTMIN);
	return add_number(l, wish, (uint32_t)number, name);
}

static int add_signals(struct kernel_locations *l, const char *text, char *why, size_t n)
{
	struct kernel_wish *wish = wish_of(l, TRAPLINE_AT_SIGNAL);
	const int number = signal_number(text);
	int err = wish ? 0 : -ENOMEM;

	if (!err && !number && strcmp(text, "*") != 0) {
		snprintf(why, n,
			 "invalid signal '%.100s': expected its name, its number or * (example: "
			 "signal:SIGTERM)",
			 text);
		return -EINVAL;
	}
	for (int i = 1; !err && !number && i <= SIGRTMAX; i++)
		err = sigabbrev_np(i) || i >= SIGRTMIN ? add_signal(l, wish, i) : 0;
	if (!err && number)
		err = add_signal(l, wish, number);
	return err ? out_of_memory(why, n) : 0;
}

static int add_word(struct kernel_locations *l, const struct kernel_word *word, char *why, size_t n)
{
	struct kernel_wish *wish = wish_of(l, word->what);
	int err = wish ? 0 : -ENOMEM;

	if (!err && word->what == TRAPLINE_AT_SYSCALL) {
		err = add_number(l, wish, SYS_execve, "execve");
		err = err ? err : add_number(l, wish, SYS_execveat, "execveat");
	} else if (!err) {
		err = add_site(l, wish, 0, word->name);
	}
	return err ? out_of_memory(why, n) : 0;
}

int kernel_locations_add(struct kernel_locations *l, const char *where, char *why, size_t n)
{
	const struct kernel_word *word = word_find(where);

	if (begins(where, SYSCALL))
		return add_syscalls(l, where + strlen(SYSCALL), why, n);
	if (begins(where, DESCRIPTOR))
		return add_descriptor(l, where + strlen(DESCRIPTOR), why, n);
	if (begins(where, SIGNAL))
		return add_signals(l, where + strlen(SIGNAL), why, n);
	if (word && !begins(where, KERNEL))
		l->bare = where;
	if (word)
		return add_word(l, word, why, n);
	snprintf(why, n,
		 "invalid location '%.100s': expected kernel:exec, kernel:fork, kernel:exit or "
		 "kernel:oom",
		 where);
	return -EINVAL;
}

const struct run_site *kernel_locations_site(const struct kernel_locations *l, size_t wish,
					     const struct trapline_hit *hit)
{
	const struct kernel_wish *w = l->wish[wish];
	const uint64_t number = w->what == TRAPLINE_AT_DESCRIPTOR ? (uint64_t)hit->syscall :
								    hit->address;

	if (number >= KERNEL_NUMBERS_MAX || !w->site[number])
		return NULL;
	return &l->site[w->site[number] - 1];
}

void kernel_locations_describe(const struct kernel_locations *l, char *buf, size_t n)
{
	static const char *const one[] = {
		"system call", "descriptor", "signal", "exec", "fork", "exit", "out-of-memory kill"
	};
	size_t counts[sizeof(one) / sizeof(one[0])] = { 0 };
	size_t used = 0;

	for (size_t i = 0; i < l->count; i++)
		counts[l->wish[i]->what] += l->wish[i]->count;
	buf[0] = '\0';
	for (size_t k = 0; k < sizeof(one) / sizeof(one[0]) && used < n; k++)
		if (counts[k])
			used += (size_t)snprintf(buf + used, n - used, "%s%zu %s%s",
						 used ? ", " : "", counts[k], one[k],
						 counts[k] == 1 ? "" : "s");
	for (size_t i = 0; i < l->count && used < n; i++)
		if (l->wish[i]->what > TRAPLINE_AT_SIGNAL)
			used += (size_t)snprintf(buf + used, n - used, "%s%s", used ? ", " : "",
						 one[l->wish[i]->what]);
}

void kernel_locations_free(struct kernel_locations *l)
{
	for (size_t i = 0; i < l->site_count; i++)
		free((char *)(uintptr_t)l->site[i].name);
	for (size_t i = 0; i < l->count; i++)
		free(l->wish[i]);
	free(l->site);
	*l = (struct kernel_locations){ 0 };
}
