/* SPDX-License-Identifier: MIT */
/*
 * flow_sites.c - where sources and sinks are: functions of libc, and those that the user named.
 *
 * A read is inspected behind its system call, where the bytes are there and nothing can block. A
 * sink is inspected where its function begins. execve() has no trap: posix_spawn() calls it in a
 * child without handlers, which a trap would kill. In a window it is seen all the same.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/hash.h"
#include "code/insn/insn.h"
#include "flow/flow_shared_call.h"
#include "flow/flow_source.h"
#include "flow/flow_state.h"

#define HASH (4 * FLOW_SITES)
#define FUNCTION_MAX 65536u
#define RETURNS_MAX 64u

struct known {
	const char *name;
	uint8_t kind;
	uint8_t argument;
	uint8_t has_fd;
	uint8_t is_quiet;
	uint8_t is_inner;
	uint8_t has_peer;
	uint16_t number; /* of a system call that may block; 0: read, or none */
};

static const struct known known[] = {
	{ "read", .kind = FLOW_SITE_READ, .number = SYS_read },
	{ "__read_nocancel", .kind = FLOW_SITE_READ, .number = SYS_read },
	{ "pread64", .kind = FLOW_SITE_READ, .number = SYS_pread64 },
	{ "__pread64_nocancel", .kind = FLOW_SITE_READ, .number = SYS_pread64 },
	{ "recv", .kind = FLOW_SITE_READ, .number = SYS_recvfrom },
	{ "recvfrom", .kind = FLOW_SITE_READ, .number = SYS_recvfrom },
	{ "readv", .kind = FLOW_SITE_READV, .number = SYS_readv },
	{ "preadv64", .kind = FLOW_SITE_READV, .number = SYS_preadv },
	{ "recvmsg", .kind = FLOW_SITE_RECVMSG, .number = SYS_recvmsg },
	{ "preadv64v2", .kind = FLOW_SITE_READV, .number = SYS_preadv2 },
	{ "mmap64", .kind = FLOW_SITE_MAP, .number = SYS_mmap },
	{ "copy_file_range", .kind = FLOW_SITE_PASS, .number = SYS_copy_file_range },
	{ "sendfile64", .kind = FLOW_SITE_PASS, .argument = 1, .number = SYS_sendfile },
	{ "splice", .kind = FLOW_SITE_PASS, .argument = 2, .number = SYS_splice },
	{ "mremap", .kind = FLOW_SITE_MOVE, .number = SYS_mremap },
	{ "getenv", .kind = FLOW_SITE_GETENV },
	{ "secure_getenv", .kind = FLOW_SITE_GETENV },
	{ "_exit", .kind = FLOW_SITE_END },
	{ "abort", .kind = FLOW_SITE_END },
	{ "write", .kind = FLOW_SITE_RANGE, .argument = 1, .has_fd = 1, .number = SYS_write },
	{ "pwrite64", .kind = FLOW_SITE_RANGE, .argument = 1, .has_fd = 1, .number = SYS_pwrite64 },
	{ "writev", .kind = FLOW_SITE_VECTOR, .argument = 1, .has_fd = 1, .number = SYS_writev },
	{ "send", .kind = FLOW_SITE_RANGE, .argument = 1, .has_fd = 1, .number = SYS_sendto },
	{ "sendto", .kind = FLOW_SITE_RANGE, .argument = 1, .has_fd = 1, .has_peer = 1,
	  .number = SYS_sendto },
	{ "pwritev64", .kind = FLOW_SITE_VECTOR, .argument = 1, .has_fd = 1,
	  .number = SYS_pwritev },
	{ "sendmsg", .kind = FLOW_SITE_MESSAGE, .argument = 1, .has_fd = 1, .number = SYS_sendmsg },
	{ "msync", .kind = FLOW_SITE_MAPPED },
	{ "munmap", .kind = FLOW_SITE_MAPPED, .argument = FLOW_MAPPED_ENDS },
	{ "close", .kind = FLOW_SITE_RESUME, .number = SYS_close },
	{ "open64", .kind = FLOW_SITE_STRING, .is_inner = 1, .number = SYS_openat },
	{ "openat64", .kind = FLOW_SITE_STRING, .argument = 1, .is_inner = 1,
	  .number = SYS_openat },
	{ "creat64", .kind = FLOW_SITE_STRING, .is_inner = 1 },
	{ "fopen64", .kind = FLOW_SITE_STRING },
	{ "freopen64", .kind = FLOW_SITE_STRING },
	{ "opendir", .kind = FLOW_SITE_STRING },
	{ "unlink", .kind = FLOW_SITE_STRING, .is_inner = 1 },
	{ "unlinkat", .kind = FLOW_SITE_STRING, .argument = 1 },
	{ "symlink", .kind = FLOW_SITE_STRING, .argument = 1 },
	{ "link", .kind = FLOW_SITE_STRING, .argument = 1 },
	{ "dlopen", .kind = FLOW_SITE_STRING },
	{ "rename", .kind = FLOW_SITE_STRING, .argument = 1 },
	{ "mkdir", .kind = FLOW_SITE_STRING },
	{ "chdir", .kind = FLOW_SITE_STRING },
	{ "execve", .kind = FLOW_SITE_PROGRAM, .is_quiet = 1, .is_inner = 1 },
	{ "execv", .kind = FLOW_SITE_PROGRAM },
	{ "execvp", .kind = FLOW_SITE_PROGRAM },
	{ "execvpe", .kind = FLOW_SITE_PROGRAM, .is_inner = 1 },
	{ "execl", .kind = FLOW_SITE_LIST },
	{ "execlp", .kind = FLOW_SITE_LIST },
	{ "execle", .kind = FLOW_SITE_LIST },
	{ "posix_spawn", .kind = FLOW_SITE_SPAWN, .is_inner = 1 },
	{ "posix_spawnp", .kind = FLOW_SITE_SPAWN },
	{ "system", .kind = FLOW_SITE_STRING },
	{ "popen", .kind = FLOW_SITE_STRING },
};

