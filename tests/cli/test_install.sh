#!/bin/sh
# SPDX-License-Identifier: MIT
# test_install.sh TRAPLINE SOURCE BUILD PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR
# What `meson install` puts where: all of it and nothing else, and it works from there. TAP.

# shellcheck source=tests/cli/tap.sh disable=SC2154 # trapline and tmp come from there
. "$(dirname "$0")/tap.sh"
source=$2
build=$3
dest=$tmp/dest

# The folders as a path below $dest, without a leading slash.
below()
{
	case $2 in
	/*) echo "${2#/}" ;;
	*) echo "${1#/}/$2" ;;
	esac
}
prefix=$4
bin=$(below "$4" "$5")
lib=$(below "$4" "$6")
include=$(below "$4" "$7")
data=$(below "$4" "$8")
man=$(below "$4" "$9")
doc=$data/doc/trapline

# What must be there, by what the source folder has.
expected()
{
	version=$("$trapline" --version)
	echo "$bin/trapline"
	echo "$lib/libtrapline.a"
	echo "$lib/libtrapline.so"
	echo "$lib/libtrapline.so.0"
	echo "$lib/libtrapline.so.${version#trapline }"
	echo "$lib/pkgconfig/trapline.pc"
	echo "$lib/trapline/libtrapline-agent.so"
	echo "$lib/trapline/libtrapline-heap.so"
	echo "$lib/trapline/libtrapline-guard.so"
	echo "$lib/trapline/libtrapline-guard-late.so"
	echo "$include/trapline/version.h"
	(cd "$source/include" && ls trapline/*.h) | sed "s,^,$include/,"
	for page in "$source"/man/*.[1-9]; do
		echo "$man/man${page##*.}/${page##*/}"
	done
	for example in "$source"/examples/*.c; do
		echo "$doc/examples/${example##*/}"
	done
	echo "$data/bash-completion/completions/trapline"
	echo "$data/zsh/site-functions/_trapline"
	echo "${prefix#/}/lib/systemd/system/trapline-points.service"
	echo "${prefix#/}/lib/systemd/system/trapline-patrol.service"
	echo "$data/trapline/patrol.conf"
	echo "$data/trapline/patrol.sql"
	for editor in gdb/trapline.py nvim/trapline.lua vscode/package.json; do
		echo "$data/trapline/editors/$editor"
	done
	for text in README.md NEWS.md LICENSE; do
		echo "$doc/$text"
	done
}

DESTDIR=$dest meson install -C "$build" --no-rebuild >"$tmp/out" 2>"$tmp/err"
ok "meson_install_succeeds" $?
expected | sort >"$tmp/expected"
(cd "$dest" && find . ! -type d | sed 's,^\./,,' | sort) >"$tmp/installed"
comm -23 "$tmp/expected" "$tmp/installed" >"$tmp/out"
: >"$tmp/err"
# A page or example that is new since meson configured is found by: meson setup --reconfigure BUILD
[ ! -s "$tmp/out" ]
ok "nothing_is_missing" $?
comm -13 "$tmp/expected" "$tmp/installed" >"$tmp/out"
[ ! -s "$tmp/out" ]
ok "nothing_else_is_there" $?

"$trapline" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' |
	grep -vx -e help >"$tmp/commands"
while read -r name; do
	[ -f "$dest/$man/man1/trapline-$name.1" ] || echo "no page: $name"
done <"$tmp/commands" >"$tmp/out"
[ -s "$tmp/commands" ] && [ ! -s "$tmp/out" ]
ok "each_command_has_a_page" $?
for page in "$dest/$man"/man1/trapline-*.1; do
	name=${page##*/trapline-}
	grep -qx "${name%.1}" "$tmp/commands" || echo "no command: $name"
done >"$tmp/out"
[ ! -s "$tmp/out" ]
ok "each_page_has_a_command" $?

# A program of another project: no other path than pkg-config's.
export PKG_CONFIG_SYSROOT_DIR="$dest" PKG_CONFIG_PATH="$dest/$lib/pkgconfig"
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
cat >"$tmp/program.c" <<'END'
#include <stdio.h>
#include <trapline/code.h>
#include <trapline/condition.h>
#include <trapline/tools.h>
#include <trapline/trapline.h>

int main(void)
{
	struct trapline *self;
	int err = trapline_open(0, NULL, &self);

	if (err)
		return 1;
	trapline_close(self);
	printf("%d\n", trapline_version() == TRAPLINE_VERSION);
	return 0;
}
END
# compiled NAME WHAT...: with the flags that follow; it runs and needs the shared library or not.
compiled()
{
	program=$tmp/$1
	is_shared=$2
	shift 2
	${CC:-cc} -Wall -Werror "$tmp/program.c" "$@" -o "$program" >"$tmp/out" 2>"$tmp/err" &&
		LD_LIBRARY_PATH=$dest/$lib "$program" >"$tmp/out" 2>"$tmp/err" &&
		[ "$(cat "$tmp/out")" = 1 ] &&
		[ "$(LC_ALL=C readelf -d "$program" | grep -c 'NEEDED.*libtrapline\.so\.0')" = "$is_shared" ]
}
# shellcheck disable=SC2046 # flags
compiled shared 1 $(pkg-config --cflags --libs trapline)
ok "a_program_is_linked_with_the_shared_library" $?
# shellcheck disable=SC2046 # flags
compiled static 0 $(pkg-config --cflags --static --libs trapline |
	sed 's/-ltrapline/-l:libtrapline.a/')
ok "and_with_the_static_one" $?

for example in "$dest/$doc"/examples/*.c; do
	(cd "$tmp" && cp "$example" . && sed -n 's/^ \* Build: //p' "$example" >build-line &&
		[ -s build-line ] && sh -e build-line) >"$tmp/out" 2>"$tmp/err" || break
	[ -x "$tmp/$(basename "$example" .c)" ] || break
	example=
done
[ -z "$example" ]
ok "each_example_is_built_by_the_line_that_it_names" $?
LD_LIBRARY_PATH=$dest/$lib "$tmp/judge" 10 >"$tmp/out" 2>"$tmp/err"
grep -qx 'accepted: prime 10 is 29' "$tmp/out"
ok "and_runs" $?

installed=$dest/$bin/trapline
[ "$("$installed" --version)" = "$("$trapline" --version)" ] && "$installed" --help >"$tmp/out"
ok "the_installed_command_runs" $?

# Where the prefix is what was installed, for this process only.
if unshare -m mount --bind "$dest$prefix" "$prefix" 2>"$tmp/err"; then
	# shellcheck disable=SC2016 # the inner shell's
	unshare -m sh -c 'mount --bind "$1" "$2" && exec "$3" race --heap -- cat /proc/self/maps' sh \
		"$dest$prefix" "$prefix" "/$bin/trapline" >"$tmp/out" 2>"$tmp/err"
	grep -q " /$lib/trapline/libtrapline-agent.so$" "$tmp/out" &&
		grep -q " /$lib/trapline/libtrapline-heap.so$" "$tmp/out"
else
	grep -aq "/$lib/trapline" "$installed"
fi
ok "it_finds_its_agents_below_the_prefix" $?
finished
