/* SPDX-License-Identifier: MIT */
/* json_text.c - see json_text.h. */
#include "report/json_text.h"

#include "report/dwarf/same_code.h"
#include "report/safe/stream_fd.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

json_t *run_json_hex(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string(text);
}

/* jansson refuses what is not UTF-8. */
json_t *run_json_text(const char *text)
{
	json_t *j = text ? json_string(text) : NULL;

	if (j || !text)
		return j ? j : json_null();
	char plain[256];
	size_t n = 0;
	for (; text[n] && n < sizeof(plain) - 1; n++)
		plain[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
	plain[n] = 0;
	return json_string(plain);
}

/* JSON's integers end where a signed 64-bit number does. */
json_t *run_json_count(uint64_t value)
{
	return value <= INT64_MAX ? json_integer((json_int_t)value) : run_json_hex(value);
}

json_t *run_json_same_code(const char *names)
{
	static const char and[] = SAME_CODE_AND;
	json_t *list = json_array();
	char text[SAME_CODE_BYTES];

	snprintf(text, sizeof(text), "%s", names);
	char *at = text;
	for (char *end; (end = strstr(at, and)); at = end + strlen(and)) {
		*end = '\0';
		json_array_append_new(list, run_json_text(at));
	}
	json_array_append_new(list, run_json_text(at));
	return list;
}

void run_json_place(json_t *to, const struct place *p)
{
	json_object_set_new(to, "function", run_json_text(p->function));
	json_object_set_new(to, "offset", p->function ? run_json_count(p->offset) : json_null());
	json_object_set_new(to, "module", run_json_text(p->module));
	json_object_set_new(to, "module_offset",
			    p->module ? run_json_hex(p->module_offset) : json_null());
	json_object_set_new(to, "file", run_json_text(p->file));
	json_object_set_new(to, "line", p->line ? json_integer(p->line) : json_null());
	if (p->same_code)
		json_object_set_new(to, "same_code", run_json_same_code(p->same_code));
}

/* A value may be any text, and a terminal acts on some of it. Other readers get it as it is. */
void run_jsonl_line(FILE *f, json_t *object)
{
	json_dumpf(object, f, JSON_COMPACT | (isatty(stream_fd(f)) ? JSON_ENSURE_ASCII : 0));
	fputc('\n', f);
	json_decref(object);
}

json_t *run_json_time(uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	char text[64];
	struct tm tm;

	if (!unix_ns || !gmtime_r(&seconds, &tm))
		return json_null();
	size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%09uZ", (unsigned int)(unix_ns % 1000000000u));
	return json_string(text);
}
