/* SPDX-License-Identifier: MIT */
/* sarif.c - see sarif.h. */
#include "report/finding/sarif.h"

#include "report/finding/death.h"
#include "report/finding/finding_place.h"
#include "report/suppress/suppress.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trapline/version.h"

#define SCHEMA "https://json.schemastore.org/sarif-2.1.0.json"
#define ROOT "%SRCROOT%"

json_t *sarif_message(const char *text)
{
	return json_pack("{s:o}", "text", run_json_text(text && *text ? text : "?"));
}

json_t *sarif_rule(const struct sarif_rule *rule)
{
	json_t *tags = json_array();

	for (size_t i = 0; i < 2 && rule->tags[i]; i++)
		json_array_append_new(tags, json_string(rule->tags[i]));
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:{s:s}, s:{s:o}}", "id", rule->id, "name",
			 rule->name, "shortDescription", sarif_message(rule->about),
			 "fullDescription", sarif_message(rule->about), "help",
			 sarif_message(rule->help), "defaultConfiguration", "level", rule->level,
			 "properties", "tags", tags);
}

json_t *sarif_stack(const struct run_frame *frames, size_t n, const char *text)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *at = sarif_location(&frames[i].place, frames[i].place.file, NULL);

		json_array_append_new(list, json_pack("{s:o}", "location", at));
	}
	return json_pack("{s:o, s:o}", "message", sarif_message(text), "frames", list);
}

json_int_t sarif_count(uint64_t count)
{
	return count < 1 ? 1 : count > INT32_MAX ? INT32_MAX : (json_int_t)count;
}

void sarif_policy(json_t *result, bool has_baseline, bool is_baselined,
		  const struct suppression *by)
{
	char text[600];

	if (has_baseline)
		json_object_set_new(result, "baselineState",
				    json_string(is_baselined ? "unchanged" : "new"));
	if (!by)
		return;
	snprintf(text, sizeof(text), "%s (%s:%d)", by->text, by->file, by->line);
	json_object_set_new(result, "suppressions",
			    json_pack("[{s:s, s:o}]", "kind", "external", "justification",
				      run_json_text(text)));
}

/* Percent-encoded: of a path, slashes stay. */
static void encode(const char *path, char *out, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-._~/+@!$&'()*,;=";
	size_t used = 0;

	for (; *path && used + 4 <= n; path++) {
		if (strchr(plain, *path))
			out[used++] = *path;
		else
			used += (size_t)snprintf(out + used, n - used, "%%%02X",
						 (unsigned char)*path);
	}
	out[used] = '\0';
}

/* Without "." and "..": the folders of a build may be gone, so this goes by the text alone. */
static void tidy(const char *path, char *out, size_t n)
{
	size_t used = 0;

	out[0] = '\0';
	while (*path) {
		size_t length = strcspn(path, "/");
		bool is_up = length == 2 && !strncmp(path, "..", 2);
		char *slash = strrchr(out, '/');

		if (is_up && slash && strcmp(slash, "/..") != 0)
			used = (size_t)(slash - out);
		else if (length && !(length == 1 && *path == '.') && used + length + 2 <= n)
			used += (size_t)snprintf(out + used, n - used, "/%.*s", (int)length, path);
		out[used] = '\0';
		path += length;
		path += *path == '/';
	}
}

/* Relative to here where it is below, for it is then the same on every machine. */
static json_t *artifact(const char *path)
{
	char tidied[PATH_MAX];
	char uri[3 * PATH_MAX + 16] = "file://";
	char here[PATH_MAX];
	bool is_below = path[0] != '/';

	tidy(path, tidied, sizeof(tidied));
	const char *from = tidied + is_below;
	if (!is_below && getcwd(here, sizeof(here))) {
		size_t n = strlen(here);

		if (n > 1 && !strncmp(tidied, here, n) && tidied[n] == '/') {
			from = tidied + n + 1;
			is_below = true;
		}
	}
	size_t scheme = is_below ? 0 : strlen(uri);
	encode(from, uri + scheme, sizeof(uri) - scheme);
	json_t *j = json_pack("{s:s}", "uri", uri);
	/* Relative in the debug information: of this project only if it is here. */
	if (is_below && (path[0] == '/' || !access(path, F_OK)))
		json_object_set_new(j, "uriBaseId", json_string(ROOT));
	return j;
}

