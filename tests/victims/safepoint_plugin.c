/* SPDX-License-Identifier: MIT */
/* safepoint_plugin.c - a library with one safepoint in code, loaded by test_safepoint_sites. */
#include <stdint.h>

#include <trapline/safepoint.h>

void plugin_pass(uint64_t *count);
const uint8_t *plugin_site(void);

void plugin_pass(uint64_t *count)
{
	__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
	TRAPLINE_SAFEPOINT_POKE();
}

/* The instruction of the safepoint. */
const uint8_t *plugin_site(void)
{
	const struct trapline_safepoint_site *site = __start_trapline_safepoints;

	return (const uint8_t *)&site->site + site->site;
}
