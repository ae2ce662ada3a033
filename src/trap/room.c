/* SPDX-License-Identifier: MIT */
/*
 * room.c - has the stack of the interrupted thread room for what comes next?
 *
 * A thread is not asked before its signal, so the first frame is there already: on x86-64 some 3
 * KiB, with wider registers up to 11. A thread of PTHREAD_STACK_MIN has 11 KiB in all. Anything in
 * addition is done only where it fits, together with one more signal on top of it. A sample can
 * come at any moment, and a stall is long enough for signals of the program. Where not even that
 * fits, SIGTRAP stays blocked until the handler is left.
 *
 * It is not on a stack of Trapline's own. A handler of the program on top of a stall may be a
 * garbage collector's, which takes its stack pointer for the end of what is to be scanned.
 *
 * The frame that is there shows how large one more will be: the kernel saves the registers that the
 * thread has a right to. Its own figure for all programs (AT_MINSIGSTKSZ) counts those that a
 * thread must ask for, as 8 KiB of tile registers on some processors. By that figure no thread of
 * PTHREAD_STACK_MIN had room.
 *
 * Below a stack is a page that cannot be read, and behind that perhaps the stack of another thread.
 * So each page on the way is asked for. An alternate stack has an end that is known. A stack
 * without either, as coroutines may have, looks as large as the memory that it lies in.
 */
#include <sys/uio.h>

#include "base/after_fork.h"
#include "base/memory.h"
#include "base/sys.h"
#include "base/trap_path.h"
#include "trap/arch.h"
#include "trap/room.h"

#define PAGES_MAX 10u
/*
 * A frame without the vector registers: return address, context, siginfo, what it takes to align
 * them.
 */
#define FRAME_BYTES 528u

AFTER_FORK struct trap_room trap_room;

struct room_thread {
	uint64_t alternate_end; /* 0: not on it */
	uint64_t signal_bytes;	/* of one more signal; 0: as in all threads */
};

static __thread struct room_thread self __attribute__((tls_model("initial-exec")));

TRAP_PATH void trap_note_stack(const ucontext_t *context)
{
	const stack_t *stack = &context->uc_stack;
	uint64_t here = (uintptr_t)__builtin_frame_address(0);
	uint64_t low = (uintptr_t)stack->ss_sp;
	uint64_t vectors = arch_vector_bytes(context);

	self.alternate_end = here - low < stack->ss_size ? low : 0;
	self.signal_bytes = vectors ? vectors + FRAME_BYTES : 0;
}

TRAP_PATH static uint64_t signal_bytes(void)
{
	uint64_t bytes = self.signal_bytes;

	return (bytes ? bytes : trap_room.signal_bytes) + trap_room.handler_bytes;
}

TRAP_PATH int trap_has_room(uint64_t bytes)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);
	uint64_t lowest = here - bytes - signal_bytes();
	uint64_t page = here & ~(uint64_t)(PAGE_BYTES - 1);
	struct iovec remote[PAGES_MAX];
	char read[PAGES_MAX];
	struct iovec local = { read, sizeof(read) };
	long n = 0;

	if (lowest < self.alternate_end)
		return 0;
	/* It is mapped when it is needed. */
	if (lowest >= trap_room.first_low && here < trap_room.first_high)
		return 1;
	for (; page > lowest && n < (long)PAGES_MAX; n++) {
		page -= PAGE_BYTES;
		remote[n] = (struct iovec){ (void *)(uintptr_t)page, 1 };
	}
	return sys6(SYS_process_vm_readv, trap_room.pid, &local, 1, remote, n, 0) == n;
}
