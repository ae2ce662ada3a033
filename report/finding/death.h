/* SPDX-License-Identifier: MIT */
/* death.h - a process that a signal ended, as text and JSON: the same for all tools. */
#ifndef REPORT_DEATH_H
#define REPORT_DEATH_H

#include "report/run/run.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define DEATH_FRAMES RUN_FRAMES_MAX

struct death {
	pid_t pid;
	pid_t tid; /* 0: not known */
	char thread[16];
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: not known */
	int signal;
	int code; /* si_code */
	bool has_address;
	uint64_t address;
	pid_t sender; /* 0: not known, or an instruction of the thread raised it */
	char sender_name[16];
	struct run_frame frames[DEATH_FRAMES];
	size_t frame_count;
	char why[160];	      /* why there is no stack */
	char fingerprint[20]; /* of the signal and the function */
	uint64_t count;	      /* of deaths that have the same */
	bool is_told;
};

/*
 * Signals whose default action writes a core file: a fault, an assertion. Others end a process on
 * request.
 */
bool death_is_fault(int signal);
/* "SIGSEGV", or "signal 34". */
void death_signal_name(int signal, char *text, size_t n);
/* Fills the fingerprint. The frames are there. */
void death_name(struct death *d);

/* ", sent by process 12 (sh)", or nothing. */
void death_sender_text(const struct death *d, char *text, size_t n);
void death_print_text(const struct death *d, bool has_color, FILE *f);
void death_print_json(const struct death *d, FILE *f);
/* From such a line, whose strings it points to. false: the line is another one. */
bool death_read_json(const json_t *j, struct death *out);
/* As SARIF: the rule of all deaths, which is the one of that number in the list; a result. */
json_t *death_sarif_rule(void);
json_t *death_sarif_result(const struct death *d, int rule);

#endif
