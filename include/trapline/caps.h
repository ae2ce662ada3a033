/* SPDX-License-Identifier: MIT */
/*
 * caps.h - what this kernel, user and container permit. <trapline/trapline.h> includes it.
 */
#ifndef TRAPLINE_CAPS_H
#define TRAPLINE_CAPS_H

#include <trapline/trapline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A row is a feature, and whether this kernel, user and container permit it. */
struct trapline_feature {
	/* The string is static. */
	const char *name;
	/* It is 1 if the feature works. */
	int ok;
	/* It is 0, and so is ok, if the machine was too busy to find out. */
	int is_known;
	/* It is what was tried and seen. */
	char evidence[160];
	/* It is what helps, and empty if ok is 1. */
	char remedy[160];
};

/* A row is an operation and its cost. */
struct trapline_cost {
	/* The string is static. */
	const char *name;
	/* It is the median in nanoseconds, and negative if it could not be measured. */
	double ns;
};

#define TRAPLINE_FEATURES_MAX 48
#define TRAPLINE_COSTS_MAX 24

struct trapline_caps {
	size_t size;
	uint32_t feature_count;
	uint32_t cost_count;
	struct trapline_feature features[TRAPLINE_FEATURES_MAX];
	struct trapline_cost costs[TRAPLINE_COSTS_MAX];
};

/*
 * trapline_check - try each feature here and now, and measure what it costs.
 *
 * The call takes some seconds, and up to 20 on a busy machine. It works in child processes,
 * so the process gets SIGCHLD. Use it in a process that has no events. out->size must be
 * set. It returns 1 if watching works, and 0 if not.
 * Errors: EBUSY events are open; EINVAL size. MT-Unsafe. AS-Unsafe.
 */
TRAPLINE_API int trapline_check(struct trapline_caps *out);

#ifdef __cplusplus
}
#endif
#endif
