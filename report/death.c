/* SPDX-License-Identifier: MIT */
/* death.c - see death.h. */
#include "report/death.h"

#include "report/dwarf/symbols.h"
#include "report/race/race_report.h"
#include "report/run/run_text.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#define SECCOMP_CODE 1 /* SYS_SECCOMP, which not each libc has */

/* What the code of the kernel says of the address, or of the instruction. */
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

const struct run_frame *death_frame(const struct death *d)
{
	for (size_t i = 0; i < d->frame_count; i++)
		if (d->frames[i].place.module && !symbols_is_system(d->frames[i].place.module))
			return &d->frames[i];
	return d->frame_count ? &d->frames[0] : NULL;
}

void death_name(struct death *d)
{
	const struct run_frame *frame = death_frame(d);
	uint64_t hash = race_hash_text(RACE_HASH_START, "death");
	char text[32];

	death_signal_name(d->signal, text, sizeof(text));
	hash = race_hash_text(hash, text);
	if (frame && frame->place.module)
		hash = race_hash_text(hash, frame->place.module);
	if (frame && frame->place.function) {
		hash = race_hash_text(hash, frame->place.function);
	} else if (frame) {
		snprintf(text, sizeof(text), "%" PRIx64, frame->place.module_offset);
		hash = race_hash_text(hash, text);
	}
	snprintf(d->fingerprint, sizeof(d->fingerprint), "%016" PRIx64, hash);
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

static json_t *name_or_null(const char *text)
{
	return run_json_text(text && *text ? text : NULL);
}

static json_t *number_or_null(int64_t number)
{
	return number ? json_integer(number) : json_null();
}

void death_print_json(const struct death *d, FILE *f)
{
	const struct run_frame *frame = death_frame(d);
	json_t *j = json_object();
	char signal[32];
	const char *text;

	death_signal_name(d->signal, signal, sizeof(signal));
	json_object_set_new(j, "type", json_string("death"));
	json_object_set_new(j, "signal", json_string(signal));
	json_object_set_new(j, "code", name_or_null(name_of_code(d->signal, d->code, &text)));
	json_object_set_new(j, "address", d->has_address ? run_json_hex(d->address) : json_null());
	json_object_set_new(j, "pid", json_integer(d->pid));
	json_object_set_new(j, "tid", number_or_null(d->tid));
	json_object_set_new(j, "thread", name_or_null(d->thread));
	json_object_set_new(j, "time_ns", number_or_null((int64_t)d->time_ns));
	json_object_set_new(j, "sender", number_or_null(d->sender));
	json_object_set_new(j, "sender_name", name_or_null(d->sender_name));
	json_object_set_new(j, "function", name_or_null(frame ? frame->place.function : NULL));
	json_object_set_new(j, "file", name_or_null(frame ? frame->place.file : NULL));
	json_object_set_new(j, "line", number_or_null(frame ? frame->place.line : 0));
	json_object_set_new(j, "stack", run_jsonl_frames(d->frames, d->frame_count));
	json_object_set_new(j, "why", name_or_null(d->why));
	json_object_set_new(j, "count", json_integer((json_int_t)d->count));
	json_object_set_new(j, "fingerprint", name_or_null(d->fingerprint));
	run_jsonl_line(f, j);
}
