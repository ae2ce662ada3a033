/* SPDX-License-Identifier: MIT */
/* flow_open.c - see flow_open.h. */
#include "base/general_regs.h"

#include "flow/flow_open.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "flow/flow_peek.h"

#define HIDDEN "[hidden: it has the bytes]"
#define LEAST 4u /* of a source: fewer bytes are in many paths */

static char *add_number(char *at, unsigned int value)
{
	char digits[12];
	unsigned int n = 0;

	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	while (n)
		*at++ = digits[--n];
	return at;
}

void flow_open_path(int fd, char *out, size_t n)
{
	char name[32] = "/proc/self/fd/";

	out[0] = '\0';
	if (fd < 0)
		return;
	*add_number(name + 14, (unsigned int)fd) = '\0';
	const long got = sys4(SYS_readlinkat, AT_FDCWD, name, out, n - 1);
	out[got > 0 ? got : 0] = '\0';
}

static int is_socket(const char *path)
{
	static const char begin[] = "socket:";
	size_t i = 0;

	while (i < sizeof(begin) - 1 && path[i] == begin[i])
		i++;
	return i == sizeof(begin) - 1;
}

static void forget_peer(struct flow_open *open)
{
	for (size_t i = 0; i < sizeof(open->peer); i++)
		open->peer[i] = 0;
}

void flow_open_fill(int fd, struct flow_open *out)
{
	unsigned int bytes = sizeof(out->peer);

	flow_open_path(fd, out->path, sizeof(out->path));
	forget_peer(out);
	if (is_socket(out->path) && sys3(SYS_getpeername, fd, out->peer, &bytes))
		forget_peer(out);
}

void flow_open_to(const struct flow_moment *m, uint64_t at, uint64_t bytes, struct flow_open *out)
{
	/* Behind the longest, that of a local socket, is a zero. */
	if (!at || bytes < sizeof(sa_family_t) || bytes > sizeof(out->peer) - 2)
		return;
	forget_peer(out);
	if (flow_peek(m, out->peer, at, bytes) != bytes)
		forget_peer(out);
}

static int has_bytes(const char *path, const uint8_t *bytes, uint32_t count)
{
	for (; *path; path++) {
		uint32_t k = 0;

		while (k < count && path[k] && (uint8_t)path[k] == bytes[k])
			k++;
		if (k == count)
			return 1;
	}
	return 0;
}

/* A line that was read has its end, which a path has not. */
static uint32_t count_of(const struct flow_text *text)
{
	uint32_t n = text->count;

	while (n && (text->bytes[n - 1] == '\n' || text->bytes[n - 1] == '\r'))
		n--;
	return n;
}

void flow_open_hide(uint32_t source, struct flow_open *open)
{
	const struct flow_text *text = &flow_texts[source % FLOW_SOURCES];
	const uint32_t n = count_of(text);

	if (n < LEAST || n >= sizeof(open->path))
		return;
	if (has_bytes(open->path, text->bytes, n))
		flow_copy_name(open->path, HIDDEN, sizeof(open->path));
	if (has_bytes((const char *)open->peer + sizeof(sa_family_t), text->bytes, n))
		forget_peer(open);
}
