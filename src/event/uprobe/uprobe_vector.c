/* SPDX-License-Identifier: MIT */
/* uprobe_vector.c - see uprobe_vector.h. The bytes are those of the file: the kernel reads these. */
#include "event/uprobe/uprobe_vector.h"

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define BYTES 15 /* the longest instruction */

static int is_legacy_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: /* segments */
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x67: /* size of addresses */
		return 1;
	default:
		return 0;
	}
}

static int has_vector_prefix(const uint8_t *bytes, size_t count)
{
	size_t i = 0;

	while (i < count && is_legacy_prefix(bytes[i]))
		i++;
	if (i == count)
		return 0;
	if (bytes[i] == 0x8f) /* XOP, or pop if the field of its map is below 8 */
		return i + 1 < count && (bytes[i + 1] & 0x1f) >= 8;
	return bytes[i] == 0xc4 || bytes[i] == 0xc5 || bytes[i] == 0x62;
}

int uprobe_any_vector(const struct uprobe_site *sites, size_t count)
{
	int fd = -1;
	int found = 0;

	for (size_t i = 0; !found && i < count; i++) {
		uint8_t bytes[BYTES];

		if (!i || !code_file_is_same(&sites[i].file, &sites[i - 1].file)) {
			if (fd >= 0)
				close(fd);
			fd = open(sites[i].file.path, O_RDONLY | O_CLOEXEC);
			if (fd < 0)
				return -errno;
		}
		ssize_t n = pread(fd, bytes, sizeof(bytes), (off_t)sites[i].offset);
		found = n < 0 ? -errno : has_vector_prefix(bytes, (size_t)n);
	}
	if (fd >= 0)
		close(fd);
	return found;
}
#else
int uprobe_any_vector(const struct uprobe_site *sites, size_t count)
{
	(void)sites;
	(void)count;
	return 0;
}
#endif
