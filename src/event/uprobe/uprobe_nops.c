/* SPDX-License-Identifier: MIT */
/*
 * uprobe_nops.c - see uprobe_nops.h.
 *
 * The kernel is asked in the way in which an event attaches, with one nop of each length. The child
 * is a process of its own, because the kernel maps its code for such calls into the process, and
 * leaves it.
 */
#include "event/uprobe/uprobe_nops.h"

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/atomic.h"
#include "base/memory.h"
#include "base/sys.h"
#include "code/insn/insn_uprobe.h"
#include "code/reach/code_file.h"
#include "event/uprobe/uprobe_filter.h"

#define NOP_BYTES 16 /* from one nop to the next in the code below */
#define RUNS 3	     /* the first has the breakpoint, a later one what the kernel made of it */
#define WAIT_MS 2000
#define IS_ASKED (1u << 31)
#define NOPS (UPROBE_NOP_MAX - UPROBE_NOP_MIN + 1)
#define ALL_NOPS ((2u << UPROBE_NOP_MAX) - (1u << UPROBE_NOP_MIN))

/*
 * uprobe_nops_run() fills the 128 bytes below its stack pointer with its first argument, and jumps
 * to the nop that is its second. It returns 1 if one of the bytes is another one then.
 */
__asm__(".pushsection .text\n"
	".p2align 4\n"
	".globl uprobe_nops_run\n.hidden uprobe_nops_run\n.type uprobe_nops_run, @function\n"
	"uprobe_nops_run:\n"
	"	movq $-16, %rcx\n"
	"1:	movq %rdi, (%rsp,%rcx,8)\n"
	"	incq %rcx\n"
	"	jnz 1b\n"
	"	jmp *%rsi\n"
	"2:	movq $-16, %rcx\n"
	"	xorl %eax, %eax\n"
	"3:	cmpq %rdi, (%rsp,%rcx,8)\n"
	"	je 4f\n"
	"	movl $1, %eax\n"
	"4:	incq %rcx\n"
	"	jnz 3b\n"
	"	ret\n"
	".p2align 4\n"
	".globl uprobe_nops_code\n.hidden uprobe_nops_code\n"
	"uprobe_nops_code:\n"
	"	.byte 0x0f,0x1f,0x44,0x00,0x00\n\tjmp 2b\n\t.p2align 4\n"
	"	.byte 0x66,0x0f,0x1f,0x44,0x00,0x00\n\tjmp 2b\n\t.p2align 4\n"
	"	.byte 0x0f,0x1f,0x80,0,0,0,0\n\tjmp 2b\n\t.p2align 4\n"
	"	.byte 0x0f,0x1f,0x84,0,0,0,0,0\n\tjmp 2b\n\t.p2align 4\n"
	"	.byte 0x66,0x0f,0x1f,0x84,0,0,0,0,0\n\tjmp 2b\n\t.p2align 4\n"
	"	.byte 0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0\n\tjmp 2b\n\t.p2align 4\n"
	"	.byte 0x66,0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0\n\tjmp 2b\n\t.p2align 4\n"
	".size uprobe_nops_run, .-uprobe_nops_run\n"
	".popsection\n");

extern int uprobe_nops_run(uint64_t fill, const uint8_t *nop);
extern const uint8_t uprobe_nops_code[];

static const uint8_t *nop_at(unsigned int length)
{
	return uprobe_nops_code + (length - UPROBE_NOP_MIN) * (size_t)NOP_BYTES;
}

/* What both processes see. */
struct answer {
	uint32_t writes; /* bit n: a nop of n bytes */
	uint32_t is_done;
};

/* The probes: they are closed together. */
struct asking {
	struct code_file file;
	pid_t child;
	int program; /* of links; else each is a perf event */
	int type;    /* of these */
	int fds[NOPS + 1];
	uint32_t count;
	uint32_t refused; /* bit n: the kernel sets no probe on a nop of n bytes */
};

static int attach_link(const struct asking *a, const uint64_t *offsets, uint32_t count)
{
	struct uprobe_multi link = {
		.prog_fd = (uint32_t)a->program,
		.attach_type = UPROBE_MULTI_ATTACH,
		.path = (uintptr_t)a->file.path,
		.offsets = (uintptr_t)offsets,
		.count = count,
		.pid = uprobe_filters_processes() ? (uint32_t)a->child : 0,
	};

	return sys_bpf(BPF_LINK_CREATE, (union bpf_attr *)&link, sizeof(link));
}

