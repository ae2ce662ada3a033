/* SPDX-License-Identifier: MIT */
/* safepoint_late.h - which thread did not come, and what it does instead. */
#ifndef SAFEPOINT_SAFEPOINT_LATE_H
#define SAFEPOINT_SAFEPOINT_LATE_H

#include "safepoint/safepoint_domain.h"

/* Note the first thread that is still asked, for trapline_explain(). */
void late_note(struct trapline_safepoint *domain, int timeout_ms);

#endif
