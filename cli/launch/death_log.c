/* SPDX-License-Identifier: MIT */
/* death_log.c - see death_log.h. */
#include "cli/launch/death_log.h"

#include "base/clock.h"
#include "cli/launch/process_name.h"
#include "cli/launch/program.h"
#include "cli/message.h"
#include "cli/observe/hit_frames.h"
#include "report/code/copied_code.h"
#include "report/safe/clean.h"
#include "report/safe/kept_files.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ADDRESSES_MAX 64
#define KEEP_EVERY 100u /* looks */

struct death_entry {
	struct death_entry *next;
	struct death death;
	struct symbols *symbols; /* that its names are of; NULL: those of the log */
};

void death_log_open(struct death_log *log, const char *command)
{
	log->command = command;
	log->err = death_watch_open(&log->watch);
	if (!log->err)
		log->err = mappings_open(&log->mappings);
	if (!log->err)
		return;
	death_watch_close(&log->watch);
	mappings_close(&log->mappings);
}

void death_log_close(struct death_log *log)
{
	struct death_entry *next;

	for (struct death_entry *e = log->entries; e; e = next) {
		next = e->next;
		symbols_close(e->symbols);
		free(e);
	}
	log->entries = NULL;
	symbols_close(log->symbols);
	log->symbols = NULL;
	kept_files_close(log->kept);
	log->kept = NULL;
	mapped_names_close(&log->mapped);
	death_watch_close(&log->watch);
	mappings_close(&log->mappings);
}

static bool is_open(const struct death_log *log)
{
	return log->mappings.ring_count != 0;
}

void death_log_start(struct death_log *log)
{
	if (!is_open(log))
		return;
	mappings_adopt(&log->mappings, getpid());
	log->err = death_watch_add(&log->watch, getpid());
}

void death_log_started(struct death_log *log)
{
	if (!is_open(log))
		return;
	death_watch_remove(&log->watch, getpid());
	mappings_adopt(&log->mappings, 0);
}

void death_log_attach(struct death_log *log, pid_t pid)
{
	const struct mapped_process *p;

	log->attached = pid;
	if (kept_files_open(pid, &log->kept))
		log->kept = NULL;
	if (!is_open(log))
		return;
	mappings_add(&log->mappings, pid);
	log->err = death_watch_add(&log->watch, pid);
	if (!log->err && symbols_open(pid, &log->symbols))
		log->symbols = NULL;
	p = mappings_of(&log->mappings, pid);
	log->version = p ? p->version : 0;
}

/* ---- names ---- */

static bool is_ours(const char *module)
{
	return module && (symbols_is_agent(module) || !strncmp(module, "libtrapline-", 12));
}

static size_t without_ours(struct run_frame *frames, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!is_ours(frames[i].place.module))
			frames[kept++] = frames[i];
	return kept;
}

/* the stack of the thread that is being unwound, from sp on */
static uint8_t stack[DEATH_STACK_MAX + 4096];
static size_t stack_length;

/* Where sp is in no memory, as after an overflow, nothing was ever stored up to stack_at. */
static size_t stack_from_sp(const struct death_record *r, uint64_t sp)
{
	uint64_t length = r->stack_len <= DEATH_STACK_MAX ? r->stack_len : 0;
	uint64_t before = sp < r->stack_at ? r->stack_at - sp : 0;
	uint64_t skipped = sp > r->stack_at ? sp - r->stack_at : 0;

	if (!length || skipped >= length || before + length - skipped > sizeof(stack))
		return 0;
	memset(stack, 0, before);
	memcpy(stack + before, r->stack + skipped, length - skipped);
	return before + length - skipped;
}

static size_t unwind(const struct death_record *r, struct symbols *symbols, const uint64_t *regs,
		     uint64_t *ips)
{
	const uint64_t sp = regs[DEATH_REG_SP];

	stack_length = stack_from_sp(r, sp);
	size_t n = symbols_unwind(symbols, regs, RECORD_REGS, stack, stack_length, sp, ips,
				  ADDRESSES_MAX);
	if (!n)
		ips[n++] = regs[DEATH_REG_PC];
	return n;
}

static bool is_in_ours(struct symbols *symbols, uint64_t ip)
{
	struct place place;

	symbols_place(symbols, ip, &place);
	return is_ours(place.module);
}