static int attach_event(const struct asking *a, uint64_t offset)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = (uint32_t)a->type;
	attr.uprobe_path = (uintptr_t)a->file.path;
	attr.probe_offset = offset;
	return sys_perf_event_open(&attr, a->child, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int keep_probe(struct asking *a, int fd)
{
	if (fd >= 0)
		a->fds[a->count++] = fd;
	return fd < 0 ? fd : 0;
}

/* One link for what kernels accept: each takes two grace periods of RCU to close. */
static int attach_asking(struct asking *a)
{
	uint64_t offsets[NOPS];
	uint32_t count = 0;
	int err = 0;

	for (unsigned int n = UPROBE_NOP_MIN; n <= UPROBE_NOP_MAX; n++) {
		const uint8_t *nop = nop_at(n);
		uint64_t offset = (uintptr_t)nop - a->file.start + a->file.offset;
		int looks_refused = insn_uprobe_refusal_x86_64(nop, n) != 0;

		if (a->program >= 0 && !looks_refused)
			offsets[count++] = offset;
		else if (a->program >= 0 && keep_probe(a, attach_link(a, &offset, 1)))
			a->refused |= 1u << n;
		else if (a->program < 0 && (n == 5 || n == 10) &&
			 keep_probe(a, attach_event(a, offset)))
			a->refused |= 1u << n;
	}
	if (a->program >= 0)
		err = keep_probe(a, attach_link(a, offsets, count));
	return err || !a->count ? -EOPNOTSUPP : 0;
}

static _Noreturn void child_run(struct answer *answer, const int pipe[2])
{
	uint8_t byte;

	sys_close(pipe[1]);
	if (sys_read(pipe[0], &byte, 1) == 1) {
		for (unsigned int n = UPROBE_NOP_MIN; n <= UPROBE_NOP_MAX; n++)
			for (int i = 0; i < RUNS; i++)
				if (uprobe_nops_run(0x5a5a5a5a5a5a5a5aull + n, nop_at(n)))
					answer->writes |= 1u << n;
		atomic_set(&answer->is_done, 1);
	}
	for (;;)
		sys1(SYS_exit_group, 0);
}

/* No handler of the program runs in the child, and no SIGCHLD reports its end. */
static pid_t child_start(struct answer *answer, const int pipe[2])
{
	const uint64_t all = ~0ull;
	uint64_t before;

	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(before));
	long child = sys6(SYS_clone, 0, 0, 0, 0, 0, 0);
	if (!child)
		child_run(answer, pipe);
	sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof(before));
	return (pid_t)child;
}

/* The end of its life ends its pipe. */
static void child_end(pid_t child, int is_asked)
{
	static const struct timespec pause = { .tv_nsec = 1000000 };

	for (int i = 0; is_asked && i < WAIT_MS; i++) {
		if (sys4(SYS_wait4, child, 0, WNOHANG | __WALL, 0))
			return;
		sys_nap(&pause);
	}
	sys2(SYS_kill, child, SIGKILL);
	sys4(SYS_wait4, child, 0, __WALL, 0);
}

/* 0, and what the child saw is in *answer. */
static int ask_child(struct answer *answer, struct asking *a)
{
	int pipe[2];
	int err = (int)sys2(SYS_pipe2, pipe, O_CLOEXEC);

	if (err)
		return err;
	a->child = child_start(answer, pipe);
	sys_close(pipe[0]);
	if (a->child < 0) {
		sys_close(pipe[1]);
		return a->child;
	}
	err = attach_asking(a);
	if (!err)
		err = sys_write(pipe[1], "", 1) == 1 ? 0 : -EPIPE;
	sys_close(pipe[1]);
	child_end(a->child, !err);
	while (a->count)
		sys_close(a->fds[--a->count]);
	return err || !atomic_get(&answer->is_done) ? -EOPNOTSUPP : 0;
}

int uprobe_nops_ask(uint32_t *writes)
{
	struct asking a = { .program = -1 };
	struct answer *answer = (void *)sys6(SYS_mmap, 0, PAGE_BYTES, PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory_failed(answer))
		return memory_error(answer);
	a.type = uprobe_pmu_type();
	if (uprobe_has_multi())
		a.program = uprobe_load_nothing();
	int err = code_file_find(sys_getpid(), (uintptr_t)uprobe_nops_code, &a.file);
	if (!err)
		err = ask_child(answer, &a);
	if (!err)
		*writes = answer->writes & ~a.refused;
	if (a.program >= 0)
		sys_close(a.program);
	memory_unmap(answer, PAGE_BYTES);
	return err;
}

uint32_t uprobe_nops_that_write(void)
{
	static uint32_t known;

	if (!atomic_get(&known)) {
		uint32_t writes = ALL_NOPS;

		uprobe_nops_ask(&writes);
		atomic_set(&known, writes | IS_ASKED);
	}
	return atomic_get(&known) & ~IS_ASKED;
}
#else
int uprobe_nops_ask(uint32_t *writes)
{
	*writes = 0;
	return 0;
}

uint32_t uprobe_nops_that_write(void)
{
	return 0;
}
#endif
