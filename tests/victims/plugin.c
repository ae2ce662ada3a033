/* SPDX-License-Identifier: MIT */
/* plugin.c - a library that plugin_host.c loads: its constructor calls it before dlopen() returns. */
#include <stdio.h>

int plugin_func(int n);

static int plugin_total;

__attribute__((noinline)) int plugin_func(int n)
{
	plugin_total += n;
	return plugin_total; /* LINE */
}

__attribute__((constructor)) static void plugin_begin(void)
{
	plugin_func(1000);
}
