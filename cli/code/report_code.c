/* SPDX-License-Identifier: MIT */
/* report_code.c - see report_code.h. */
#include "cli/code/report_code.h"

#include "cli/message.h"
#include "cli/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <trapline/code_log.h>

#define COMMAND "report"
#define AT_BYTES 16u

static const char *const kinds[] = {
	[TRAPLINE_CODE_ENTRY_START] = "start",	  [TRAPLINE_CODE_ENTRY_END] = "end",
	[TRAPLINE_CODE_ENTRY_MAP] = "map",	  [TRAPLINE_CODE_ENTRY_SITE] = "site",
	[TRAPLINE_CODE_ENTRY_STAGE] = "stage",	  [TRAPLINE_CODE_ENTRY_SLOT] = "new",
	[TRAPLINE_CODE_ENTRY_FILL] = "memory",	  [TRAPLINE_CODE_ENTRY_HIT] = "trap",
	[TRAPLINE_CODE_ENTRY_LOST] = "lost",	  [TRAPLINE_CODE_ENTRY_KERNEL_POKE] = "kernel",
	[TRAPLINE_CODE_ENTRY_KSYMBOL] = "symbol",
};

static const char *const stages[] = { "begin", "trap", "open", "done", "undone", "stranded" };

static const char *stage_name(uint32_t stage)
{
	return stage < sizeof(stages) / sizeof(*stages) ? stages[stage] : "unknown";
}

static void put_hex(FILE *f, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; bytes && i < n; i++)
		fprintf(f, "%02x", bytes[i]);
}

/* Only what a terminal and JSON take as it is: the name comes from the file. */
static void put_name(FILE *f, const char *name)
{
	for (; *name; name++)
		fputc(*name > ' ' && *name < 0x7f && *name != '"' && *name != '\\' ? *name : '?',
		      f);
}

/* For other kinds the member has another meaning. */
static uint64_t batch_of(const struct trapline_code_entry *e)
{
	bool is_other = e->kind == TRAPLINE_CODE_ENTRY_MAP ||
			e->kind == TRAPLINE_CODE_ENTRY_KSYMBOL;

	return is_other ? 0 : e->batch;
}

static bool has_bytes(const struct trapline_code_entry *e)
{
	return e->kind == TRAPLINE_CODE_ENTRY_SITE || e->kind == TRAPLINE_CODE_ENTRY_SLOT ||
	       e->kind == TRAPLINE_CODE_ENTRY_KERNEL_POKE;
}

static void print_text(FILE *f, const struct trapline_code_entry *e)
{
	fprintf(f, "%" PRIu64 ".%09" PRIu64 " %d/%d %s", e->time_ns / 1000000000u,
		e->time_ns % 1000000000u, e->pid, e->tid, kinds[e->kind]);
	if (batch_of(e))
		fprintf(f, " batch %" PRIu64, e->batch);
	if (e->kind == TRAPLINE_CODE_ENTRY_STAGE)
		fprintf(f, " %s", stage_name(e->stage));
	if (e->address)
		fprintf(f, " 0x%" PRIx64, e->address);
	if (has_bytes(e)) {
		fprintf(f, " ");
		put_hex(f, e->before, e->len);
		fprintf(f, "%s", e->before ? " -> " : "");
		put_hex(f, e->after, e->len);
	}
	if (e->kind == TRAPLINE_CODE_ENTRY_SLOT && e->other)
		fprintf(f, " for 0x%" PRIx64, e->other);
	if (e->kind == TRAPLINE_CODE_ENTRY_HIT)
		fprintf(f, " continues at 0x%" PRIx64, e->other);
	if (e->kind == TRAPLINE_CODE_ENTRY_LOST)
		fprintf(f, " %zu records", e->len);
	if (e->kind == TRAPLINE_CODE_ENTRY_FILL)
		fprintf(f, " %" PRIu64 " bytes %s", e->other, e->after ? "mapped" : "unmapped");
	if (e->kind == TRAPLINE_CODE_ENTRY_KSYMBOL)
		fprintf(f, " %" PRIu64 " bytes %s", e->other, e->stage ? "freed" : "new");
	if (e->name) {
		fputc(' ', f);
		put_name(f, e->name);
	}
	fputc('\n', f);
}

