#!/bin/sh
# SPDX-License-Identifier: MIT
# test_dap.sh TRAPLINE VICTIMS SOURCE - `trapline dap` with the client of this tree; see tests/dap. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
need python3 gcc
exec python3 "$3/tests/dap/dap_cases.py" "$1" "$2" "$3"
