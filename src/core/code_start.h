/* SPDX-License-Identifier: MIT */
/* code_start.h - before code of this process is changed: what all ways of it need. */
#ifndef CORE_CODE_START_H
#define CORE_CODE_START_H

/* Fork is taken care of, also where no code was changed yet. */
void code_add_fork_handlers(void);

/*
 * As code_start(), for changes by a store or an exchange of pages: SIGTRAP is Trapline's from the
 * first int3 on.
 */
int code_prepare(void);
/* SIGTRAP is Trapline's, and fork is taken care of. 0 or -errno. */
int code_start(void);

#endif
