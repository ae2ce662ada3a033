/* SPDX-License-Identifier: MIT */
/* kernel_symbols.c - see kernel_symbols.h. */
#include "cli/break/kernel_symbols.h"

#include "base/clock.h"
#include "cli/launch/process_name.h"
#include "cli/observe/hit_frames.h"
#include "cli/observe/targets_find.h"
#include "report/code/syscall_names.h"
#include "report/safe/clean.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS 2000000u /* a process executes no program more often */
#define FRAMES_MAX 12
#define REGISTERS_MAX 33

/* Those that run already; what they execute later, and other programs, the kernel records. */
static void add_all(struct kernel_symbols *k)
{
	DIR *dir = opendir("/proc");

	for (struct dirent *e; dir && (e = readdir(dir));)
		if (atoi(e->d_name) > 0)
			target_names_add(&k->names, atoi(e->d_name));
	if (dir)
		closedir(dir);
}

int kernel_symbols_begin(struct kernel_symbols *k, struct symbols *first, pid_t pid, bool is_any)
{
	k->first = first;
	k->first_layout = targets_layout(pid);
	target_names_open(&k->names, first, pid, is_any ? "" : NULL);
	if (is_any)
		add_all(k);
	return symbols_open_empty(&k->nameless);
}

void kernel_symbols_look(struct kernel_symbols *k)
{
	target_names_look(&k->names);
}

static void close_own(struct kernel_symbols *k, struct kernel_process *p)
{
	if (p->symbols != k->first && p->symbols != k->nameless)
		symbols_close(p->symbols);
	p->symbols = NULL;
}

static void let_go(struct kernel_symbols *k, struct kernel_process *p)
{
	close_own(k, p);
	target_name_close(&p->at);
}

/* That process, a free row, or the one that was not used for longest. */
static struct kernel_process *row_of(struct kernel_symbols *k, pid_t pid)
{
	struct kernel_process *oldest = &k->process[0];

	for (size_t i = 0; i < KERNEL_PROCESSES_MAX; i++) {
		struct kernel_process *p = &k->process[i];

		if (p->pid == pid)
			return p;
		oldest = p->used_ns < oldest->used_ns ? p : oldest;
	}
	let_go(k, oldest);
	*oldest = (struct kernel_process){ .pid = pid };
	return oldest;
}

/* A child has the layout of its parent until it executes a program. */
static void choose_symbols(struct kernel_symbols *k, struct kernel_process *p)
{
	const uint64_t layout = targets_layout(p->pid);

	/* It has ended: what was known of it is still right for its last hits. */
	if (p->symbols && (!layout || layout == p->layout))
		return;
	close_own(k, p);
	p->layout = layout;
	if (layout && layout == k->first_layout)
		p->symbols = k->first;
	else if (!layout || symbols_open(p->pid, &p->symbols))
		p->symbols = k->nameless;
	k->without_names += p->symbols == k->nameless;
}

/* Where the kernel has no records of it: the process is inspected now. */
static void look_at(struct kernel_symbols *k, struct kernel_process *p, uint64_t now)
{
	if (p->symbols && now - p->looked_ns < LOOK_NS)
		return;
	choose_symbols(k, p);
	p->looked_ns = now;
}

struct kernel_process *kernel_symbols_of(struct kernel_symbols *k, const struct trapline_hit *hit)
{
	const uint64_t now = clock_now_ns();
	struct kernel_process *p = row_of(k, hit->pid);
	struct symbols *recorded = target_names_of(&k->names, hit, &p->at);

	if (!recorded)
		look_at(k, p, now);
	if (hit->tid == hit->pid)
		memcpy(p->name, hit->thread, sizeof(p->name));
	else if (!p->name[0])
		process_name(p->pid, p->name, sizeof(p->name));
	clean_text(p->name);
	p->used_ns = now;
	p->now = recorded ? recorded : p->symbols;
	symbols_read_from(p->now, p->pid);
	return p;
}

/* `__libc_close`, `__open64`: the function of the C library, which a static program contains. */
static bool is_wrapper(const char *function, const char *call)
{
	static const char *const prefixes[] = { "__libc_", "__GI_", "__", "_" };
	size_t len = call ? strlen(call) : 0;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(function, prefixes[i], strlen(prefixes[i]))) {
			function += strlen(prefixes[i]);
			break;
		}
	if (!strncmp(function, "syscall", 7) || !strncmp(function, "SYS_", 4))
		return true;
	/* openat is made by open() too. */
	if (len > 2 && !strcmp(call + len - 2, "at"))
		len -= 2;
	return len && !strncmp(function, call, len) &&
	       (!function[len] || !strcmp(function + len, "64") || !strcmp(function + len, "at") ||
		!strcmp(function + len, "at64") || !strcmp(function + len, "_nocancel") ||
		!strcmp(function + len, "64_nocancel"));
}

/* Go has the call in packages of its own. */
static bool is_go_wrapper(const char *function)
{
	static const char *const packages[] = { "syscall.", "internal/runtime/syscall.",
						"runtime/internal/syscall.", "internal/syscall/" };

	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++)
		if (!strncmp(function, packages[i], strlen(packages[i])))
			return true;
	return false;
}

static bool is_library(struct symbols *s, uint64_t ip, bool is_first, const char *call)
{
	struct place place;

	hit_place(s, ip, !is_first, &place);
	if (!place.function)
		return is_first || symbols_is_system(place.module);
	return is_wrapper(place.function, call) || is_go_wrapper(place.function) ||
	       (place.module && symbols_is_system(place.module));
}

uint64_t kernel_symbols_caller(struct symbols *s, const struct trapline_hit *hit)
{
	const char *call = syscall_name(hit->syscall);
	uint64_t regs[REGISTERS_MAX];
	uint64_t ips[FRAMES_MAX];
	size_t count = 0;

	if (symbols_is_32bit(s))
		return 0;
	while (count < REGISTERS_MAX &&
	       !trapline_hit_register(hit, (unsigned int)count, &regs[count]))
		count++;
	size_t n = symbols_unwind(s, regs, count, hit->stack_bytes, hit->stack_bytes_len, hit->sp,
				  ips, FRAMES_MAX);
	for (size_t i = 0; i < n; i++)
		if (!is_library(s, ips[i], i == 0, call))
			return ips[i];
	return n > 1 ? ips[1] : n ? ips[0] : 0;
}

void kernel_symbols_end(struct kernel_symbols *k)
{
	for (size_t i = 0; i < KERNEL_PROCESSES_MAX; i++)
		if (k->process[i].pid)
			let_go(k, &k->process[i]);
	target_names_close(&k->names);
	symbols_close(k->nameless);
	k->nameless = NULL;
}
