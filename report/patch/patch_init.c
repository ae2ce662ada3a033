/* SPDX-License-Identifier: MIT */
/* patch_init.c - see patch_init.h. */
#include "report/patch/patch_init.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* Loaders ignore it: it is in a range for operating systems, and none uses it. */
#define TAG_OF_NOTHING 0x60001000

struct dynamic {
	uint64_t offset; /* in the file */
	uint64_t count;
};

static int find_dynamic(const uint8_t *bytes, size_t size, struct dynamic *out)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (size < sizeof(header))
		return -ENOEXEC;
	memcpy(&header, bytes, sizeof(header));
	for (uint64_t i = 0; i < header.e_phnum; i++) {
		const uint64_t at = header.e_phoff + i * sizeof(segment);

		if (header.e_phoff > size || at + sizeof(segment) > size)
			return -ENOEXEC;
		memcpy(&segment, bytes + at, sizeof(segment));
		if (segment.p_type != PT_DYNAMIC)
			continue;
		if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)
			return -ENOEXEC;
		*out = (struct dynamic){ segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn) };
		return 0;
	}
	return -ENOEXEC;
}

static int change_entry(int fd, uint64_t offset, const Elf64_Dyn *entry)
{
	const ssize_t n = pwrite(fd, entry, sizeof(*entry), (off_t)offset);

	return n == (ssize_t)sizeof(*entry) ? 0 : n < 0 ? -errno : -EIO;
}

/* Notes what the entry has, and takes it out of the copy. 0 or -errno. */
static int take_entry(int copy, uint64_t offset, Elf64_Dyn *entry, struct patch_init *out)
{
	switch (entry->d_tag) {
	case DT_INIT:
		out->function = entry->d_un.d_ptr;
		entry->d_tag = TAG_OF_NOTHING;
		return change_entry(copy, offset, entry);
	case DT_INIT_ARRAY:
		out->array = entry->d_un.d_ptr;
		return 0;
	case DT_INIT_ARRAYSZ:
		out->count = entry->d_un.d_val / sizeof(uint64_t);
		entry->d_un.d_val = 0;
		return change_entry(copy, offset, entry);
	default:
		return 0;
	}
}

static int take_all(int copy, const uint8_t *bytes, const struct dynamic *dynamic,
		    struct patch_init *out)
{
	int err = 0;

	for (uint64_t i = 0; !err && i < dynamic->count; i++) {
		const uint64_t offset = dynamic->offset + i * sizeof(Elf64_Dyn);
		Elf64_Dyn entry;

		memcpy(&entry, bytes + offset, sizeof(entry));
		if (entry.d_tag == DT_NULL)
			break;
		err = take_entry(copy, offset, &entry, out);
	}
	return err;
}

static int copy_file(int from, size_t size)
{
	const int copy = memfd_create("trapline-patch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	off_t at = 0;
	ssize_t n = 1;

	if (copy < 0)
		return -errno;
	while ((size_t)at < size && n > 0)
		n = sendfile(copy, from, &at, size - (size_t)at);
	if ((size_t)at == size)
		return copy;
	close(copy);
	return -EIO;
}

int patch_init_take(int fd, const uint8_t *bytes, size_t size, struct patch_init *out)
{
	struct dynamic dynamic;
	int err = find_dynamic(bytes, size, &dynamic);
	const int copy = err ? err : copy_file(fd, size);

	*out = (struct patch_init){ 0 };
	if (copy < 0)
		return copy;
	err = take_all(copy, bytes, &dynamic, out);
	if (!err)
		return copy;
	close(copy);
	return err;
}
