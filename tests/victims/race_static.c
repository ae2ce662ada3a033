/* SPDX-License-Identifier: MIT */
/* race_static.c - linked statically: no agent can be loaded into it. */
int main(void)
{
	return 0;
}
