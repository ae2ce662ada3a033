/* SPDX-License-Identifier: MIT */
/* name.h - the agent's name in the loader's list of objects. */
#ifndef GUEST_NAME_H
#define GUEST_NAME_H

void agent_name_mend(void);

/* The same for an object that the agent has loaded by its descriptor: map is its entry in the list. */
struct link_map;
void agent_name_mend_object(struct link_map *map);

/*
 * The path of a descriptor, to load an object by: long enough that the name fits, and another one each
 * time, since the loader does not load a second object of a name.
 */
#define AGENT_NAME_PATH 256
void agent_name_path(int fd, char path[AGENT_NAME_PATH]);

#endif
