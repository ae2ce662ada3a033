#!/bin/sh
# SPDX-License-Identifier: MIT
# test_heap_libc.sh TRAPLINE VICTIMS - functions of libc that read more than their string are no error, in all
# variants for processors; and what they read or write beyond a block is one. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC1091,SC2154 # trapline, victims and tmp are of there
. "$(dirname "$0")/../cli/tap.sh"
need jq
victim=$victims/heap_libc

# in_variant NAMES ARG...: the errors, a line each, in $tmp/errors.
in_variant()
{
	without=$1
	shift
	rm -f "$tmp/heap.json"
	GLIBC_TUNABLES=glibc.cpu.hwcaps=$without timeout -k 2 100 "$trapline" heap --first 100000 --json \
		-o "$tmp/heap.json" -- "$victim" "$@" >"$tmp/out" 2>"$tmp/err" || return 1
	jq -r 'select(.type == "heap") | "\(.grade) \(.kind) \(.access) \(.size) at \(.offset) of \(.block_size) in " +
		([.first.stack[:3][]?.function] | join(" "))' "$tmp/heap.json" >"$tmp/errors"
}

wide=-AVX512VL,-AVX512BW,-AVX512F
old=$wide,-AVX2,-AVX,-SSE4_2,-SSE4_1
for variant in '' -RTM -ERMS,-FSRM -BMI2 -MOVBE Prefer_No_VZEROUPPER $wide $wide,-BMI2 $wide,-MOVBE $wide,-AVX2 \
	$wide,-AVX2,-BMI2 $wide,-AVX2,Fast_Unaligned_Load $wide,-AVX2,-Fast_Unaligned_Load $old $old,-SSSE3 \
	$old,-SSSE3,Slow_BSF; do
	in_variant "$variant" right && [ ! -s "$tmp/errors" ]
	status=$?
	cp "$tmp/errors" "$tmp/out"
	ok "no_error_in_functions_for_a_processor_with_${variant:-all}" $status
done

# told NAME BYTES: one error. A read of the bytes before the page is seen by a debug register alone.
told()
{
	in_variant "$variant" wrong "$1" "$2" || return 1
	[ "${NO_DEBUG_REGISTERS:-}" != 1 ] || [ "$2" != 24 ] || [ -s "$tmp/errors" ] || return 0
	[ "$(wc -l <"$tmp/errors")" = 1 ] && grep -q '^[AB] \(overflow\|underflow\) ' "$tmp/errors"
}

for variant in '' $wide $old,-SSSE3; do
	missed=
	for name in $("$victim" list); do
		# At the page, and where bytes are left before it.
		for size in 32 24; do
			told "$name" $size || missed="$missed $name/$size"
		done
	done
	echo "# with ${variant:-all}, missed or told more than once:${missed:- none}"
	[ -z "$missed" ]
	ok "each_error_in_functions_for_a_processor_with_${variant:-all}" $?
done
finished
