/* SPDX-License-Identifier: MIT */
/*
 * opts.h - the options of a command as one table, from which parsing and --help are made.
 */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include <stddef.h>

enum opt_kind {
	OPT_FLAG,    /* int: becomes 1 */
	OPT_STRING,  /* const char *: points into argv */
	OPT_LIST,    /* struct opt_list: may be given more than once */
	OPT_COUNT,   /* uint64_t: decimal */
	OPT_SECONDS, /* uint64_t: nanoseconds from seconds, fractions allowed, or from `20ms` */
	OPT_PID,     /* pid_t: at least 1 */
};

struct opt {
	const char *name;
	char letter; /* 0: none */
	enum opt_kind kind;
	size_t offset; /* of the member in the command's settings */
	/* How --help calls it; NULL for a flag. "[=WORD]": may be left out, the string is then empty. */
	const char *argument;
	const char *help;
};

#define OPT_LIST_MAX 32

struct opt_list {
	const char *texts[OPT_LIST_MAX]; /* point into argv */
	size_t count;
};

struct opt_syntax {
	const char *command;
	const char *usage; /* what follows the command's name */
	const char *about; /* what it does */
	const char *tail;  /* printed after the options; NULL: nothing */
	const struct opt *options;
	size_t count;
};

/*
 * Parse argv into *settings. Options may stand anywhere before "--", which must have been cut
 * off. Returns the index of the first argument that is no option (getopt moves them to the
 * end), or -1 with *status set when the command must end now: after --help or an error.
 */
int opts_parse(const struct opt_syntax *syntax, int argc, char **argv, void *settings,
	       int *status);

/* Number from text, whole; base 0 takes 0x too. 0 or -1. */
int opts_number(const char *text, int base, unsigned long long *out);

#endif
