# SPDX-License-Identifier: MIT
# syscall_args.sed - a line of syscall_args.txt becomes one for C.
/^#/d
s/^\([a-z0-9_]*\) *\(.*\)/#ifdef SYS_\1\
	[SYS_\1] = "\2",\
#endif/
