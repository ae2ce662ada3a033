/* SPDX-License-Identifier: MIT */
/* race_words.c - see race_words.h. */
#include "record/race_words.h"

#include "record/share_head.h"

const char *const race_names[] = {
	"type",	 "kind",   "grade",	 "fingerprint", "count",    "pid",    "time_ns",
	"first", "second", "address",	 "size",	"variable", "memory", "block",
	"old",	 "new",	   "stalled_ns", "why",		"varied",
};

const char *const race_side_names[] = {
	"access", "locked", "tid", "thread", "time_ns", "function", "module",	"module_path",
	"file",	  "line",   "via", "stack",  "ip",	"decoded",  "build_id", "line_in_function",
};

const char *const race_frame_names[] = {
	"ip", "function", "offset", "module", "module_offset", "file", "line",
};

static struct race_value word(const char *text)
{
	return race_value_text(text, UINT32_MAX);
}

static struct race_value boolean(int is)
{
	return (struct race_value){ .kind = RACE_VALUE_BOOLEAN, .number = is != 0 };
}

const char *race_memory_name(uint32_t memory)
{
	static const char *const names[] = {
		[RACE_MEMORY_UNKNOWN] = "unknown", [RACE_MEMORY_FILE] = "file",
		[RACE_MEMORY_HEAP] = "heap",	   [RACE_MEMORY_ANONYMOUS] = "anonymous",
		[RACE_MEMORY_STACK] = "stack",	   [RACE_MEMORY_SHARED] = "shared",
	};

	return names[memory <= RACE_MEMORY_SHARED ? memory : RACE_MEMORY_UNKNOWN];
}

static struct race_value part(enum race_value_kind kind, const void *of)
{
	return (struct race_value){ .kind = kind, .part = of };
}

struct race_words race_words(const struct race_record *record, struct race_judgement judgement)
{
	static const char *const letters[] = { "A", "B", "C" };
	int is_unknown = (record->flags & RACE_UNKNOWN_ORIGIN) != 0;

	return (struct race_words){
		.type = word("race"),
		.grade = word(letters[judgement.grade % 3]),
		.kind = word(race_kind(record)),
		.first = part(RACE_VALUE_SIDE, &record->first),
		.second = part(is_unknown ? RACE_VALUE_NULL : RACE_VALUE_SIDE, &record->second),
		.address = race_value_hex(record->address),
		.size = race_value_number(record->len),
		.memory = word(race_memory_name(record->memory)),
		.old = race_value_number(record->old_value),
		.new = race_value_number(record->new_value),
		.stalled_ns = race_value_number(record->stalled_ns),
		.why = word(judgement.why),
		.pid = race_value_signed(record->pid),
		.time_ns = race_value_number(record->time_ns),
	};
}

struct race_side_words race_side_words(const struct race_side *side)
{
	struct race_side_words w = {
		.access = word(race_access_name(side->access)),
		.locked = boolean(side->flags & RACE_LOCKED),
		.tid = race_value_signed(side->tid),
		.stack = part(RACE_VALUE_STACK, side),
	};

	if (side->thread[0])
		w.thread = race_value_text(side->thread, sizeof(side->thread));
	w.ip = race_value_hex(side->ip);
	w.decoded = boolean(side->flags & RACE_DECODED);
	return w;
}

const char *race_access_name(unsigned int access)
{
	static const char *const names[] = { "unknown", "read", "write", "read-modify-write" };

	return names[access & 3];
}

const char *race_side_access_name(const struct race_side *side)
{
	return side->flags & RACE_LOCKED ? "locked read-modify-write" :
					   race_access_name(side->access);
}

const char *race_kind(const struct race_record *record)
{
	if (record->flags & RACE_UNKNOWN_ORIGIN)
		return "unknown-origin";
	return record->first.access & record->second.access & RACE_WRITE ? "write-write" :
									   "read-write";
}

const char *race_step_name(uint32_t step)
{
	static const char *const names[RACE_STEPS] = {
		[RACE_STEP_NONE] = "",
		[RACE_STEP_SIGNAL] = "SIGTRAP cannot be handled",
		[RACE_STEP_TIMER] = "a task clock cannot be opened (perf_event_open)",
		[RACE_STEP_WATCH] =
			"a watchpoint cannot be opened (debug registers in use or missing)",
		[RACE_STEP_BREAK] = "no debug register is left for a breakpoint",
		[RACE_STEP_DECODER] = "libZydis is not installed",
		[RACE_STEP_RUNTIME] = "it is a Go program, whose runtime handles all signals",
		[RACE_STEP_SECCOMP] = "a seccomp filter forbids system calls of the detector",
		[RACE_STEP_OWN_TRAP] =
			"the program takes SIGTRAP itself, while it has the signal blocked",
		[RACE_STEP_DESCRIPTORS] =
			"there are not enough file descriptors (5 per thread are needed)",
		[RACE_STEP_UNWATCHED] =
			"trapline did not respond for a minute; the agent assumed it had exited",
		[RACE_STEP_REPLACED] = RUN_REPLACED_TRAP,
		[RACE_STEP_FILTER_UNKNOWN] =
			"/proc/self/status is not readable there, so a seccomp filter cannot be "
			"excluded (mount proc at /proc)",
	};

	return names[step < RACE_STEPS ? step : RACE_STEP_NONE];
}
