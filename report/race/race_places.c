/* SPDX-License-Identifier: MIT */
/* race_places.c - see race_places.h. */
#include "report/race/race_places.h"

#include "report/dwarf/symbols.h"
#include "report/files/files.h"
#include "report/safe/line.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FINGERPRINT_LENGTH 16
#define LINE_BYTES (4 << 20)
#define FUNCTION_MAX 65536u
#define SIDE_RANGES (RACE_RANGES / 2)

static void copy_text(json_t *from, const char *key, char *to, size_t n)
{
	const char *text = json_string_value(json_object_get(from, key));

	snprintf(to, n, "%s", text ? text : "");
}

/* A member such as "0x1234". */
static uint64_t hex_of(json_t *from, const char *key)
{
	const char *text = json_string_value(json_object_get(from, key));

	return text ? strtoull(text, NULL, 16) : 0;
}

static int places_number_of(json_t *from, const char *key, int otherwise)
{
	json_t *j = json_object_get(from, key);

	return json_is_integer(j) ? (int)json_integer_value(j) : otherwise;
}

/* The function that has the code, not the one that is inlined there: it is what a file names. */
static json_t *outer_frame(json_t *stack)
{
	size_t i = 0;

	while (json_is_true(json_object_get(json_array_get(stack, i), "inlined")))
		i++;
	return json_array_get(stack, i);
}

static void read_side(json_t *j, struct race_replay_side *side)
{
	json_t *frame = outer_frame(json_object_get(j, "stack"));
	json_t *via = json_object_get(j, "via");

	memset(side, 0, sizeof(*side));
	side->is_known = frame && json_is_string(json_object_get(frame, "module_offset"));
	copy_text(j, "function", side->function, sizeof(side->function));
	copy_text(j, "module", side->module, sizeof(side->module));
	copy_text(j, "module_path", side->path, sizeof(side->path));
	copy_text(j, "build_id", side->build_id, sizeof(side->build_id));
	copy_text(j, "file", side->file, sizeof(side->file));
	side->line = places_number_of(j, "line", 0);
	side->line_in_function = places_number_of(j, "line_in_function", -1);
	side->module_offset = hex_of(frame, "module_offset");
	side->function_offset = (uint64_t)places_number_of(frame, "offset", 0);
	side->is_decoded = !json_is_false(json_object_get(j, "decoded"));
	side->is_memory_function = json_is_string(via);
}

static void read_varied(json_t *j, char *out, size_t n)
{
	const char *name;
	json_t *value;
	size_t used = 0;

	*out = '\0';
	json_object_foreach(j, name, value) if (used < n && json_is_string(value))
		used += (size_t)snprintf(out + used, n - used, "%s%s=%s", used ? "\n" : "", name,
					 json_string_value(value));
}

static void read_race(json_t *j, struct race_replay *out)
{
	const char *grade = json_string_value(json_object_get(j, "grade"));

	copy_text(j, "fingerprint", out->fingerprint, sizeof(out->fingerprint));
	out->grade = grade && *grade ? *grade : 'B';
	if (!strcmp(json_string_value(json_object_get(j, "type")), "failure"))
		copy_text(j, "kind", out->outcome, sizeof(out->outcome));
	read_varied(json_object_get(j, "varied"), out->varied, sizeof(out->varied));
	read_side(json_object_get(j, "first"), &out->sides[0]);
	read_side(json_object_get(j, "second"), &out->sides[1]);
}

/* What was looked for among the races of a file. */
struct lookup {
	const char *wanted;
	struct race_replay *out;
	size_t matches; /* different ones */
	size_t races;
	char others[160]; /* some of those that are there */
};

static int places_read_line(struct lookup *l, const char *line)
{
	json_t *j = json_loads(line, 0, NULL);
	const char *type = json_string_value(json_object_get(j, "type"));
	const char *fingerprint = json_string_value(json_object_get(j, "fingerprint"));
	int err = type ? 0 : -EINVAL;

	if (type && (!strcmp(type, "race") || !strcmp(type, "failure")) && fingerprint) {
		size_t used = strlen(l->others);

		l->races++;
		if (!strncmp(fingerprint, l->wanted, strlen(l->wanted))) {
			l->matches += strcmp(fingerprint, l->out->fingerprint) != 0;
			read_race(j, l->out);
		} else if (used + strlen(fingerprint) + 8 < sizeof(l->others)) {
			snprintf(l->others + used, sizeof(l->others) - used, "%s%s",
				 used ? ", " : "", fingerprint);
		}
	}
	json_decref(j);
	return err;
}

static int places_explain(const struct lookup *l, const char *path, char *error, size_t n)
{
	if (l->matches == 1)
		return 0;
	if (l->matches)
		snprintf(error, n, "%zu races in %s begin with %s: give more digits", l->matches,
			 path, l->wanted);
	else if (l->races)
		snprintf(error, n, "%s has no race %s; it has %s%s", path, l->wanted, l->others,
			 l->races > 8 ? " and others" : "");
	else
		snprintf(error, n, "%s has no race", path);
	return -ENOENT;
}

