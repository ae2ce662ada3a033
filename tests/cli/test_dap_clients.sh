#!/bin/sh
# SPDX-License-Identifier: MIT
# test_dap_clients.sh TRAPLINE VICTIMS SOURCE - `trapline dap` with clients of others, where they are: the client of
# @vscode/debugadapter-testsupport (NODE_PATH, by default as scripts/npm-packages leaves it beside VICTIMS),
# nvim-dap in Neovim (NVIM_DAP), and gdb. TAP.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/tap.sh"
need_uprobes
source=$3
calls_source=$source/tests/victims/calls.c
export NODE_PATH="${NODE_PATH:-$victims/../npm/node_modules}"
export NVIM_DAP="${NVIM_DAP:-$HOME/.cache/trapline/nvim-dap}"
line=$(grep -n 'enum color next_color' "$calls_source" | head -n 1 | cut -d: -f1)
start calls

name=the_client_of_vscode_gets_lines_and_no_stop
if ! command -v node >/dev/null; then
	skip $name 'node is not installed'
elif ! [ -d "$NODE_PATH/@vscode/debugadapter-testsupport" ]; then
	skip $name '@vscode/debugadapter-testsupport is missing: scripts/install-deps test, with npm'
else
	timeout -k 2 120 node "$source/tests/dap/testsupport.js" "$trapline" "$pid" "$calls_source" "$line" \
		>"$tmp/out" 2>"$tmp/err"
	[ "$(cat "$tmp/out")" = passed ]
	ok $name $?
fi

name=nvim_dap_gets_lines_and_no_stop
if ! command -v nvim >/dev/null; then
	skip $name 'nvim is not installed'
elif ! [ -f "$NVIM_DAP/lua/dap.lua" ]; then
	skip $name 'nvim-dap is not in NVIM_DAP'
else
	RESULT=$tmp/out CONFIGURATION=$source/editors/nvim/trapline.lua TRAPLINE=$trapline PID=$pid \
		SOURCE=$calls_source LINE=$line \
		timeout -k 2 120 nvim --headless --clean -u NONE -l "$source/tests/dap/nvim.lua" >"$tmp/err" 2>&1 ||
		RESULT=$tmp/out CONFIGURATION=$source/editors/nvim/trapline.lua TRAPLINE=$trapline PID=$pid \
			SOURCE=$calls_source LINE=$line \
			timeout -k 2 120 nvim --headless --clean -u NONE -c "luafile $source/tests/dap/nvim.lua" \
			>"$tmp/err" 2>&1
	case $(cat "$tmp/out") in
	SKIP*) skip $name "$(sed 's/^SKIP //; q' "$tmp/out")" ;;
	*)
		[ "$(cat "$tmp/out")" = passed ]
		ok $name $?
		;;
	esac
fi

name=gdb_hands_a_breakpoint_over_and_detaches
if command -v gdb >/dev/null; then
	TRAPLINE=$trapline timeout -k 2 120 gdb -q -batch -nx -p "$pid" \
		-ex "source $source/editors/gdb/trapline.py" \
		-ex 'trapline break next_color --limit 3 --args' -ex 'trapline watch 1+1' -ex 'shell sleep 1' \
		-ex 'detach' -ex 'shell sleep 1.5' -ex 'trapline stop' >"$tmp/out" 2>"$tmp/err"
	[ "$(grep -c 'next_color(c=RED)' "$tmp/out")" = 3 ] && grep -q 'not in memory' "$tmp/err" && kill -0 "$pid"
	ok $name $?
else
	skip $name 'gdb is not installed'
fi

name=gdb_hands_a_watch_over_and_detaches
if command -v gdb >/dev/null; then
	TRAPLINE=$trapline timeout -k 2 120 gdb -q -batch -nx -p "$pid" \
		-ex "source $source/editors/gdb/trapline.py" \
		-ex 'trapline watch rounds_done --limit 3' -ex 'shell sleep 1' \
		-ex 'detach' -ex 'shell sleep 1.5' -ex 'trapline stop' >"$tmp/out" 2>"$tmp/err"
	[ "$(grep -c 'round_of_calls+.* -> ' "$tmp/out")" = 3 ] && grep -q 'rounds_done is 0x' "$tmp/out" &&
		kill -0 "$pid"
	ok $name $?
else
	skip $name 'gdb is not installed'
fi

name=an_error_of_gdb_is_one_line_and_no_exception
if command -v gdb >/dev/null; then
	TRAPLINE=$trapline timeout -k 2 120 gdb -q -batch -nx -p "$pid" \
		-ex "source $source/editors/gdb/trapline.py" \
		-ex 'trapline watch no_such_variable' -ex 'trapline break no_such_function' \
		-ex detach >"$tmp/out" 2>"$tmp/err"
	grep -q '^No symbol "no_such_variable"' "$tmp/err" && grep -q '^Function "no_such_function" not defined' "$tmp/err" &&
		! grep -q 'Python' "$tmp/err"
	ok $name $?
else
	skip $name 'gdb is not installed'
fi

python3 -m json.tool "$source/editors/vscode/package.json" >"$tmp/out" 2>"$tmp/err"
ok the_extension_of_vscode_is_json $?
finished
