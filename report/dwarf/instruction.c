/* SPDX-License-Identifier: MIT */
/* instruction.c - see instruction.h. */
#include "report/dwarf/instruction.h"

#include "code/insn/insn.h"
#include "code/insn/insn_uprobe.h"
#include "report/dwarf/symbols_priv.h"

#include <errno.h>
#include <string.h>

static int instruction_read_file(Dwfl_Module *mod, uint64_t address, void *buf, size_t n)
{
	GElf_Addr bias;
	GElf_Phdr ph;
	size_t count;
	Elf *elf = dwfl_module_getelf(mod, &bias);

	if (!elf || elf_getphdrnum(elf, &count))
		return -EFAULT;
	address -= bias;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD ||
		    address < ph.p_vaddr || address + n > ph.p_vaddr + ph.p_filesz)
			continue;
		/*
		 * The whole segment: libelf keeps each chunk, and looks through all of them for the
		 * next.
		 */
		Elf_Data *data =
			elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_BYTE);
		uint64_t at = address - ph.p_vaddr;
		if (!data || data->d_size < at + n)
			return -EFAULT;
		memcpy(buf, (const char *)data->d_buf + at, n);
		return 0;
	}
	return -EFAULT;
}

/*
 * Code as it is in its file: what debuggers put into the process does not show. From the process
 * where there is no file. 0 or -EFAULT.
 */
int code_bytes(struct symbols *s, uint64_t address, void *buf, size_t n)
{
	uint64_t to;

	if (s->like && symbols_moved(s, address, &to))
		return code_bytes(s->like, to, buf, n);
	Dwfl_Module *mod = dwfl_addrmodule(s->dwfl, address);
	if (mod && !instruction_read_file(mod, address, buf, n))
		return 0;
	return symbols_read(s, address, buf, n);
}

int code_decode(struct symbols *s, uint64_t address, uint64_t end, struct insn *out)
{
	unsigned char bytes[INSTRUCTION_BYTES_MAX];
	size_t n = sizeof(bytes) < end - address ? sizeof(bytes) : (size_t)(end - address);

	return code_bytes(s, address, bytes, n) || insn_decode(bytes, n, out) ? -EILSEQ : 0;
}

#if defined(__x86_64__)

bool code_has_lock(struct symbols *s, uint64_t address, size_t length)
{
	static const unsigned char prefixes[] = { 0xf2, 0xf3, 0x2e, 0x36, 0x3e,
						  0x26, 0x64, 0x65, 0x66, 0x67 };
	unsigned char bytes[INSTRUCTION_BYTES_MAX];
	size_t i = 0;

	if (length > sizeof(bytes) || code_bytes(s, address, bytes, length))
		return false;
	while (i < length && memchr(prefixes, bytes[i], sizeof(prefixes)))
		i++;
	return i < length && bytes[i] == 0xf0;
}

/*
 * Behind the look of a Go function at its stack: when there is too little, the runtime gets more,
 * and the function begins again, which would be a second hit. `cmp rsp, [r14 + 16]`, or of r12,
 * which is rsp less a large frame, and a jump.
 */
static uint64_t behind_go_check(struct symbols *s, uint64_t function)
{
	static const unsigned char compare[] = { 0x3b, 0x66, 0x10 };
	unsigned char b[24];
	size_t at = 0;

	if (code_bytes(s, function, b, sizeof(b)))
		return function;
	if (b[0] == 0x4c && b[1] == 0x8d && b[2] == 0x64 && b[3] == 0x24)
		at = 5;
	else if (b[0] == 0x4c && b[1] == 0x8d && b[2] == 0xa4 && b[3] == 0x24)
		at = 8;
	if (b[at] != (at ? 0x4d : 0x49) || memcmp(b + at + 1, compare, sizeof(compare)) != 0)
		return function;
	at += 1 + sizeof(compare);
	if (b[at] == 0x76)
		return function + at + 2;
	return b[at] == 0x0f && b[at + 1] == 0x86 ? function + at + 6 : function;
}

uint64_t code_entry(struct symbols *s, uint64_t function)
{
	static const unsigned char endbr64[4] = { 0xf3, 0x0f, 0x1e, 0xfa };
	unsigned char bytes[4];

	uint64_t behind = behind_go_check(s, function);
	if (behind != function)
		return behind;

	if (code_bytes(s, function, bytes, sizeof(bytes)) ||
	    memcmp(bytes, endbr64, sizeof(bytes)) != 0)
		return function;
	return function + sizeof(endbr64);
}

