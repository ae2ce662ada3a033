/* SPDX-License-Identifier: MIT */
/*
 * hostile_probe.c - asks the readers of files for one thing, for test_hostile.sh.
 *
 *	open PATH		opens it as a file that a target names
 *	statement FILE FUNCTION	the source text of where the function of an ELF file begins
 *	sites PATH		the accesses in the code of a file, as race has them in its summary
 *	go PATH			is the program written in Go?
 */
#include "cli/launch/program.h"
#include "record/race_region.h"
#include "report/code/source.h"
#include "report/dwarf/symbols.h"
#include "report/files/files.h"
#include "report/race/race_report.h"
#include "report/race/race_totals.h"
#include "report/safe/target_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int print_open(const char *path)
{
	int fd = target_file_open(path);
	char byte;

	if (fd < 0)
		printf("refused: %s\n", strerror(-fd));
	else
		printf("opened: %zd\n", read(fd, &byte, 1));
	return 0;
}

static int print_statement(const char *path, const char *function)
{
	struct symbols *s;
	struct variable v;
	struct place place;
	uint64_t bias;

	if (files_open(path, 0, &s, &bias))
		return puts("no file") == EOF;
	if (symbols_find(s, function, &v))
		return puts("no function") == EOF;
	symbols_place(s, v.address, &place);
	char *text = source_statement(s, v.address, place.line);
	enum source_says says = source_says(s, v.address, place.line);
	printf("%s:%d says %d: %.60s\n", place.file ? place.file : "?", place.line, (int)says,
	       text ? text : "no text");
	free(text);
	symbols_close(s);
	return 0;
}

static int print_sites(const char *path)
{
	struct race_region *region = calloc(1, sizeof(*region));
	struct race_totals totals = { 0 };

	if (!region)
		return 1;
	snprintf(region->files[1].path, sizeof(region->files[1].path), "%s", path);
	region->files[1].ready = 1;
	region->files[1].is_included = 1;
	race_count_sites(region, 0, &totals);
	printf("objects %llu, unread %llu\n", (unsigned long long)totals.objects,
	       (unsigned long long)totals.objects_unread);
	free(region);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "open"))
		return print_open(argv[2]);
	if (argc > 3 && !strcmp(argv[1], "statement"))
		return print_statement(argv[2], argv[3]);
	if (argc > 2 && !strcmp(argv[1], "sites"))
		return print_sites(argv[2]);
	if (argc > 2 && !strcmp(argv[1], "go"))
		return puts(program_is_go(argv[2]) ? "Go" : "not Go") == EOF;
	return 2;
}
