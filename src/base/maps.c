/* SPDX-License-Identifier: MIT */
/*
 * maps.c - see maps.h.
 *
 * The kernel gives whole rows of a page of its own, of which small reads take parts: they see
 * nothing that one large read does not. Numbers are read character by character: a handler may not
 * call sscanf().
 */
#include "base/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <string.h>

#include "base/own_fd.h"
#include "base/sys.h"
#include "base/trap_path.h"

#define END (-1)
/* The limit for a list that grows for ever; 300,000 rows. */
#define READS_MAX 65536u

/* Without libc, whose functions allocate or may have a trap in them. */
TRAP_PATH static void path_of(pid_t pid, char path[32])
{
	static const char own[] = "thread-self";
	static const char folder[] = "/proc/";
	static const char file[] = "/maps";
	char digits[12];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(folder) - 1; i++)
		*path++ = folder[i];
	for (size_t i = 0; !pid && i < sizeof(own) - 1; i++)
		*path++ = own[i];
	for (uint32_t left = (uint32_t)pid; left; left /= 10)
		digits[n++] = (char)('0' + left % 10);
	while (n)
		*path++ = digits[--n];
	for (size_t i = 0; i < sizeof(file); i++)
		*path++ = file[i];
}

TRAP_PATH int maps_open(struct maps *maps, pid_t pid, char *name, size_t room)
{
	char path[32];

	path_of(pid, path);
	maps->fd = own_fd_open(path, O_RDONLY);
	maps->error = maps->fd < 0 ? maps->fd : 0;
	maps->at = maps->used = maps->reads = 0;
	maps->name = name;
	maps->name_room = room;
	maps->row.name = "";
	/* The analyzer of gcc does not see what a system call writes. */
	memset(maps->text, 0, sizeof(maps->text));
	return maps->error;
}

TRAP_PATH static int next_char(struct maps *maps)
{
	if (maps->at == maps->used) {
		ssize_t n = maps->error ? maps->error :
			    maps->reads++ == READS_MAX ?
					  -E2BIG :
					  sys_read(maps->fd, maps->text, sizeof(maps->text));

		maps->error = n < 0 ? (int)n : 0;
		maps->at = 0;
		maps->used = n > 0 ? (uint32_t)n : 0;
		if (n <= 0)
			return END;
	}
	return (unsigned char)maps->text[maps->at++];
}

TRAP_PATH static int digit_of(int c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* The character behind the number, or END. */
TRAP_PATH static int read_number(struct maps *maps, int base, uint64_t *out)
{
	int c;

	*out = 0;
	while ((c = next_char(maps)) != END && digit_of(c) < base)
		*out = *out * (uint64_t)base + (uint64_t)digit_of(c);
	return c;
}

TRAP_PATH static int read_mode(struct maps *maps)
{
	char *mode = maps->row.mode;
	size_t n = 0;
	int c;

	while ((c = next_char(maps)) > ' ')
		if (n < sizeof(maps->row.mode) - 1)
			mode[n++] = (char)c;
	mode[n] = '\0';
	return c;
}

/* c is before it. Spaces fill the row up to the column of names. */
TRAP_PATH static int read_name(struct maps *maps, int c)
{
	size_t n = 0;

	while (c == ' ')
		c = next_char(maps);
	for (; c != '\n' && c != END; c = next_char(maps))
		if (n + 1 < maps->name_room)
			maps->name[n++] = (char)c;
	if (maps->name_room) {
		maps->name[n] = '\0';
		maps->row.name = maps->name;
	}
	return c;
}

/* 1: there is one. */
TRAP_PATH static int read_row(struct maps *maps)
{
	struct maps_row *row = &maps->row;
	uint64_t major;
	uint64_t minor;

	if (read_number(maps, 16, &row->start) != '-' || read_number(maps, 16, &row->end) != ' ' ||
	    read_mode(maps) != ' ' || read_number(maps, 16, &row->offset) != ' ' ||
	    read_number(maps, 16, &major) != ':' || read_number(maps, 16, &minor) != ' ')
		return 0;
	row->major = (uint32_t)major;
	row->minor = (uint32_t)minor;
	return read_name(maps, read_number(maps, 10, &row->inode)) == '\n';
}

TRAP_PATH const struct maps_row *maps_next(struct maps *maps)
{
	if (read_row(maps))
		return &maps->row;
	/* Before the end, a row of another form. */
	if (maps->used)
		maps->error = -EBADMSG;
	return NULL;
}

TRAP_PATH int maps_close(struct maps *maps)
{
	if (maps->fd >= 0)
		sys_close(maps->fd);
	maps->fd = -EBADF;
	return maps->error;
}

TRAP_PATH int maps_find(pid_t pid, uint64_t address, char *name, size_t room, struct maps_row *row)
{
	struct maps maps;
	int err = -ENOENT;

	maps_open(&maps, pid, name, room);
	for (const struct maps_row *r; err && (r = maps_next(&maps));)
		if (maps_has(r, address)) {
			*row = *r;
			err = 0;
		}
	const int failed = maps_close(&maps);

	return err && failed ? failed : err;
}

TRAP_PATH int maps_protection(const struct maps_row *row)
{
	return (row->mode[0] == 'r' ? PROT_READ : 0) | (row->mode[1] == 'w' ? PROT_WRITE : 0) |
	       (row->mode[2] == 'x' ? PROT_EXEC : 0);
}
