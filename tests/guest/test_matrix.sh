#!/bin/sh
# SPDX-License-Identifier: MIT
# test_matrix.sh TRAPLINE VICTIMS - tools x ways x behaviours: nothing that is put into a process harms it; see
# matrix.py. TAP. Needs root.

here=$(dirname "$0")
# shellcheck source=tests/cli/tap.sh disable=SC1091
. "$here/../cli/tap.sh"
need_uprobes
need python3 gcc
rm -rf "$tmp"
exec python3 -B "$here/matrix.py" "$1" "$2"