/* A thread that is in a copy of an instruction is at the instruction itself. */
static void leave_copy(const struct death_record *r, struct symbols *symbols, uint64_t *regs)
{
	const size_t length = r->code_len <= DEATH_CODE_BYTES ? r->code_len : 0;
	struct place place;

	symbols_place(symbols, regs[DEATH_REG_PC], &place);
	if (place.module)
		return;
	uint64_t origin = copied_code_origin(r->code, length, regs[DEATH_REG_PC]);
	if (origin)
		symbols_place(symbols, origin, &place);
	if (place.module)
		regs[DEATH_REG_PC] = origin;
}

/*
 * The thread jumped to where no code is, as by a pointer that is null: what it returns to is on top
 * of the stack, if it was a call.
 */
static size_t unwind_jump(const struct death_record *r, struct symbols *symbols,
			  const uint64_t *before, uint64_t *ips)
{
	uint64_t regs[RECORD_REGS];
	struct place place;

	memcpy(regs, before, sizeof(regs));
	if (!copied_code_called(stack, stack_from_sp(r, regs[DEATH_REG_SP]), regs))
		return unwind(r, symbols, before, ips);
	symbols_place(symbols, regs[DEATH_REG_PC] - 1, &place);
	if (!place.module)
		return unwind(r, symbols, before, ips);
	size_t n = unwind(r, symbols, regs, ips);
	if (n == ADDRESSES_MAX)
		n--;
	memmove(ips + 1, ips, n * sizeof(*ips));
	ips[0] = before[DEATH_REG_PC];
	return n + 1;
}

/* A stack begins in an object: what is behind it was not a frame. */
static size_t without_end(struct symbols *symbols, const uint64_t *ips, size_t n)
{
	struct place place;

	for (; n > 1; n--) {
		symbols_place(symbols, ips[n - 1] - 1, &place);
		if (place.module)
			break;
	}
	return n;
}

static void read_stack(struct death *d, const struct death_record *r, struct symbols *symbols)
{
	uint64_t regs[RECORD_REGS];
	uint64_t ips[ADDRESSES_MAX];

	memcpy(regs, r->regs, sizeof(regs));
	leave_copy(r, symbols, regs);
	size_t n = d->has_address && d->address == regs[DEATH_REG_PC] ?
			   unwind_jump(r, symbols, regs, ips) :
			   unwind(r, symbols, regs, ips);
	/* The signal came again in a handler of Trapline. */
	if (is_in_ours(symbols, ips[0]) &&
	    copied_code_interrupted(symbols, ips, n, stack, stack_length, regs))
		n = unwind(r, symbols, regs, ips);
	n = without_end(symbols, ips, n);
	d->frame_count = without_ours(d->frames, frames_of(symbols, ips, n, false, d->frames));
}

/* ---- from a record ---- */

static void read_sender(const struct death_log *log, struct death *d)
{
	struct death_sender sender;

	if (!death_watch_sender(&log->watch, d->pid, d->signal, &sender))
		return;
	if (!d->sender)
		d->sender = (pid_t)(sender.pid_tid >> 32);
	if (d->sender == (pid_t)(sender.pid_tid >> 32)) {
		memcpy(d->sender_name, sender.thread, sizeof(d->sender_name));
		clean_text(d->sender_name);
		return;
	}
	/* The process has sent itself what it had got from another one. */
	process_name(d->sender, d->sender_name, sizeof(d->sender_name));
}

static void read_info(const struct death_log *log, const struct death_record *r, struct death *d)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	memcpy(&info, r->info, sizeof(r->info));
	d->time_ns = r->time_ns;
	d->pid = (pid_t)(r->pid_tid >> 32);
	d->tid = (pid_t)r->pid_tid;
	d->signal = (int)r->signal;
	d->code = info.si_code;
	memcpy(d->thread, r->thread, sizeof(d->thread) - 1);
	clean_text(d->thread);
	if (d->code <= 0) {
		d->sender = info.si_pid;
		read_sender(log, d);
	} else if (d->code != SI_KERNEL && d->signal != SIGSYS) {
		d->has_address = true;
		d->address = (uint64_t)(uintptr_t)info.si_addr;
	}
}

