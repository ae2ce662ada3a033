/* SPDX-License-Identifier: MIT */
/* death.c - see death.h. */
#include "report/finding/death.h"

#include "base/hash.h"
#include "report/dwarf/symbols.h"
#include "report/finding/finding_place.h"
#include "report/finding/sarif.h"
#include "report/run/run_text.h"
#include "report/safe/clean.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SECCOMP_CODE 1 /* SYS_SECCOMP, which not each libc has */

/* What the code of the kernel states of the address, or of the instruction. */
static const struct {
	int signal;
	int code;
	const char *name;
	const char *text;
} codes[] = {
	{ SIGSEGV, SEGV_MAPERR, "SEGV_MAPERR", "which is not mapped" },
	{ SIGSEGV, SEGV_ACCERR, "SEGV_ACCERR", "which the mapping does not permit" },
	{ SIGSEGV, SEGV_BNDERR, "SEGV_BNDERR", "which is out of bounds" },
	{ SIGSEGV, SEGV_PKUERR, "SEGV_PKUERR", "which a protection key does not permit" },
	{ SIGBUS, BUS_ADRALN, "BUS_ADRALN", "which is not aligned" },
	{ SIGBUS, BUS_ADRERR, "BUS_ADRERR", "which has no memory or file behind it" },
	{ SIGBUS, BUS_OBJERR, "BUS_OBJERR", "whose memory has an error" },
	{ SIGBUS, BUS_MCEERR_AR, "BUS_MCEERR_AR", "whose memory has an error" },
	{ SIGBUS, BUS_MCEERR_AO, "BUS_MCEERR_AO", "whose memory has an error" },
	{ SIGFPE, FPE_INTDIV, "FPE_INTDIV", "an integer was divided by zero" },
	{ SIGFPE, FPE_INTOVF, "FPE_INTOVF", "an integer overflowed" },
	{ SIGFPE, FPE_FLTDIV, "FPE_FLTDIV", "a number was divided by zero" },
	{ SIGFPE, FPE_FLTOVF, "FPE_FLTOVF", "a number overflowed" },
	{ SIGFPE, FPE_FLTUND, "FPE_FLTUND", "a number underflowed" },
	{ SIGFPE, FPE_FLTRES, "FPE_FLTRES", "a result is not exact" },
	{ SIGFPE, FPE_FLTINV, "FPE_FLTINV", "an operation is not valid" },
	{ SIGILL, ILL_ILLOPC, "ILL_ILLOPC", "the instruction is not valid" },
	{ SIGILL, ILL_ILLOPN, "ILL_ILLOPN", "the instruction is not valid" },
	{ SIGILL, ILL_ILLADR, "ILL_ILLADR", "the instruction is not valid" },
	{ SIGILL, ILL_PRVOPC, "ILL_PRVOPC", "the instruction is privileged" },
	{ SIGTRAP, TRAP_BRKPT, "TRAP_BRKPT", "a breakpoint instruction" },
	{ SIGTRAP, TRAP_TRACE, "TRAP_TRACE", "a single step" },
	{ SIGSYS, SECCOMP_CODE, "SYS_SECCOMP", "a filter forbids the system call" },
};

static const char *name_of_code(int signal, int code, const char **text)
{
	*text = NULL;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].signal == signal && codes[i].code == code) {
			*text = codes[i].text;
			return codes[i].name;
		}
	switch (code) {
	case SI_KERNEL:
		*text = signal == SIGSEGV ? "no address is known: it is not canonical" : NULL;
		return "SI_KERNEL";
	case SI_USER:
		return "SI_USER";
	case SI_TKILL:
		return "SI_TKILL";
	case SI_QUEUE:
		return "SI_QUEUE";
	default:
		return NULL;
	}
}

bool death_is_fault(int signal)
{
	static const int faults[] = { SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGFPE,
				      SIGSEGV, SIGBUS, SIGSYS,	SIGXCPU, SIGXFSZ };

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i] == signal)
			return true;
	return false;
}

void death_signal_name(int signal, char *text, size_t n)
{
	const char *name = sigabbrev_np(signal);

	if (name)
		snprintf(text, n, "SIG%s", name);
	else
		snprintf(text, n, "signal %d", signal);
}

/* The frame to be inspected first: of the program rather than of libc. NULL: there is no frame. */
static const struct run_frame *death_frame(const struct death *d)
{
	for (size_t i = 0; i < d->frame_count; i++)
		if (d->frames[i].place.module && !symbols_is_system(d->frames[i].place.module))
			return &d->frames[i];
	return d->frame_count ? &d->frames[0] : NULL;
}