static uint16_t by_address[HASH]; /* index + 1 */
static char sink_names[FLOW_PLACES][FLOW_NAME + 16];

static uint32_t site_row(uint64_t pc)
{
	return (uint32_t)(pc * HASH_MIX >> 40) % HASH;
}

const struct flow_site *flow_site_at(uint64_t pc)
{
	uint32_t i = site_row(pc);

	for (; by_address[i]; i = (i + 1) % HASH)
		if (flow_sites[by_address[i] - 1].address == pc)
			return &flow_sites[by_address[i] - 1];
	return NULL;
}

int flow_site_is_of_user(const struct flow_site *site)
{
	return site->kind == FLOW_SITE_ARGUMENT || site->kind == FLOW_SITE_RESULT ||
	       site->kind == FLOW_SITE_VALUE;
}

int flow_site_is_called(const struct flow_site *site, const uint64_t *regs)
{
	const uint64_t *caller = (const uint64_t *)(uintptr_t)(regs[INSN_RSP] + site->caller_above);

	return !site->caller || (regs[INSN_RCX] == site->address && *caller == site->caller);
}

/* Behind those that are there; of a function of libc one is enough. */
static void add_to(uint32_t first, const struct flow_site *site)
{
	uint32_t last = first;

	for (;; last = flow_sites[last].next - 1u) {
		if (flow_sites[last].caller == site->caller && !flow_site_is_of_user(site) &&
		    !flow_site_is_of_user(&flow_sites[last]))
			return;
		if (!flow_sites[last].next)
			break;
	}
	flow_sites[flow_site_count++] = *site;
	flow_sites[last].next = (uint16_t)flow_site_count;
}

static void add_site(const struct flow_site *site)
{
	uint32_t i = site_row(site->address);
	const struct flow_site *there = flow_site_at(site->address);

	if (flow_site_count == FLOW_SITES)
		return;
	if (there) {
		add_to((uint32_t)(there - flow_sites), site);
		return;
	}
	while (by_address[i])
		i = (i + 1) % HASH;
	flow_sites[flow_site_count++] = *site;
	by_address[i] = (uint16_t)flow_site_count;
}

/* ---- functions of libc ---- */

static uint64_t function_bytes(uint64_t address)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!dladdr1((void *)(uintptr_t)address, &info, (void **)&symbol, RTLD_DL_SYMENT) ||
	    !symbol)
		return 0;
	return symbol->st_size < FUNCTION_MAX ? symbol->st_size : 0;
}

