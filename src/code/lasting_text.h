/* SPDX-License-Identifier: MIT */
/*
 * lasting_text.h - memory for a text that states why something failed, after its writer has
 * returned.
 *
 * No thread-local variable: what all threads have is scarce in a process that is not Trapline's.
 */
#ifndef CODE_LASTING_TEXT_H
#define CODE_LASTING_TEXT_H

#define LASTING_TEXT_BYTES 320u

/*
 * A buffer of LASTING_TEXT_BYTES. It lasts until the process has asked for 15 more of them.
 * MT-Safe, AS-Safe.
 */
char *lasting_text(void);

#endif