/*
 * As arch/x86/kernel/uprobes.c has it: nops as compilers write them, push of a register, and near
 * branches to a fixed target without an operand-size prefix. Timing each showed that this is true.
 */
bool code_is_emulated(struct symbols *s, uint64_t address)
{
	static const struct {
		unsigned char bytes[8];
		unsigned char len;
	} nops[] = {
		{ { 0x90 }, 1 },
		{ { 0x66, 0x90 }, 2 },
		{ { 0x0f, 0x1f, 0x00 }, 3 },
		{ { 0x0f, 0x1f, 0x40, 0x00 }, 4 },
		{ { 0x0f, 0x1f, 0x44, 0x00, 0x00 }, 5 },
		{ { 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00 }, 6 },
		{ { 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00 }, 7 },
		{ { 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00 }, 8 },
	};
	unsigned char b[8] = { 0 };

	if (code_bytes(s, address, b, sizeof(b)) && code_bytes(s, address, b, 2))
		return false;
	for (size_t i = 0; i < sizeof(nops) / sizeof(nops[0]); i++)
		if (!memcmp(b, nops[i].bytes, nops[i].len))
			return true;
	unsigned char first = b[0] == 0x41 ? b[1] : b[0];
	if (first >= 0x50 && first <= 0x57)
		return true;
	return b[0] == 0xe8 || b[0] == 0xe9 || b[0] == 0xeb || (b[0] & 0xf0) == 0x70 ||
	       (b[0] == 0x0f && (b[1] & 0xf0) == 0x80);
}

_Static_assert(INSN_UPROBE_VECTOR < CODE_REFUSALS, "it is the highest");

unsigned int code_uprobe_refusal(struct symbols *s, uint64_t address)
{
	unsigned char bytes[INSTRUCTION_BYTES_MAX];
	size_t n = sizeof(bytes);

	while (n && code_bytes(s, address, bytes, n))
		n--; /* the end of the mapping */
	return insn_uprobe_refusal_x86_64(bytes, n);
}

int code_is_boundary(struct symbols *s, uint64_t function, uint64_t address)
{
	unsigned char bytes[INSTRUCTION_BYTES_MAX];
	struct insn insn;
	uint64_t at = function;

	if (!function || address < function)
		return -ENOENT;
	while (at < address) {
		size_t n = sizeof(bytes);
		while (n && code_bytes(s, at, bytes, n))
			n--; /* the end of the mapping */
		if (!n || insn_decode(bytes, n, &insn))
			return -ENOENT; /* data between the code */
		at += insn.length;
	}
	return at == address;
}

int code_returns(struct symbols *s, uint64_t function, uint64_t size, uint64_t *out, size_t max,
		 size_t *count)
{
	unsigned char bytes[INSTRUCTION_BYTES_MAX];
	struct insn insn;

	*count = 0;
	for (uint64_t at = 0; at < size; at += insn.length) {
		size_t n = sizeof(bytes) < size - at ? sizeof(bytes) : (size_t)(size - at);
		if (code_bytes(s, function + at, bytes, n) || insn_decode(bytes, n, &insn))
			return -EILSEQ;
		bool is_jump = insn.kind == INSN_JUMP || insn.kind == INSN_JUMP_CONDITIONAL;
		if (is_jump && at + (uint64_t)insn.target >= size)
			return -EOPNOTSUPP;
		if (insn.kind != INSN_RETURN)
			continue;
		if (*count == max)
			return -E2BIG;
		out[(*count)++] = function + at;
	}
	return 0;
}

#else

bool code_has_lock(struct symbols *s, uint64_t address, size_t length)
{
	return false;
}

uint64_t code_entry(struct symbols *s, uint64_t function)
{
	return function;
}

bool code_is_emulated(struct symbols *s, uint64_t address)
{
	return false;
}

unsigned int code_uprobe_refusal(struct symbols *s, uint64_t address)
{
	return 0;
}

int code_is_boundary(struct symbols *s, uint64_t function, uint64_t address)
{
	if (!function || address < function)
		return -ENOENT;
	return address % 4 == 0;
}

int code_returns(struct symbols *s, uint64_t function, uint64_t size, uint64_t *out, size_t max,
		 size_t *count)
{
	return -EOPNOTSUPP;
}

#endif
