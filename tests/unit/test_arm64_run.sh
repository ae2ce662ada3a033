#!/bin/sh
# SPDX-License-Identifier: MIT
#
# test_arm64_run.sh ROOT BUILD - build arm64_run.c for arm64 and run it, here or under qemu.
set -u

root=$1
program=$2/arm64_run

skip() {
	echo "1..0 # SKIP $*"
	exit 0
}

cd "$root" || exit 1
if [ "$(uname -m)" = aarch64 ]; then
	compiler=cc
	run=
else
	compiler=aarch64-linux-gnu-gcc
	run=qemu-aarch64
	command -v $compiler >/dev/null || skip "no $compiler (gcc-aarch64-linux-gnu)"
	command -v $run >/dev/null || skip "no $run (qemu-user)"
fi
$compiler -O1 -static -std=gnu17 -D_GNU_SOURCE -Isrc -Iinclude -o "$program" \
	tests/unit/arm64_run.c src/code/insn/insn.c \
	src/code/insn/insn_arm64.c src/code/insn/insn_arm64_memory.c src/code/insn/relocate_arm64.c || {
	echo "1..1"
	echo "not ok 1 - it builds"
	exit 1
}
$run "$program"
