/* SPDX-License-Identifier: MIT */
/*
 * heap_death.c - see heap_death.h.
 *
 * glibc's allocator inspects its own data, and aborts with a text if they are damaged: often
 * because of a block that is not sampled. The text shows what it noticed, and the stack where. Only
 * a few texts are proof of the error itself.
 */
#include "heap/heap_death.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <ucontext.h>

#include "base/after_fork.h"
#include "base/atomic.h"
#include "base/sys.h"
#include "guest/kernel_action.h"
#include "heap/heap.h"
#include "heap/heap_fault.h"
#include "heap/heap_tell.h"
#include "trap/arch.h"
#include "trap/stack.h"

#define DEEP 64u /* frames, of which those of libc do not count */

static const int signals[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL };
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

/* As glibc has it for debuggers and core files. */
struct abort_text {
	unsigned int size;
	char text[];
};
static struct abort_text **abort_text;
static const struct link_map *libc_map;
static const struct link_map *own_map;

/* What malloc() and its family state. */
static const struct {
	const char *begins;
	enum heap_kind kind;
} texts[] = {
	{ "free(): double free detected in tcache", HEAP_DOUBLE_FREE },
	{ "double free or corruption (fasttop)", HEAP_DOUBLE_FREE },
	{ "double free or corruption", HEAP_CORRUPTION },
	{ "free(): ", HEAP_CORRUPTION },
	{ "malloc(): ", HEAP_CORRUPTION },
	{ "malloc_consolidate(): ", HEAP_CORRUPTION },
	{ "realloc(): ", HEAP_CORRUPTION },
	{ "munmap_chunk(): ", HEAP_CORRUPTION },
	{ "mremap_chunk(): ", HEAP_CORRUPTION },
	{ "corrupted ", HEAP_CORRUPTION },
	{ "break adjusted to free malloc space", HEAP_CORRUPTION },
	{ "malloc.c:", HEAP_CORRUPTION },
	{ "Fatal glibc error: malloc.c:", HEAP_CORRUPTION },
};

static const struct link_map *map_of(uint64_t address)
{
	struct dl_find_object object;

	return _dl_find_object((void *)(uintptr_t)address, &object) ? NULL : object.dlfo_link_map;
}

/* The function of libc that the program called comes first. */
static uint32_t find_call(const uint64_t *frames, uint32_t count)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct link_map *map = map_of(frames[i]);

		if (map == libc_map)
			first = i;
		else if (map != own_map)
			break;
	}
	return first;
}

static void tell_text(const ucontext_t *context)
{
	const struct abort_text *said = abort_text ? atomic_get(abort_text) : NULL;
	struct heap_error error = { .message = said ? said->text : NULL };
	uint64_t frames[DEEP];
	size_t i = 0;

	while (said && i < sizeof(texts) / sizeof(texts[0]) &&
	       strncmp(said->text, texts[i].begins, strlen(texts[i].begins)) != 0)
		i++;
	if (!said || i == sizeof(texts) / sizeof(texts[0]))
		return;
	error.kind = texts[i].kind;
	error.grade = error.kind == HEAP_CORRUPTION ? HEAP_GRADE_B : HEAP_GRADE_A;
	uint32_t count = stack_unwind(arch_pc(context), frames, DEEP);
	uint32_t from = find_call(frames, count);
	error.frames = frames + from;
	error.frame_count = count - from;
	heap_tell(&error);
}

struct death {
	int signal;
	const ucontext_t *context;
};

static void tell_death(void *arg)
{
	const struct death *death = arg;

	if (death->signal == SIGABRT)
		tell_text(death->context);
	heap_end();
}

static void on_death(int signal, siginfo_t *info, void *context)
{
	const struct sigaction action = { .sa_handler = SIG_DFL };
	struct death death = { signal, context };
	int saved = errno;

	if (heap_pid == sys_getpid() && !heap_is_over)
		heap_fault_call(tell_death, &death);
	kernel_sigaction(signal, &action, NULL);
	/* It waits until this handler returns. */
	sys4(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), signal, info);
	errno = saved;
}

static bool is_of_death(int signal)
{
	for (size_t i = 0; i < SIGNALS; i++)
		if (signals[i] == signal)
			return true;
	return false;
}

void heap_death_to_kernel(int signal, struct sigaction *action)
{
	if (!is_of_death(signal) || action->sa_handler != SIG_DFL)
		return;
	action->sa_sigaction = on_death;
	action->sa_flags |= SA_SIGINFO | SA_ONSTACK;
	action->sa_flags &= ~(SA_NODEFER | (int)SA_RESETHAND);
}

void heap_death_from_kernel(int signal, struct sigaction *old)
{
	if (!is_of_death(signal) || old->sa_sigaction != on_death)
		return;
	old->sa_handler = SIG_DFL;
	old->sa_flags &= ~(SA_SIGINFO | SA_ONSTACK);
}

/*
 * The kernel cannot replace an action on a condition. So the program's calls wait while it is read,
 * replaced and, where the program was faster, put back. A handler can interrupt a call and make
 * another one: begin_change() never waits for calls while others wait for it.
 */
static uint32_t calls; /* of the program that are between enter and exit */
static uint32_t is_changing;

#define NAP_NS 20000
#define NAPS_MOST 500

static void nap(void)
{
	const struct timespec pause = { 0, NAP_NS };

	sys_nap(&pause);
}

void heap_death_enter(int signal)
{
	if (!is_of_death(signal))
		return;
	atomic_add(&calls, 1u);
	for (unsigned int i = 0; atomic_get(&is_changing) && i < NAPS_MOST; i++) {
		atomic_add(&calls, -1u);
		nap();
		atomic_add(&calls, 1u);
	}
}

/* After a fork in a handler the count is 0 already. */
void heap_death_exit(int signal)
{
	if (is_of_death(signal) && atomic_get(&calls))
		atomic_add(&calls, -1u);
}

AT_FORK void heap_death_forked(void)
{
	atomic_set_if_other(&calls, 0u);
	atomic_set_if_other(&is_changing, 0u);
}

/* No call of the program runs from now on, until is_changing is 0 again. */
static void begin_change(void)
{
	for (unsigned int i = 0; i < NAPS_MOST; i++) {
		atomic_set(&is_changing, 1u);
		if (!atomic_get(&calls))
			return;
		atomic_set(&is_changing, 0u);
		nap();
	}
	/* A call that never ended: its thread left it by longjmp(). */
	atomic_set(&is_changing, 1u);
}

/* From one action to the other, where it is there. */
static void change(void (*from)(int, siginfo_t *, void *), bool is_ours)
{
	struct sigaction action;
	struct sigaction old;

	begin_change();
	for (size_t i = 0; i < SIGNALS; i++) {
		if (kernel_sigaction(signals[i], NULL, &action) || action.sa_sigaction != from)
			continue;
		if (is_ours)
			heap_death_to_kernel(signals[i], &action);
		else
			heap_death_from_kernel(signals[i], &action);
		/* Another thread of the program set its own in the meantime. */
		if (!kernel_sigaction(signals[i], &action, &old) && old.sa_sigaction != from)
			kernel_sigaction(signals[i], &old, NULL);
	}
	atomic_set(&is_changing, 0u);
}

void heap_death_start(void)
{
	abort_text = dlsym(RTLD_DEFAULT, "__abort_msg");
	libc_map = map_of((uintptr_t)dlsym(RTLD_DEFAULT, "strlen"));
	own_map = map_of((uintptr_t)on_death);
	change((void (*)(int, siginfo_t *, void *))(uintptr_t)SIG_DFL, true);
}

void heap_death_leave(void)
{
	change(on_death, false);
}
