/* SPDX-License-Identifier: MIT */
/* kernel_offset.c - see kernel_offset.h. */
#include "event/bpf/kernel_offset.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX (64u << 20)
#define STEP_BYTES (8u << 20)
/* Newer than many headers. */
#define KIND_DECL_TAG 17
#define KIND_TYPE_TAG 18
#define KIND_ENUM64 19

struct description {
	char *bytes;
	size_t size;
	int is_mapped;
	const struct btf_header *header;
	const char *names;
};

static int read_all(int fd, struct description *d)
{
	size_t capacity = 0;

	for (;;) {
		if (d->size == capacity) {
			char *more = capacity < BYTES_MAX ?
					     realloc(d->bytes, capacity + STEP_BYTES) :
					     NULL;

			if (!more)
				return -ENOMEM;
			d->bytes = more;
			capacity += STEP_BYTES;
		}
		ssize_t n = read(fd, d->bytes + d->size, capacity - d->size);
		if (n < 0)
			return -errno;
		if (!n)
			return 0;
		d->size += (size_t)n;
	}
}

/* From Linux 6.16 on: most of it is never inspected. */
static int map_all(int fd, struct description *d)
{
	struct stat st;

	if (fstat(fd, &st) || st.st_size <= 0 || st.st_size > BYTES_MAX)
		return -ENODATA;
	void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	d->bytes = at;
	d->size = (size_t)st.st_size;
	d->is_mapped = 1;
	return 0;
}

static void description_free(struct description *d)
{
	if (d->is_mapped)
		munmap(d->bytes, d->size);
	else
		free(d->bytes);
}

static int check_header(struct description *d)
{
	const struct btf_header *h = (const void *)d->bytes;

	if (d->size < sizeof(*h) || h->magic != BTF_MAGIC || h->hdr_len > d->size)
		return -EPROTO;
	size_t rest = d->size - h->hdr_len;
	if (h->type_off > rest || h->type_len > rest - h->type_off || h->str_off > rest ||
	    h->str_len > rest - h->str_off || !h->str_len)
		return -EPROTO;
	d->header = h;
	d->names = d->bytes + h->hdr_len + h->str_off;
	return d->names[h->str_len - 1] ? -EPROTO : 0;
}

static const char *name_at(const struct description *d, uint32_t offset)
{
	return offset < d->header->str_len ? d->names + offset : "";
}

/* What follows a type. -EPROTO: newer than this code. */
static int extra_bytes(uint32_t kind, uint32_t count)
{
	switch (kind) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case KIND_DECL_TAG:
		return sizeof(uint32_t);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case KIND_ENUM64:
		return (int)(count * sizeof(struct btf_member));
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return (int)(count * sizeof(struct btf_enum));
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case KIND_TYPE_TAG:
		return 0;
	default:
		return -EPROTO;
	}
}

static int find_member(const struct description *d, const struct btf_type *type, const char *member)
{
	const struct btf_member *m = (const void *)(type + 1);

	for (uint32_t i = 0; i < BTF_INFO_VLEN(type->info); i++) {
		if (strcmp(name_at(d, m[i].name_off), member) != 0)
			continue;
		uint32_t bits = BTF_INFO_KFLAG(type->info) ? BTF_MEMBER_BIT_OFFSET(m[i].offset) :
							     m[i].offset;
		return bits % 8 ? -EOPNOTSUPP : (int)(bits / 8);
	}
	return -ENOENT;
}

static int find(const struct description *d, const char *structure, const char *member)
{
	const char *at = d->bytes + d->header->hdr_len + d->header->type_off;
	size_t left = d->header->type_len;

	while (left >= sizeof(struct btf_type)) {
		const struct btf_type *type = (const void *)at;
		uint32_t kind = BTF_INFO_KIND(type->info);
		int extra = extra_bytes(kind, BTF_INFO_VLEN(type->info));

		if (extra < 0 || (size_t)extra > left - sizeof(*type))
			return -EPROTO;
		if (kind == BTF_KIND_STRUCT && !strcmp(name_at(d, type->name_off), structure))
			return find_member(d, type, member);
		at += sizeof(*type) + (size_t)extra;
		left -= sizeof(*type) + (size_t)extra;
	}
	return -ENOENT;
}

int kernel_member_offset(const char *structure, const char *member)
{
	struct description d = { 0 };
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	int err = map_all(fd, &d) ? read_all(fd, &d) : 0;
	if (!err)
		err = check_header(&d);
	if (!err)
		err = find(&d, structure, member);
	description_free(&d);
	close(fd);
	return err;
}
