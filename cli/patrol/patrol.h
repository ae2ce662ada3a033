/* SPDX-License-Identifier: MIT */
/*
 * patrol.h - a service that goes from process to process by rules, and searches each for some
 * minutes: its rules, and the words that all parts share.
 *
 * A visit is one run of a tool in one process. A road carries findings to a receiver.
 */
#ifndef CLI_PATROL_PATROL_H
#define CLI_PATROL_PATROL_H

#include <confuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PATROL_COMMAND "patrol"
#define PATROL_FOLDER "/var/lib/trapline/patrol"
#define PATROL_REASON_BYTES 400
#define PATROL_USERS_MAX 16

enum patrol_tool {
	PATROL_HEAP,
	PATROL_RACE,
	PATROL_POINTS, /* the locations of the rule in turn, by `trapline break` */
	PATROL_TOOLS,
};

/* The texts are those of section. */
struct patrol_rule {
	cfg_t *section;
	const char *title;
	uid_t users[PATROL_USERS_MAX];
	size_t user_count;
	enum patrol_tool tools[PATROL_TOOLS];
	size_t tool_count;
	uint64_t for_ns;
	double every_s;
	double overhead; /* percent of the process, for the tool */
	unsigned int from_minute;
	unsigned int to_minute; /* both 0: at each hour */
};

enum road_kind {
	ROAD_JOURNAL,
	ROAD_OTLP,
	ROAD_POSTGRES,
	ROAD_PROMETHEUS,
	ROAD_FILE,
	ROAD_KINDS,
};

struct patrol_road {
	cfg_t *section;
	const char *title;
	enum road_kind kind;
	const char *to; /* the namespace, URL, connection or path; NULL: the default */
	uint64_t room;	/* bytes of findings that wait on disk */
	bool hides_values;
};

struct patrol_rules {
	cfg_t *file;
	const char *path;
	struct patrol_rule *rule;
	size_t rule_count;
	struct patrol_road *road;
	size_t road_count;
	double budget;	  /* percent of the CPUs of this machine */
	double load;	  /* a visit begins below this load average of a CPU */
	const char *host; /* its name in the findings */
	const char *state;
};

/* 0 or an exit status, line printed. path stays the caller's. */
int patrol_rules_read(const char *path, struct patrol_rules *out);
void patrol_rules_free(struct patrol_rules *r);

const char *patrol_tool_name(enum patrol_tool tool);

#endif
