/* SPDX-License-Identifier: MIT */
/* baseline.c - see baseline.h. */
#include "report/finding/baseline.h"
#include "base/grow.h"
#include "report/safe/line.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FINGERPRINT_LENGTH 16
#define LINE_BYTES (4 << 20)
#define FILE_MAX (64 << 20)

struct baseline {
	struct baseline_entry *entries; /* sorted, each fingerprint once */
	size_t count;
	size_t capacity;
};

int baseline_new(struct baseline **out)
{
	struct baseline *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	*out = b;
	return 0;
}

void baseline_free(struct baseline *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->count; i++)
		free(b->entries[i].text);
	free(b->entries);
	free(b);
}

/* Where a fingerprint is, or would have to be. */
static size_t find(const struct baseline *b, const char *fingerprint)
{
	size_t low = 0;

	for (size_t high = b->count; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(b->entries[middle].fingerprint, fingerprint) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_at(const struct baseline *b, size_t i, const char *fingerprint)
{
	return i < b->count && !strcmp(b->entries[i].fingerprint, fingerprint);
}

/* 1: added; 0: it was there; or -ENOMEM. */
static int add(struct baseline *b, const char *fingerprint, const char *text)
{
	size_t at = find(b, fingerprint);

	if (is_at(b, at, fingerprint))
		return 0;
	if (grow_room(b->entries, b->count, b->capacity))
		return -ENOMEM;
	char *copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	struct baseline_entry *e = &b->entries[at];
	memmove(e + 1, e, (b->count - at) * sizeof(*e));
	memset(e, 0, sizeof(*e));
	snprintf(e->fingerprint, sizeof(e->fingerprint), "%s", fingerprint);
	e->text = copy;
	b->count++;
	return 1;
}

/* "0123456789abcdef  text for readers" */
static int baseline_read_line(struct baseline *b, char *line)
{
	char fingerprint[FINGERPRINT_LENGTH + 1];
	size_t n = 0;

	line[strcspn(line, "\r\n")] = '\0';
	while (isspace((unsigned char)*line))
		line++;
	if (!*line || *line == '#')
		return 0;
	for (; n < FINGERPRINT_LENGTH && isxdigit((unsigned char)line[n]); n++)
		fingerprint[n] = (char)tolower((unsigned char)line[n]);
	fingerprint[n] = '\0';
	if (n < FINGERPRINT_LENGTH || (line[n] && !isspace((unsigned char)line[n])))
		return -EINVAL;
	while (isspace((unsigned char)line[n]))
		n++;
	int added = add(b, fingerprint, line + n);
	return added < 0 ? added : 0;
}

/*
 * A device or a FIFO may have no end. NULL with errno; EMEDIUMTYPE: the file is not a regular one.
 */
static FILE *open_regular(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int err = fd < 0 || fstat(fd, &st) ? errno : 0;

	if (!err && !S_ISREG(st.st_mode))
		err = EMEDIUMTYPE;
	else if (!err && st.st_size > FILE_MAX)
		err = EFBIG;
	FILE *f = err ? NULL : fdopen(fd, "r");
	if (f)
		return f;
	err = err ? err : errno;
	if (fd >= 0)
		close(fd);
	errno = err;
	return NULL;
}

int baseline_read(struct baseline *b, const char *path, char *error, size_t n)
{
	FILE *f = open_regular(path);
	char *line = NULL;
	size_t capacity = 0;
	int number = 0;
	int err = f ? 0 : -errno;
	ssize_t length;

	while (!err && (length = line_read(&line, &capacity, f, LINE_BYTES)) >= 0) {
		number++;
		err = length > LINE_BYTES ? -EINVAL : baseline_read_line(b, line);
	}
	if (!err && ferror(f))
		err = errno ? -errno : -EIO;
	if (err == -EINVAL)
		snprintf(error, n,
			 "%s:%d: not a line of a baseline: expected a fingerprint of %d "
			 "hexadecimal digits first",
			 path, number, FINGERPRINT_LENGTH);
	else if (err == -EMEDIUMTYPE)
		snprintf(error, n, "%s: not a regular file", path);
	else if (err)
		snprintf(error, n, "%s: %s", path, strerror(-err));
	free(line);
	if (f)
		fclose(f);
	return err;
}

bool baseline_see(struct baseline *b, const char *fingerprint)
{
	size_t at = b ? find(b, fingerprint) : 0;

	if (!b || !is_at(b, at, fingerprint))
		return false;
	b->entries[at].is_seen = true;
	return true;
}

size_t baseline_count(const struct baseline *b)
{
	return b ? b->count : 0;
}

const struct baseline_entry *baseline_at(const struct baseline *b, size_t i)
{
	return &b->entries[i];
}

size_t baseline_gone(const struct baseline *b)
{
	size_t gone = 0;

	for (size_t i = 0; i < baseline_count(b); i++)
		gone += !b->entries[i].is_seen;
	return gone;
}

int baseline_add(struct baseline *b, const char *fingerprint, const char *words, size_t *added)
{
	char text[900];

	snprintf(text, sizeof(text), "%s", words);
	for (char *c = text; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
	int one = add(b, fingerprint, text);
	if (one < 0)
		return one;
	baseline_see(b, fingerprint);
	*added += (size_t)one;
	return 0;
}

static int print(const struct baseline *b, const char *what, const char *command, FILE *f)
{
	fprintf(f,
		"# Known %s: `trapline %s --baseline` reports only others.\n"
		"# One fingerprint per line; the rest of the line is for readers.\n",
		what, command);
	for (size_t i = 0; i < b->count; i++)
		fprintf(f, "%s  %s\n", b->entries[i].fingerprint, b->entries[i].text);
	return fflush(f) || ferror(f) ? -(errno ? errno : EIO) : 0;
}

int baseline_save(const struct baseline *b, const char *what, const char *command, const char *path)
{
	char beside[PATH_MAX];

	if (snprintf(beside, sizeof(beside), "%s.%d", path, (int)getpid()) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	FILE *f = fopen(beside, "wxe");
	if (!f)
		return -errno;
	int err = print(b, what, command, f);
	fclose(f);
	if (!err && rename(beside, path))
		err = -errno;
	if (err)
		unlink(beside);
	return err;
}
