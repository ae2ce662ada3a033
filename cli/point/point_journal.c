/* SPDX-License-Identifier: MIT */
/*
 * point_journal.c - see point_journal.h.
 *
 * An entry is one datagram: for each field its name, a line feed, the length in 8 bytes of little
 * endian, the value and a line feed. So a value may have line feeds and forges no field. One that
 * is too large for a datagram goes without its stack and arguments.
 */
#include "cli/point/point_journal.h"

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
#define MESSAGE_BYTES 2400
#define NAMESPACE_MAX 64

bool point_journal_is(const char *to)
{
	size_t n = strlen(WORD);

	return !strncmp(to, WORD, n) && (!to[n] || to[n] == ':');
}

static const char *namespace_of(const char *to)
{
	const char *colon = strchr(to, ':');

	return colon ? colon + 1 : NULL;
}

const char *point_journal_wrong(const char *to)
{
	const char *name = namespace_of(to);

	if (name &&
	    (!name[0] || strlen(name) > NAMESPACE_MAX || strpbrk(name, "/") || name[0] == '.'))
		return "expected the name of a namespace of the journal after 'journal:'";
	return NULL;
}

void point_journal_open(struct point_journal *j, const char *to)
{
	*j = (struct point_journal){ .to = to, .fd = -1 };
}

void point_journal_close(struct point_journal *j)
{
	if (j->fd >= 0)
		close(j->fd);
	j->fd = -1;
}

static void field(FILE *f, const char *name, const char *value)
{
	if (!value)
		return;
	uint64_t size = htole64(strlen(value));
	fprintf(f, "%s\n", name);
	fwrite(&size, sizeof(size), 1, f);
	fprintf(f, "%s\n", value);
}

static void number_field(FILE *f, const char *name, const json_t *value)
{
	char text[32];

	if (!json_is_integer(value))
		return;
	snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	field(f, name, text);
}

static const char *text_of(const json_t *j, const char *name)
{
	return json_string_value(json_object_get(j, name));
}

/* What a person reads: the text of the point, or the function with its arguments. */
static void message_of(const json_t *hit, char *text, size_t n)
{
	const char *printed = text_of(hit, "printed");
	const char *caller = text_of(json_object_get(hit, "caller"), "function");
	const json_t *args = json_object_get(hit, "args");
	char *args_text = json_is_object(args) ? json_dumps(args, JSON_COMPACT) : NULL;
	const char *site = text_of(hit, "site");

	if (printed)
		snprintf(text, n, "%s", printed);
	else
		snprintf(text, n, "%s%s%s%s%s", site ? site : "?", args_text ? " " : "",
			 args_text ? args_text : "", caller ? " from " : "", caller ? caller : "");
	free(args_text);
}

static void value_field(FILE *f, const char *name, const json_t *value)
{
	char *text = value && !json_is_null(value) ?
			     json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) :
			     NULL;

	field(f, name, text);
	free(text);
}

static void write_fields(FILE *f, const struct point *p, const json_t *hit, bool is_short)
{
	char message[MESSAGE_BYTES];
	char id[24];

	message_of(hit, message, sizeof(message));
	snprintf(id, sizeof(id), "%" PRIu64, p->id);
	field(f, "MESSAGE", message);
	field(f, "PRIORITY", "6");
	field(f, "SYSLOG_IDENTIFIER", "trapline");
	field(f, "TRAPLINE_POINT", id);
	field(f, "TRAPLINE_NAME", p->name);
	field(f, "TRAPLINE_LOCATION", p->location);
	field(f, "TRAPLINE_TYPE", text_of(hit, "type"));
	field(f, "TRAPLINE_TIME", text_of(hit, "time"));
	number_field(f, "TRAPLINE_PID", json_object_get(hit, "pid"));
	number_field(f, "TRAPLINE_TID", json_object_get(hit, "tid"));
	field(f, "TRAPLINE_THREAD", text_of(hit, "thread"));
	field(f, "TRAPLINE_SITE", text_of(hit, "site"));
	field(f, "TRAPLINE_FUNCTION", text_of(hit, "function"));
	field(f, "TRAPLINE_CALLER", text_of(json_object_get(hit, "caller"), "function"));
	field(f, "TRAPLINE_PRINTED", text_of(hit, "printed"));
	number_field(f, "TRAPLINE_DURATION_NS", json_object_get(hit, "duration_ns"));
	number_field(f, "TRAPLINE_SUPPRESSED", json_object_get(hit, "suppressed"));
	value_field(f, "TRAPLINE_RET", json_object_get(hit, "ret"));
	if (!is_short)
		value_field(f, "TRAPLINE_ARGS", json_object_get(hit, "args"));
	if (!is_short)
		value_field(f, "TRAPLINE_STACK", json_object_get(hit, "stack"));
}

static int open_socket(struct point_journal *j)
{
	if (j->fd < 0)
		j->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return j->fd < 0 ? -errno : 0;
}

/* The socket is not connected: a journal that was started again is found. */
static int send_entry(struct point_journal *j, const struct point *p, const json_t *hit,
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
	write_fields(f, p, hit, is_short);
	int err = fclose(f) ? -ENOMEM : 0;
	if (!err && sendto(j->fd, entry, n, MSG_NOSIGNAL | MSG_DONTWAIT, (void *)&address,
			   sizeof(address)) < 0)
		err = -errno;
	free(entry);
	return err;
}

int point_journal_send(struct point_journal *j, const struct point *p, const char *line, size_t n)
{
	json_t *hit = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
	int err = hit ? open_socket(j) : -EBADMSG;

	if (!err)
		err = send_entry(j, p, hit, false);
	if (err == -EMSGSIZE)
		err = send_entry(j, p, hit, true);
	json_decref(hit);
	return err;
}
