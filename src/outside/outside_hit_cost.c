/* SPDX-License-Identifier: MIT */
/*
 * outside_hit_cost.c - what a probe costs the thread that comes past it, measured here.
 *
 * The kernel steps over the instruction, by a trap. Below a hypervisor that takes several
 * microseconds.
 */
#include "base/clock.h"
#include "code/reach/code_file.h"
#include "event/uprobe/uprobe_filter.h"
#include "event/uprobe/uprobe_owner.h"
#include "outside/outside_priv.h"

#include <unistd.h>

#define TRIES 8u
#define PASSES 16u
#define LEAST_NS 1000u
#define MOST_NS 40000u

extern const uint8_t outside_hit_cost_site[];

static __attribute__((noinline, noclone)) void come_past(uint64_t *word)
{
	__asm__ volatile(".globl outside_hit_cost_site\n"
			 ".hidden outside_hit_cost_site\n"
			 "outside_hit_cost_site: movq $1, (%0)"
			 :
			 : "r"(word)
			 : "memory");
}

/* The shortest try: other threads of a busy machine lengthen the others. */
static uint64_t time_of_passes(void)
{
	uint64_t best = UINT64_MAX;
	uint64_t word;

	for (uint32_t i = 0; i < TRIES; i++) {
		uint64_t start = clock_now_ns();

		for (uint32_t n = 0; n < PASSES; n++)
			come_past(&word);
		uint64_t took = (clock_now_ns() - start) / PASSES;
		best = took < best ? took : best;
	}
	return best;
}

uint64_t outside_hit_cost(int program)
{
	const uint64_t site = (uintptr_t)outside_hit_cost_site;
	const uint64_t cookie = 0;
	struct code_file file;

	if (code_file_find(getpid(), site, &file))
		return OUTSIDE_HIT_NS;
	const uint64_t offset = site - file.start + file.offset;
	const struct uprobe_multi link = {
		.prog_fd = (uint32_t)program,
		.attach_type = UPROBE_MULTI_ATTACH,
		.path = (uintptr_t)file.path,
		.offsets = (uintptr_t)&offset,
		.cookies = (uintptr_t)&cookie,
		.count = 1,
		.pid = uprobe_filters_processes() ? (uint32_t)getpid() : 0,
	};
	int fd = uprobe_link_new(&link, sizeof(link));
	if (fd < 0)
		return OUTSIDE_HIT_NS;
	uint64_t cost = time_of_passes();
	uprobe_link_close(fd);
	cost = cost > LEAST_NS ? cost : LEAST_NS;
	return cost < MOST_NS ? cost : MOST_NS;
}
