/* SPDX-License-Identifier: MIT */
/*
 * road_send.c - see road_send.h.
 *
 * curl(1) carries OTLP over HTTP and psql(1) speaks with PostgreSQL: they know proxies, TLS and
 * passwords, and can die alone.
 */
#include "cli/patrol/road_send.h"

#include "report/finding/finding_json.h"

#include <trapline/trapline.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_BYTES 400

static const char *text_of(const json_t *j, const char *name)
{
	return json_string_value(json_object_get(j, name));
}

/* What a person reads: `use-after-free in handle (server.c:46) of /usr/bin/server`. */
static void message_of(const json_t *finding, char *text, size_t n)
{
	bool is_allocation;
	const json_t *code = finding_json_place(finding, &is_allocation);
	const char *kind = text_of(finding, "kind");
	const char *function = text_of(code, "function");
	const char *file = text_of(code, "file");
	const char *printed = text_of(finding, "printed");
	const char *site = text_of(finding, "site");
	const char *program = text_of(finding, "program");
	const char *tool = text_of(finding, "tool");
	char place[160] = "";

	if (file)
		snprintf(place, sizeof(place), " (%s:%" JSON_INTEGER_FORMAT ")", basename(file),
			 json_integer_value(json_object_get(code, "line")));
	if (kind)
		snprintf(text, n, "%s in %s%s%s of %s", kind, is_allocation ? "a block of " : "",
			 function ? function : "?", place, program ? program : "?");
	else if (tool)
		snprintf(text, n, "visit by %s of %s: %" JSON_INTEGER_FORMAT " findings", tool,
			 program ? program : "?",
			 json_integer_value(json_object_get(finding, "findings")));
	else
		snprintf(text, n, "%s of %s",
			 printed ? printed :
			 site	 ? site :
				   "hit",
			 program ? program : "?");
}

/* --- the journal and files --- */

static void write_fields(FILE *f, const void *arg, bool is_short)
{
	static const char *const members[][2] = {
		{ "TRAPLINE_ID", "id" },	   { "TRAPLINE_RULE", "rule" },
		{ "TRAPLINE_PROGRAM", "program" }, { "TRAPLINE_BUILD_ID", "build_id" },
		{ "TRAPLINE_TYPE", "type" },	   { "TRAPLINE_KIND", "kind" },
		{ "TRAPLINE_GRADE", "grade" },	   { "TRAPLINE_FINGERPRINT", "fingerprint" },
		{ "TRAPLINE_TIME", "time" },	   { "TRAPLINE_VARIABLE", "variable" },
		{ "TRAPLINE_SITE", "site" },	   { "TRAPLINE_PRINTED", "printed" },
	};
	const json_t *finding = arg;
	bool is_allocation;
	const json_t *code = finding_json_place(finding, &is_allocation);
	char message[MESSAGE_BYTES];

	message_of(finding, message, sizeof(message));
	journal_field(f, "MESSAGE", message);
	journal_field(f, "PRIORITY", text_of(finding, "kind") ? "4" : "6");
	journal_field(f, "SYSLOG_IDENTIFIER", "trapline");
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		journal_field(f, members[i][0], text_of(finding, members[i][1]));
	journal_field(f, "TRAPLINE_FUNCTION", text_of(code, "function"));
	journal_field(f, "TRAPLINE_FILE", text_of(code, "file"));
	journal_number(f, "TRAPLINE_LINE", json_object_get(code, "line"));
	journal_number(f, "TRAPLINE_PID", json_object_get(finding, "pid"));
	journal_number(f, "TRAPLINE_COUNT", json_object_get(finding, "count"));
	if (!is_short)
		journal_json(f, "TRAPLINE_FINDING", finding);
}

int road_send_one(struct road *r, const struct road_entry *e)
{
	if (r->rule->kind == ROAD_FILE)
		return rotated_file_send(&r->file, e->line, e->bytes);
	json_t *finding = json_loadb(e->line, e->bytes, JSON_ALLOW_NUL, NULL);
	int err = finding ? journal_send(&r->journal, write_fields, finding) : -EBADMSG;
	json_decref(finding);
	return err;
}

/* --- OTLP --- */

static json_t *attribute(const char *name, const char *value)
{
	return json_pack("{s:s, s:{s:s}}", "key", name, "value", "stringValue", value);
}

static void add_attribute(json_t *to, const json_t *from, const char *name, const char *member)
{
	const char *value = text_of(from, member);

	if (value)
		json_array_append_new(to, attribute(name, value));
}

