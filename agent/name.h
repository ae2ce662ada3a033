/* SPDX-License-Identifier: MIT */
/* name.h - the agent's name in the loader's list of objects. */
#ifndef AGENT_NAME_H
#define AGENT_NAME_H

void agent_name_mend(void);

#endif
