/* SPDX-License-Identifier: MIT */
/* act_command.c - see act_command.h. */
#include "cli/act/act_command.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_STEP_MS 10

extern char **environ;

static int expand_one(char letter, const struct act_words *words, char *out, size_t size)
{
	switch (letter) {
	case 'p':
		return snprintf(out, size, "%d", words->pid);
	case 't':
		return snprintf(out, size, "%d", words->tid);
	case 'n':
		return snprintf(out, size, "%llu", (unsigned long long)words->number);
	case '%':
		return snprintf(out, size, "%%");
	default:
		return snprintf(out, size, "%%%c", letter);
	}
}

int act_expand(const char *text, const struct act_words *words, char *out, size_t size)
{
	size_t used = 0;

	while (*text && used < size) {
		if (text[0] != '%' || !text[1]) {
			out[used++] = *text++;
			continue;
		}
		used += (size_t)expand_one(text[1], words, out + used, size - used);
		text += 2;
	}
	if (used >= size)
		return -ENAMETOOLONG;
	out[used] = 0;
	return 0;
}

/* Looks which have ended. */
static void act_commands_look(struct act_commands *c)
{
	size_t kept = 0;
	int status;

	for (size_t i = 0; i < c->count; i++) {
		if (waitpid(c->running[i], &status, WNOHANG) == c->running[i])
			c->failed += status != 0;
		else
			c->running[kept++] = c->running[i];
	}
	c->count = kept;
}

/* Its input is empty, and it is in a group of its own: Ctrl-C is for this command. */
static int spawn(const char *text, pid_t *out)
{
	char *const argv[] = { (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
			       (char *)(uintptr_t)text, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	int err = -posix_spawn(out, "/bin/sh", &actions, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return err;
}

int act_command_start(struct act_commands *c, const char *text, pid_t *out)
{
	act_commands_look(c);
	if (c->count == ACT_COMMANDS_MAX) {
		c->skipped++;
		return -EAGAIN;
	}
	int err = spawn(text, out);
	if (err)
		return err;
	c->running[c->count++] = *out;
	c->started++;
	return 0;
}

void act_commands_wait(struct act_commands *c, int ms, int (*is_over)(void))
{
	const struct timespec step = { 0, WAIT_STEP_MS * 1000000 };

	act_commands_look(c);
	for (; c->count && ms > 0 && !is_over(); ms -= WAIT_STEP_MS) {
		nanosleep(&step, NULL);
		act_commands_look(c);
	}
}
