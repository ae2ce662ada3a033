/* SPDX-License-Identifier: MIT */
/* slots.c - what uses the debug registers, as far as it can be known. */
#include "event/slots.h"

#include <stdio.h>

#include "base/atomic.h"
#include "event/event.h"

int event_explain_slots(char *buf, size_t n)
{
	int used = 0;
	int at = 0;

	if (n)
		buf[0] = '\0';
	for (int i = 0; i < EVENT_MAX; i++) {
		const struct trapline_event *ev = &event_table[i];

		if (atomic_get(&ev->state) != EVENT_LIVE || !event_is_breakpoint(ev))
			continue;
		int left = (size_t)at < n ? (int)n - at : 0;
		at += snprintf(buf + (left ? at : 0), (size_t)left,
			       "%s%u for %s of 0x%llx in process %d", used ? ", " : "",
			       ev->part_count, event_is_data(ev) ? "a watch" : "a break",
			       (unsigned long long)ev->parts[0].addr, (int)ev->pid);
		used += (int)ev->part_count;
	}
	return used;
}
