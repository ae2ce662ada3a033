/* SPDX-License-Identifier: MIT */
/* probe_code.c - probes of changing one's own code, and what a trap instruction costs. */
#include "event/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"
#include "event/probe_arch.h"

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
			"kernel 4.16 or later; in a container, a seccomp profile with it",
			"membarrier(PRIVATE_EXPEDITED_SYNC_CORE): %s",
			strerrorname_np(-err));
	probe_yes(r, "registered and called once");
}

/* Each way writes "return n" over probe_number(); 0 or -errno. */
static int poke_by_mem(uint8_t n)
{
	uint8_t code[PROBE_CODE_MAX];
	size_t len = probe_return_code(code, n);
	char *at = (char *)(uintptr_t)probe_number;
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ssize_t done = pwrite(fd, code, len, (off_t)(uintptr_t)at);
	int err = done == (ssize_t)len ? 0 : -errno;
	close(fd);
	__builtin___clear_cache(at, at + len);
	return err;
}

/* Writable and executable at once: the page may hold the code that runs here. */
static int poke_by_mprotect(uint8_t n)
{
	uint8_t code[PROBE_CODE_MAX];
	size_t len = probe_return_code(code, n);
	char *at = (char *)(uintptr_t)probe_number;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *start = (void *)((uintptr_t)at & ~(page - 1));

	if (mprotect(start, page, PROT_READ | PROT_WRITE | PROT_EXEC))
		return -errno;
	memcpy(at, code, len);
	__builtin___clear_cache(at, at + len);
	return mprotect(start, page, PROT_READ | PROT_EXEC) ? -errno : 0;
}

static const char *outcome(int err, int returned, int wanted)
{
	if (err)
		return strerrorname_np(-err);
	return returned == wanted ? "new code ran" : "old code ran";
}

void probe_patch_text(struct probe_result *r)
{
	int by_mem = poke_by_mem(2);
	const char *mem_says = outcome(by_mem, probe_number(), 2);
	int is_mem = !by_mem && probe_number() == 2;
	int by_mprotect = poke_by_mprotect(3);
	const char *mprotect_says = outcome(by_mprotect, probe_number(), 3);
	int is_mprotect = !by_mprotect && probe_number() == 3;

	probe_say(r, is_mem || is_mprotect,
		  "allow it in the security module (SELinux: execmod), or boot with "
		  "proc_mem.force_override=always",
		  "own text by /proc/self/mem: %s; by mprotect: %s", mem_says,
		  mprotect_says);
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
	char *code = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

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