static struct death_entry *find_entry(struct death_log *log, const char *fingerprint)
{
	for (struct death_entry *e = log->entries; e; e = e->next)
		if (!strcmp(e->death.fingerprint, fingerprint))
			return e;
	return NULL;
}

static void free_entry(struct death_entry *e)
{
	symbols_close(e->symbols);
	free(e);
}

static void keep_entry(struct death_log *log, struct death_entry *e)
{
	struct death_entry **end = &log->entries;
	struct death_entry *old = find_entry(log, e->death.fingerprint);
	size_t count = 0;

	if (old) {
		old->death.count++;
		free_entry(e);
		return;
	}
	for (; *end; end = &(*end)->next)
		count++;
	if (count == DEATH_LOG_MAX) {
		log->unlisted++;
		free_entry(e);
		return;
	}
	e->death.count = 1;
	*end = e;
}

static void take_record(struct death_log *log, const struct death_record *r)
{
	struct death_entry *e = calloc(1, sizeof(*e));

	if (!e) {
		log->unlisted++;
		return;
	}
	read_info(log, r, &e->death);
	if (!death_is_fault(e->death.signal)) {
		free(e);
		return;
	}
	const struct mapped_process *p = mappings_of(&log->mappings, e->death.pid);
	bool is_attached = log->symbols && e->death.pid == log->attached;
	if (!is_attached)
		e->symbols = mapped_names_open(&log->mapped, p);
	struct symbols *symbols = is_attached ? log->symbols : e->symbols;
	if (!log->watch.has_registers)
		snprintf(e->death.why, sizeof(e->death.why),
			 "the kernel has no call for the registers (before Linux 5.15)");
	else if (!symbols)
		snprintf(e->death.why, sizeof(e->death.why),
			 "%s of the files that the process had mapped",
			 p && p->is_unsure ? "records were lost" : "nothing is known");
	else
		read_stack(&e->death, r, symbols);
	death_name(&e->death);
	keep_entry(log, e);
}

/* An object that is loaded later has names too. */
static void refresh_attached(struct death_log *log)
{
	const struct mapped_process *p = log->symbols ? mappings_of(&log->mappings, log->attached) :
							NULL;

	if (p && p->version != log->version && symbols_refresh(log->symbols))
		log->version = p->version;
}

/* With one write(2), also where the stream has no buffer. */
static void print_whole(const struct death *d, bool has_color, FILE *f)
{
	char *text = NULL;
	size_t n = 0;
	FILE *memory = open_memstream(&text, &n);

	death_print_text(d, has_color, memory ? memory : f);
	if (memory) {
		fclose(memory);
		fwrite(text, 1, n, f);
	}
	free(text);
	fflush(f);
}

void death_log_look(struct death_log *log, bool has_color, FILE *f)
{
	const struct death_record *r;

	if (log->kept && ++log->looks % KEEP_EVERY == 0)
		kept_files_look(log->kept);
	if (!is_open(log))
		return;
	mappings_read(&log->mappings);
	mapped_names_keep(&log->mapped, &log->mappings);
	refresh_attached(log);
	while ((r = death_watch_next(&log->watch)))
		take_record(log, r);
	mappings_forget_ended(&log->mappings, UINT64_MAX);
	for (struct death_entry *e = f && !log->is_silent ? log->entries : NULL; e; e = e->next) {
		if (e->death.is_told)
			continue;
		e->death.is_told = true;
		print_whole(&e->death, has_color, f);
	}
}

/* ---- the end ---- */

pid_t death_log_left_behind(struct death_log *log)
{
	if (!is_open(log))
		return 0;
	mappings_read(&log->mappings);
	for (size_t i = 0; i < log->mappings.count; i++) {
		const struct mapped_process *p = &log->mappings.processes[i];

		if (!p->is_over && p->pid != log->attached && !program_has_ended(p->pid))
			return p->pid;
	}
	return 0;
}

static const char *reason(const struct death_log *log, char *text, size_t n)
{
	if (log->err == -EPERM || log->err == -EACCES)
		return "it needs CAP_BPF and CAP_PERFMON; run as root";
	if (!log->err)
		return "the kernel had no record of it";
	snprintf(text, n, "%s", strerror(-log->err));
	return text;
}

