/* SPDX-License-Identifier: MIT */
/* mapping.c - what is mapped at an address: one ioctl() since v6.11, else the list of all mappings. */
#include "code/poke/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/lines.h"
#include "base/own_fd.h"
#include "base/sys.h"

/* As in <linux/fs.h> of v6.11: struct procmap_query. */
struct query {
	uint64_t size;
	uint64_t flags;
	uint64_t address;
	uint64_t start;
	uint64_t end;
	uint64_t mode;
	uint64_t page_bytes;
	uint64_t offset;
	uint64_t inode;
	uint32_t major;
	uint32_t minor;
	uint32_t name_bytes;
	uint32_t id_bytes;
	uint64_t name;
	uint64_t id;
};
#define ASK_FOR_MAPPING _IOWR('f', 17, struct query)
#define MODE_READ 1
#define MODE_WRITE 2
#define MODE_EXECUTE 4
#define MODE_SHARED 8

static int protection_of(int reads, int writes, int executes)
{
	return (reads ? PROT_READ : 0) | (writes ? PROT_WRITE : 0) | (executes ? PROT_EXEC : 0);
}

static int ask(int fd, uint64_t address, struct mapping *out)
{
	struct query query = {
		.size = sizeof(query),
		.address = address,
		.name_bytes = sizeof(out->name),
		.name = (uintptr_t)out->name,
	};
	long err = sys3(SYS_ioctl, fd, ASK_FOR_MAPPING, &query);

	if (err)
		return (int)err;
	out->start = query.start;
	out->end = query.end;
	out->offset = query.offset;
	out->inode = query.inode;
	out->major = query.major;
	out->minor = query.minor;
	out->protection = protection_of(query.mode & MODE_READ, query.mode & MODE_WRITE,
					query.mode & MODE_EXECUTE);
	out->is_shared = (query.mode & MODE_SHARED) != 0;
	if (!query.name_bytes)
		out->name[0] = '\0';
	return 0;
}

/* 1: the line is of the mapping with the address. */
static int read_line(const char *line, uint64_t address, struct mapping *out)
{
	char mode[5];
	int name_at = 0;

	/* Else it is the rest of a long name. */
	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &out->start, &out->end, mode, &out->offset,
		   &out->major, &out->minor, &out->inode, &name_at) < 7 ||
	    address < out->start || address >= out->end)
		return 0;
	out->protection = protection_of(mode[0] == 'r', mode[1] == 'w', mode[2] == 'x');
	out->is_shared = mode[3] == 's';
	snprintf(out->name, sizeof(out->name), "%s", line + name_at);
	return 1;
}

static int search(uint64_t address, struct mapping *out)
{
	struct lines maps;
	int is_found = 0;
	char *line;

	if (lines_open(&maps, "/proc/thread-self/maps"))
		return -EACCES;
	while (!is_found && (line = lines_next(&maps)))
		is_found = read_line(line, address, out);
	lines_close(&maps);
	return is_found ? 0 : -ENOENT;
}

int mapping_find(uint64_t address, struct mapping *out)
{
	int saved = errno;
	int fd = own_fd_open("/proc/thread-self/maps", O_RDONLY);
	int err = fd < 0 ? -EACCES : ask(fd, address, out);

	if (fd >= 0)
		sys_close(fd);
	if (err && err != -ENOENT)
		err = search(address, out);
	errno = saved;
	return err;
}
