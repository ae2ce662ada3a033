#!/bin/sh
# SPDX-License-Identifier: MIT
# test_branch_builds.sh INCLUDE BUILD SOURCE - branches work as each compiler, language and linker builds
# them. TAP.
set -u
include=$1
build=$2
source=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
failed=0

# check NAME COMPILER "OPTIONS" ["OPTIONS OF THE LINKS" ["OF THE PROGRAM"]]: it and a library.
# shellcheck disable=SC2086 # options are words
check() {
	name=$1
	link="-L$build -ltrapline -Wl,-rpath,$build:$work ${4-}"
	compile="$2 -Wall -Wextra -Werror -I$include -I$build/include $3"
	count=$((count + 1))
	command -v "$2" >/dev/null || {
		echo "ok $count - $name # SKIP $2 is not installed"
		return
	}
	case ${4-} in *-fuse-ld=lld*)
		command -v ld.lld >/dev/null || {
			echo "ok $count - $name # SKIP lld is not installed"
			return
		}
		;;
	esac
	out=$({ $compile -fPIC -DLIBRARY -c "$source" -o "$work/lib.o" &&
		$compile -c "$source" -o "$work/program.o" &&
		$2 $3 -shared "$work/lib.o" -o "$work/lib.so" $link &&
		$2 $3 "$work/program.o" "$work/lib.so" -o "$work/program" $link ${5-} &&
		"$work/program"; } 2>&1)
	[ "$out" = '0 15 0' ] && readelf -d "$work/lib.so" "$work/program" | grep -q TEXTREL &&
		out='relocations in the text'
	if [ "$out" = '0 15 0' ]; then
		echo "ok $count - $name"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $count - $name"
	printf '%s\n' "$out" | sed 's/^/# /'
}

for cc in gcc clang; do
	check "$cc-O0" $cc -O0
	check "$cc-O2_as_C11" $cc '-O2 -std=c11 -pedantic'
	check "$cc-O2_without_pie" $cc '-O2 -fno-pie' '' -no-pie
	check "$cc-O3_with_lto" $cc '-O3 -flto'
	check "$cc-Os_without_what_is_unused" $cc '-Os -ffunction-sections' -Wl,--gc-sections
	check "$cc-O2_by_lld" $cc '-O2 -ffunction-sections' '-fuse-ld=lld -Wl,--gc-sections'
done
cp "$source" "$work/branch_builds.cc"
source=$work/branch_builds.cc
for cxx in g++ clang++; do
	check "$cxx-O0" $cxx -O0
	check "$cxx-O2_as_C++11" $cxx '-O2 -std=c++11 -pedantic'
	check "$cxx-O2_as_C++20" $cxx '-O2 -std=c++20'
done
echo "1..$count"
[ $failed = 0 ]
