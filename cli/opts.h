/* SPDX-License-Identifier: MIT */
/*
 * opts.h - the options of a command as one table. Parsing, --help, the completion scripts and the
 * comparison with the man pages are made from it.
 */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum opt_kind {
	OPT_FLAG,   /* int: becomes 1 */
	OPT_STRING, /* const char *: points into argv */
	OPT_LIST,   /* struct opt_list: may be given more than once */
	OPT_COUNT,  /* uint64_t: decimal */
	/* uint64_t: nanoseconds, from `10`, `0.5`, `20ms`, `1m`; without a unit: seconds */
	OPT_TIME,
	OPT_SLICE,   /* the same, at most 1 s: `10` was meant to be 10ms */
	OPT_PID,     /* pid_t: at least 1, and given once */
	OPT_PIDS,    /* struct opt_pids: `4711`, `4711,4712`, and more than once */
	OPT_CHOICE,  /* const char *: one of the words of `argument`, which '|' separates */
	OPT_PERCENT, /* double: above 0, from `2%` or `2` */
	OPT_BUDGET,  /* the same, or 0 from `none` */
};

#define OPT_KINDS 0x100
/* Beside the kind: only the commands with one of these bits have the option. */
#define OPT_ONLY(bits) ((bits) * (unsigned int)OPT_KINDS)

struct opt {
	const char *name;
	char letter;	   /* 0: none */
	unsigned int kind; /* enum opt_kind, and OPT_ONLY where commands share a table */
	size_t offset;	   /* of the member in the command's settings */
	/*
	 * Its name in --help; NULL for a flag. "[=WORD]": may be left out, the string is then
	 * empty.
	 */
	const char *argument;
	const char *help;
};

#define OPT_LIST_MAX 32

struct opt_list {
	const char *texts[OPT_LIST_MAX]; /* point into argv */
	size_t count;
};

/* The memory is the caller's. */
struct opt_pids {
	pid_t *pid;
	size_t count;
};
/* 0 or -1: no memory. */
int opts_pids_add(struct opt_pids *pids, pid_t pid);

struct opt_syntax {
	const char *command;
	const char *usage; /* what follows the command's name */
	const char *about; /* what it does */
	const char *tail;  /* printed after the options; NULL: nothing */
	unsigned int bits; /* OPT_ONLY of this command, where commands share a table */
	const struct opt *options;
	size_t count;
};

/* Each command's table. */
extern const struct opt_syntax at_syntax;
extern const struct opt_syntax break_syntax;
extern const struct opt_syntax check_syntax;
extern const struct opt_syntax dap_syntax;
extern const struct opt_syntax flow_syntax;
extern const struct opt_syntax heap_syntax;
extern const struct opt_syntax patch_syntax;
extern const struct opt_syntax patrol_syntax;
extern const struct opt_syntax point_syntax;
extern const struct opt_syntax race_syntax;
extern const struct opt_syntax record_syntax;
extern const struct opt_syntax report_syntax;
extern const struct opt_syntax throttle_syntax;
extern const struct opt_syntax watch_syntax;

/*
 * Parse argv into *settings. Options may be anywhere before "--", which must have been cut off.
 * Returns the index of the first argument that is not an option; getopt moves these to the end. It
 * returns -1 with *status set when the command must end now: after --help or an error.
 */
int opts_parse(const struct opt_syntax *syntax, int argc, char **argv, void *settings, int *status);

/* The next option of the command; NULL gives the first, and is what follows the last. */
const struct opt *opts_next(const struct opt_syntax *syntax, const struct opt *o);

/* The options one a line, for programs: `option`, command, name, letter, kind, argument, help. */
void opts_dump(const struct opt_syntax *syntax);

/* As OPT_TIME and OPT_PERCENT. 0 or -1. */
int opts_time(const char *text, uint64_t *ns);
int opts_percent(const char *text, double *out);
/* Bytes, from `64M`, `500K` or a number. 0 or -1. */
int opts_size(const char *text, uint64_t *bytes);

/* Number from text, whole; base 0 takes 0x too. 0 or -1. */
int opts_number(const char *text, int base, unsigned long long *out);

#endif
