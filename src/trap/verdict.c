/* SPDX-License-Identifier: MIT */
/*
 * verdict.c - see verdict.h: where the kernel cannot decide, the interpreter does.
 *
 * Memory is read by a system call that reports a fault instead of raising one. One that copies
 * costs a microsecond. For the variables of the object whose code was hit there is a faster way.
 * Nothing unmaps them while a thread runs there, so it is enough that another system call could
 * read them just now.
 */
#include "base/general_regs.h"

#include "base/trap_path.h"
#include "trap/verdict.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "event/arch_regs.h"
#include "trap/arch.h"

/* Thread-local memory is taken from every thread's stack, so there are few of these. */
#define THREAD_SLOTS 16

struct thread_count {
	uint32_t generation; /* first_generation of the event that counts here */
	uint32_t index;
	uint64_t hits;
};

static __thread struct thread_count in_thread[THREAD_SLOTS]
	__attribute__((tls_model("initial-exec")));
static uint32_t slots_taken;

int condition_take_thread_slot(struct trapline_event *ev)
{
	uint32_t taken = atomic_get(&slots_taken);

	for (uint32_t i = 0; i < THREAD_SLOTS; i++) {
		if (taken >> i & 1)
			continue;
		if (atomic_cas(&slots_taken, &taken, taken | 1u << i)) {
			ev->thread_slot = i + 1;
			return 0;
		}
		i = UINT32_MAX; /* another thread took or gave one: search again */
	}
	return -ENOSPC;
}

void condition_give_thread_slot(struct trapline_event *ev)
{
	uint32_t taken = atomic_get(&slots_taken);

	if (!ev->thread_slot)
		return;
	while (!atomic_cas(&slots_taken, &taken, taken & ~(1u << (ev->thread_slot - 1))))
		;
	ev->thread_slot = 0;
}

TRAP_PATH uint64_t condition_hit_in_thread(const struct trapline_event *ev)
{
	struct thread_count *count = &in_thread[ev->thread_slot - 1];

	if (count->generation != ev->first_generation || count->index != ev->index)
		*count = (struct thread_count){ ev->first_generation, ev->index, 0 };
	return ++count->hits;
}

TRAP_PATH static int get_register(const struct trapline_hit *hit, uint32_t number, uint64_t *out)
{
	if (hit->context && number >= RECORD_VECTOR_FIRST)
		return arch_vector_word(hit->context, number - RECORD_VECTOR_FIRST, out);
	if (hit->context)
		return arch_register(hit->context, number, out);
	if (!hit->regs || number >= RECORD_REGS)
		return -ENODATA;
	*out = hit->regs[number];
	return 0;
}

TRAP_PATH static int env_reg(const struct cond_env *env, uint32_t number, uint64_t *out)
{
	const struct condition_input *input = env->arg;

	return get_register(input->hit, number, out);
}

/* The kernel's order: it reads the set, and then finds that there is no such operation. */
TRAP_PATH static int word_is_readable(uint64_t address)
{
	const long none = -1;

	return sys4(SYS_rt_sigprocmask, none, address & ~7ull, 0, sizeof(uint64_t)) == -EINVAL;
}

/* 1; 0: it is not there, or this is unknown. */
TRAP_PATH static int read_variable(const struct trapline_event *ev, uint64_t address, void *buf,
				   uint32_t n)
{
	const volatile void *from = (const volatile void *)(uintptr_t)address;
	uint8_t one;
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	if (!n || n > sizeof(eight) || address % n || address < ev->object_start ||
	    address >= ev->object_end || ev->object_end - address < n || !word_is_readable(address))
		return 0;
	/* By one instruction each: another thread may write there. */
	switch (n) {
	case 1:
		one = *(const volatile uint8_t *)from;
		memcpy(buf, &one, sizeof(one));
		return 1;
	case 2:
		two = *(const volatile uint16_t *)from;
		memcpy(buf, &two, sizeof(two));
		return 1;
	case 4:
		four = *(const volatile uint32_t *)from;
		memcpy(buf, &four, sizeof(four));
		return 1;
	case 8:
		eight = *(const volatile uint64_t *)from;
		memcpy(buf, &eight, sizeof(eight));
		return 1;
	default:
		return 0;
	}
}

