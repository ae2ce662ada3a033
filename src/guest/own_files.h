/* SPDX-License-Identifier: MIT */
/*
 * own_files.h - a thread of ours with a descriptor table of its own.
 *
 * What the thread opens has no number of the program's, which the program counts on, and closefrom(3) of the program
 * does not close it. A thread of the program cannot use a descriptor of such a thread.
 */
#ifndef GUEST_OWN_FILES_H
#define GUEST_OWN_FILES_H

/*
 * In the thread, once: its table has this descriptor and no other of the program's, which would stay open. 0; or
 * -errno, and it is the program's table as before.
 */
int own_files_take(int kept);

#endif
