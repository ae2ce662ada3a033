/* SPDX-License-Identifier: MIT */
/* dap_loop.h - one session, from the first byte of a client to the last. */
#ifndef CLI_DAP_DAP_LOOP_H
#define CLI_DAP_DAP_LOOP_H

/*
 * Both descriptors are of the client and become not blocking. token NULL: the client needs no
 * token. listener: other clients that come are sent away; -1: no other can come. True: a client
 * that was trusted has had its session.
 */
int dap_loop(int in, int out, const char *token, int listener);

#endif
