/* SPDX-License-Identifier: MIT */
/*
 * code_image.c - see code_image.h.
 *
 * The file belongs to the program, which may change it at any moment. It is read by pread(), never
 * mapped, and every number in it is checked before it is used.
 */
#include "code/reach/code_image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "code/reach/code_calls.h"
#include "code/reach/code_frames.h"

#define SEGMENTS_MAX 32
#define SECTIONS_MAX 4096
#define CACHE_BYTES 4096u

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_AARCH64
#endif

struct code_image {
	int fd;
	pid_t pid;
	uint64_t bias; /* address in the process - address in the headers */
	Elf64_Phdr segment[SEGMENTS_MAX];
	size_t segments;
	struct code_frames frames;
	struct returns_code code;
	uint64_t cached_at; /* the offset of what is in the cache */
	size_t cached_bytes;
	struct code_calls *calls; /* NULL until there is a question */
	uint8_t cache[CACHE_BYTES];
};

static size_t read_at(const struct code_image *image, uint64_t offset, void *to, size_t n)
{
	if (offset > INT64_MAX - n)
		return 0;
	ssize_t got = pread(image->fd, to, n, (off_t)offset);

	return got > 0 ? (size_t)got : 0;
}

static size_t read_cached(struct code_image *image, uint64_t offset, void *to, size_t n)
{
	if (n > CACHE_BYTES)
		return read_at(image, offset, to, n);
	if (offset < image->cached_at || offset - image->cached_at >= image->cached_bytes ||
	    image->cached_bytes - (offset - image->cached_at) < n) {
		image->cached_at = offset;
		image->cached_bytes = read_at(image, offset, image->cache, CACHE_BYTES);
	}
	size_t there = image->cached_bytes - (offset - image->cached_at);
	size_t copied = there < n ? there : n;
	memcpy(to, image->cache + (offset - image->cached_at), copied);
	return copied;
}

uint64_t code_image_address(const struct code_image *image, uint64_t offset)
{
	for (size_t i = 0; i < image->segments; i++) {
		const Elf64_Phdr *p = &image->segment[i];
		if (p->p_type == PT_LOAD && p->p_flags & PF_X && offset >= p->p_offset &&
		    offset - p->p_offset < p->p_filesz)
			return p->p_vaddr + (offset - p->p_offset);
	}
	return UINT64_MAX;
}

static const Elf64_Phdr *segment_of(const struct code_image *image, uint64_t address)
{
	for (size_t i = 0; i < image->segments; i++) {
		const Elf64_Phdr *p = &image->segment[i];
		if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz)
			return p;
	}
	return NULL;
}

uint64_t code_image_offset(const struct code_image *image, uint64_t address)
{
	const Elf64_Phdr *p = segment_of(image, address);

	return p ? p->p_offset + (address - p->p_vaddr) : UINT64_MAX;
}

static size_t copy(void *arg, uint64_t address, void *to, size_t n)
{
	const struct code_image *image = arg;
	const Elf64_Phdr *p = segment_of(image, address);

	if (!p)
		return 0;
	uint64_t left = p->p_filesz - (address - p->p_vaddr);
	return read_cached(arg, p->p_offset + (address - p->p_vaddr), to,
			   n < left ? n : (size_t)left);
}

static int find_range(void *arg, uint64_t address, struct returns_range *out)
{
	const struct code_image *image = arg;
	const Elf64_Phdr *p = segment_of(image, address);

	if (!p || !(p->p_flags & PF_X))
		return -ENOENT;
	int err = code_frames_find(&image->frames, &image->code, address, out);

	/* All of it must be code of this file. */
	if (!err && (segment_of(image, out->start) != p || out->end - p->p_vaddr > p->p_filesz))
		err = -ENOENT;
	return err;
}

static int read_word(void *arg, uint64_t address, uint64_t *out)
{
	const struct code_image *image = arg;
	uint64_t word;

	if (sys_read_memory(image->pid, address + image->bias, &word, sizeof(word)) != sizeof(word))
		return -EFAULT;
	*out = word - image->bias;
	return 0;
}

static enum back_answer image_comes_back(void *arg, uint64_t address, const struct insn *insn)
{
	struct code_image *image = arg;

	if (!image->calls && code_calls_open(image->pid, &image->calls))
		return BACK_UNSURE;
	return back_call(code_calls_back(image->calls), address + image->bias, insn);
}

static int code_image_loads_last(void *arg, uint64_t address, const uint8_t *code,
				 const struct insn *insn)
{
	struct code_image *image = arg;

	if (!image->calls && code_calls_open(image->pid, &image->calls))
		return 1;
	return back_loads_last(code_calls_back(image->calls), address + image->bias, code, insn);
}