/* Writes to eax as they are written before a system call: mov $number, %eax and xor %eax, %eax. */
static long number_set(const uint8_t *bytes, const struct insn *insn, long before)
{
	uint32_t number;

	if (!(insn->writes & 1u << INSN_RAX))
		return before;
	if (insn->length == 5 && bytes[0] == 0xb8) {
		memcpy(&number, bytes + 1, sizeof(number));
		return number;
	}
	return insn->length == 2 && bytes[0] == 0x31 && bytes[1] == 0xc0 ? 0 : -1;
}

/* Behind the system call: its registers are as before it, except for the result. */
static void add_behind(const struct known *k, uint64_t address, uint64_t caller, uint32_t above)
{
	const struct flow_site site = {
		.address = address,
		.kind = k->kind,
		/* open() becomes openat(), which has the path second. */
		.argument = k->number == SYS_openat ? 1 : k->argument,
		.has_fd = k->has_fd,
		.is_inner = k->is_inner,
		.has_peer = k->has_peer,
		.is_behind = 1,
		.caller = caller,
		.caller_above = (uint16_t)above,
		.name = k->name,
	};

	add_site(&site);
}

/* The function that is called with that number on the stack makes the call. */
static void add_shared(const struct known *k, uint64_t function, uint64_t caller)
{
	struct flow_shared_call calls[FLOW_SHARED_CALLS];
	const uint32_t n = flow_shared_calls(function, flow_libc_start, flow_libc_end, calls);

	for (uint32_t i = 0; i < n; i++)
		add_behind(k, calls[i].behind, caller, calls[i].above);
}

/* push $number */
static long number_pushed(const uint8_t *bytes, const struct insn *insn, long before)
{
	int32_t number;

	if (insn->length == 2 && bytes[0] == 0x6a)
		return (int8_t)bytes[1];
	if (insn->length != 5 || bytes[0] != 0x68)
		return before;
	memcpy(&number, bytes + 1, sizeof(number));
	return number;
}

static void add_behind_call(const struct known *k, uint64_t address)
{
	const uint64_t bytes = function_bytes(address);
	struct insn insn;
	long number = -1;
	long pushed = -1;

	for (uint64_t at = 0; at < bytes; at += insn.length) {
		const uint8_t *text = (const uint8_t *)(uintptr_t)(address + at);

		if (insn_decode(text, bytes - at, &insn))
			return;
		const uint64_t behind = address + at + insn.length;
		if (insn.kind == INSN_SYSCALL && number == k->number)
			add_behind(k, behind, 0, 0);
		if (insn.kind == INSN_CALL && pushed == k->number)
			add_shared(k, address + at + (uint64_t)insn.target, behind);
		number = number_set(text, &insn, number);
		pushed = number_pushed(text, &insn, pushed);
	}
}

static void *find_known(void *libc, const struct known *k)
{
	void *found = dlsym(libc, k->name);

	return found ? found : dlvsym(libc, k->name, "GLIBC_PRIVATE");
}

static void add_known(void *libc)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct known *k = &known[i];
		const uint64_t address = (uint64_t)(uintptr_t)find_known(libc, k);

		if (!address ||
		    (k->kind == FLOW_SITE_GETENV && !flow_region->settings.environment[0]))
			continue;
		if (k->number || k->kind < FLOW_SITE_GETENV)
			add_behind_call(k, address);
		if (k->kind < FLOW_SITE_GETENV || k->kind == FLOW_SITE_RESUME)
			continue;
		const struct flow_site site = { .address = address,
						.kind = k->kind,
						.argument = k->argument,
						.has_fd = k->has_fd,
						/* Natively it is inspected behind the call. */
						.is_quiet = k->is_quiet || k->number,
						.is_inner = k->is_inner,
						.has_peer = k->has_peer,
						.name = k->name };
		add_site(&site);
	}
}

/* ---- functions that the user named ---- */

