/* SPDX-License-Identifier: MIT */
/* plugin.c - an object that code.c loads and unloads. */
long plugin_step(long x);

__attribute__((noinline)) static long part(long x)
{
	__asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tnop" ::: "memory");
	return x + 1;
}

long plugin_step(long x)
{
	return part(part(part(x)));
}
