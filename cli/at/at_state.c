/* SPDX-License-Identifier: MIT */
/* at_state.c - see at_state.h. */
#include "cli/at/at_state.h"

#include "cli/observe/hit_frames.h"
#include "report/run/run_text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES_MAX 64
#define STACK_BYTES 65536

/* Group-stop outlasts being traced, when that began with SEIZE. */
int at_state_read(pid_t pid, pid_t tid, struct at_state *out)
{
	int status;
	int err = 0;

	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)AT_STEP_OPTIONS))
		return -errno;
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	if (waitpid(tid, &status, __WALL) != tid)
		err = -errno;
	if (!err)
		err = at_step(pid, tid, &out->steps);
	if (!err && !out->steps.is_over)
		err = at_regs_read(tid, out->regs);
	/* If the command has ended, its death lets the process continue. */
	if (out->steps.is_let_go && err != -ECHILD)
		kill(pid, SIGSTOP);
	/* After executing a program it has the id of the process. */
	if (ptrace(PTRACE_DETACH, tid, NULL, NULL) && tid != pid)
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
	return err;
}

static size_t unwind(struct symbols *s, const struct at_state *state, struct run_frame *frames)
{
	static unsigned char stack[STACK_BYTES];
	const uint64_t sp = state->regs[at_register_sp];
	uint64_t ips[FRAMES_MAX];
	size_t n = sizeof(stack);

	/* The stack may end sooner than that. */
	while (n >= 4096 && symbols_read(s, sp, stack, n))
		n /= 2;
	n = symbols_unwind(s, state->regs, at_register_count, stack, n, sp, ips, FRAMES_MAX);
	return frames_of(s, ips, n, false, frames);
}

static json_t *json_address(uint64_t number)
{
	return json_sprintf("0x%" PRIx64, number);
}

void at_state_json(FILE *f, struct symbols *s, const struct at_state *state, bool with_stack)
{
	json_t *regs = json_object();
	json_t *j = json_object();
	struct run_frame frames[RUN_FRAMES_MAX];
	struct place p;

	symbols_place(s, state->regs[at_register_count - 1], &p);
	for (size_t i = 0; i < at_register_count; i++)
		json_object_set_new(regs, at_register_names[i], json_address(state->regs[i]));
	json_object_set_new(j, "type", json_string("point"));
	json_object_set_new(j, "count",
			    state->count ? json_integer((json_int_t)state->count) : json_null());
	json_object_set_new(j, "ip", json_address(state->regs[at_register_count - 1]));
	json_object_set_new(j, "function", p.function ? json_string(p.function) : json_null());
	json_object_set_new(j, "regs", regs);
	if (state->has_steps)
		json_object_set_new(j, "steps", json_integer((json_int_t)state->steps.made));
	if (state->counter) {
		json_object_set_new(j, "counter", json_string(state->counter));
		json_object_set_new(j, "value", json_integer((json_int_t)state->value));
	}
	if (with_stack)
		json_object_set_new(j, "stack", run_jsonl_frames(frames, unwind(s, state, frames)));
	run_jsonl_line(f, j);
}

void at_state_text(FILE *f, struct symbols *s, const struct at_state *state, const char *location,
		   bool with_stack)
{
	struct run_frame frames[RUN_FRAMES_MAX];

	fprintf(f, "at %s", location);
	if (state->count)
		fprintf(f, "#%" PRIu64, state->count);
	if (state->has_steps)
		fprintf(f, "+%" PRIu64, state->steps.made);
	if (state->counter)
		fprintf(f, "%s%s %" PRIu64, state->count ? ", " : " at ", state->counter,
			state->value);
	fputc(':', f);
	for (size_t i = 0; i < at_register_count; i++)
		fprintf(f, "%s%-3s 0x%016" PRIx64, i % 4 ? "  " : "\n    ", at_register_names[i],
			state->regs[i]);
	fputc('\n', f);
	if (with_stack)
		run_text_frames(f, frames, unwind(s, state, frames));
}