static int add_returns(const struct flow_place *p, uint64_t address)
{
	const uint64_t bytes = address == p->address ? p->bytes : function_bytes(address);
	const uint32_t before = flow_site_count;
	struct insn insn;

	for (uint64_t at = 0; at < bytes && bytes < FUNCTION_MAX; at += insn.length) {
		const uint8_t *text = (const uint8_t *)(uintptr_t)(address + at);

		if (insn_decode(text, bytes - at, &insn))
			break;
		if (insn.kind != INSN_RETURN || flow_site_count - before == RETURNS_MAX)
			continue;
		const struct flow_site site = { .address = address + at,
						.kind = FLOW_SITE_RESULT,
						.name = p->name };
		add_site(&site);
	}
	return flow_site_count != before;
}

/*
 * The function that calls of this name reach. In a library with several versions it is the one that
 * is not for old programs. For memcpy() and its like it is the one that the loader has chosen
 * (ifunc).
 */
static uint64_t function_of(const struct flow_place *p, uint8_t *is_chosen)
{
	const char *colon = strrchr(p->name, ':');
	void *found = dlsym(RTLD_DEFAULT, colon ? colon + 1 : p->name);
	const ElfW(Sym) *symbol = NULL;
	Dl_info named;
	Dl_info reached;

	*is_chosen = 0;
	if (!found || !dladdr((void *)(uintptr_t)p->address, &named) ||
	    !dladdr1(found, &reached, (void **)&symbol, RTLD_DL_SYMENT) ||
	    named.dli_fbase != reached.dli_fbase)
		return p->address;
	*is_chosen = !symbol || reached.dli_saddr != found ||
		     ELF64_ST_TYPE(symbol->st_info) != STT_FUNC;
	return (uint64_t)(uintptr_t)found;
}

static int add_place(const struct flow_place *p, char *sink_name, char *why, size_t n)
{
	struct flow_site site = { .kind = p->origin == FLOW_ORIGINS ? FLOW_SITE_VALUE :
								      FLOW_SITE_ARGUMENT,
				  .argument = (uint8_t)((p->argument - 1) % 6),
				  .name = p->name };

	if (p->origin == FLOW_FROM_VARIABLE) {
		if (flow_variable_count < FLOW_VARIABLES)
			flow_variables[flow_variable_count++] = (struct flow_variable){
				.address = p->address,
				.bytes = (uint32_t)p->bytes,
				.origin = FLOW_FROM_VARIABLE,
				.name = p->name,
			};
		return 0;
	}
	/* Trapline's handlers call it too, where a trap would kill: it is seen in windows only. */
	site.address = function_of(p, &site.is_quiet);
	if (site.is_quiet && p->origin != FLOW_ORIGINS) {
		snprintf(why, n, "%.*s has several implementations, so it can be a sink only",
			 (int)sizeof(p->name), p->name);
		return -EOPNOTSUPP;
	}
	if (p->origin == FLOW_FROM_RESULT) {
		if (add_returns(p, site.address))
			return 0;
		snprintf(why, n, "%.*s does not end with a return", (int)sizeof(p->name), p->name);
		return -ENOENT;
	}
	if (p->origin == FLOW_ORIGINS) {
		snprintf(sink_name, FLOW_NAME, "%.40s:arg%u", p->name, p->argument);
		site.name = sink_name;
	}
	add_site(&site);
	return 0;
}

/* ---- all of them ---- */

static int is_found(const char *name)
{
	for (uint32_t i = 0; i < flow_site_count; i++)
		if (flow_sites[i].is_behind && !strcmp(flow_sites[i].name, name))
			return 1;
	return 0;
}

int flow_sites_find(char *why, size_t n)
{
	const struct flow_settings *set = &flow_region->settings;
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	struct dl_find_object object;

	if (!libc || _dl_find_object(dlsym(libc, "read"), &object)) {
		snprintf(why, n, "the process does not use the GNU libc");
		return -ENOENT;
	}
	flow_libc_start = (uint64_t)(uintptr_t)object.dlfo_map_start;
	flow_libc_end = (uint64_t)(uintptr_t)object.dlfo_map_end;
	for (uint32_t i = 0; i < set->place_count && i < FLOW_PLACES; i++) {
		int err = add_place(&set->places[i], sink_names[i], why, n);

		if (err)
			return err;
	}
	add_known(libc);
	if (set->from_read && !is_found("read")) {
		snprintf(why, n, "the system call of read() is not found in its libc");
		return -EOPNOTSUPP;
	}
	return 0;
}
