/* SPDX-License-Identifier: MIT */
/*
 * jit_gdb.c - jit_gdb [lies]: makes code that stores to `made`, and names it by the interface of gdb for runtimes,
 * with an ELF file in memory. With `lies` the list does not end, and its files are not ELF files.
 */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct jit_code_entry {
	struct jit_code_entry *next_entry;
	struct jit_code_entry *prev_entry;
	const char *symfile_addr;
	uint64_t symfile_size;
};

struct jit_descriptor {
	uint32_t version;
	uint32_t action_flag;
	struct jit_code_entry *relevant_entry;
	struct jit_code_entry *first_entry;
};

struct jit_descriptor __jit_debug_descriptor = { 1, 0, NULL, NULL };

/* A debugger has a breakpoint here. */
__attribute__((noipa)) void __jit_debug_register_code(void)
{
	__asm__ volatile("");
}

volatile long made;

static struct {
	Elf64_Ehdr header;
	Elf64_Shdr section[4];
	Elf64_Sym symbol[2];
	char names[64];
} file;

static void describe(const void *code, size_t size)
{
	static struct jit_code_entry entry;

	memcpy(file.header.e_ident, ELFMAG, SELFMAG);
	file.header.e_ident[EI_CLASS] = ELFCLASS64;
	file.header.e_ident[EI_DATA] = ELFDATA2LSB;
	file.header.e_ident[EI_VERSION] = EV_CURRENT;
	file.header.e_type = ET_REL;
	file.header.e_machine = EM_X86_64;
	file.header.e_version = EV_CURRENT;
	file.header.e_ehsize = sizeof(file.header);
	file.header.e_shoff = (uintptr_t)file.section - (uintptr_t)&file;
	file.header.e_shentsize = sizeof(file.section[0]);
	file.header.e_shnum = 4;
	file.section[1] = (Elf64_Shdr){ .sh_type = SHT_NOBITS,
					.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
					.sh_addr = (uintptr_t)code,
					.sh_size = size };
	file.section[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
					.sh_offset = (uintptr_t)file.symbol - (uintptr_t)&file,
					.sh_size = sizeof(file.symbol),
					.sh_link = 3,
					.sh_info = 1,
					.sh_entsize = sizeof(file.symbol[0]) };
	file.section[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
					.sh_offset = (uintptr_t)file.names - (uintptr_t)&file,
					.sh_size = sizeof(file.names) };
	strcpy(file.names + 1, "_ZN7runtime4madeEPVll");
	file.symbol[1] = (Elf64_Sym){ .st_name = 1,
				      .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				      .st_shndx = 1,
				      .st_size = size };
	entry.symfile_addr = (const char *)&file;
	entry.symfile_size = sizeof(file);
	__jit_debug_descriptor.first_entry = __jit_debug_descriptor.relevant_entry = &entry;
	__jit_debug_descriptor.action_flag = 1;
	__jit_debug_register_code();
}

static void lie(void)
{
	static struct jit_code_entry entries[3];

	memset(&file, 0xa5, sizeof(file));
	memcpy(file.header.e_ident, ELFMAG, SELFMAG);
	file.header.e_ident[EI_CLASS] = ELFCLASS64;
	file.header.e_ident[EI_DATA] = ELFDATA2LSB;
	for (int i = 0; i < 3; i++) {
		entries[i].symfile_addr = (const char *)&file;
		entries[i].symfile_size = i == 1 ? UINT64_MAX : sizeof(file);
		entries[i].next_entry = &entries[(i + 1) % 3];
	}
	__jit_debug_descriptor.first_entry = entries;
}

int main(int argc, char **argv)
{
	static const unsigned char store[] = { 0x48, 0x89, 0x37, 0xc3 }; /* mov %rsi,(%rdi); ret */
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		return 1;
	memcpy(code, store, sizeof(store));
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	describe(code, sizeof(store));
	if (argc > 1 && !strcmp(argv[1], "lies"))
		lie();
	for (long n = 0;; n++) {
		void (*call)(volatile long *, long);
		memcpy(&call, &code, sizeof(call));
		call(&made, n);
		usleep(1000);
	}
}
