#!/bin/sh
# SPDX-License-Identifier: MIT
# syscalls.sh CC... - a line for C of each system call that the headers know.
set -eu
echo '#include <sys/syscall.h>' | "$@" -E -dM - | sed -n 's/^#define SYS_\([a-z0-9_]*\) .*/[SYS_\1] = "\1",/p'