int race_replay_read(const char *path, const char *fingerprint, struct race_replay *out,
		     char *error, size_t n)
{
	struct lookup l = { .wanted = fingerprint, .out = out };
	FILE *f = fopen(path, "re");
	size_t capacity = 0;
	char *line = NULL;
	int number = 0;
	int err = f ? 0 : -errno;
	ssize_t length;

	memset(out, 0, sizeof(*out));
	while (!err && (length = line_read(&line, &capacity, f, LINE_BYTES)) >= 0) {
		number++;
		if (length > LINE_BYTES)
			err = -EINVAL;
		else if (line[strspn(line, " \t\r\n")])
			err = places_read_line(&l, line);
	}
	if (!err && ferror(f))
		err = -EIO;
	if (err == -EINVAL)
		snprintf(error, n,
			 "%s:%d: not a line of trapline race --json (write such a file with --json "
			 "-o FILE)",
			 path, number);
	else if (err)
		snprintf(error, n, "%s: %s", path, strerror(-err));
	else
		err = places_explain(&l, path, error, n);
	free(line);
	if (f)
		fclose(f);
	return err;
}

/* ---- where they are today ---- */

struct finding {
	struct race_replay_side *side;
	struct symbols *symbols;
	uint64_t bias;
	const char *path;
	struct race_settings *set;
	size_t count; /* ranges of this side */
};

static struct race_range range_of(const struct finding *f, uint64_t start, uint64_t end)
{
	struct race_range range = { .start = start, .end = end };

	snprintf(range.file, sizeof(range.file), "%s", basename(f->path));
	return range;
}

static void add_range(struct finding *f, struct race_range range)
{
	if (f->count == SIDE_RANGES)
		return;
	f->set->ranges[f->set->range_count++] = range;
	f->count++;
}

/* Is it in the line that is meant? As the fingerprint counts lines: from the function's first. */
static bool places_is_wanted(const struct finding *f, uint64_t address)
{
	struct files_scope scope = { 0 };
	struct place place;

	symbols_place(f->symbols, address, &place);
	if (!place.line)
		return false;
	files_scope(f->symbols, address, &scope);
	return scope.function_line && place.line - scope.function_line == f->side->line_in_function;
}

static void add_lines(struct finding *f, uint64_t start, uint64_t end)
{
	uint64_t from = 0;

	for (uint64_t at = start; at <= end; at++) {
		bool is_in = at < end && places_is_wanted(f, at);

		if (is_in && !from)
			from = at;
		if (!is_in && from) {
			add_range(f, range_of(f, from - f->bias, at - f->bias));
			from = 0;
		}
	}
}

static int find_by_name(struct finding *f, char *error, size_t n)
{
	struct race_replay_side *side = f->side;
	struct variable found;

	if (!side->function[0]) {
		snprintf(error, n,
			 "%s was rebuilt, and the code at +0x%llx has no name; search for the race "
			 "again",
			 f->path, (unsigned long long)side->module_offset);
		return -ESTALE;
	}
	int err = symbols_find(f->symbols, side->function, &found);
	if (err || !found.is_function || !found.size || found.size > FUNCTION_MAX) {
		snprintf(error, n, "%s was rebuilt and has %s %s; search for the race again",
			 f->path, err == -ENOTUNIQ ? "several functions" : "no function",
			 side->function);
		return -ESTALE;
	}
	if (side->line_in_function >= 0)
		add_lines(f, found.address, found.address + found.size);
	uint64_t start = found.address - f->bias;
	side->function_range = range_of(f, start, start + found.size);
	side->is_whole_function = !f->count;
	if (side->is_whole_function)
		add_range(f, side->function_range);
	return 0;
}

/* Without build IDs: is the function still where it was? */
static bool places_are_same(const struct finding *f)
{
	struct place place;

	symbols_place(f->symbols, f->bias + f->side->module_offset, &place);
	return f->side->function[0] && place.function &&
	       !strcmp(place.function, f->side->function) &&
	       place.offset == f->side->function_offset;
}

static int find_side(struct finding *f, char *error, size_t n)
{
	struct race_replay_side *side = f->side;
	char now[64] = "";

	files_build_id(f->symbols, now, sizeof(now));
	bool is_same = *now && side->build_id[0] ? !strcmp(now, side->build_id) :
						   places_are_same(f);
	side->is_rebuilt = !is_same;
	if (!is_same)
		return find_by_name(f, error, n);
	/* The longest instruction has 15 bytes. */
	uint64_t offset = side->module_offset;
	add_range(f, range_of(f, offset - (side->is_decoded ? 0 : 15), offset + side->is_decoded));
	return 0;
}

static int open_side(struct race_replay_side *side, const char *program, struct race_settings *set,
		     char *error, size_t n)
{
	struct finding f = { .side = side, .path = side->path, .set = set };

	if (!side->path[0] || access(side->path, R_OK))
		f.path = !strcmp(basename(program), side->module) ? program : side->path;
	if (!*f.path || files_open(f.path, 0, &f.symbols, &f.bias)) {
		snprintf(error, n, "the race is in %s, which does not exist any more",
			 side->path[0] ? side->path : side->module);
		return -ENOENT;
	}
	int err = find_side(&f, error, n);
	symbols_close(f.symbols);
	return err;
}

int race_replay_find(struct race_replay *replay, const char *program, struct race_settings *out,
		     char *error, size_t n)
{
	int err = 0;

	out->range_count = 0;
	for (int i = 0; i < 2 && !err; i++) {
		struct race_replay_side *side = &replay->sides[i];

		if (i)
			replay->second_range = out->range_count;
		/* libc is not trapped: there the other side has to do. */
		if (side->is_known && !side->is_memory_function)
			err = open_side(side, program, out, error, n);
	}
	if (!err && !out->range_count) {
		snprintf(error, n,
			 "both accesses are in memory functions of libc, where threads cannot be "
			 "stalled");
		return -EOPNOTSUPP;
	}
	return err;
}