static json_t *physical(const char *source, int line)
{
	json_t *j = json_pack("{s:o}", "artifactLocation", artifact(source));

	if (line > 0)
		json_object_set_new(j, "region", json_pack("{s:i}", "startLine", line));
	return j;
}

json_t *sarif_location(const struct place *p, const char *source, const char *text)
{
	json_t *j = json_object();

	if (source && *source)
		json_object_set_new(j, "physicalLocation", physical(source, p->line));
	if (p->function || p->module) {
		char name[64];

		snprintf(name, sizeof(name), "0x%llx", (unsigned long long)p->module_offset);
		json_t *logical = json_pack("{s:o, s:s}", "name",
					    run_json_text(p->function ? p->function : name), "kind",
					    p->function ? "function" : "module");
		if (p->module) {
			char full[512];

			snprintf(full, sizeof(full), "%s!%s", p->module,
				 p->function ? p->function : name);
			json_object_set_new(logical, "fullyQualifiedName", run_json_text(full));
		}
		json_object_set_new(j, "logicalLocations", json_pack("[o]", logical));
	}
	if (text)
		json_object_set_new(j, "message", sarif_message(text));
	return j;
}

json_t *sarif_finding_location(struct file_places *places, const struct finding_place *p,
			       const char *text)
{
	char source[PATH_MAX] = "";

	finding_place_source(places, p, source, sizeof(source));
	return sarif_location(&p->place, source, text);
}

static json_t *utc(uint64_t seconds)
{
	time_t t = (time_t)seconds;
	char text[32];
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}

static json_t *invocation(const struct sarif_run *run)
{
	/*
	 * Which program, but not its arguments: such files are uploaded, and those may be secret.
	 */
	json_t *j = json_pack("{s:b, s:o, s:o, s:o}", "executionSuccessful", !run->blind,
			      "executableLocation", artifact(run->program), "startTimeUtc",
			      utc(run->started_s), "endTimeUtc", utc(run->ended_s));
	if (run->signal)
		json_object_set_new(j, "exitSignalNumber", json_integer(run->signal));
	else if (!run->is_running)
		json_object_set_new(j, "exitCode", json_integer(run->exit_code));
	if (run->blind)
		json_object_set_new(j, "toolExecutionNotifications",
				    json_pack("[{s:s, s:o}]", "level", "error", "message",
					      sarif_message(run->blind)));
	return j;
}

static json_t *roots(void)
{
	char here[PATH_MAX];
	char uri[3 * PATH_MAX + 16] = "file://";

	if (!getcwd(here, sizeof(here) - 1))
		return NULL;
	strcat(here, here[1] ? "/" : "");
	encode(here, uri + strlen(uri), sizeof(uri) - strlen(uri));
	return json_pack("{s:{s:s}}", ROOT, "uri", uri);
}

static json_t *tool(json_t *rules)
{
	return json_pack("{s:{s:s, s:s, s:s, s:o}}", "driver", "name", "trapline", "version",
			 TRAPLINE_VERSION_STRING, "semanticVersion", TRAPLINE_VERSION_STRING,
			 "rules", rules);
}

static void add_deaths(const struct sarif_run *run, json_t *rules, json_t *results)
{
	const size_t rule = json_array_size(rules);

	if (run->death_count)
		json_array_append_new(rules, death_sarif_rule());
	for (size_t i = 0; i < run->death_count; i++)
		json_array_append_new(results, death_sarif_result(run->deaths[i], (int)rule));
}

int sarif_print(const struct sarif_run *run, json_t *rules, json_t *results, json_t *summary,
		FILE *f)
{
	add_deaths(run, rules, results);
	json_t *one = json_pack("{s:o, s:[o], s:o, s:s, s:{s:o}}", "tool", tool(rules),
				"invocations", invocation(run), "results", results, "columnKind",
				"utf16CodeUnits", "properties", "summary", summary);
	json_t *root = roots();

	if (root)
		json_object_set_new(one, "originalUriBaseIds", root);
	json_t *log =
		json_pack("{s:s, s:s, s:[o]}", "$schema", SCHEMA, "version", "2.1.0", "runs", one);
	if (!log)
		return -ENOMEM;
	errno = 0;
	int failed = json_dumpf(log, f, JSON_INDENT(1) | JSON_ENSURE_ASCII);
	fputc('\n', f);
	json_decref(log);
	if (!failed && !fflush(f) && !ferror(f))
		return 0;
	return errno ? -errno : -EIO;
}
