/* SPDX-License-Identifier: MIT */
/* signal_number.c - see signal_number.h. */
#include "cli/act/signal_number.h"
#include "cli/opts.h"

#include <string.h>
#include <strings.h>

int signal_number(const char *text)
{
	unsigned long long number;

	if (!opts_number(text, 10, &number))
		return number > 0 && number < 65 ? (int)number : 0;
	if (!strncasecmp(text, "SIG", 3))
		text += 3;
	for (int i = 1; i < 65; i++) {
		const char *name = sigabbrev_np(i);

		if (name && !strcasecmp(name, text))
			return i;
	}
	return 0;
}