void death_name(struct death *d)
{
	const struct run_frame *frame = death_frame(d);
	uint64_t hash = finding_hash(HASH_START, "death");
	char text[32];

	death_signal_name(d->signal, text, sizeof(text));
	hash = finding_hash(hash, text);
	if (frame && frame->place.module)
		hash = finding_hash(hash, frame->place.module);
	if (frame && frame->place.function) {
		hash = finding_hash(hash, frame->place.function);
	} else if (frame) {
		snprintf(text, sizeof(text), "%" PRIx64, frame->place.module_offset);
		hash = finding_hash(hash, text);
	}
	finding_fingerprint(hash, d->fingerprint);
}

/* ---- text ---- */

void death_sender_text(const struct death *d, char *text, size_t n)
{
	*text = '\0';
	if (d->sender && d->sender == d->pid)
		snprintf(text, n, ", sent by the process itself");
	else if (d->sender)
		snprintf(text, n, ", sent by process %d%s%s%s", d->sender,
			 d->sender_name[0] ? " (" : "", d->sender_name,
			 d->sender_name[0] ? ")" : "");
}

static void print_cause(const struct death *d, FILE *f)
{
	char sender[64];
	const char *text;

	name_of_code(d->signal, d->code, &text);
	death_sender_text(d, sender, sizeof(sender));
	fputs(sender, f);
	bool is_jump = d->frame_count && d->frames[0].ip == d->address;
	if (d->has_address && (d->signal == SIGSEGV || d->signal == SIGBUS))
		fprintf(f, ": %s to 0x%" PRIx64 "%s%s", is_jump ? "jump" : "access", d->address,
			text ? ", " : "", text ? text : "");
	else if (text)
		fprintf(f, ": %s", text);
}

void death_print_text(const struct death *d, bool has_color, FILE *f)
{
	const struct run_frame *frame = death_frame(d);
	char signal[32];

	death_signal_name(d->signal, signal, sizeof(signal));
	fprintf(f, "%sdeath: %s", has_color ? "\033[1m" : "", signal);
	print_cause(d, f);
	if (frame && frame->place.function)
		fprintf(f, ", in %s", frame->place.function);
	fprintf(f, " [%s]%s\n", d->fingerprint, has_color ? "\033[0m" : "");
	fprintf(f, "  process %d, thread %d (%s)", d->pid, d->tid, d->thread);
	if (d->frame_count)
		fputs(":\n", f);
	else
		fprintf(f, "; its stack is not known: %s\n", d->why);
	run_text_frames(f, d->frames, d->frame_count);
	fputc('\n', f);
}

/* ---- JSON ---- */

static void add_death_moment(const struct death *d, json_t *j)
{
	const struct run_frame *frame = death_frame(d);
	const struct run_frame *top = d->frame_count ? &d->frames[0] : NULL;
	const struct finding_moment moment = {
		.tid = d->tid,
		.thread = d->thread,
		.time_ns = d->time_ns,
		.function = frame ? frame->place.function : NULL,
		.place = frame ? &frame->place : NULL,
		.via = frame != top ? top->place.function : NULL,
		.frames = d->frames,
		.frame_count = d->frame_count,
	};

	finding_json_moment(j, &moment);
}

void death_print_json(const struct death *d, FILE *f)
{
	char signal[32];
	const char *text;
	const struct finding head = {
		.type = "death",
		.kind = signal,
		.fingerprint = d->fingerprint,
		.count = d->count,
		.pid = d->pid,
		.time_ns = d->time_ns,
	};

	death_signal_name(d->signal, signal, sizeof(signal));
	json_t *j = finding_json(&head);
	json_t *first = json_object();
	add_death_moment(d, first);
	json_object_set_new(j, "first", first);
	json_object_set_new(j, "address", d->has_address ? run_json_hex(d->address) : json_null());
	json_object_set_new(j, "code", finding_json_text(name_of_code(d->signal, d->code, &text)));
	json_object_set_new(j, "sender", d->sender ? json_integer(d->sender) : json_null());
	json_object_set_new(j, "sender_name", finding_json_text(d->sender_name));
	json_object_set_new(j, "why", finding_json_text(d->why));
	run_jsonl_line(f, j);
}

/* ---- from JSON ---- */

static const char *text_of(const json_t *j, const char *name)
{
	return clean_name(json_string_value(json_object_get(j, name)));
}

