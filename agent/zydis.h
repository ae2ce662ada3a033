/* SPDX-License-Identifier: MIT */
/* zydis.h - see zydis.c. */
#ifndef AGENT_ZYDIS_H
#define AGENT_ZYDIS_H

/* 0, or -1: without the decoder there is no race detector. */
int zydis_open(void);

#endif
