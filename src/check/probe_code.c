/* SPDX-License-Identifier: MIT */
/* probe_code.c - probes of changing one's own code, and what a trap instruction costs. */
#include "check/probe_code.h"
#include "check/probe.h"
#include "check/probe_util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "check/probe_arch.h"
#include "code/mem.h"

static int membarrier(int command)
{
	return (int)sys3(SYS_membarrier, command, 0, 0);
}

void probe_membarrier_sync_core(struct probe_result *r)
{
	int err = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE);

	if (!err)
		err = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
	if (err)
		return probe_no(
			r,
			"use kernel 4.16 or later; in a container, allow it in the seccomp profile",
			"membarrier(PRIVATE_EXPEDITED_SYNC_CORE): %s", strerrorname_np(-err));
	probe_yes(r, "registered and called once");
}

/* Each way writes "return n" over probe_number(); 0 or -errno. */
static int poke_by_fd(struct mem *mem, uint8_t n)
{
	uint8_t code[PROBE_CODE_MAX];
	size_t len = probe_return_code(code, n);
	char *at = (char *)(uintptr_t)probe_number;
	int err = mem_write(mem, (uintptr_t)at, code, len);

	mem_close(mem);
	__builtin___clear_cache(at, at + len);
	return err;
}

static int poke_by_mem(uint8_t n)
{
	struct mem mem = MEM_NONE;

	mem.may_trace = 0;
	return poke_by_fd(&mem, n);
}

static int poke_by_tracee(uint8_t n)
{
	struct mem mem = MEM_NONE;
	int err = mem_open_traced(&mem);

	mem.may_trace = 0;
	return err ? err : poke_by_fd(&mem, n);
}

/* Writable and executable at once: the page may contain the code that runs here. */
static int poke_by_mprotect(uint8_t n)
{
	uint8_t code[PROBE_CODE_MAX];
	size_t len = probe_return_code(code, n);
	char *at = (char *)(uintptr_t)probe_number;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *start = (void *)((uintptr_t)at & ~(page - 1));

	if (mprotect(start, page, PROT_READ | PROT_WRITE | PROT_EXEC))
		return -errno;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-write-to-const" /* the purpose of this probe */
	memcpy(at, code, len);
#pragma GCC diagnostic pop
	__builtin___clear_cache(at, at + len);
	return mprotect(start, page, PROT_READ | PROT_EXEC) ? -errno : 0;
}

#define FORCE_REMEDY "boot with proc_mem.force_override=always"

static const struct writer {
	const char *name;
	int (*poke)(uint8_t n);
	const char *remedy;
} writers[] = {
	{ "/proc/self/mem", poke_by_mem, FORCE_REMEDY "; the next two ways serve as well" },
	{ "/proc/PID/mem of a traced helper", poke_by_tracee,
	  "allow ptrace (kernel.yama.ptrace_scope=1) and run without a seccomp filter, or " FORCE_REMEDY },
	{ "mprotect", poke_by_mprotect, "allow it in the security module (SELinux: execmod)" },
};

/* Tries one way, with a number of its own. */
static int is_written(size_t way, char *says, size_t size)
{
	int number = (int)way + 2;
	int err = writers[way].poke((uint8_t)number);
	int is = !err && probe_number() == number;

	snprintf(says, size, "%s",
		 err ? strerrorname_np(-err) :
		 is  ? "new code ran" :
		       "old code ran");
	return is;
}

static void probe_writer(struct probe_result *r, size_t way)
{
	char says[32];
	int is = is_written(way, says, sizeof(says));

	probe_say(r, is, writers[way].remedy, "own text by %s: %s", writers[way].name, says);
}

void probe_text_by_mem(struct probe_result *r)
{
	probe_writer(r, 0);
}

void probe_text_by_tracee(struct probe_result *r)
{
	probe_writer(r, 1);
}

void probe_text_by_mprotect(struct probe_result *r)
{
	probe_writer(r, 2);
}

void probe_patch_text(struct probe_result *r)
{
	char says[3][32];
	int is = 0;

	for (size_t i = 0; i < 3; i++)
		is |= is_written(i, says[i], sizeof(says[i]));
	probe_say(r, is, "allow it in the security module (SELinux: execmod), or " FORCE_REMEDY,
		  "own text by /proc/self/mem: %s; by a traced helper: %s; by mprotect: %s",
		  says[0], says[1], says[2]);
}

static void poke_once(void *arg)
{
	uint8_t code[PROBE_CODE_MAX];
	size_t len = probe_return_code(code, 1);

	if (pwrite(*(int *)arg, code, len, (off_t)(uintptr_t)probe_number) < 0)
		*(int *)arg = -1;
}

double probe_cost_poke(void)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	double ns = probe_median(poke_once, &fd, 200);
	return fd < 0 ? -1 : ns;
}

static void barrier_once(void *arg)
{
	(void)arg;
	membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
}

double probe_cost_membarrier(void)
{
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE))
		return -1;
	return probe_median(barrier_once, NULL, 200);
}

static void call_code(void *arg)
{
	((void (*)(void))arg)();
}

double probe_cost_int3(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *code = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		return -1;
	size_t len = probe_trap_code((uint8_t *)code);
	__builtin___clear_cache(code, code + len);
	if (mprotect(code, page, PROT_READ | PROT_EXEC))
		return -1;
	probe_catch();
	double ns = probe_median(call_code, code, 200);
	return probe_trap.others ? ns : -1;
}
