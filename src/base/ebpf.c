/* SPDX-License-Identifier: MIT */
/* ebpf.c - see ebpf.h. Runs at arming only, never on the trap path. */
#include "base/ebpf.h"

#include <errno.h>
#include <linux/btf.h>
#include <string.h>

#include "base/sys.h"

void ebpf_emit(struct ebpf *p, uint8_t code, int dst, int src, int16_t off, int32_t imm)
{
	if (p->count >= EBPF_MAX_INSNS) {
		p->overflow = 1;
		return;
	}
	p->insns[p->count++] = (struct bpf_insn){
		.code = code,
		.dst_reg = (uint8_t)(dst & 15),
		.src_reg = (uint8_t)(src & 15),
		.off = off,
		.imm = imm,
	};
}

uint32_t ebpf_jump(struct ebpf *p, int op, int dst, int src)
{
	ebpf_emit(p, (uint8_t)(BPF_JMP | op | BPF_X), dst, src, 0, 0);
	return p->count - 1;
}

uint32_t ebpf_jump_imm(struct ebpf *p, int op, int dst, int32_t imm)
{
	ebpf_emit(p, (uint8_t)(BPF_JMP | op | BPF_K), dst, 0, 0, imm);
	return p->count - 1;
}

void ebpf_land(struct ebpf *p, uint32_t jump)
{
	ebpf_land_at(p, jump, p->count);
}

void ebpf_land_at(struct ebpf *p, uint32_t jump, uint32_t index)
{
	p->insns[jump].off = (int16_t)((int32_t)index - (int32_t)jump - 1);
}

static void load_pair(struct ebpf *p, int dst, int kind, uint32_t low, uint32_t high)
{
	ebpf_emit(p, BPF_LD | BPF_IMM | BPF_DW, dst, kind, 0, (int32_t)low);
	ebpf_emit(p, 0, 0, 0, 0, (int32_t)high);
}

void ebpf_load_imm64(struct ebpf *p, int dst, uint64_t value)
{
	load_pair(p, dst, 0, (uint32_t)value, (uint32_t)(value >> 32));
}

void ebpf_load_map(struct ebpf *p, int dst, int map_fd)
{
	load_pair(p, dst, BPF_PSEUDO_MAP_FD, (uint32_t)map_fd, 0);
}

void ebpf_load_map_value(struct ebpf *p, int dst, int map_fd, uint32_t off)
{
	load_pair(p, dst, BPF_PSEUDO_MAP_VALUE, (uint32_t)map_fd, off);
}

void ebpf_current_ids(struct ebpf *p, const struct ebpf_ids *ids, int16_t frame_at)
{
	uint32_t known = 0;

	if (ids->inode) {
		ebpf_load_imm64(p, R1, ids->device);
		ebpf_load_imm64(p, R2, ids->inode);
		ebpf_mov(p, R3, R10);
		ebpf_alu_imm(p, BPF_ADD, R3, frame_at); /* struct bpf_pidns_info: pid, tgid */
		ebpf_mov_imm(p, R4, 8);
		ebpf_call(p, BPF_FUNC_get_ns_current_pid_tgid);
		ebpf_mov(p, R1, R0);
		ebpf_load_mem(p, BPF_DW, R0, R10, frame_at);
		known = ebpf_jump_imm(p, BPF_JEQ, R1, 0);
	}
	ebpf_call(p, BPF_FUNC_get_current_pid_tgid);
	if (ids->inode)
		ebpf_land(p, known);
}

int ebpf_load(const struct ebpf *p, enum bpf_prog_type type, char *log, uint32_t log_size)
{
	union bpf_attr attr;

	if (p->overflow)
		return -E2BIG;
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = type;
	attr.expected_attach_type = p->attach_type;
	attr.insns = (uint64_t)(uintptr_t)p->insns;
	attr.insn_cnt = p->count;
	/* bpf_probe_read_user is for GPL programs only. */
	attr.license = (uint64_t)(uintptr_t) "Dual MIT/GPL";
	if (log && log_size) {
		log[0] = '\0';
		attr.log_level = 1;
		attr.log_buf = (uint64_t)(uintptr_t)log;
		attr.log_size = log_size;
	}
	memcpy(attr.prog_name, "trapline", sizeof("trapline"));
	return sys_bpf(BPF_PROG_LOAD, &attr, sizeof(attr));
}

