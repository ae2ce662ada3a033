/* SPDX-License-Identifier: MIT */
/* branches_x86_64.c - see branches.h. Event select in the low byte, unit mask in the next. */
#include "event/branches.h"

#include <cpuid.h>
#include <errno.h>
#include <stddef.h>

#define AMD_RETIRED_CONDITIONAL 0x00d1 /* since family 17h */
#define INTEL_RETIRED_CONDITIONAL 0x01c4
#define INTEL_RETIRED_CONDITIONAL_SINCE_ICE_LAKE 0x11c4

/*
 * Models of family 6 before Ice Lake are below 0x97, except for these that are not, and others that
 * are.
 */
static int is_ice_lake_or_later(uint32_t model)
{
	static const uint8_t later[] = { 0x6a, 0x6c, 0x7d, 0x7e, 0x8c, 0x8d, 0x8f };
	static const uint8_t earlier[] = { 0x9e, 0xa5, 0xa6 };

	for (size_t i = 0; i < sizeof(later); i++)
		if (model == later[i])
			return 1;
	for (size_t i = 0; i < sizeof(earlier); i++)
		if (model == earlier[i])
			return 0;
	return model >= 0x97;
}

int branches_conditional(uint64_t *config)
{
	uint32_t a;
	uint32_t vendor;
	uint32_t c;
	uint32_t d;

	if (!__get_cpuid(0, &a, &vendor, &c, &d) || !__get_cpuid(1, &a, &(uint32_t){ 0 }, &c, &d))
		return -EOPNOTSUPP;
	uint32_t family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
	uint32_t model = (a >> 4 & 15) | (a >> 12 & 0xf0);

	if (vendor == signature_AMD_ebx && family >= 0x17)
		*config = AMD_RETIRED_CONDITIONAL;
	else if (vendor == signature_INTEL_ebx && family == 6)
		*config = is_ice_lake_or_later(model) ? INTEL_RETIRED_CONDITIONAL_SINCE_ICE_LAKE :
							INTEL_RETIRED_CONDITIONAL;
	else
		return -EOPNOTSUPP;
	return 0;
}
