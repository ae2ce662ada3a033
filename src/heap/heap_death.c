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

#include "base/atomic.h"
#include "base/sys.h"
#include "guest/action_gate.h"
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

/* From one action to the other, where it is there. */
static void change_one(int signal, void (*from)(int, siginfo_t *, void *), bool is_ours)
{
	struct sigaction action;
	struct sigaction old;

	if (kernel_sigaction(signal, NULL, &action) || action.sa_sigaction != from)
		return;
	if (is_ours)
		heap_death_to_kernel(signal, &action);
	else
		heap_death_from_kernel(signal, &action);
	/* A call that the gate does not know of set its own in the meantime. */
	if (!kernel_sigaction(signal, &action, &old) && old.sa_sigaction != from)
		kernel_sigaction(signal, &old, NULL);
}

static void change(void (*from)(int, siginfo_t *, void *), bool is_ours)
{
	for (size_t i = 0; i < SIGNALS; i++) {
		action_gate_shut(signals[i]);
		change_one(signals[i], from, is_ours);
		action_gate_open(signals[i]);
	}
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