/* The wall clock of the finding, of "2026-11-28T00:12:53.626025714Z". */
static uint64_t unix_nano(const json_t *finding)
{
	struct tm t = { .tm_isdst = 0 };
	const char *time = text_of(finding, "time");
	const char *rest = time ? strptime(time, "%Y-%m-%dT%H:%M:%S", &t) : NULL;
	double fraction = rest && *rest == '.' ? strtod(rest, NULL) : 0;

	return rest ? (uint64_t)timegm(&t) * 1000000000u + (uint64_t)(fraction * 1e9) : 0;
}

static json_t *log_record(const struct road_entry *e)
{
	json_t *finding = json_loadb(e->line, e->bytes, JSON_ALLOW_NUL, NULL);
	bool is_allocation;
	const json_t *code = finding_json_place(finding, &is_allocation);
	json_t *attributes = json_array();
	char message[MESSAGE_BYTES];
	char time[24];

	message_of(finding, message, sizeof(message));
	snprintf(time, sizeof(time), "%" PRIu64, unix_nano(finding));
	add_attribute(attributes, finding, "host.name", "host");
	add_attribute(attributes, finding, "process.executable.path", "program");
	add_attribute(attributes, finding, "process.executable.build_id.gnu", "build_id");
	add_attribute(attributes, finding, "trapline.id", "id");
	add_attribute(attributes, finding, "trapline.fingerprint", "fingerprint");
	add_attribute(attributes, finding, "trapline.type", "type");
	add_attribute(attributes, finding, "trapline.kind", "kind");
	add_attribute(attributes, finding, "trapline.grade", "grade");
	add_attribute(attributes, finding, "trapline.rule", "rule");
	add_attribute(attributes, finding, "trapline.variable", "variable");
	add_attribute(attributes, code, "code.function.name", "function");
	add_attribute(attributes, code, "code.file.path", "file");
	json_array_append_new(attributes, attribute("trapline.finding", e->line));
	bool is_error = text_of(finding, "kind");
	json_decref(finding);
	return json_pack("{s:s, s:i, s:s, s:{s:s}, s:o}", "timeUnixNano", time, "severityNumber",
			 is_error ? 17 : 9, "severityText", is_error ? "ERROR" : "INFO", "body",
			 "stringValue", message, "attributes", attributes);
}

static int write_otlp(const struct road *r, size_t count, FILE *f)
{
	json_t *records = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(records, log_record(&r->entry[i]));
	json_t *body = json_pack("{s:[{s:{s:[o]}, s:[{s:{s:s, s:s}, s:o}]}]}", "resourceLogs",
				 "resource", "attributes", attribute("service.name", "trapline"),
				 "scopeLogs", "scope", "name", "trapline", "version",
				 TRAPLINE_VERSION_STRING, "logRecords", records);
	int err = body && !json_dumpf(body, f, JSON_COMPACT) ? 0 : -ENOMEM;
	json_decref(body);
	return err;
}

/* The body goes through standard input, and a password of ~/.netrc is in no list of processes. */
static void otlp_words(const struct road *r, struct child_words *w)
{
	static const char *const words[] = {
		"curl",		 "--silent", "--show-error", "--netrc-optional",
		"--max-time",	 "30",	     "--header",     "Content-Type: application/json",
		"--data-binary", "@-",	     "--write-out",  "\n%{http_code}\n"
	};

	child_words_add_all(w, words, sizeof(words) / sizeof(words[0]));
	child_words_add(w, "--url", NULL);
	child_words_add(w, r->rule->to, NULL);
}

/* --- PostgreSQL --- */

/* As COPY reads it: JSON has no control characters, and each backslash is doubled. */
static void write_copied(const char *line, FILE *f)
{
	for (; *line; line++) {
		if (*line == '\\')
			fputc('\\', f);
		fputc(*line, f);
	}
	fputc('\n', f);
}

/* An id that is there was sent before the last crash: it is the same finding. */
static int write_postgres(const struct road *r, size_t count, FILE *f)
{
	fputs("BEGIN;\n"
	      "CREATE TEMP TABLE trapline_incoming (line jsonb) ON COMMIT DROP;\n"
	      "COPY trapline_incoming (line) FROM STDIN;\n",
	      f);
	for (size_t i = 0; i < count; i++)
		write_copied(r->entry[i].line, f);
	fputs("\\.\n"
	      "INSERT INTO trapline_findings (id, line)\n"
	      "  SELECT line->>'id', line FROM trapline_incoming ON CONFLICT DO NOTHING;\n"
	      "COMMIT;\n",
	      f);
	return 0;
}