static void print_json(FILE *f, const struct trapline_code_entry *e)
{
	fprintf(f,
		"{\"type\":\"code\",\"kind\":\"%s\",\"time_ns\":%" PRIu64
		",\"pid\":%d,\"tid\":%d,\"batch\":%" PRIu64 ",\"address\":\"0x%" PRIx64 "\"",
		kinds[e->kind], e->time_ns, e->pid, e->tid, batch_of(e), e->address);
	if (e->kind == TRAPLINE_CODE_ENTRY_STAGE)
		fprintf(f, ",\"stage\":\"%s\"", stage_name(e->stage));
	if (e->kind == TRAPLINE_CODE_ENTRY_KSYMBOL)
		fprintf(f, ",\"bytes\":%" PRIu64 ",\"freed\":%s", e->other,
			e->stage ? "true" : "false");
	if (e->kind == TRAPLINE_CODE_ENTRY_HIT)
		fprintf(f, ",\"resume\":\"0x%" PRIx64 "\"", e->other);
	if (e->kind == TRAPLINE_CODE_ENTRY_LOST)
		fprintf(f, ",\"lost\":%zu", e->len);
	if (has_bytes(e)) {
		fprintf(f, ",\"before\":\"");
		put_hex(f, e->before, e->len);
		fprintf(f, "\",\"after\":\"");
		put_hex(f, e->after, e->len);
		fputc('"', f);
	}
	if (e->name) {
		fprintf(f, ",\"name\":\"");
		put_name(f, e->name);
		fputc('"', f);
	}
	fprintf(f, "}\n");
}

static int print_all(FILE *f, const struct trapline_code_log *log, bool is_json)
{
	struct trapline_code_entry entry = { .size = sizeof(entry) };
	size_t count = 0;

	for (; !trapline_code_log_entry(log, count, &entry); count++) {
		if (is_json)
			print_json(f, &entry);
		else
			print_text(f, &entry);
	}
	if (!count && !is_json)
		fprintf(f, "no change of code was recorded\n");
	return CLI_OK;
}

struct question {
	int32_t pid;
	uint64_t address;
	uint64_t time_ns;
};

/* Seconds with up to nine digits behind the point, as the text has them. */
static bool read_time(const char *text, uint64_t *out)
{
	char *end;
	uint64_t unit = 1000000000u;
	uint64_t ns = strtoull(text, &end, 10) * unit;

	if (end == text || *text == '-')
		return false;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++) {
			unit /= 10;
			ns += (uint64_t)(*end - '0') * unit;
		}
	*out = ns;
	return !*end;
}

/* Without a process it is the one whose record begins the log. */
static bool read_question(const char *text, const struct trapline_code_log *log,
			  struct question *out)
{
	struct trapline_code_entry entry = { .size = sizeof(entry) };
	const char *colon = strchr(text, ':');
	const char *at = strchr(text, '@');
	char *end;

	if (!at)
		return false;
	if (!colon && trapline_code_log_entry(log, 0, &entry))
		return false;
	out->pid = colon ? atoi(text) : entry.pid;
	const char *address = colon ? colon + 1 : text;
	out->address = strtoull(address, &end, 16);
	return end == at && end != address && read_time(at + 1, &out->time_ns);
}

static int answer(FILE *f, const struct trapline_code_log *log, const char *text)
{
	struct trapline_code_span span = { .size = sizeof(span) };
	struct question q;
	uint8_t bytes[AT_BYTES];
	size_t n = 0;
	int err = 0;

	if (!read_question(text, log, &q))
		return cli_wrong(COMMAND,
				 "invalid --at '%s': expected [PID:]ADDRESS@TIME (example: "
				 "0x401136@1234.500000000)",
				 text);
	/* As many as the log knows there, one after the other. */
	while (n < AT_BYTES && !err) {
		err = trapline_code_at(log, q.pid, q.address + n, q.time_ns, bytes + n, 1, &span);
		if (!err && !span.known)
			break;
		n += !err;
	}
	put_hex(f, bytes, n);
	if (n)
		fputc('\n', f);
	else if (err == -EAGAIN)
		fprintf(f, "ambiguous until %" PRIu64 ".%09" PRIu64 "\n",
			span.until_ns / 1000000000u, span.until_ns % 1000000000u);
	else
		fprintf(f, err ? "not known\n" : "as in the file\n");
	return n ? CLI_OK : CLI_NO;
}

int report_code(FILE *f, const char *path, const char *at, bool is_json)
{
	struct trapline_code_log *log;
	int err = trapline_code_log_open(path, &log);

	if (err == -EBADMSG || err == -EPROTO)
		return cli_wrong(COMMAND, "cannot read %s: not a code log of this version", path);
	if (err)
		return cli_wrong(COMMAND, "cannot read %s: %s", path, strerror(-err));
	int status = at ? answer(f, log, at) : print_all(f, log, is_json);
	trapline_code_log_close(log);
	return status;
}