TRAP_PATH static int env_read(const struct cond_env *env, uint64_t address, void *buf, uint32_t n)
{
	const struct condition_input *input = env->arg;

	if (read_variable(input->event, address, buf, n))
		return 0;
	return sys_read_memory(input->hit->pid, address, buf, n) == (ssize_t)n ? 0 : -EFAULT;
}

TRAP_PATH static int get_caller(const struct cond_env *env, const struct condition_input *input,
				uint64_t *out)
{
	struct arch_caller caller = arch_caller(input->event->access == TRAPLINE_EXECUTE);
	int err = get_register(input->hit, caller.reg, out);

	if (err || !caller.in_memory)
		return err;
	return env_read(env, *out + (uint64_t)(int64_t)caller.add, out, sizeof(*out));
}

TRAP_PATH static int get_value(const struct trapline_hit *hit, enum cond_term term, uint64_t *out)
{
	if (hit->value_when == TRAPLINE_VALUE_NONE)
		return -EFAULT;
	*out = term == COND_NEW ? hit->new_value :
	       term == COND_OLD ? hit->old_value :
				  hit->old_value != hit->new_value;
	return 0;
}

TRAP_PATH static int env_term(const struct cond_env *env, enum cond_term term, uint64_t *out)
{
	const struct condition_input *input = env->arg;
	const struct trapline_hit *hit = input->hit;

	switch (term) {
	case COND_NEW:
	case COND_OLD:
	case COND_CHANGED:
		return get_value(hit, term, out);
	case COND_CALLER:
		return get_caller(env, input, out);
	case COND_ADDR:
		*out = hit->address;
		return 0;
	case COND_IP:
		*out = hit->ip;
		return 0;
	case COND_TID:
		*out = (uint64_t)hit->tid;
		return 0;
	case COND_PID:
		*out = (uint64_t)hit->pid;
		return 0;
	case COND_CPU:
		*out = input->cpu;
		return 0;
	case COND_HITS:
		*out = input->hits;
		return 0;
	default:
		*out = input->hits_in_thread;
		return *out ? 0 : -ENOSPC; /* more threads than can be distinguished */
	}
}

TRAP_PATH static int env_count(const struct cond_env *env, uint32_t index, uint64_t *out)
{
	const struct condition_input *input = env->arg;
	const struct event_counted *counted = &input->event->counted[index];

	if (counted->control) {
		*out = atomic_get(&counted->control->hits);
		return 0;
	}
	*out = atomic_get(&counted->row->hits);
	return atomic_get(&counted->row->first_generation) == counted->generation ? 0 : -ESTALE;
}

TRAP_PATH static void env_thread(const struct cond_env *env, char *name)
{
	const struct condition_input *input = env->arg;

	memset(name, 0, COND_THREAD_NAME);
	if (input->thread)
		memcpy(name, input->thread, COND_THREAD_NAME);
	else
		sys2(SYS_prctl, PR_GET_NAME, name);
}

TRAP_PATH int condition_holds(struct trapline_event *ev, const struct condition_input *input)
{
	struct cond_env env = {
		.term = env_term,
		.reg = env_reg,
		.count = env_count,
		.read = env_read,
		.thread = env_thread,
		.arg = input,
	};
	int holds = cond_eval(ev->condition, &env);

	if (holds > 0) {
		counter_add(&ev->passed_condition, 1);
		return 1;
	}
	if (holds < 0)
		counter_add(&ev->condition_faults, 1);
	if (ev->mirror)
		counter_add(&ev->mirror->rejected_condition, 1);
	if (ev->mirror && holds < 0)
		counter_add(&ev->mirror->condition_faults, 1);
	return 0;
}
