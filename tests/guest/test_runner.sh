#!/bin/sh
# SPDX-License-Identifier: MIT
# test_runner.sh TRAPLINE VICTIMS - the runner of the matrix leaves nothing behind, and draws each row and column;
# see runner.py. TAP.

here=$(dirname "$0")
# shellcheck source=tests/cli/tap.sh disable=SC1091
. "$here/../cli/tap.sh"
need python3
rm -rf "$tmp"
exec python3 -B "$here/runner.py" "$1" "$2"
