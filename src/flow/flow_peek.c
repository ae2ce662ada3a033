/* SPDX-License-Identifier: MIT */
/* flow_peek.c - see flow_peek.h. */
#include "base/general_regs.h"

#include "flow/flow_peek.h"

#include "base/sys.h"
#include "code/insn/insn.h"

size_t flow_peek(const struct flow_moment *m, void *to, uint64_t from, size_t n)
{
	if (!m->context && !m->has_ended && !m->back)
		return window_read(to, from, n);
	const ssize_t got = sys_read_memory(sys_getpid(), from, to, n);
	return got > 0 ? (size_t)got : 0;
}

uint64_t flow_argument(const struct flow_moment *m, unsigned int number)
{
	static const uint8_t regs[] = { INSN_RDI, INSN_RSI, INSN_RDX, INSN_RCX, INSN_R8, INSN_R9 };
	uint64_t value = 0;

	if (number < sizeof(regs))
		return m->regs[regs[number]];
	/* Behind the return address. */
	flow_peek(m, &value, m->regs[INSN_RSP] + 8 + 8 * (uint64_t)(number - sizeof(regs)),
		  sizeof(value));
	return value;
}

int64_t flow_string(const struct flow_moment *m, uint64_t at, size_t most)
{
	char part[256];
	size_t done = 0;

	while (done < most) {
		/* Up to the end of the page: the next one may not be there. */
		size_t want = 4096 - ((at + done) & 4095);
		if (want > sizeof(part))
			want = sizeof(part);
		const size_t got = flow_peek(m, part, at + done, want);

		if (!got)
			return done ? (int64_t)done : -1;
		for (size_t i = 0; i < got; i++)
			if (!part[i])
				return (int64_t)(done + i);
		done += got;
	}
	return (int64_t)most;
}
