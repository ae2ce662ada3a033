/* SPDX-License-Identifier: MIT */
/* patch_init.c - see patch_init.h. */
#include "report/patch/patch_init.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* Loaders ignore it: it is in a range for operating systems, and none uses it. */
#define TAG_OF_NOTHING 0x60001000

static bool find_dynamic(Elf *elf, GElf_Phdr *out)
{
	size_t n = 0;

	elf_getphdrnum(elf, &n);
	for (size_t i = 0; i < n; i++)
		if (gelf_getphdr(elf, (int)i, out) && out->p_type == PT_DYNAMIC)
			return true;
	return false;
}

/* Notes what the entry has, and takes it out. false: it has nothing to run. */
static bool take_entry(GElf_Dyn *entry, struct patch_init *out)
{
	switch (entry->d_tag) {
	case DT_INIT:
		out->function = entry->d_un.d_ptr;
		entry->d_tag = TAG_OF_NOTHING;
		return true;
	case DT_INIT_ARRAY:
		out->array = entry->d_un.d_ptr;
		return false;
	case DT_INIT_ARRAYSZ:
		out->count = entry->d_un.d_val / sizeof(uint64_t);
		entry->d_un.d_val = 0;
		return true;
	default:
		return false;
	}
}

/* In the copy, which has 64 bits as this program has. 0 or -errno. */
static int take_all(int copy, Elf *elf, const GElf_Phdr *dynamic, struct patch_init *out)
{
	Elf_Data *data =
		elf_getdata_rawchunk(elf, (int64_t)dynamic->p_offset, dynamic->p_filesz, ELF_T_DYN);
	off_t at = (off_t)dynamic->p_offset;
	GElf_Dyn entry;

	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
		if (take_entry(&entry, out) &&
		    pwrite(copy, &entry, sizeof(entry), at) != (ssize_t)sizeof(entry))
			return errno ? -errno : -EIO;
		at += (off_t)sizeof(entry);
	}
	return data ? 0 : -ENOEXEC;
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

int patch_init_take(Elf *elf, int fd, size_t size, struct patch_init *out)
{
	GElf_Phdr dynamic;
	const int copy = find_dynamic(elf, &dynamic) ? copy_file(fd, size) : -ENOEXEC;

	*out = (struct patch_init){ 0 };
	if (copy < 0)
		return copy;
	const int err = take_all(copy, elf, &dynamic, out);
	if (!err)
		return copy;
	close(copy);
	return err;
}
