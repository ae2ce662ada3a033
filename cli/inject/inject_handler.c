/* SPDX-License-Identifier: MIT */
/*
 * inject_handler.c - whether a thread has signals blocked because it is in a handler.
 *
 * The kernel puts a frame on the stack before it calls a handler. Its first word leads to code that
 * makes rt_sigreturn(2), and the mask that the thread gets back is in it.
 */
#include "cli/inject/inject_handler.h"
#include "cli/inject/inject_call.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

#define PAGE_BYTES 4096u
#define PAGES 32u /* of the stack, which are inspected */
#define FLAGS_MOST 15u
#define CS 18u
#define CODE_64 0x33u
#define NEVER_BLOCKED (1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1))

/* struct rt_sigframe of the kernel, x86-64. */
struct frame {
	uint64_t restorer;
	uint64_t flags;
	uint64_t link;
	uint64_t stack[3];
	uint64_t registers[32];
	uint64_t mask;
};

static size_t read_memory(pid_t pid, uint64_t address, void *bytes, size_t n)
{
	const struct iovec local = { bytes, n };
	const struct iovec remote = { (void *)(uintptr_t)address, n };
	const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return got < 0 ? 0 : (size_t)got;
}

static bool is_restorer(pid_t pid, uint64_t address)
{
	static const uint8_t wide[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t narrow[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint8_t bytes[sizeof(wide)];

	return read_memory(pid, address, bytes, sizeof(bytes)) == sizeof(bytes) &&
	       (!memcmp(bytes, wide, sizeof(wide)) || !memcmp(bytes, narrow, sizeof(narrow)));
}

/* The code is read last: few words of a stack get so far. */
static bool is_frame(pid_t pid, const struct frame *f)
{
	return !f->link && f->flags <= FLAGS_MOST && (f->registers[CS] & 0xffff) == CODE_64 &&
	       !(f->mask & NEVER_BLOCKED) && is_restorer(pid, f->restorer);
}

/* Page by page: what lies behind the stack may not be there. */
static size_t read_stack(pid_t pid, uint64_t from, uint8_t *bytes)
{
	size_t want = PAGE_BYTES - from % PAGE_BYTES;
	size_t n = 0;

	for (size_t page = 0; page < PAGES; page++) {
		const size_t got = read_memory(pid, from + n, bytes + n, want);

		n += got;
		if (got != want)
			break;
		want = PAGE_BYTES;
	}
	return n;
}

bool handler_opens_at(pid_t pid, uint64_t stack, uint64_t signals)
{
	static uint8_t bytes[PAGES * PAGE_BYTES];
	const uint64_t from = ((stack + 7) & ~15ull) + 8; /* a frame begins so, as after a call */
	const size_t n = read_stack(pid, from, bytes);
	struct frame frame;

	for (size_t at = 0; at + sizeof(frame) <= n; at += 16) {
		memcpy(&frame, bytes + at, sizeof(frame));
		if (is_frame(pid, &frame) && !(frame.mask & signals))
			return true;
	}
	return false;
}

int handler_opens(pid_t pid, pid_t tid, uint64_t signals)
{
	uint64_t stack;

	return call_stack(pid, tid, &stack) ? handler_opens_at(pid, stack, signals) : -EAGAIN;
}
