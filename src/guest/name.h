/* SPDX-License-Identifier: MIT */
/*
 * name.h - the names of Trapline's objects in the loader's list, which debuggers open.
 *
 * An object that has this file, or is loaded by it, has the name of a file that does not exist.
 */
#ifndef GUEST_NAME_H
#define GUEST_NAME_H

struct link_map;

/* By its descriptor. NULL: the loader refused it, and *why is what it states after the name. */
struct link_map *name_load(int fd, const char **why);

#endif
