/* SPDX-License-Identifier: MIT */
/*
 * maps.h - the mappings of a process, row by row, as the kernel lists them in /proc/PID/maps.
 * AS-Safe, and small enough for the stack of a handler.
 *
 *	struct maps maps;
 *	char name[64];
 *
 *	maps_open(&maps, 0, name, sizeof(name));
 *	for (const struct maps_row *row; (row = maps_next(&maps));)
 *		...
 *	int err = maps_close(&maps);
 *
 * A name may be longer than any room, and its end may look like a row: what has no room is left
 * out, and never read as a row.
 */
#ifndef BASE_MAPS_H
#define BASE_MAPS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAPS_BYTES 512u
/* Room for each path that can be opened, and for " (deleted)" behind it. */
#define MAPS_NAME (PATH_MAX + 16)

struct maps_row {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* of start, in the file */
	uint64_t inode;	 /* 0: not of a file */
	uint32_t major;
	uint32_t minor;
	char mode[5];	  /* "rwxp" */
	const char *name; /* "": it has none */
};

struct maps {
	int fd;	   /* or -errno */
	int error; /* of a read */
	uint32_t at;
	uint32_t used; /* of text; 0: at the end */
	uint32_t reads;
	char *name;
	size_t name_room;
	struct maps_row row;
	char text[MAPS_BYTES];
};

/*
 * 0 or -errno, which maps_close() gives too. pid 0: this process, also after its first thread has
 * ended. Names get into room bytes at name, and end there; with 0 they are not read.
 */
int maps_open(struct maps *maps, pid_t pid, char *name, size_t room);
/* Valid until the next call; NULL: there are no more. */
const struct maps_row *maps_next(struct maps *maps);
/* 0, or the error after which there were no more rows. Leaves errno alone, as all of them do. */
int maps_close(struct maps *maps);

/*
 * The row of an address. 0, -ENOENT: nothing is mapped there, or -errno. row->name is name, or "".
 */
int maps_find(pid_t pid, uint64_t address, char *name, size_t room, struct maps_row *row);

static inline int maps_has(const struct maps_row *row, uint64_t address)
{
	return address - row->start < row->end - row->start;
}

/* PROT_READ and so on. */
int maps_protection(const struct maps_row *row);

#endif