/* The unwind table by its index; a program that was linked without one has its section alone. */
static void find_frames(struct code_image *image, const Elf64_Ehdr *head)
{
	Elf64_Shdr section;

	for (size_t i = 0; i < image->segments; i++)
		if (image->segment[i].p_type == PT_GNU_EH_FRAME)
			image->frames.index = image->segment[i].p_vaddr;
	if (image->frames.index || head->e_shentsize != sizeof(section) ||
	    head->e_shnum > SECTIONS_MAX)
		return;
	for (unsigned int i = 0; i < head->e_shnum; i++) {
		/*
		 * The one section of both: that of the names may lie anywhere, and is not needed.
		 */
		uint64_t at = head->e_shoff + (uint64_t)i * sizeof(section);
		if (read_at(image, at, &section, sizeof(section)) != sizeof(section))
			return;
		if (!(section.sh_flags & SHF_ALLOC) ||
		    section.sh_flags & (SHF_EXECINSTR | SHF_WRITE) ||
		    section.sh_type == SHT_NOBITS || !section.sh_size)
			continue;
		if (code_frames_are(&image->code, section.sh_addr, section.sh_size)) {
			image->frames.start = section.sh_addr;
			image->frames.end = section.sh_addr + section.sh_size;
			return;
		}
	}
}

static int read_headers(struct code_image *image, const struct code_file *file)
{
	Elf64_Ehdr head;
	size_t bytes;

	if (read_at(image, 0, &head, sizeof(head)) != sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_machine != OUR_MACHINE || head.e_phentsize != sizeof(Elf64_Phdr) ||
	    head.e_phnum > SEGMENTS_MAX)
		return -ENOEXEC;
	bytes = head.e_phnum * sizeof(Elf64_Phdr);
	if (read_at(image, head.e_phoff, image->segment, bytes) != bytes)
		return -ENOEXEC;
	image->segments = head.e_phnum;
	uint64_t start = UINT64_MAX;
	for (size_t i = 0; i < image->segments && start == UINT64_MAX; i++) {
		const Elf64_Phdr *p = &image->segment[i];
		uint64_t before = p->p_offset & 4095;
		if (p->p_vaddr + p->p_filesz < p->p_vaddr ||
		    p->p_offset + p->p_filesz < p->p_offset)
			return -ENOEXEC;
		if (p->p_type == PT_LOAD && p->p_flags & PF_X &&
		    file->offset >= p->p_offset - before &&
		    file->offset < p->p_offset + p->p_filesz)
			start = p->p_vaddr + (file->offset - p->p_offset);
	}
	if (start == UINT64_MAX)
		return -ENOEXEC;
	image->bias = file->start - start;
	image->code.has_fixed_addresses = head.e_type == ET_EXEC;
	find_frames(image, &head);
	if (!image->frames.index && !image->frames.start)
		return -ENOEXEC;
	return 0;
}

int code_image_open(pid_t pid, const struct code_file *file, struct code_image **out)
{
	struct code_image *image = calloc(1, sizeof(*image));

	if (!image)
		return -ENOMEM;
	image->pid = pid;
	image->code = (struct returns_code){ .copy = copy,
					     .range = find_range,
					     .word = read_word,
					     .comes_back = image_comes_back,
					     .loads_last = code_image_loads_last,
					     .arg = image };
	image->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int err = image->fd < 0 ? -errno : read_headers(image, file);
	if (err)
		code_image_close(image);
	else
		*out = image;
	return err;
}

void code_image_close(struct code_image *image)
{
	if (image && image->fd >= 0)
		close(image->fd);
	if (image)
		code_calls_close(image->calls);
	free(image);
}

#if defined(__x86_64__)
/*
 * Whether 4 bytes behind an opcode are the distance to the address: 1, or 2 if the opcode is that
 * of a call.
 */
static int names_address(const uint8_t *b, uint64_t at, uint64_t address)
{
	int32_t distance;

	memcpy(&distance, b + 2, sizeof(distance));
	if (at + 6 + (uint64_t)(int64_t)distance != address)
		return 0;
	if (b[1] == 0xe8)
		return 2;
	return b[1] == 0xe9 || (b[0] == 0x0f && (b[1] & 0xf0) == 0x80);
}

int code_image_is_entry(struct code_image *image, uint64_t address)
{
	const Elf64_Phdr *p = segment_of(image, address);
	uint8_t bytes[CACHE_BYTES];
	int is_jumped_to = 0;

	if (!p)
		return 0;
	for (uint64_t at = p->p_vaddr; at + 6 <= p->p_vaddr + p->p_filesz;) {
		size_t n = copy(image, at, bytes, sizeof(bytes));
		if (n < 6)
			return 0;
		for (size_t i = 0; i + 6 <= n; i++) {
			int named = names_address(bytes + i, at + i, address);
			if (named == 2)
				return 1;
			is_jumped_to |= named;
		}
		at += n - 5;
	}
	return !is_jumped_to;
}
#else
int code_image_is_entry(struct code_image *image, uint64_t address)
{
	(void)image;
	(void)address;
	return 0;
}
#endif

const struct returns_code *code_image_code(const struct code_image *image)
{
	return &image->code;
}
