/* SPDX-License-Identifier: MIT */
/* probe_record.c - see probe_record.h. Texts and stacks are read in a way that cannot fault. */
#include "trap/probe_record.h"

#include <string.h>
#include <sys/prctl.h>

#include "base/sys.h"
#include "base/trap_path.h"
#include "event/arch_regs.h"
#include "record/layout.h"
#include "trap/arch.h"

#define NAME_NS 10000000u

TRAP_PATH static void write_texts(struct record *record, const struct trapline_hit *hit,
				  uint32_t texts, char *at)
{
	for (uint32_t i = 0; i < RECORD_REGS; i++) {
		if (!(texts >> i & 1))
			continue;
		ssize_t got = sys_read_memory(hit->pid, record->regs[i], at, RECORD_TEXT_BYTES - 1);
		if (got > 0) {
			at[got] = '\0';
			record->texts |= 1ull << i;
			at += RECORD_TEXT_BYTES;
		}
	}
}

/* To ask the kernel costs as much as all the rest of a record. A thread seldom changes its name. */
static __thread struct known_name {
	uint64_t read_ns;
	char name[16];
} known_name __attribute__((tls_model("initial-exec")));

TRAP_PATH static void get_name(uint64_t now_ns, char *out)
{
	if (now_ns - known_name.read_ns > NAME_NS) {
		sys2(SYS_prctl, PR_GET_NAME, known_name.name);
		known_name.read_ns = now_ns;
	}
	memcpy(out, known_name.name, sizeof(known_name.name));
}

/* As where a function is entered: in a register, or where the call has just touched the stack. */
TRAP_PATH static void get_caller(const ucontext_t *context, uint64_t *out)
{
	const struct arch_caller caller = arch_caller(1);

	arch_register(context, caller.reg, out);
	if (caller.in_memory)
		memcpy(out, (const void *)(uintptr_t)*out, sizeof(*out));
}

TRAP_PATH static void write_record(struct record *record, const struct trapline_hit *hit,
				   const struct probe_record_wish *wish)
{
	char *behind = (char *)(record + 1);

	memset(record, 0, offsetof(struct record, thread));
	record->event = wish->event;
	record->syscall = (uint64_t)-1;
	record->time_ns = hit->time_ns;
	record->pid_tid = (uint64_t)hit->pid << 32 | (uint32_t)hit->tid;
	record->address = hit->address;
	for (uint32_t i = 0; i < RECORD_REGS; i++)
		arch_register(hit->context, i, &record->regs[i]);
	get_name(hit->time_ns, record->thread);
	get_caller(hit->context, &record->caller);
	write_texts(record, hit, wish->texts, behind);
	behind += wish->texts_bytes;
	for (uint32_t i = 0; i < wish->vectors; i++, behind += RECORD_VECTOR_BYTES) {
		uint64_t words[2] = { 0, 0 };

		arch_vector(hit->context, i, words);
		memcpy(behind, words, sizeof(words));
	}
	if (!wish->stack_bytes)
		return;
	ssize_t got = sys_read_memory(hit->pid, hit->sp, behind, wish->stack_bytes);
	record->stack_len = got > 0 ? (uint64_t)got : 0;
}

TRAP_PATH int probe_record_write(const struct hit_slots *slots, const struct trapline_hit *hit,
				 const struct probe_record_wish *wish)
{
	uint64_t position;
	struct record *record = hit_ring_reserve(slots, &position);

	if (!record)
		return 0;
	write_record(record, hit, wish);
	return hit_ring_commit(slots, position) ? 1 : -1;
}
