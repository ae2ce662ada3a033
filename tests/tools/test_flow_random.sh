#!/bin/sh
# SPDX-License-Identifier: MIT
# test_flow_random.sh TRAPLINE VICTIMS - random programs that move a secret: no flow is made up, and their
# output is what it would be. FLOW_PROGRAMS is how many, TRAPLINE_SEED the first one. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2034,SC2154 # shared with it
. "$(dirname "$0")/../cli/tap.sh"
command=flow
need cc python3
programs=${FLOW_PROGRAMS:-$(share 8)}
seed=${TRAPLINE_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}

python3 "$(dirname "$0")/flow_random.py" "$trapline" "$tmp" "$programs" "$seed"
ok "flows of $programs random programs from seed $seed: none is false, and some are found" $?
finished
