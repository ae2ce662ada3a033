/* SPDX-License-Identifier: MIT */
/* safepoint_handshake.h - the entry behind trapline_safepoint_handshake(). */
#ifndef SAFEPOINT_SAFEPOINT_HANDSHAKE_H
#define SAFEPOINT_SAFEPOINT_HANDSHAKE_H

#include "safepoint/safepoint_domain.h"

int safepoint_handshake(struct trapline_safepoint *domain, pid_t tid, int timeout_ms,
			trapline_safepoint_function function, void *arg,
			const struct safepoint_frame *frame) __attribute__((visibility("hidden")));

#endif