static void postgres_words(const struct road *r, struct child_words *w)
{
	static const char *const words[] = { "psql",	"--no-psqlrc",
					     "--quiet", "--no-password",
					     "--set",	"ON_ERROR_STOP=1",
					     "--set",	"VERBOSITY=verbose",
					     "--dbname" };

	child_words_add_all(w, words, sizeof(words) / sizeof(words[0]));
	child_words_add(w, r->rule->to, NULL);
}

/* --- the sender --- */

/* A file in memory with the batch, at its beginning. The descriptor or -errno. */
static int input_of(const struct road *r, size_t count)
{
	int fd = memfd_create("trapline batch", MFD_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "w");
	int err = f ? 0 : -errno;

	if (f)
		err = r->rule->kind == ROAD_OTLP ? write_otlp(r, count, f) :
						   write_postgres(r, count, f);
	if (f && fclose(f) && !err)
		err = -errno;
	if (!err && lseek(fd, 0, SEEK_SET) < 0)
		err = -errno;
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

int road_send_begin(struct road *r, size_t count)
{
	struct child_words w = { .count = 0 };
	int input = input_of(r, count);

	if (input < 0)
		return input;
	r->said[0] = r->code[0] = 0;
	r->rejected = 0;
	if (r->rule->kind == ROAD_OTLP)
		otlp_words(r, &w);
	else
		postgres_words(r, &w);
	int err = child_start(&r->sender, w.word[0], &w, input);
	child_words_free(&w);
	close(input);
	return err;
}

/* The code is the last line; before it the answer, which may state how many were rejected. */
static void on_answer(void *arg, const char *line, size_t n)
{
	struct road *r = arg;
	json_t *j = json_loadb(line, n, 0, NULL);
	const json_t *partial = json_object_get(j, "partialSuccess");
	const json_t *rejected = json_object_get(partial, "rejectedLogRecords");

	if (json_is_string(rejected))
		r->rejected = strtoull(json_string_value(rejected), NULL, 10);
	else if (json_is_integer(rejected))
		r->rejected = (uint64_t)json_integer_value(rejected);
	json_decref(j);
	if (n == 3)
		snprintf(r->code, sizeof(r->code), "%s", line);
}

/* The first line is the cause; psql explains it in those behind. */
static void on_error(void *arg, const char *line, size_t n)
{
	struct road *r = arg;

	if (!r->said[0] && n)
		snprintf(r->said, sizeof(r->said), "%s", line);
}

void road_send_read(struct road *r)
{
	child_lines_read(&r->sender.out, on_answer, r);
	child_lines_read(&r->sender.err, on_error, r);
}

static enum road_answer otlp_answer(struct road *r, int status)
{
	unsigned long code = strtoul(r->code, NULL, 10);

	if (!status && code >= 200 && code < 300)
		return ROAD_TAKEN;
	if (code >= 300)
		snprintf(r->said, sizeof(r->said), "%.200s answered with HTTP status %lu",
			 r->rule->to, code);
	return code == 400 || code == 413 || code == 422 ? ROAD_REFUSED : ROAD_FAILED;
}

/* Class 22 of SQLSTATE is wrong data. A table that is missing is not the fault of the finding. */
static enum road_answer postgres_answer(struct road *r, int status)
{
	const char *error = strstr(r->said, "ERROR:  ");

	if (!status)
		return ROAD_TAKEN;
	if (error && !strncmp(error, "ERROR:  42P01", 13))
		snprintf(r->said, sizeof(r->said),
			 "the table trapline_findings is missing: make it by "
			 "'psql -f /usr/share/trapline/patrol.sql'");
	return error && !strncmp(error, "ERROR:  22", 10) ? ROAD_REFUSED : ROAD_FAILED;
}

enum road_answer road_send_answer(struct road *r, int status)
{
	bool is_otlp = r->rule->kind == ROAD_OTLP;

	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_NOT_FOUND)
		snprintf(r->said, sizeof(r->said),
			 is_otlp ? "curl is missing: install curl" :
				   "psql is missing: install postgresql-client");
	else if (WIFSIGNALED(status))
		snprintf(r->said, sizeof(r->said), "%s did not answer in time",
			 is_otlp ? "the collector" : "the database");
	enum road_answer answer = is_otlp ? otlp_answer(r, status) : postgres_answer(r, status);
	if (answer != ROAD_TAKEN && !r->said[0])
		snprintf(r->said, sizeof(r->said), "%s ended with status %d",
			 is_otlp ? "curl" : "psql", WEXITSTATUS(status));
	return answer;
}
