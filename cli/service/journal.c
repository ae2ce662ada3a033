/* SPDX-License-Identifier: MIT */
/*
 * journal.c - see journal.h.
 *
 * An entry is one datagram: for each field its name, a line feed, the length in 8 bytes of little
 * endian, the value and a line feed. So a value may have line feeds and forges no field. One that
 * is too large for a datagram goes without its stack and arguments.
 */
#include "cli/service/journal.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WORD "journal"
#define NAMESPACE_MAX 64

bool journal_is(const char *to)
{
	size_t n = strlen(WORD);

	return !strncmp(to, WORD, n) && (!to[n] || to[n] == ':');
}

static const char *namespace_of(const char *to)
{
	const char *colon = strchr(to, ':');

	return colon ? colon + 1 : NULL;
}

const char *journal_wrong(const char *to)
{
	const char *name = namespace_of(to);

	if (name &&
	    (!name[0] || strlen(name) > NAMESPACE_MAX || strpbrk(name, "/") || name[0] == '.'))
		return "expected the name of a namespace of the journal after 'journal:'";
	return NULL;
}

void journal_open(struct journal *j, const char *to)
{
	*j = (struct journal){ .to = to, .fd = -1 };
}

void journal_close(struct journal *j)
{
	if (j->fd >= 0)
		close(j->fd);
	j->fd = -1;
}

void journal_field(FILE *f, const char *name, const char *value)
{
	if (!value)
		return;
	uint64_t size = htole64(strlen(value));
	fprintf(f, "%s\n", name);
	fwrite(&size, sizeof(size), 1, f);
	fprintf(f, "%s\n", value);
}

void journal_number(FILE *f, const char *name, const json_t *value)
{
	char text[32];

	if (!json_is_integer(value))
		return;
	snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	journal_field(f, name, text);
}

void journal_json(FILE *f, const char *name, const json_t *value)
{
	char *text = value && !json_is_null(value) ?
			     json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) :
			     NULL;

	journal_field(f, name, text);
	free(text);
}

static int open_socket(struct journal *j)
{
	if (j->fd < 0)
		j->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return j->fd < 0 ? -errno : 0;
}

/* The socket is not connected: a journal that was started again is found. */
static int send_entry(const struct journal *j,
		      void (*write)(FILE *f, const void *arg, bool is_short), const void *arg,
		      bool is_short)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *name = namespace_of(j->to);
	char *entry = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&entry, &n);

	if (!f)
		return -ENOMEM;
	snprintf(address.sun_path, sizeof(address.sun_path), "/run/systemd/journal%s%s/socket",
		 name ? "." : "", name ? name : "");
	write(f, arg, is_short);
	int err = fclose(f) ? -ENOMEM : 0;
	if (!err && sendto(j->fd, entry, n, MSG_NOSIGNAL | MSG_DONTWAIT, (void *)&address,
			   sizeof(address)) < 0)
		err = -errno;
	free(entry);
	return err;
}

int journal_send(struct journal *j, void (*write)(FILE *f, const void *arg, bool is_short),
		 const void *arg)
{
	int err = open_socket(j);

	if (!err)
		err = send_entry(j, write, arg, false);
	if (err == -EMSGSIZE)
		err = send_entry(j, write, arg, true);
	return err;
}
