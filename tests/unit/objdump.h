/* SPDX-License-Identifier: MIT */
/* objdump.h - what objdump says about code, line by line: the oracle of the decoders. */
#ifndef TESTS_OBJDUMP_H
#define TESTS_OBJDUMP_H

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct objdump_line {
	uint64_t address;
	uint8_t bytes[16];
	unsigned int length;
	char mnemonic[64];  /* the first word */
	char operands[192]; /* the rest, without comments and symbols */
};

/* "  4010:\t48 89 e5 \tmov    %rsp,%rbp  # comment": 1 when the line is an instruction. */
static inline int objdump_parse(char *line, struct objdump_line *out)
{
	char *end;
	char *rest;

	out->address = strtoull(line, &end, 16);
	if (end == line || end[0] != ':' || end[1] != '\t')
		return 0;
	char *bytes = end + 2;
	rest = strchr(bytes, '\t');
	if (!rest)
		return 0;
	*rest++ = 0;
	out->length = 0;
	while (out->length < sizeof(out->bytes)) {
		while (*bytes == ' ')
			bytes++;
		if (!isxdigit((unsigned char)bytes[0]))
			break;
		const char digits[3] = { bytes[0], bytes[1], 0 };
		out->bytes[out->length++] = (uint8_t)strtoul(digits, NULL, 16);
		bytes += 2;
	}
	rest[strcspn(rest, "\n")] = 0;
	out->mnemonic[0] = out->operands[0] = 0;
	sscanf(rest, "%63s", out->mnemonic);
	rest += strspn(rest, " ");
	rest += strcspn(rest, " \t");
	rest += strspn(rest, " \t");
	char *comment = strstr(rest, " //");
	if (comment)
		*comment = 0;
	snprintf(out->operands, sizeof(out->operands), "%s", rest);
	return 1;
}

/* Calls each for every instruction that the command prints; how many, or -1. */
static inline long
objdump_each(const char *command,
	     void (*each)(const struct objdump_line *line, void *context), void *context)
{
	char text[1024];
	long n = 0;
	FILE *pipe = popen(command, "r");

	if (!pipe)
		return -1;
	while (fgets(text, sizeof(text), pipe)) {
		struct objdump_line line;

		if (!objdump_parse(text, &line))
			continue;
		each(&line, context);
		n++;
	}
	return pclose(pipe) ? -1 : n;
}

/* A file of bytes for objdump -b binary; the caller unlinks path. 0 or -1. */
static inline int objdump_file(char path[64], const void *bytes, size_t n)
{
	strcpy(path, "/tmp/trapline-objdump-XXXXXX");
	const int fd = mkstemp(path);

	if (fd < 0)
		return -1;
	const ssize_t written = write(fd, bytes, n);
	close(fd);
	return written == (ssize_t)n ? 0 : -1;
}

#endif
