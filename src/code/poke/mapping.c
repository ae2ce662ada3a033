/* SPDX-License-Identifier: MIT */
/*
 * mapping.c - what is mapped at an address: one ioctl() since v6.11, else the list of all mappings.
 */
#include "code/poke/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/after_fork.h"
#include "base/maps.h"
#include "base/own_fd.h"
#include "base/sys.h"
#include "code/kept_fd.h"

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

/* One for a whole change of text. */
static struct kept_fd kept = KEPT_FD_NONE;

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
	long err = sys_ioctl(fd, ASK_FOR_MAPPING, (uintptr_t)&query);

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

static int search(uint64_t address, struct mapping *out)
{
	struct maps_row row;
	int err = maps_find(0, address, out->name, sizeof(out->name), &row);

	if (err)
		return err == -ENOENT ? err : -EACCES;
	out->start = row.start;
	out->end = row.end;
	out->offset = row.offset;
	out->inode = row.inode;
	out->major = row.major;
	out->minor = row.minor;
	out->protection = maps_protection(&row);
	out->is_shared = row.mode[3] == 's';
	return 0;
}

AT_FORK void mapping_forget(void)
{
	kept_fd_close(&kept);
}

int mapping_find(uint64_t address, struct mapping *out)
{
	if (!kept_fd_is_ours(&kept))
		kept_fd_take(&kept, own_fd_keep(SYS_openat, AT_FDCWD,
						(long)(uintptr_t) "/proc/thread-self/maps",
						O_RDONLY | O_CLOEXEC, 0, 0));
	int err = kept.fd < 0 ? -EACCES : ask(kept.fd, address, out);

	return err && err != -ENOENT ? search(address, out) : err;
}
