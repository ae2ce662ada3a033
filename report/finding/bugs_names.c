/* SPDX-License-Identifier: MIT */
/* bugs_names.c - see bugs_names.h. */
#include "report/finding/bugs_names.h"

#include "report/dwarf/debuginfod.h"
#include "report/files/files.h"
#include "report/finding/finding_json.h"
#include "report/safe/clean.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUILDS_MOST 64 /* that are open at once */
#define FRAMES_MOST 16
#define ID_DIGITS_MOST 64
#define FRAMES "frames"
#define BUILD "frames_of"

struct build {
	char id[ID_DIGITS_MOST + 1];
	struct symbols *symbols; /* NULL: no debug file was found */
	uint64_t bias;
};

struct builds {
	struct build build[BUILDS_MOST];
	size_t count;
};

static const char *text_of(const json_t *j, const char *name)
{
	const char *text = json_string_value(json_object_get(j, name));

	return text ? text : "";
}

/* It becomes a part of a path. */
static bool is_build_id(const char *id)
{
	size_t n = strspn(id, "0123456789abcdef");

	return !id[n] && n >= 8 && n <= ID_DIGITS_MOST;
}

/* The build ID is that of the program: only its frames can be named by it. */
static json_t *frames_of(const json_t *finding, const json_t *code)
{
	const char *access = text_of(code, "access");
	const char *slash = strrchr(text_of(finding, "program"), '/');
	bool is_access = !strcmp(access, "read") || !strcmp(access, "write");
	json_t *frames = json_array();
	size_t i;
	json_t *frame;

	json_array_foreach(json_object_get(code, "stack"), i, frame)
	{
		uint64_t offset = strtoull(text_of(frame, "module_offset"), NULL, 16);
		if (!slash || strcmp(text_of(frame, "module"), slash + 1) != 0 || !offset)
			continue;
		/* A return address is behind the call. */
		offset -= i || !is_access;
		if (json_array_size(frames) < FRAMES_MOST)
			json_array_append_new(frames, json_integer((json_int_t)offset));
	}
	return frames;
}

void bugs_names_keep(json_t *bug, const json_t *finding)
{
	bool is_allocation;
	const json_t *code = finding_json_place(finding, &is_allocation);

	json_object_del(bug, FRAMES);
	if (text_of(code, "file")[0] || !is_build_id(text_of(finding, "build_id")))
		return;
	json_object_set_new(bug, FRAMES, frames_of(finding, code));
	json_object_set(bug, BUILD, json_object_get(finding, "build_id"));
}

static void open_build(struct build *b)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", b->id, b->id + 2);
	if (files_open(path, 0, &b->symbols, &b->bias) &&
	    (debuginfod_file(b->id, path, sizeof(path)) ||
	     files_open(path, 0, &b->symbols, &b->bias)))
		b->symbols = NULL;
}

static const struct build *build_of(struct builds *all, const char *id)
{
	for (size_t i = 0; i < all->count; i++)
		if (!strcmp(all->build[i].id, id))
			return &all->build[i];
	if (all->count == BUILDS_MOST)
		return NULL;
	struct build *b = &all->build[all->count++];
	*b = (struct build){ .symbols = NULL };
	snprintf(b->id, sizeof(b->id), "%s", id);
	open_build(b);
	return b;
}

static void set_text(json_t *row, const char *name, const char *text)
{
	char clean[PATH_MAX];

	snprintf(clean, sizeof(clean), "%s", text);
	clean_text(clean);
	json_object_set_new(row, name, json_string(clean));
}

/* The innermost frame that has a line. */
static void name_row(struct builds *all, json_t *row)
{
	const char *id = text_of(row, BUILD);
	const struct build *b = is_build_id(id) ? build_of(all, id) : NULL;
	struct place p;
	size_t i;
	json_t *offset;

	if (!b || !b->symbols)
		return;
	json_array_foreach(json_object_get(row, FRAMES), i, offset)
	{
		uint64_t at = (uint64_t)json_integer_value(offset);
		if (symbols_frames(b->symbols, b->bias + at, &p, 1) && p.file && p.function) {
			set_text(row, "function", p.function);
			set_text(row, "file", p.file);
			json_object_set_new(row, "line", json_integer(p.line));
			return;
		}
	}
}

void bugs_names(json_t *rows)
{
	struct builds all = { .count = 0 };
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		if (json_object_get(row, FRAMES))
			name_row(&all, row);
		json_object_del(row, FRAMES);
		json_object_del(row, BUILD);
	}
	for (i = 0; i < all.count; i++)
		symbols_close(all.build[i].symbols);
}
