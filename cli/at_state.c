// SPDX-License-Identifier: MIT
/* at_state.c - see at_state.h. x86-64. */
#include <stdbool.h>

#include "cli/at_state.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES_MAX 64
#define STACK_BYTES 65536

static const char *const register_names[AT_REGISTERS] = {
	"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
	"r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip",
};

/* Group-stop outlasts being traced, when that began with SEIZE. */
int at_state_read(pid_t pid, pid_t tid, struct at_state *out)
{
	struct user_regs_struct r;
	int status;
	int err = 0;

	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)AT_STEP_OPTIONS))
		return -errno;
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	if (waitpid(tid, &status, __WALL) != tid)
		err = -errno;
	if (!err)
		err = at_step(pid, tid, &out->steps);
	if (!err && !out->steps.is_over && ptrace(PTRACE_GETREGS, tid, NULL, &r))
		err = -errno;
	if (out->steps.is_let_go)
		kill(pid, SIGSTOP);
	/* After executing a program it has the id of the process. */
	if (ptrace(PTRACE_DETACH, tid, NULL, NULL) && tid != pid)
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
	if (err || out->steps.is_over)
		return err;
	const uint64_t regs[AT_REGISTERS] = { r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi,
					      r.rbp, r.rsp, r.r8,  r.r9,  r.r10, r.r11,
					      r.r12, r.r13, r.r14, r.r15, r.rip };
	memcpy(out->regs, regs, sizeof(regs));
	return 0;
}

static size_t unwind(struct symbols *s, const struct at_state *state, uint64_t *frames)
{
	static unsigned char stack[STACK_BYTES];
	size_t n = sizeof(stack);

	/* The stack may end sooner than that. */
	while (n >= 4096 && symbols_read(s, state->regs[7], stack, n))
		n /= 2;
	return symbols_unwind(s, state->regs, AT_REGISTERS, stack, n, state->regs[7], frames,
			      FRAMES_MAX);
}

static json_t *json_address(uint64_t number)
{
	return json_sprintf("0x%" PRIx64, number);
}

static json_t *json_stack(struct symbols *s, const struct at_state *state)
{
	uint64_t frames[FRAMES_MAX];
	size_t n = unwind(s, state, frames);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		struct place p;

		symbols_place(s, frames[i] - (i != 0), &p);
		json_t *frame = json_object();
		json_object_set_new(frame, "ip", json_address(frames[i]));
		json_object_set_new(frame, "function", p.function ? json_string(p.function) :
								    json_null());
		json_object_set_new(frame, "file", p.file ? json_string(p.file) : json_null());
		json_object_set_new(frame, "line", p.line ? json_integer(p.line) : json_null());
		json_array_append_new(list, frame);
	}
	return list;
}

void at_state_json(FILE *f, struct symbols *s, const struct at_state *state, bool with_stack)
{
	json_t *regs = json_object();
	json_t *j = json_object();
	struct place p;

	symbols_place(s, state->regs[16], &p);
	for (int i = 0; i < AT_REGISTERS; i++)
		json_object_set_new(regs, register_names[i], json_address(state->regs[i]));
	json_object_set_new(j, "type", json_string("point"));
	json_object_set_new(j, "count", state->count ? json_integer((json_int_t)state->count) :
						       json_null());
	json_object_set_new(j, "ip", json_address(state->regs[16]));
	json_object_set_new(j, "function", p.function ? json_string(p.function) : json_null());
	json_object_set_new(j, "regs", regs);
	if (state->has_steps)
		json_object_set_new(j, "steps", json_integer((json_int_t)state->steps.made));
	if (state->counter) {
		json_object_set_new(j, "counter", json_string(state->counter));
		json_object_set_new(j, "value", json_integer((json_int_t)state->value));
	}
	if (with_stack)
		json_object_set_new(j, "stack", json_stack(s, state));
	json_dumpf(j, f, JSON_COMPACT);
	fputc('\n', f);
	json_decref(j);
}

static void text_stack(FILE *f, struct symbols *s, const struct at_state *state)
{
	uint64_t frames[FRAMES_MAX];
	size_t n = unwind(s, state, frames);

	for (size_t i = 0; i < n; i++) {
		struct place p;

		symbols_place(s, frames[i] - (i != 0), &p);
		fprintf(f, "    #%-2zu 0x%" PRIx64 " %s", i, frames[i], p.function ? p.function : "?");
		if (p.file)
			fprintf(f, " (%s:%d)", p.file, p.line);
		fputc('\n', f);
	}
}

void at_state_text(FILE *f, struct symbols *s, const struct at_state *state, const char *place,
		   bool with_stack)
{
	fprintf(f, "at %s", place);
	if (state->count)
		fprintf(f, "#%" PRIu64, state->count);
	if (state->has_steps)
		fprintf(f, "+%" PRIu64, state->steps.made);
	if (state->counter)
		fprintf(f, "%s%s %" PRIu64, state->count ? ", " : " at ", state->counter, state->value);
	fputc(':', f);
	for (int i = 0; i < AT_REGISTERS; i++)
		fprintf(f, "%s%-3s 0x%016" PRIx64, i % 4 ? "  " : "\n    ", register_names[i],
			state->regs[i]);
	fputc('\n', f);
	if (with_stack)
		text_stack(f, s, state);
}
