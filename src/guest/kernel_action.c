/* SPDX-License-Identifier: MIT */
/* kernel_action.c - see kernel_action.h. */
#include "guest/kernel_action.h"

#include <errno.h>
#include <string.h>

#include "base/sys.h"

void kernel_action_restore(void);

/*
 * The unwinder knows a signal frame by the bytes of what it returns to, which must have no other
 * description. So must the byte before.
 */
__asm__(".text\n"
	"	.p2align 4, 0xcc\n"
	"	nop\n"
	"	.type kernel_action_restore, @function\n"
	"kernel_action_restore:\n"
	"	movq $15, %rax\n"
	"	syscall\n"
	"	.size kernel_action_restore, . - kernel_action_restore\n");

int kernel_action(int signal, const struct kernel_action *action, struct kernel_action *old)
{
	struct kernel_action with;

	if (action) {
		with = *action;
		with.flags |= KERNEL_ACTION_RESTORER;
		with.restorer = kernel_action_restore;
	}
	return (int)sys4(SYS_rt_sigaction, signal, action ? &with : NULL, old, sizeof(with.mask));
}

void kernel_action_set_default(int signal)
{
	const struct kernel_action none = { .handler = NULL };

	kernel_action(signal, &none, NULL);
}

void kernel_action_to(const struct sigaction *action, struct kernel_action *out)
{
	*out = (struct kernel_action){ .handler = action->sa_sigaction,
				       .flags = (unsigned int)action->sa_flags };
	memcpy(&out->mask, &action->sa_mask, sizeof(out->mask));
}

void kernel_action_from(const struct kernel_action *action, struct sigaction *out)
{
	*out = (struct sigaction){ .sa_handler = SIG_DFL };
	out->sa_sigaction = action->handler;
	out->sa_flags = (int)(action->flags & ~(unsigned long)KERNEL_ACTION_RESTORER);
	memcpy(&out->sa_mask, &action->mask, sizeof(action->mask));
}

int kernel_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	struct kernel_action now;
	struct kernel_action before;

	if (action)
		kernel_action_to(action, &now);
	int err = kernel_action(signal, action ? &now : NULL, &before);
	if (err) {
		errno = -err;
		return -1;
	}
	if (old)
		kernel_action_from(&before, old);
	return 0;
}
