/* SPDX-License-Identifier: MIT */
/* code_image.h - a program or library as its file has it, for code/reach/returns.h. AS-Unsafe. */
#ifndef CODE_REACH_CODE_IMAGE_H
#define CODE_REACH_CODE_IMAGE_H

#include "code/reach/code_file.h"
#include "code/reach/returns.h"

struct code_image;

/*
 * Open the file of a mapping. 0 or -errno; -ENOEXEC: it is not an ELF file of this architecture, or
 * has no unwind table. *out is given to code_image_close().
 */
int code_image_open(pid_t pid, const struct code_file *file, struct code_image **out);
void code_image_close(struct code_image *image);
const struct returns_code *code_image_code(const struct code_image *image);

/*
 * From a location in the file to its address in the headers, and back. UINT64_MAX: the other side
 * has no such location.
 */
uint64_t code_image_address(const struct code_image *image, uint64_t offset);
uint64_t code_image_offset(const struct code_image *image, uint64_t address);

/*
 * Do direct jumps lead to the address only as they lead to a function: is there a call of it, or
 * else nothing that names it? The separated rare part of a function is reached by jumps alone.
 */
int code_image_is_entry(struct code_image *image, uint64_t address);

#endif