uint64_t ebpf_missed(int program)
{
	struct bpf_prog_info info;
	union bpf_attr attr;

	if (program <= 0)
		return 0;
	memset(&info, 0, sizeof(info));
	memset(&attr, 0, sizeof(attr));
	attr.info.bpf_fd = (uint32_t)program;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uintptr_t)&info;
	return sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)) ? 0 : info.recursion_misses;
}

static int map_create(union bpf_attr *attr)
{
	memcpy(attr->map_name, "trapline", sizeof("trapline"));
	return sys_bpf(BPF_MAP_CREATE, attr, sizeof(*attr));
}

int ebpf_map_create(enum bpf_map_type type, uint32_t key_size, uint32_t value_size,
		    uint32_t max_entries, uint32_t flags)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = type;
	attr.key_size = key_size;
	attr.value_size = value_size;
	attr.max_entries = max_entries;
	attr.map_flags = flags;
	return map_create(&attr);
}

static int map_element(int command, int map_fd, const void *key, uint64_t value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)map_fd;
	attr.key = (uintptr_t)key;
	attr.value = value;
	return sys_bpf(command, &attr, sizeof(attr));
}

int ebpf_map_read(int map_fd, const void *key, void *value)
{
	return map_element(BPF_MAP_LOOKUP_ELEM, map_fd, key, (uintptr_t)value);
}

int ebpf_map_write(int map_fd, const void *key, const void *value)
{
	return map_element(BPF_MAP_UPDATE_ELEM, map_fd, key, (uintptr_t)value);
}

int ebpf_map_remove(int map_fd, const void *key)
{
	return map_element(BPF_MAP_DELETE_ELEM, map_fd, key, 0);
}

int ebpf_attach_tracepoint(int program, const char *name)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.raw_tracepoint.name = (uintptr_t)name;
	attr.raw_tracepoint.prog_fd = (uint32_t)program;
	return sys_bpf(BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
}

/*
 * BTF of three types: 1 a signed 32-bit int (the key), 2 an int of 8 bytes, 3 an array (the value).
 */
static int btf_load(uint32_t bytes)
{
	static const char names[] = "\0int\0word";
	struct {
		struct btf_header header;
		struct {
			struct btf_type type;
			uint32_t encoding;
		} ints[2];
		struct btf_type array;
		struct btf_array elements;
		char names[sizeof(names)];
	} __attribute__((packed)) blob;
	union bpf_attr attr;

	memset(&blob, 0, sizeof(blob));
	blob.header.magic = BTF_MAGIC;
	blob.header.version = BTF_VERSION;
	blob.header.hdr_len = sizeof(blob.header);
	blob.header.type_len = offsetof(__typeof__(blob), names) - sizeof(blob.header);
	blob.header.str_off = blob.header.type_len;
	blob.header.str_len = sizeof(names);
	for (int i = 0; i < 2; i++) {
		blob.ints[i].type.name_off = i ? 5 : 1;
		blob.ints[i].type.info = BTF_KIND_INT << 24;
		blob.ints[i].type.size = i ? 8 : 4;
		blob.ints[i].encoding = (i ? 0u : BTF_INT_SIGNED << 24) | (i ? 64 : 32);
	}
	blob.array.info = BTF_KIND_ARRAY << 24;
	blob.elements = (struct btf_array){ .type = 2, .index_type = 1, .nelems = bytes / 8 };
	memcpy(blob.names, names, sizeof(names));

	memset(&attr, 0, sizeof(attr));
	attr.btf = (uint64_t)(uintptr_t)&blob;
	attr.btf_size = sizeof(blob);
	return sys_bpf(BPF_BTF_LOAD, &attr, sizeof(attr));
}

int ebpf_task_storage_create(uint32_t bytes)
{
	union bpf_attr attr;
	int btf = btf_load(bytes);

	if (btf < 0)
		return btf;
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_TASK_STORAGE;
	attr.key_size = sizeof(int);
	attr.value_size = bytes;
	attr.map_flags = BPF_F_NO_PREALLOC;
	attr.btf_fd = (uint32_t)btf;
	attr.btf_key_type_id = 1;
	attr.btf_value_type_id = 3;
	int fd = map_create(&attr);
	sys_close(btf);
	return fd;
}
