/* SPDX-License-Identifier: MIT */
/* preloadable.h - can the agent be preloaded into a program without harm, as its file states? */
#ifndef CLI_LAUNCH_PRELOADABLE_H
#define CLI_LAUNCH_PRELOADABLE_H

/* NULL: it can. Else the reason, as `it is linked statically`. */
const char *preloadable_problem(const char *path);

/*
 * The same of the program that runs, if path is a script; and only what the loader would fail on or
 * the program would end by. NULL: the program starts.
 */
const char *preloadable_hindrance(const char *path);

#endif
