/* SPDX-License-Identifier: MIT */
/* inject_loader.c - see inject_loader.h. */
#include "cli/inject/inject_loader.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* It has the registers of the thread that makes it, and so its thread-local storage. */
#define FLAGS                                                                         \
	((uint64_t)CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | \
	 CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)
#define CODE_BYTES 4096u
#define LOADER_BYTES (RETURN_BYTES + CODE_BYTES)

/*
 * rbx is the address of a word that the kernel sets while the new thread is there, and r12 that of
 * the way back. The kernel wakes any thread that waits for the word as for a shared one.
 */
__asm__(".pushsection .rodata\n"
	"loader_code:\n"
	"	syscall\n" /* clone */
	"	test %eax, %eax\n"
	"	jz loader_code_exit\n"
	"1:	mov (%rbx), %edx\n"
	"	test %edx, %edx\n"
	"	jz 2f\n"
	"	mov $202, %eax\n" /* futex(word, FUTEX_WAIT, value, NULL) */
	"	mov %rbx, %rdi\n"
	"	xor %esi, %esi\n"
	"	xor %r10d, %r10d\n"
	"	syscall\n"
	"	jmp 1b\n"
	"2:	jmp *%r12\n"
	"loader_code_exit:\n"
	"	xor %edi, %edi\n"
	"	mov $60, %eax\n"
	"	syscall\n"
	"loader_code_table:\n"
	"	xor %edi, %edi\n"
	"	mov $-1, %esi\n"
	"	mov $2, %edx\n"	  /* CLOSE_RANGE_UNSHARE */
	"	mov $436, %eax\n" /* close_range */
	"	syscall\n"
	"	test %eax, %eax\n"
	"	js 4f\n"
	"	mov $3, %r8d\n"
	"3:	xor %edi, %edi\n"
	"	mov $291, %eax\n" /* epoll_create1 */
	"	syscall\n"
	"	test %eax, %eax\n"
	"	js 4f\n"
	"	dec %r8d\n"
	"	jnz 3b\n"
	"	xor %eax, %eax\n"
	"4:	ret\n"
	"loader_code_end:\n"
	".popsection\n");

extern const uint8_t loader_code[], loader_code_exit[], loader_code_table[], loader_code_end[];

static uint64_t code_of(const struct loader *l, const uint8_t *part)
{
	return l->mapped + RETURN_BYTES + (uint64_t)(part - loader_code);
}

static int map_code(struct loader *l)
{
	const size_t n = (size_t)(loader_code_end - loader_code);
	const long at = held_map(l->waits, LOADER_BYTES, PROT_READ | PROT_EXEC);

	if (at < 0)
		return (int)at;
	l->mapped = (uint64_t)at;
	return pwrite(l->waits->memory_fd, loader_code, n, (off_t)code_of(l, loader_code)) ==
			       (ssize_t)n ?
		       0 :
		       -EFAULT;
}

static void unmap_code(struct loader *l)
{
	const uint64_t code[6] = { l->mapped, LOADER_BYTES };

	if (l->mapped)
		held_syscall(l->waits, SYS_munmap, code);
	l->mapped = 0;
}

/*
 * The new thread is stopped too, before its first instruction, as ptrace(2) has it. Its number or
 * -errno.
 */
static long make_thread(struct loader *l, uint64_t word)
{
	const uint64_t args[6] = { FLAGS, 0, word, word };
	struct user_regs_struct regs;

	return_for_syscall(l->waits, &regs);
	regs.r12 = return_way_back(l->waits);
	regs.rbx = word;
	regs.rip = code_of(l, loader_code);
	return held_clone(l->waits, &regs, args);
}

/* If trapline is killed it goes the same way back as any stopped thread, which ends it. */
static int take_thread(struct loader *l, pid_t tid)
{
	struct held_thread *t = &l->thread;
	int err;

	memset(t, 0, sizeof(*t));
	t->pid = l->waits->pid;
	t->tid = tid;
	t->memory_fd = l->waits->memory_fd;
	t->gadgets = l->waits->gadgets;
	t->timeout.fd = -1;
	t->mapped = l->mapped;
	/* Below a quarter of that of the thread that waits, which uses none of it. */
	t->stack = l->waits->stack - HELD_STACK_BYTES / 4;
	t->is_loader = true;
	err = held_take_new(t, code_of(l, loader_code_exit));
	return err ? err : return_write(t);
}

/*
 * None of the program's files is in it, which would stay open. libc writes messages to the first
 * three: what is there takes no bytes.
 */
static int own_table(struct loader *l)
{
	const uint64_t none[4] = { 0 };
	uint64_t result = 0;
	const int err = held_call(&l->thread, code_of(l, loader_code_table), none, &result);

	return err ? err : (int)result;
}

int loader_begin(struct loader *l, struct held_thread *t)
{
	uint64_t zero = 0;
	uint64_t word;

	*l = (struct loader){ .waits = t };
	word = held_write(t, &zero, sizeof(zero));
	int err = word ? map_code(l) : -EFAULT;
	const long tid = err ? err : make_thread(l, word);
	if (tid < 0) {
		unmap_code(l);
		return (int)tid;
	}
	err = take_thread(l, (pid_t)tid);
	if (!err)
		err = own_table(l);
	if (err)
		loader_end(l);
	return err;
}

void loader_end(struct loader *l)
{
	struct held_thread *t = &l->thread;

	if (!t->tid)
		return;
	held_end_new(t);
	if (t->is_lost)
		held_let_go(l->waits);
	else
		unmap_code(l);
	t->tid = 0;
}
