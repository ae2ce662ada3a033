/* SPDX-License-Identifier: MIT */
/* signal_number.h - the signal that the user names. */
#ifndef CLI_ACT_SIGNAL_NUMBER_H
#define CLI_ACT_SIGNAL_NUMBER_H

/* The number of SIGALRM, ALRM or 14; 0: no signal has this name. */
int signal_number(const char *text);

#endif