static const struct death_entry *entry_of(const struct death_log *log, pid_t pid, int signal)
{
	for (const struct death_entry *e = log->entries; e; e = e->next)
		if (e->death.pid == pid && e->death.signal == signal)
			return e;
	return NULL;
}

int death_log_fault(const struct death_log *log, pid_t pid, int status, uint64_t *time_ns)
{
	if (!status)
		status = death_watch_status(&log->watch, pid);
	int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	if (!death_is_fault(signal))
		return 0;
	const struct death_entry *e = entry_of(log, pid, signal);
	*time_ns = e ? e->death.time_ns : clock_now_ns();
	return signal;
}

/* Signals that end a run as it is meant to. */
static bool is_meant(const struct death *d, bool is_asked)
{
	if (d->signal == SIGINT || d->signal == SIGPIPE)
		return true;
	return d->signal == SIGTERM && (d->sender ? d->sender == getpid() : is_asked);
}

static void note_end(const struct death_log *log, const struct death_end *end,
		     const struct death *d)
{
	char process[48] = "";
	char signal[32];
	char sender[64] = "";

	death_signal_name(d->signal, signal, sizeof(signal));
	if (!death_is_fault(d->signal))
		death_sender_text(d, sender, sizeof(sender));
	if (end->is_attached)
		snprintf(process, sizeof(process), "process %d", end->pid);
	cli_note(log->command, "%s was killed by %s%s", *process ? process : end->program, signal,
		 sender);
}

/*
 * One line for a signal that ended the process on request; JSON has it as a death without a stack.
 */
static void report_end(const struct death_log *log, const struct death_end *end, int signal)
{
	const struct death_entry *e = entry_of(log, end->pid, signal);
	struct death death = { .pid = end->pid, .signal = signal, .count = 1 };
	char text[96];

	if (!e)
		read_sender(log, &death);
	const struct death *d = e ? &e->death : &death;
	if (is_meant(d, end->is_asked))
		return;
	note_end(log, end, d);
	if (e)
		return;
	if (death_is_fault(signal)) {
		snprintf(death.why, sizeof(death.why), "%s", reason(log, text, sizeof(text)));
		cli_note(log->command, "the address and the stack of this death are not known: %s",
			 death.why);
	}
	death_name(&death);
	if (end->is_json)
		death_print_json(&death, end->out);
	fflush(end->out);
}

size_t death_log_list(struct death_log *log, const struct death *out[DEATH_LOG_MAX])
{
	size_t n = 0;

	death_log_look(log, false, NULL);
	for (const struct death_entry *e = log->is_silent ? NULL : log->entries; e; e = e->next)
		out[n++] = &e->death;
	return n;
}

/* A daemon: what it does in the background was not inspected. */
static void note_left_behind(struct death_log *log, const struct death_end *end)
{
	const pid_t pid = end->has_ended ? death_log_left_behind(log) : 0;

	if (pid)
		cli_note(log->command,
			 "%s has ended, and process %d, which it left behind, was observed until "
			 "then only; keep the program in the foreground, or use trapline %s -p %d",
			 end->program, pid, log->command, pid);
}

void death_log_end(struct death_log *log, const struct death_end *end)
{
	int status = end->is_attached ? death_watch_status(&log->watch, end->pid) : end->status;

	death_log_look(log, false, NULL);
	for (struct death_entry *e = log->is_silent ? NULL : log->entries; e; e = e->next) {
		if (e->death.is_told)
			continue;
		e->death.is_told = true;
		if (end->is_json)
			death_print_json(&e->death, end->out);
		else
			print_whole(&e->death, end->has_color, end->out);
		fflush(end->out);
	}
	if (WIFSIGNALED(status))
		report_end(log, end, WTERMSIG(status));
	note_left_behind(log, end);
	uint64_t lost = log->unlisted + death_watch_lost(&log->watch, DEATH_UNRECORDED);
	uint64_t unfollowed = death_watch_lost(&log->watch, DEATH_UNFOLLOWED);

	if (unfollowed)
		cli_note(log->command,
			 "%llu threads were not followed (no room): how they may have died is not "
			 "known",
			 (unsigned long long)unfollowed);
	if (lost)
		cli_note(log->command, "%llu more deaths by signals were not recorded: no room",
			 (unsigned long long)lost);
}
