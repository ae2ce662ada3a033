/* SPDX-License-Identifier: MIT */
/* kernel_offset.h - where a member of a structure of this kernel is, for BPF programs. */
#ifndef KERNEL_OFFSET_H
#define KERNEL_OFFSET_H

/*
 * In bytes, by the kernel's own description (BTF, Documentation/bpf/btf.rst). -errno: it has none,
 * or no such member that begins at a byte. Reads some megabytes. AS-Unsafe.
 */
int kernel_member_offset(const char *structure, const char *member);

#endif