static int64_t number_of(const json_t *j, const char *name)
{
	const json_t *value = json_object_get(j, name);

	if (json_is_string(value))
		return (int64_t)strtoull(json_string_value(value), NULL, 16);
	return json_integer_value(value);
}

static void copy_text(const json_t *j, const char *name, char *out, size_t n)
{
	const char *text = text_of(j, name);

	snprintf(out, n, "%s", text ? text : "");
}

static int signal_of(const char *text)
{
	char name[32];

	for (int i = 1; text && i <= SIGRTMAX; i++) {
		death_signal_name(i, name, sizeof(name));
		if (!strcmp(text, name))
			return i;
	}
	return 0;
}

static int code_of(int signal, const char *name)
{
	static const int general[] = { SI_KERNEL, SI_USER, SI_TKILL, SI_QUEUE };
	const char *text;

	for (size_t i = 0; name && i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].signal == signal && !strcmp(codes[i].name, name))
			return codes[i].code;
	for (size_t i = 0; name && i < sizeof(general) / sizeof(general[0]); i++)
		if (!strcmp(name_of_code(0, general[i], &text), name))
			return general[i];
	return 0;
}

static void read_frame(const json_t *j, struct run_frame *f)
{
	*f = (struct run_frame){
		.ip = (uint64_t)number_of(j, "ip"),
		.is_inlined = json_is_true(json_object_get(j, "inlined")),
		.place = { .function = text_of(j, "function"),
			   .offset = (uint64_t)number_of(j, "offset"),
			   .module = text_of(j, "module"),
			   .module_offset = (uint64_t)number_of(j, "module_offset"),
			   .file = text_of(j, "file"),
			   .line = (int)number_of(j, "line") },
	};
}

bool death_read_json(const json_t *j, struct death *out)
{
	const json_t *first = json_object_get(j, "first");
	const json_t *stack = json_object_get(first, "stack");
	const char *type = json_string_value(json_object_get(j, "type"));
	int signal = signal_of(json_string_value(json_object_get(j, "kind")));

	if (!type || strcmp(type, "death") != 0 || !signal)
		return false;
	*out = (struct death){ .pid = (pid_t)number_of(j, "pid"),
			       .tid = (pid_t)number_of(first, "tid"),
			       .time_ns = (uint64_t)number_of(j, "time_ns"),
			       .signal = signal,
			       .code = code_of(signal, text_of(j, "code")),
			       .has_address = json_is_string(json_object_get(j, "address")),
			       .address = (uint64_t)number_of(j, "address"),
			       .sender = (pid_t)number_of(j, "sender"),
			       .count = (uint64_t)number_of(j, "count") };
	copy_text(first, "thread", out->thread, sizeof(out->thread));
	copy_text(j, "sender_name", out->sender_name, sizeof(out->sender_name));
	copy_text(j, "why", out->why, sizeof(out->why));
	copy_text(j, "fingerprint", out->fingerprint, sizeof(out->fingerprint));
	while (out->frame_count < DEATH_FRAMES && out->frame_count < json_array_size(stack)) {
		read_frame(json_array_get(stack, out->frame_count), &out->frames[out->frame_count]);
		out->frame_count++;
	}
	return true;
}

/* ---- SARIF ---- */

json_t *death_sarif_rule(void)
{
	static const struct sarif_rule rule = {
		"death",
		"Death",
		"A signal ended the program.",
		"The result is at the instruction that the signal came from, or at the call of the "
		"C library that raised it.",
		"error",
		{ "crash" },
	};

	return sarif_rule(&rule);
}

json_t *death_sarif_result(const struct death *d, int rule)
{
	static const struct place nowhere;
	const struct run_frame *frame = death_frame(d);
	const struct place *at = frame ? &frame->place : &nowhere;
	char signal[32];
	char address[32] = "";
	char text[400];

	death_signal_name(d->signal, signal, sizeof(signal));
	if (d->has_address)
		snprintf(address, sizeof(address), " at 0x%" PRIx64, d->address);
	snprintf(text, sizeof(text), "%s%s in %.200s, thread %d (%s)", signal, address,
		 at->function ? at->function : "?", d->tid, d->thread);
	return json_pack("{s:s, s:i, s:s, s:o, s:[o], s:[o], s:{s:s}, s:I}", "ruleId", "death",
			 "ruleIndex", rule, "level", "error", "message", sarif_message(text),
			 "locations", sarif_location(at, at->file, NULL), "stacks",
			 sarif_stack(d->frames, d->frame_count, text), "partialFingerprints",
			 "traplineDeath/v1", d->fingerprint, "occurrenceCount",
			 sarif_count(d->count));
}
